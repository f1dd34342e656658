//! Small models that ask for absurd sizes: one clear diagnostic with a stable code, in little memory
//! and without a panic.

use onnxd_integration_tests::{onnxd, outcome};
use onnxd_ir::{Model, text};
use onnxd_onnx::{WriteOptions, write_model};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Address space of a run; that of threads and libraries is in it.
const SPACE_KIB: usize = 2 << 20;
/// Intermediate values of a run.
const MEMORY: &str = "8MiB";

/// Initializers, and nodes that make `y` of `float[2] x`.
type HostileModel = (&'static str, &'static str);

/// Results, or what leads to them, that no memory holds, and sizes that no integer holds.
const SIZES: &[HostileModel] = &[
    ("int64[1] s = {1099511627776}", "y = Expand (s1, s) s1 = ReduceSum (x)"),
    (
        "int64[3] s = {4611686018427387904, 4611686018427387904, 2}",
        "s1 = ReduceSum <keepdims = 0> (x) y = Expand (s1, s)",
    ),
    ("int64[1] n = {4611686018427387904}", "y = Tile (x, n)"),
    ("int64[1] n = {9223372036854775807}", "y = Tile (x, n)"),
    ("int64[1] n = {-9223372036854775808}", "y = Tile (x, n)"),
    ("int64[2] p = {0, 4611686018427387904}", "y = Pad (x, p)"),
    ("int64[2] p = {9223372036854775807, 9223372036854775807}", "y = Pad (x, p)"),
    ("int64[2] p = {-9223372036854775808, 9223372036854775805}", "y = Pad (x, p)"),
    ("int64[2] p = {4611686018427387904, 0}", "y = Pad <mode = \"reflect\"> (x, p)"),
    ("int64[1] s = {1099511627776}", "y = Resize (x, , , s)"),
    ("int64[1] s = {9223372036854775807}", "y = Resize <mode = \"linear\"> (x, , , s)"),
    ("float[1] s = {1e30}", "y = Resize (x, , s)"),
    ("float[1] s = {1e12}", "y = Resize <mode = \"cubic\"> (x, , s)"),
    ("float a = {0}, float b = {1e30}, float d = {1e-30}", "y = Range (a, b, d)"),
    (
        "int64 a = {-9223372036854775808}, int64 b = {9223372036854775807}, int64 d = {1}",
        "y = Range (a, b, d)",
    ),
    (
        "int64[1] n = {1152921504606846976}, int64[2] i = {0, 1}, float[2] v = {0, 1}",
        "y = OneHot (i, n, v)",
    ),
    ("int64[1] k = {1152921504606846976}", "y, i = TopK (x, k)"),
    ("int64[1] k = {-1}", "y, i = TopK (x, k)"),
    ("int64[2] s = {1048576, 1099511627776}", "y = ConstantOfShape (s)"),
    ("int64[3] s = {4294967296, 4294967296, 4294967296}", "y = ConstantOfShape (s)"),
    ("int64[1] s = {-1}", "y = ConstantOfShape (s)"),
    ("int64 n = {1125899906842624}", "y = HannWindow (n)"),
    ("int64 n = {9223372036854775807}", "y = BlackmanWindow (n)"),
    (
        "int64 b = {1099511627776}, int64 n = {64}, int64 r = {8000}, float l = {0}, float h = {9}",
        "y = MelWeightMatrix (b, n, r, l, h)",
    ),
    (
        "int64[4] s = {1, 1, 1099511627776, 1099511627776}, float[1,2,3] t = {1, 0, 0, 0, 1, 0}",
        "y = AffineGrid (t, s)",
    ),
    ("float[1,1,2] t = {1, 2}, int64 n = {4611686018427387904}", "y = DFT (t, n)"),
    (
        "",
        "a = Einsum <equation = \"i,j,k,l,m,n,o,p,q,r->ijklmnopqr\"> (w, w, w, w, w, w, w, w, w, w)
         w = Concat <axis = 0> (x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x) y = Relu (a)",
    ),
    (
        "float[1,1,1] t = {1}, float[1,1,1] w = {1}",
        "y = ConvTranspose <strides = [1099511627776], output_padding = [1099511627775]> (t, w)",
    ),
    (
        "float[1,1,2] t = {1, 1}, float[1,1,2] w = {1, 1}",
        "y = ConvTranspose <strides = [9223372036854775807], dilations = [9223372036854775807]> (t, w)",
    ),
    (
        "float[1,1,2] t = {1, 1}, float[1,1,2] w = {1, 1}",
        "y = ConvTranspose <output_shape = [4611686018427387904]> (t, w)",
    ),
    (
        "float[1,1,2] t = {1, 1}, float[1,1,1] w = {1}",
        "y = Conv <pads = [4611686018427387904, 4611686018427387904]> (t, w)",
    ),
    (
        "float[1,1,2] t = {1, 1}, float[1,1,2] w = {1, 1}",
        "y = Conv <dilations = [9223372036854775807]> (t, w)",
    ),
    ("float[1,1,2] t = {1, 1}", "y = MaxPool <kernel_shape = [9223372036854775807]> (t)"),
    (
        "float[1,1,2] t = {1, 1}",
        "y = AveragePool <kernel_shape = [1099511627776], pads = [1099511627775, 1099511627775]> (t)",
    ),
    ("float[1,1,2] t = {1, 1}", "y = LpPool <kernel_shape = [2], strides = [0]> (t)"),
    (
        "float[1,1,2] t = {1, 1}, int64[1,1,2] i = {0, 1}, int64[3] s = {1, 1, 1099511627776}",
        "y = MaxUnpool <kernel_shape = [1]> (t, i, s)",
    ),
    (
        "float[1,1,1] t = {1}, int64[2] s = {1099511627776, 1}, int64[2] b = {1, 1}",
        "y = Col2Im (t, s, b)",
    ),
    (
        "float[1,1,1,1] t = {1}, float[1,4] r = {0, 0, 1, 1}, int64[1] b = {0}",
        "y = RoiAlign <output_height = 1099511627776, output_width = 1099511627776> (t, r, b)",
    ),
    ("float[1,1,1,1] t = {1}", "y = DepthToSpace <blocksize = 4611686018427387904> (t)"),
    ("float[1,1,1,1] t = {1}", "y = SpaceToDepth <blocksize = -1> (t)"),
    ("int64[1] a = {-9223372036854775808}", "y = Unsqueeze (x, a)"),
    ("int64[2] s = {4294967296, 4294967296}", "y = Reshape (x, s)"),
    ("int64[1] i = {9223372036854775807}", "y = Gather (x, i)"),
];

