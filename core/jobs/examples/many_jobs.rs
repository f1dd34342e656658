//! Fills a state folder with many finished jobs, for `judges/many_jobs.py`.
//!
//! ```text
//! many_jobs SOURCE TARGET COUNT packed      as this onnxd keeps them
//! many_jobs SOURCE TARGET COUNT folders     as an onnxd without packs left them
//! ```
//!
//! SOURCE is the state folder of a daemon that has converted something and has ended. Its finished
//! jobs are repeated under new ids, identities and digests, so that jobs are as alike as those of
//! different drops.

use onnxd_jobs::{Ids, SledStore, Store, is_finished};
use onnxd_proto::onnxd::{Job, JobState, Kept};
use prost::Message;
use std::error::Error;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

type Done = Result<(), Box<dyn Error>>;

/// Jobs that are packed at once.
const BATCH: usize = 512;

fn main() -> Done {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [source, target, count, form] = &args[..] else {
        return Err("many_jobs SOURCE TARGET COUNT packed|folders".into());
    };
    let models = models(Path::new(source))?;
    let jobs = repeated(&models, count.parse()?);
    let target = Path::new(target);
    fs::create_dir_all(target)?;
    match form.as_str() {
        "packed" => packed(target, jobs),
        "folders" => folders(target, jobs),
        form => Err(format!("`{form}` is neither `packed` nor `folders`").into()),
    }
}

/// Finished jobs with what is kept of their folders.
fn models(source: &Path) -> Result<Vec<(Job, Kept)>, Box<dyn Error>> {
    let (store, _) = SledStore::open(source).map_err(|why| why.to_string())?;
    let jobs = store.scan(None)?;
    let with_kept = |job: Job| {
        let dir = source.join("jobs").join(&job.id);
        let read = |name: &str| fs::read(dir.join(name)).unwrap_or_default().into();
        let kept = store.kept(&job.id).ok().flatten();
        (job, kept.unwrap_or_else(|| Kept { claim: read("claim"), report: read("report.json") }))
    };
    let finished = jobs.into_iter().filter(|job| is_finished(job.state())).map(with_kept);
    let finished: Vec<(Job, Kept)> = finished.collect();
    if finished.is_empty() { Err("no finished jobs".into()) } else { Ok(finished) }
}

fn repeated(models: &[(Job, Kept)], count: usize) -> impl ExactSizeIterator<Item = (Job, Kept)> {
    let mut ids = Ids::default();
    let mut digest = 0x9e37_79b9_7f4a_7c15_u64;
    (0..count).map(move |n| {
        let (job, kept) = &models[n % models.len()];
        let id = ids.next_id();
        // What differs between jobs does so here, everywhere it is written.
        let mut changes = vec![(job.id.clone(), id)];
        let digests = job.files.iter().map(|file| &file.sha256).chain([&job.identity]);
        for old in digests.filter(|old| !old.is_empty()) {
            let mut new = String::new();
            while new.len() < old.len() {
                digest = digest.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                new += &format!("{:08x}", digest >> 32);
            }
            changes.push((old.clone(), new));
        }
        let changed = |bytes: &[u8]| {
            changes.iter().fold(bytes.to_vec(), |bytes, (old, new)| replaced(&bytes, old, new))
        };
        let job = Job::decode(&*changed(&job.encode_to_vec())).expect("lengths are the same");
        let kept =
            Kept { claim: changed(&kept.claim).into(), report: changed(&kept.report).into() };
        (job, kept)
    })
}

/// `bytes` with `new` for `old`, which are equally long.
fn replaced(bytes: &[u8], old: &str, new: &str) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let mut from = 0;
    while let Some(at) = find(&bytes[from..], old.as_bytes()) {
        bytes[from + at..from + at + old.len()].copy_from_slice(new.as_bytes());
        from += at + old.len();
    }
    bytes
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    let first = *wanted.first()?;
    let starts = bytes.iter().enumerate().filter(|(_, byte)| **byte == first);
    starts.map(|(at, _)| at).find(|at| bytes[*at..].starts_with(wanted))
}

fn packed(target: &Path, jobs: impl Iterator<Item = (Job, Kept)>) -> Done {
    let (mut store, _) = SledStore::open(target).map_err(|why| why.to_string())?;
    let mut batch = Vec::new();
    for (job, mut kept) in jobs {
        store.put_new(&job)?;
        if !matches!(job.state(), JobState::Failed | JobState::Cancelled) {
            kept.claim.clear();
        }
        batch.push((job.id, kept));
        if batch.len() == BATCH {
            store.pack(&std::mem::take(&mut batch))?;
        }
    }
    store.pack(&batch)?;
    Ok(())
}

/// A journal with an image of all jobs, in the layout of an onnxd without packs, and a folder for
/// each job.
fn folders(target: &Path, jobs: impl ExactSizeIterator<Item = (Job, Kept)>) -> Done {
    const IMAGE_BEGIN: u8 = 3;
    const IMAGE_ENTRY: u8 = 4;
    const IMAGE_END: u8 = 5;
    fs::create_dir_all(target.join("journal"))?;
    let mut journal = BufWriter::new(File::create(target.join("journal/0001.log"))?);
    let count = jobs.len() as u64;
    journal.write_all(&frame(count, IMAGE_BEGIN, &count.to_le_bytes()))?;
    for (seq, (job, kept)) in (1..).zip(jobs) {
        let mut record = vec![onnxd_jobs::SCHEMA];
        record.extend_from_slice(&job.encode_to_vec());
        record.extend_from_slice(&crc32c::crc32c(&record).to_le_bytes());
        journal.write_all(&frame(seq, IMAGE_ENTRY, &record))?;
        let dir = target.join("jobs").join(&job.id);
        fs::create_dir_all(&dir)?;
        fs::write(dir.join("claim"), &kept.claim)?;
        fs::write(dir.join("report.json"), &kept.report)?;
    }
    journal.write_all(&frame(count, IMAGE_END, &[]))?;
    Ok(journal.flush()?)
}

fn frame(seq: u64, kind: u8, payload: &[u8]) -> Vec<u8> {
    let mut checked = (payload.len() as u32).to_le_bytes().to_vec();
    checked.extend_from_slice(&seq.to_le_bytes());
    checked.push(kind);
    checked.extend_from_slice(payload);
    let checksum = crc32c::crc32c(&checked).to_le_bytes();
    [&[0x9e, b'J', b'R', 0xc1][..], &checksum, &checked].concat()
}
