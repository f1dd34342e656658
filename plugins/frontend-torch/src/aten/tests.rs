//! What tests of all families use, and tests of arithmetic and comparisons. Expected numbers are torch's.

use super::{RowContext, table};
use onnxd_plugin_sdk::diagnostics::Diagnostic;
use onnxd_plugin_sdk::eval::{Executor, RunOptions};
use onnxd_plugin_sdk::ir::{DataType, Dim, Graph, Model, Opsets, Tensor, ValueType};
use onnxd_plugin_sdk::lower::{Driver, Fallback, Lowering, Value};
use std::collections::BTreeMap;
use std::f32::consts::{FRAC_PI_2, PI};

mod create;
mod edges;
mod index;
mod layers;
mod solve;
mod sort;
mod spectral;
mod views;

/// An argument of an operator in a test.
#[derive(Clone)]
pub(crate) enum Arg {
    Tensor(Tensor),
    Value(Value),
    List(Vec<Arg>),
}

macro_rules! given {
    ($($from:ty: $x:ident => $to:expr;)*) => {
        $(impl From<$from> for Arg {
            fn from($x: $from) -> Arg { $to }
        })*
    };
}

given! {
    Tensor: x => Arg::Tensor(x);
    Value: x => Arg::Value(x);
    bool: x => Arg::Value(x.into());
    i64: x => Arg::Value(x.into());
    f64: x => Arg::Value(x.into());
    &str: x => Arg::Value(x.into());
    Vec<i64>: x => Arg::Value(x.into());
}

/// Lowers one operator at an opset, and runs what it became.
///
/// # Errors
/// Why it cannot be lowered.
pub(crate) fn run_at<const N: usize>(
    opset: i64,
    op: &str,
    arguments: [(&str, Arg); N],
) -> Result<Vec<Tensor>, String> {
    run_in(opset, op, &arguments, false, None)
}

/// As [`run_at`] at the usual opset, for an operator with a note.
pub(crate) fn run_noted<const N: usize>(
    op: &str,
    arguments: [(&str, Arg); N],
    note: &str,
) -> Vec<Tensor> {
    run_in(18, op, &arguments, false, Some(note)).unwrap()
}

/// As [`run_at`]; sizes are not known if they are `open`.
fn run_in(
    opset: i64,
    op: &str,
    arguments: &[(&str, Arg)],
    open: bool,
    noted: Option<&str>,
) -> Result<Vec<Tensor>, String> {
    let (graph, notes, feeds) = lowered(opset, op, arguments, open)?;
    let noted = notes.into_iter().all(|note| noted.is_some_and(|text| note.message.contains(text)));
    assert!(noted, "{op} has other notes");
    let model = Model::new(graph, 8, opset);
    let outputs = Executor::new(&model).and_then(|e| e.run(&feeds, RunOptions::default()));
    outputs.map(|o| o.into_iter().map(|(_, t)| t).collect()).map_err(|d| format!("{d:?}"))
}

/// Inputs by their names.
type Feeds = BTreeMap<String, Tensor>;

/// What an operator becomes, with its notes and the inputs; sizes are not known if they are `open`.
fn lowered(
    opset: i64,
    op: &str,
    arguments: &[(&str, Arg)],
    open: bool,
) -> Result<(Graph, Vec<Diagnostic>, Feeds), String> {
    let (table, source) = (table(), RowContext::default());
    let opsets = Opsets::from([(String::new(), opset)]);
    let driver = Driver::new(&table, &source, Graph::new("g"), opsets, Fallback::default());
    let mut feeds = Feeds::new();
    let named = arguments.iter().map(|(name, given)| {
        let value = value(driver.builder(), name, given.clone(), open, &mut feeds);
        ((*name).to_owned(), value)
    });
    let item = Lowering { op: op.into(), named: named.collect(), ..Lowering::default() };
    let results = driver.lower(item).into_iter().flat_map(|value| match value {
        Value::List(items) => items,
        other => vec![other],
    });
    for (i, value) in results.enumerate() {
        if let Value::Var(v) = value {
            driver.builder().output(v, &format!("y{i}")).map_err(|d| d.to_string())?;
        }
    }
    let (graph, notes) = driver.finish().map_err(|d| format!("{d:?}"))?;
    Ok((graph, notes, feeds))
}