/// Loops that collect, and that let a value grow.
const LOOPS: &[HostileModel] = &[
    (
        "int64 n = {9223372036854775807}",
        "l, y = Loop (n, , x) <body = b (int64 i, bool c, float[2] s) => (bool d, float[2] t, float[2] o)
         { d = Identity (c) t = Identity (s) o = Neg (s) }>",
    ),
    (
        "int64 n = {9223372036854775807}",
        "y = Loop (n, , x) <body = b (int64 i, bool c, float[k] s) => (bool d, float[m] t)
         { d = Identity (c) t = Concat <axis = 0> (s, s) }>",
    ),
];

/// Work that ends only with the time there is.
const ENDLESS: &[HostileModel] = &[
    (
        "",
        "y = Loop (, , x) <body = b (int64 i, bool c, float[2] s) => (bool d, float[2] t)
         { d = Identity (c) t = Neg (s) }>",
    ),
    (
        "int64 a = {0}, int64 b = {1000}, int64 d = {1}",
        "r = Range (a, b, d) y = Einsum <equation = \"i,j,k,l,m,n->\"> (r, r, r, r, r, r)",
    ),
];

fn write(folder: &Path, (initializers, nodes): HostileModel) {
    let between = if initializers.is_empty() { String::new() } else { format!("<{initializers}>") };
    let graph = format!("g (float[2] x) => (y) {between} {{ {nodes} }}");
    let graph = text::parse_graph(&graph).unwrap_or_else(|d| panic!("{nodes}: {d}"));
    let model = Model::new(graph, 10, 21);
    let written = write_model(&model, &folder.join("m.onnx"), &WriteOptions::default());
    written.unwrap_or_else(|d| panic!("{nodes}: {d}"));
    let mut array = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
    array.extend_from_slice(format!("{header:<117}\n").as_bytes());
    array.extend([1.0f32, -2.0].into_iter().flat_map(f32::to_le_bytes));
    fs::write(folder.join("x.npy"), array).unwrap();
}

/// Runs a command with little memory.
fn run(folder: &Path, arguments: &[&str]) -> (i32, String) {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("ulimit -v {SPACE_KIB} && exec \"$@\"")).arg("sh").arg(onnxd());
    let output = shell.args(arguments).current_dir(folder).env("HOME", folder).output().unwrap();
    outcome(&output)
}

/// What is wrong with what `eval` and `check` say of a row.
fn faults(row: HostileModel, seconds: &str, codes: &[&str]) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, row);
    let limits = ["--memory", MEMORY, "--threads", "2", "--timeout", seconds];
    let eval = ["eval", "m.onnx", "--inputs", "x.npy", "--out", "y.npz"];
    let mut found = Vec::new();
    let (status, said) = run(folder, &[&eval[..], &limits[..]].concat());
    let one =
        said.lines().filter(|line| line.starts_with("N0") || line.contains(" N0")).count() <= 1;
    let known = codes.iter().any(|code| said.contains(code));
    if !matches!(status, 2 | 3 | 75) || !known || !one || said.contains("panic") {
        found.push(format!("eval of {row:?}: status {status}: {said}"));
    }
    let (status, said) = run(folder, &["check", "m.onnx"]);
    if !matches!(status, 0..=3) || said.contains("panic") {
        found.push(format!("check of {row:?}: status {status}: {said}"));
    }
    found
}

fn assert_refused(rows: &[HostileModel], seconds: &str, codes: &[&str]) {
    let found: Vec<String> = rows.iter().flat_map(|row| faults(*row, seconds, codes)).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn absurd_sizes_are_refused() {
    assert_refused(SIZES, "60", &["N0305", "N0502", "N0506"]);
}

#[test]
fn loops_that_collect_end_with_the_memory() {
    assert_refused(LOOPS, "120", &["N0305"]);
}

#[test]
fn endless_work_ends_with_the_time() {
    assert_refused(ENDLESS, "1", &["N0309"]);
}
