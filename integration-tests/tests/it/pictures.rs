//! Pictures as calibration data of an N2D2 network, through the built program: what they come to is what the same
//! samples come to as arrays.

use onnxd_integration_tests::{command, library, outcome, with_plugins_of};
use onnxd_ir::Tensor;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The steps that count halve the sides, make colours BGR, and map them to numbers around 0.
const NETWORK: &str = "DefaultModel=Frame
[database]
Type=DIR_Database
Validation=0.5
[sp]
SizeX=2
SizeY=2
NbChannels=3
BatchSize=2
[sp.OnTheFlyTransformation-1]
Type=FlipTransformation
ApplyTo=LearnOnly
RandomHorizontalFlip=1
[sp.OnTheFlyTransformation-2]
Type=RangeAffineTransformation
FirstOperator=Minus
FirstValue=10 20 30
SecondOperator=Multiplies
SecondValue=0.5
[sp.Transformation-1]
Type=RescaleTransformation
Width=2
Height=2
[sp.Transformation-2]
Type=RangeAffineTransformation
FirstOperator=Multiplies
FirstValue=1000
ApplyTo=TestOnly
[sp.Transformation-3]
Type=ColorSpaceTransformation
ColorSpace=BGR
[fc]
Input=sp
Type=Fc
NbOutputs=4
ActivationFunction=Rectifier
[out]
Input=fc
Type=Fc
NbOutputs=3
ActivationFunction=Linear
[out.Target]
";

const SIDE: usize = 4;

/// Red, green and blue of a picture's pixels.
fn pixels(seed: usize) -> Vec<u8> {
    (0..SIDE * SIDE * 3).map(|i| (i * 37 + seed * 101 + i * i * seed) as u8).collect()
}

/// What the network has to get of it: planes of blue, green, red.
fn expected(pixels: &[u8]) -> Vec<f32> {
    let at = |c: usize, x: usize, y: usize| u32::from(pixels[(y * SIDE + x) * 3 + c]);
    let mut planes = Vec::new();
    for (channel, offset) in [(2, 10.0f32), (1, 20.0), (0, 30.0)] {
        for (x, y) in [(0, 0), (2, 0), (0, 2), (2, 2)] {
            let sum = at(channel, x, y)
                + at(channel, x + 1, y)
                + at(channel, x, y + 1)
                + at(channel, x + 1, y + 1);
            planes.push((((sum + 2) / 4) as f32 - offset) * 0.5);
        }
    }
    planes
}

fn ppm(pixels: &[u8]) -> Vec<u8> {
    [b"P6\n4 4\n255\n", pixels].concat()
}

/// 24 bits, from the bottom; rows of 12 bytes need no filling.
fn bmp(pixels: &[u8]) -> Vec<u8> {
    let mut file = b"BM\0\0\0\0\0\0\0\0".to_vec();
    file.extend([54u32, 40, SIDE as u32, SIDE as u32].iter().flat_map(|n| n.to_le_bytes()));
    file.extend([1u16, 24].iter().flat_map(|n| n.to_le_bytes()));
    file.extend([0; 24]);
    for row in pixels.chunks(SIDE * 3).rev() {
        file.extend(row.chunks(3).flat_map(|p| [p[2], p[1], p[0]]));
    }
    file
}

fn png(pixels: &[u8]) -> Vec<u8> {
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut chunk = |kind: &[u8], data: &[u8]| {
        let body = [kind, data].concat();
        let crc = body.iter().fold(u32::MAX, |crc, byte| {
            (0..8).fold(crc ^ u32::from(*byte), |c, _| {
                if c & 1 == 1 { c >> 1 ^ 0xedb8_8320 } else { c >> 1 }
            })
        });
        file.extend((data.len() as u32).to_be_bytes());
        file.extend(body);
        file.extend((!crc).to_be_bytes());
    };
    let side = (SIDE as u32).to_be_bytes();
    chunk(b"IHDR", &[&side[..], &side, &[8, 2, 0, 0, 0]].concat());
    let rows: Vec<u8> = pixels.chunks(SIDE * 3).flat_map(|row| [&[0], row].concat()).collect();
    let (a, b) = rows.iter().fold((1u32, 0u32), |(a, b), byte| {
        let a = (a + u32::from(*byte)) % 65521;
        (a, (a + b) % 65521)
    });
    let size = rows.len() as u16;
    // One block that is not packed.
    let head = [&[0x78, 1, 1][..], &size.to_le_bytes(), &(!size).to_le_bytes()].concat();
    chunk(b"IDAT", &[&head[..], &rows, &(b << 16 | a).to_be_bytes()].concat());
    chunk(b"IEND", &[]);
    file
}