fn value(b: &super::Lower, name: &str, given: Arg, open: bool, feeds: &mut Feeds) -> Value {
    match given {
        Arg::Value(value) => value,
        Arg::Tensor(tensor) => {
            let size = |(i, n): (usize, &usize)| match open {
                true => Dim::Symbol(format!("{name}_{i}").into()),
                false => Dim::Known(*n as i64),
            };
            let shape: Vec<Dim> = tensor.dims().iter().enumerate().map(size).collect();
            let ty = ValueType::tensor(tensor.dtype(), shape);
            feeds.insert(name.to_owned(), tensor);
            Value::Var(b.input(name, ty))
        }
        Arg::List(items) => {
            let item = |(i, item)| value(b, &format!("{name}{i}"), item, open, feeds);
            Value::List(items.into_iter().enumerate().map(item).collect())
        }
    }
}

/// The results of an operator: the same whether sizes are known or not.
pub(crate) fn all<const N: usize>(op: &str, arguments: [(&str, Arg); N]) -> Vec<Tensor> {
    let known = run_in(18, op, &arguments, false, None).unwrap();
    assert_eq!(run_in(18, op, &arguments, true, None).unwrap(), known, "{op} with open sizes");
    known
}

/// As [`all`], for an operator of one result.
pub(crate) fn only<const N: usize>(op: &str, arguments: [(&str, Arg); N]) -> Tensor {
    all(op, arguments).remove(0)
}

/// The numbers 0, 1, 2 and so on in a shape.
pub(crate) fn counted<const N: usize>(dims: [usize; N]) -> Tensor {
    let n = dims.iter().product::<usize>();
    Tensor::from_vec(dims, (0..n as i64).collect::<Vec<_>>())
}

/// Shape and elements of a tensor of integers.
pub(crate) fn parts(x: &Tensor) -> (Vec<usize>, Vec<i64>) {
    (x.dims().to_vec(), x.to_i64s().unwrap())
}

/// As [`run_at`] with the default opset, for an operator of one result.
pub(crate) fn run<const N: usize>(op: &str, arguments: [(&str, Arg); N]) -> Tensor {
    run_at(18, op, arguments).unwrap().remove(0)
}

/// A tensor of rank 1 of float32.
pub(crate) fn floats<const N: usize>(items: [f32; N]) -> Tensor {
    Tensor::vector(items.to_vec())
}

/// A tensor of rank 1 of int64.
pub(crate) fn ints<const N: usize>(items: [i64; N]) -> Tensor {
    Tensor::vector(items.to_vec())
}

/// A tensor of rank 1 of truth values.
pub(crate) fn bools<const N: usize>(items: [bool; N]) -> Tensor {
    let bytes: Vec<u8> = items.iter().map(|x| u8::from(*x)).collect();
    Tensor::new(DataType::Bool, vec![N], bytes.into()).unwrap()
}

/// Whether all elements are as near as float32 allows.
pub(crate) fn assert_near(found: &Tensor, expected: &Tensor) {
    assert_eq!((found.dtype(), found.dims()), (expected.dtype(), expected.dims()));
    let (x, y) = (found.to_reals().unwrap().values, expected.to_reals().unwrap().values);
    let near = |(x, y): (&f64, &f64)| (x - y).abs() <= 1e-5 * (1.0 + y.abs()) || x == y;
    assert!(x.iter().zip(&y).all(near), "{x:?} {y:?}");
}

fn pair(op: &str, x: impl Into<Arg>, y: impl Into<Arg>) -> Tensor {
    run(op, [("input", x.into()), ("other", y.into())])
}

#[test]
fn sums_have_torchs_types() {
    let add = |x: Tensor, y: Arg, alpha: Arg| {
        run("aten::add", [("input", x.into()), ("other", y), ("alpha", alpha)])
    };
    assert_eq!(add(ints([1, 2]), 1.5.into(), 1i64.into()), floats([2.5, 3.5]));
    assert_eq!(add(ints([1, 2]), ints([3, 4]).into(), 2i64.into()), ints([7, 10]));
    let either = add(bools([true, false]), bools([false, false]).into(), 1i64.into());
    assert_eq!(either, bools([true, false]));
    let both = pair("aten::mul", bools([true, false]), bools([true, true]));
    assert_eq!(both, bools([true, false]));
}

#[test]
fn quotients_round_down_or_to_zero() {
    let x = || ints([7, -7, 7, -7]);
    let y = || ints([2, 2, -2, -2]);
    let mode = |mode: &str| {
        let arguments =
            [("input", x().into()), ("other", y().into()), ("rounding_mode", mode.into())];
        run("aten::div", arguments)
    };
    assert_eq!(mode("floor"), ints([3, -4, -4, 3]));
    assert_eq!(mode("trunc"), ints([3, -3, -3, 3]));
    assert_eq!(pair("aten::remainder", x(), y()), ints([1, 1, -1, -1]));
    assert_eq!(pair("aten::fmod", x(), y()), ints([1, -1, 1, -1]));
    assert_eq!(pair("aten::floor_divide", floats([1.0, -1.0]), 0.1), floats([9.0, -10.0]));
    assert_near(&pair("aten::remainder", floats([5.5, -5.5]), 2.0), &floats([1.5, 0.5]));
}

