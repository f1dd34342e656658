//! The files of a case as the program gets them. What is not text lies in the case as text: `net.onnx.txt` becomes
//! `net.onnx`, `calib.npz.txt` becomes `calib.npz`. Numbers that are not given there are made by a fixed rule.

use onnxd_ir::{DataType, Dim, Model, Origin, Reals, Tensor, ValueType, text};
use onnxd_onnx::{WriteOptions, write_model};
use std::fs;
use std::path::Path;

/// Puts the files of `case`, apart from its expectations, into the folder `drop`.
pub(crate) fn prepare(case: &Path, drop: &Path) {
    fs::create_dir_all(drop).unwrap();
    for entry in fs::read_dir(case).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let to = drop.join(name.strip_suffix(".txt").unwrap_or(&name));
        if path.is_dir() {
            prepare(&path, &drop.join(&name));
        } else if name.starts_with("expected.") {
            // Not for the program.
        } else if name.ends_with(".onnx.txt") {
            let model = model(&fs::read_to_string(&path).unwrap());
            let model = model.unwrap_or_else(|d| panic!("{}: {d}", path.display()));
            write_model(&model, &to, &WriteOptions::default()).unwrap();
        } else if name.ends_with(".npz.txt") {
            let rows = fs::read_to_string(&path).unwrap();
            let arrays: Vec<(String, Tensor)> = rows.lines().map(array).collect();
            onnxd_arrays::write(&to, &arrays).unwrap();
        } else {
            fs::copy(&path, drop.join(&name)).unwrap();
        }
    }
}

/// A model from its text. Values that are declared with their type and that nothing gives, as `w` in
/// `<float[8,3] w>`, become initializers of numbers between -1 and 1.
fn model(text: &str) -> Result<Model, onnxd_diagnostics::Diagnostic> {
    let mut model = text::parse_model(text)?;
    let graph = &mut model.graph;
    for v in graph.value_ids() {
        let open = graph[v].origin() == Origin::None && graph[v].initializer().is_none();
        if let Some(ty) = graph[v].ty.clone().filter(|_| open) {
            let tensor = numbers(&graph[v].name, &ty, -1.0, 1.0);
            graph.set_initializer(v, Some(tensor));
        }
    }
    Ok(model)
}

/// An array from a line such as `float[8,1,6,6] env 0 1`: type, name, and between what its numbers lie.
fn array(line: &str) -> (String, Tensor) {
    let parts: Vec<&str> = line.split_whitespace().collect();
    let [ty, name, low, high] = parts[..] else { panic!("`{line}` is no array") };
    let graph = text::parse_graph(&format!("g ({ty} x) => (x) {{ }}"));
    let graph = graph.unwrap_or_else(|d| panic!("`{line}`: {d}"));
    let ty = graph[graph.inputs()[0]].ty.clone().unwrap();
    (name.to_owned(), numbers(name, &ty, low.parse().unwrap(), high.parse().unwrap()))
}

/// Numbers between `low` and `high` that follow from the name alone: whole ones in types of integers.
fn numbers(name: &str, ty: &ValueType, low: f64, high: f64) -> Tensor {
    let dtype = ty.dtype().unwrap();
    let size = |d: &Dim| d.known().unwrap_or_else(|| panic!("`{name}` has no fixed size")) as usize;
    let dims: Vec<usize> = ty.shape().unwrap().iter().map(size).collect();
    let mut state = name.bytes().fold(1u64, |state, byte| step(state ^ u64::from(byte)));
    let mut next = || {
        state = step(state);
        let share = (state >> 40) as f64 / f64::from(1u32 << 24);
        match dtype.is_float() {
            true => low + share * (high - low),
            false => (low + share * (high - low + 1.0)).floor(),
        }
    };
    let values = (0..dims.iter().product::<usize>()).map(|_| next()).collect();
    tensor(&Reals { dims, values }, dtype)
}

/// Knuth's linear congruential generator.
fn step(state: u64) -> u64 {
    state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407)
}

fn tensor(reals: &Reals, dtype: DataType) -> Tensor {
    let dims = reals.dims.clone();
    match dtype {
        DataType::Int64 => Tensor::from_vec(dims, reals.values.iter().map(|x| *x as i64).collect()),
        DataType::Int32 => Tensor::from_vec(dims, reals.values.iter().map(|x| *x as i32).collect()),
        DataType::Int8 => Tensor::from_vec(dims, reals.values.iter().map(|x| *x as i8).collect()),
        DataType::Uint8 => Tensor::from_vec(dims, reals.values.iter().map(|x| *x as u8).collect()),
        _ => reals.to_tensor(dtype).unwrap_or_else(|| panic!("numbers of {dtype} are not made")),
    }
}