/// A folder with the plugins and the network; `calib` may be filled.
fn prepared(network: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let plugins = folder.path().join("plugins");
    fs::create_dir_all(&plugins).unwrap();
    for name in ["libonnxd_frontend_n2d2.so", "libonnxd_quant_n2d2.so"] {
        fs::copy(library(name), plugins.join(name)).unwrap();
    }
    let drop = folder.path().join("drop");
    fs::create_dir_all(drop.join("calib/more")).unwrap();
    fs::write(drop.join("net.ini"), network).unwrap();
    folder
}

/// Puts pictures of all formats where they are found in the order of their seeds.
fn with_pictures(folder: &Path) {
    let calib = folder.join("drop/calib");
    fs::write(calib.join("1.ppm"), ppm(&pixels(1))).unwrap();
    fs::write(calib.join("2.bmp"), bmp(&pixels(2))).unwrap();
    fs::write(calib.join("3.png"), png(&pixels(3))).unwrap();
    fs::write(calib.join("more/4.ppm"), ppm(&pixels(4))).unwrap();
    // Grey in all channels; N2D2 writes what a picture is called behind its pixels.
    let grey = [b"P5 4 4 255\n", &grey_pixels()[..], &[7, 0, 0, 0]].concat();
    fs::write(calib.join("more/5.pgm"), grey).unwrap();
}

fn grey_pixels() -> Vec<u8> {
    pixels(5)[..SIDE * SIDE].to_vec()
}

fn samples() -> Vec<f32> {
    let grey: Vec<u8> = grey_pixels().iter().flat_map(|v| [*v; 3]).collect();
    let pictures = (1..5).map(pixels).chain([grey]);
    pictures.flat_map(|pixels| expected(&pixels)).collect()
}

/// Exit status, standard error, report, and the model's bytes.
fn convert(folder: &Path, sets: &[&str]) -> (i32, String, Value, Vec<u8>) {
    let (drop, out) = (folder.join("drop"), folder.join("out"));
    drop_empty(&drop.join("calib"));
    let _ = fs::remove_dir_all(&out);
    let mut run = command(folder);
    with_plugins_of(&mut run, &folder.join("plugins"));
    run.arg("convert");
    let mut files: Vec<PathBuf> =
        fs::read_dir(&drop).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort_by_key(|path| path.extension() != Some("ini".as_ref()));
    run.args(files).arg("--out").arg(&out);
    for set in [&["passes.profile=none", "w=/dev/null", "nbbits=8"], sets].concat() {
        run.args(["--set", set]);
    }
    let (status, stderr) = outcome(&run.output().unwrap());
    let report = fs::read(out.join("report.json")).unwrap_or_default();
    let report = serde_json::from_slice(&report).unwrap_or(Value::Null);
    (status, stderr, report, fs::read(out.join("model.onnx")).unwrap_or_default())
}

fn drop_empty(folder: &Path) {
    for path in [folder.join("more"), folder.to_owned()] {
        let _ = fs::remove_dir(path);
    }
}

fn with_arrays(samples: Vec<f32>) -> TempDir {
    let folder = prepared(NETWORK);
    let samples = Tensor::from_vec(vec![samples.len() / 12, 3, 2, 2], samples);
    let path = folder.path().join("drop/calib.npz");
    onnxd_arrays::write(&path, &vec![("env".into(), samples)]).unwrap();
    folder
}

#[test]
fn pictures_are_the_samples_that_the_network_makes_of_them() {
    // Every sample has a say in these: ranges are those of the data, and factors are kept as they are.
    let sets =
        ["stimuli-range=data", "act-clipping-mode=None", "act-rescaling-mode=Floating-point"];
    let pictures = prepared(NETWORK);
    with_pictures(pictures.path());
    let (status, stderr, report, model) = convert(pictures.path(), &sets);
    assert_eq!(status, 0, "{stderr}");
    assert_eq!(report["quantization"]["samples"], 5, "{report}");
    let (status, stderr, _, same) = convert(with_arrays(samples()).path(), &sets);
    assert_eq!(status, 0, "{stderr}");
    assert!(model == same && !model.is_empty());
    // A single larger number makes another model, so equal ones say something.
    let mut other = samples();
    other[40] = 123.0;
    let (status, stderr, _, other) = convert(with_arrays(other).path(), &sets);
    assert_eq!(status, 0, "{stderr}");
    assert!(model != other);
}