#[test]
fn powers_and_shifts() {
    let pow = |x: Tensor, y: Arg| run("aten::pow", [("input", x.into()), ("exponent", y)]);
    assert_eq!(pow(ints([3, -2]), 3i64.into()), ints([27, -8]));
    assert_eq!(pow(floats([4.0, 9.0]), 0.5.into()), floats([2.0, 3.0]));
    assert_eq!(pow(ints([4, 9]), (-1.0).into()), floats([0.25, 1.0 / 9.0]));
    assert_eq!(pair("aten::bitwise_right_shift", ints([-5, 5]), 1i64), ints([-3, 2]));
    assert_eq!(pair("aten::bitwise_right_shift", ints([-5, 5]), 63i64), ints([-1, 0]));
    assert_eq!(pair("aten::bitwise_left_shift", ints([-5, 5]), ints([1, 2])), ints([-10, 20]));
    assert_eq!(pair("aten::gcd", ints([12, -18, 0]), ints([18, 12, 5])), ints([6, 6, 5]));
    assert_eq!(pair("aten::lcm", ints([4, -6, 0]), ints([6, 4, 0])), ints([12, 12, 0]));
}

#[test]
fn choices_are_made_in_all_types() {
    let choose = |x: Arg, y: Arg| {
        let condition = bools([true, false]).into();
        run("aten::where.self", [("condition", condition), ("input", x), ("other", y)])
    };
    assert_eq!(choose(1i64.into(), 2.5.into()), floats([1.0, 2.5]));
    assert_eq!(choose(bools([false, false]).into(), true.into()), bools([false, true]));
    let short = |items: [i16; 2]| Tensor::vector(items.to_vec());
    assert_eq!(choose(short([1, 2]).into(), short([3, 4]).into()), short([1, 4]));
    let fill = [("input", ints([1, 2]).into()), ("mask", bools([true, false]).into())];
    let [input, mask] = fill;
    assert_eq!(run("aten::masked_fill", [input, mask, ("value", 9.7.into())]), ints([9, 2]));
    assert_eq!(
        pair("aten::maximum", bools([true, false]), bools([false, false])),
        bools([true, false])
    );
}

#[test]
fn bounds_may_be_numbers_or_tensors() {
    let clamp = |min: Arg, max: Arg| {
        run("aten::clamp", [("input", ints([-3, 0, 3]).into()), ("min", min), ("max", max)])
    };
    assert_eq!(clamp((-1i64).into(), 1i64.into()), ints([-1, 0, 1]));
    assert_eq!(clamp((-0.5).into(), Value::None.into()), floats([-0.5, 0.0, 3.0]));
    assert_eq!(clamp(2i64.into(), 1i64.into()), ints([1, 1, 1]));
    assert_eq!(clamp(ints([-4, 1, 1]).into(), 2i64.into()), ints([-3, 1, 2]));
}

#[test]
fn old_versions_say_what_they_can() {
    let both = |opset, op, x: Tensor, y: Tensor| {
        run_at(opset, op, [("input", x.into()), ("other", y.into())])
    };
    let small = |items: [i8; 2]| Tensor::vector(items.to_vec());
    let at = |opset, op, expected: Tensor| {
        let found = both(opset, op, small([100, -2]), small([100, 3])).unwrap();
        assert_eq!(found, [expected], "{op} {opset}");
    };
    at(11, "aten::mul", small([16, -6]));
    at(11, "aten::maximum", small([100, 3]));
    at(11, "aten::le", bools([true, true]));
    at(18, "aten::bitwise_and", small([100, 2]));
    let refused = both(17, "aten::bitwise_and", small([1, 2]), small([1, 2])).unwrap_err();
    assert!(refused.contains("N0203") && refused.contains("opset 18"), "{refused}");
}

#[test]
fn numbers_that_are_none_are_replaced() {
    let x = || floats([f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1.0]);
    let none = || Arg::from(Value::None);
    let replaced =
        [("input", x().into()), ("nan", none()), ("posinf", 5.0.into()), ("neginf", none())];
    assert_eq!(run("aten::nan_to_num", replaced), floats([0.0, 5.0, f32::MIN, 1.0]));
    assert_eq!(run("aten::isfinite", [("input", x().into())]), bools([false, false, false, true]));
    let angles = pair("aten::atan2", floats([0.0, 1.0, 0.0, -1.0]), floats([0.0, 0.0, -1.0, -1.0]));
    assert_near(&angles, &floats([0.0, FRAC_PI_2, PI, -0.75 * PI]));
}
