//! What tests of files that were made to do harm share.

use onnxd_integration_tests::{converted, folder_with};
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

/// Peak of the process that reads a file.
const BYTES_MAX: u64 = 300 << 20;
/// What it may take, on a busy machine without optimization.
const SLOW: Duration = Duration::from_secs(100);

/// A member: name, content, whether it is deflated.
pub(crate) type Member = (String, Vec<u8>, bool);

/// A member; long ones are deflated.
pub(crate) fn member(name: &str, content: impl Into<Vec<u8>>) -> Member {
    let content = content.into();
    let deflated = content.len() > 1 << 16;
    (name.to_owned(), content, deflated)
}

/// A zip file. Each directory entry lies `shift` bytes before the member it is of.
pub(crate) fn zipped(members: &[Member], shift: usize) -> Vec<u8> {
    let (mut file, mut directory) = (vec![], vec![]);
    for (name, content, deflated) in members {
        let start = file.len().saturating_sub(shift) as u32;
        let packed = match deflated {
            true => {
                let mut to =
                    flate2::write::DeflateEncoder::new(vec![], flate2::Compression::fast());
                to.write_all(content).unwrap();
                to.finish().unwrap()
            }
            false => content.clone(),
        };
        let mut common = vec![20, 0, 0, 0, if *deflated { 8 } else { 0 }, 0, 0, 0, 0, 0];
        let mut sum = flate2::Crc::new();
        sum.update(content);
        common.extend(sum.sum().to_le_bytes());
        common.extend((packed.len() as u32).to_le_bytes());
        common.extend((content.len() as u32).to_le_bytes());
        common.extend((name.len() as u16).to_le_bytes());
        common.extend([0; 2]);
        file.extend([b"PK\x03\x04", &common[..], name.as_bytes(), &packed[..]].concat());
        directory.extend([b"PK\x01\x02\x14\0", &common[..], &[0; 10]].concat());
        directory.extend(start.to_le_bytes());
        directory.extend(name.as_bytes());
    }
    let (start, size) = (file.len() as u32, directory.len() as u32);
    let count = (members.len() as u16).to_le_bytes();
    file.extend(directory);
    file.extend([b"PK\x05\x06\0\0\0\0", &count[..], &count[..]].concat());
    file.extend([size.to_le_bytes(), start.to_le_bytes()].concat());
    file.extend([0; 2]);
    file
}

/// A file by its name, and the codes of which it must give one finding; a model if there are none. An empty code stands
/// for a model, too.
pub(crate) type Hostile<'a> = (String, Vec<u8>, &'a [&'a str]);

/// What is wrong with how the program takes a file.
fn fault(folder: &Path, sets: &[&str], (net, file, codes): &Hostile<'_>) -> Option<String> {
    fs::write(folder.join(net), file).unwrap();
    let begun = Instant::now();
    let (status, stderr, report) = converted(folder, &format!("out-{net}"), &[net], sets);
    let took = begun.elapsed();
    let found = report["diagnostics"].as_array().cloned().unwrap_or_default();
    let said = format!("{net}: status {status}, {found:?}, {stderr}");
    let peaks = report["stages"].as_array().into_iter().flatten();
    let peak = peaks.filter_map(|stage| stage["peak_rss_bytes"].as_u64()).max().unwrap_or(0);
    let is_error = |found: &&Value| found["severity"] == "error";
    let errors: Vec<&Value> = found.iter().filter(is_error).collect();
    let good = match (*codes, errors.as_slice()) {
        ([], []) => status == 0 && found.is_empty(),
        (codes, []) => status == 0 && codes.contains(&""),
        (codes, [one]) => {
            matches!(status, 2 | 3) && codes.iter().any(|code| one["code"].as_str() == Some(*code))
        }
        _ => false,
    };
    let quiet = !stderr.contains("panicked") && !stderr.contains('\u{1b}');
    let modest = (1..=BYTES_MAX).contains(&peak) && took < SLOW;
    (!good || !quiet || !modest).then(|| format!("{said} ({peak} bytes, {took:?})"))
}

/// Converts files with one plugin. Each gives one finding or a harmless model, in little memory and time.
pub(crate) fn assert_harmless(plugin: &str, sets: &[&str], files: &[Hostile<'_>]) {
    let folder = folder_with(&[plugin]);
    let found: Vec<String> =
        files.iter().filter_map(|file| fault(folder.path(), sets, file)).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}