#[test]
fn idx_files_are_pictures_and_labels_are_left_aside() {
    let network = NETWORK.replace("NbChannels=3", "NbChannels=1").replace("10 20 30", "10");
    let network = network.replace("Type=ColorSpaceTransformation\nColorSpace=BGR", "");
    let network = network.replace("[sp.Transformation-3]\n", "");
    let all: Vec<u8> = (1..4).flat_map(|seed| pixels(seed)[..SIDE * SIDE].to_vec()).collect();
    let idx = prepared(&network);
    let calib = idx.path().join("drop/calib");
    let header = [0u8, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 4];
    fs::write(calib.join("images-idx3-ubyte"), [&header[..], &all].concat()).unwrap();
    fs::write(calib.join("labels-idx1-ubyte"), [0, 0, 8, 1, 0, 0, 0, 3, 1, 2, 3]).unwrap();
    let (status, stderr, report, model) = convert(idx.path(), &[]);
    assert_eq!(status, 0, "{stderr}");
    assert_eq!(report["quantization"]["samples"], 3);
    let files = prepared(&network);
    for (i, picture) in all.chunks(SIDE * SIDE).enumerate() {
        let path = files.path().join(format!("drop/calib/{i}.pgm"));
        fs::write(path, [b"P5 4 4 255\n", picture].concat()).unwrap();
    }
    let (status, stderr, _, same) = convert(files.path(), &[]);
    assert_eq!(status, 0, "{stderr}");
    assert!(model == same && !model.is_empty());
}

#[test]
fn calib_takes_whole_batches_of_every_kind_of_data() {
    let pictures = prepared(NETWORK);
    with_pictures(pictures.path());
    for folder in [pictures.path(), with_arrays(samples()).path()] {
        for (calib, used) in [("calib=3", 4), ("calib=4", 4), ("calib=9", 5)] {
            let (status, stderr, report, _) = convert(folder, &[calib]);
            assert_eq!(status, 0, "{stderr}");
            assert_eq!(report["quantization"]["samples"], used, "{calib}");
        }
    }
}

#[test]
fn the_range_of_the_inputs_is_chosen_and_reported() {
    let folder = with_arrays(samples());
    let largest = samples().iter().fold(0f32, |m, x| m.max(x.abs()));
    let of = |set: &str| {
        let (status, stderr, report, _) = convert(folder.path(), &[set]);
        assert_eq!(status, 0, "{stderr}");
        let metadata = report["metadata"].as_array().unwrap().clone();
        let found = metadata.iter().filter_map(Value::as_str);
        let mut found = found.filter_map(|m| m.strip_prefix("quantization.stimuli_range = "));
        found.next().unwrap_or_else(|| panic!("{metadata:?}")).to_owned()
    };
    let data = format!("{largest}, the largest magnitude of the calibration data");
    // (255 - 10) * 0.5; what only concerns the test set does not count.
    assert_eq!(of("stimuli-range=declared"), "122.5, declared by the network");
    assert_eq!(of("stimuli-range=data"), data);
    assert_eq!(of("stimuli-range=200"), "200, given by the params");
}

#[test]
fn what_is_wrong_is_named() {
    let refused = |network: &str, change: &dyn Fn(&Path)| {
        let folder = prepared(network);
        with_pictures(folder.path());
        change(&folder.path().join("drop/calib"));
        let (status, stderr, _, model) = convert(folder.path(), &[]);
        assert!(status != 0 && model.is_empty(), "{stderr}");
        stderr
    };
    let cut =
        refused(NETWORK, &|calib| fs::write(calib.join("3.png"), &png(&pixels(3))[..60]).unwrap());
    assert!(cut.contains("N0510") && cut.contains("calib/3.png"), "{cut}");
    let text = refused(NETWORK, &|calib| fs::write(calib.join("list.txt"), "1.ppm").unwrap());
    assert!(text.contains("N0508") && text.contains("calib/list.txt"), "{text}");
    let equalize =
        NETWORK.replace("ColorSpaceTransformation\nColorSpace=BGR", "MorphologyTransformation");
    let unknown = refused(&equalize, &|_| ());
    let named =
        unknown.contains("[sp.Transformation-3]") && unknown.contains("MorphologyTransformation");
    assert!(unknown.contains("N0214") && named, "{unknown}");
    let grey = refused(
        &NETWORK
            .replace("ColorSpace=BGR", "ColorSpace=RGB")
            .replace("NbChannels=3", "NbChannels=1"),
        &|_| (),
    );
    assert!(
        grey.contains("N0510") && grey.contains("of 3 by the network's preprocessing"),
        "{grey}"
    );
    // Arrays need no preprocessing, so nothing is wrong with a transformation without use.
    let folder = with_arrays(samples());
    fs::write(folder.path().join("drop/net.ini"), &equalize).unwrap();
    let (status, stderr, _, _) = convert(folder.path(), &[]);
    assert_eq!(status, 0, "{stderr}");
}
