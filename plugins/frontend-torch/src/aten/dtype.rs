//! Element types: torch's numbers for them, and the type in which operands of different types meet.
//!
//! Operands are of three classes: tensors with axes, tensors of rank 0, and Python's numbers. A lower class counts only
//! where its category (bool, integer, float, complex) is above that of the higher classes.

use super::Lower;
use onnxd_plugin_sdk::build::{Var, promoted as smallest_of_both};
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, shown};
use onnxd_plugin_sdk::formulas::complex::is_complex;
use onnxd_plugin_sdk::ir::DataType::{
    self, Bfloat16, Bool, Complex64, Complex128, Double, Float, Float16, Int8, Int16, Int32, Int64,
    Uint8, Uint16, Uint32, Uint64,
};
use onnxd_plugin_sdk::ir::{Reals, Tensor};
use onnxd_plugin_sdk::lower::{Lowered, Value};

/// Numbers of c10's `ScalarType`, in their order.
const TYPES: [(i64, DataType); 18] = [
    (0, Uint8),
    (1, Int8),
    (2, Int16),
    (3, Int32),
    (4, Int64),
    (5, Float16),
    (6, Float),
    (7, Double),
    (9, Complex64),
    (10, Complex128),
    (11, Bool),
    (12, Int8),
    (13, Uint8),
    (14, Int32),
    (15, Bfloat16),
    (27, Uint16),
    (28, Uint32),
    (29, Uint64),
];

/// The element type of a number.
pub(crate) fn dtype_of_number(number: i64) -> Option<DataType> {
    TYPES.iter().find(|(n, _)| *n == number).map(|(_, dtype)| *dtype)
}

/// The number of an element type; -1 if torch has none.
pub(crate) fn number(dtype: DataType) -> i64 {
    TYPES.iter().find(|(_, d)| *d == dtype).map_or(-1, |(n, _)| *n)
}

/// The element type that an argument `dtype` names.
///
/// # Errors
/// `N0203` if ONNX has no such type.
pub(crate) fn named(b: &Lower, number: i64) -> Lowered<DataType> {
    dtype_of_number(number).ok_or_else(|| {
        let message = format!("ONNX has no counterpart of torch's element type number {number}.");
        b.diagnostic(Code::LayerUnsupported, message)
    })
}

/// The element type of a tensor.
///
/// # Errors
/// `N0204` if it is not known.
pub(crate) fn dtype_of(b: &Lower, x: Var) -> Lowered<DataType> {
    b.dtype_of(x).ok_or_else(|| {
        let message = format!("The element type of `{}` is not known.", shown(&b.name_of(x)));
        b.diagnostic(Code::LayerParameter, message).help(HELP)
    })
}

const HELP: &str = "Give the types of the inputs: `export.input_dtypes`.";

/// The type in which operands meet, as torch decides it; `None` if a type is not known, or they meet in none.
pub(crate) fn promoted(b: &Lower, operands: &[&Value]) -> Option<DataType> {
    let mut classes = [None; 3];
    for operand in operands {
        let (class, dtype) = match operand {
            Value::Var(v) => (usize::from(b.rank_of(*v) == Some(0)), b.dtype_of(*v)?),
            Value::Bool(_) => (2, Bool),
            Value::Int(_) => (2, Int64),
            Value::Float(_) => (2, Float),
            Value::List(_) => (2, Complex64),
            _ => continue,
        };
        classes[class] = Some(match classes[class] {
            Some(before) => meet(before, dtype)?,
            None => dtype,
        });
    }
    let mut classes = classes.into_iter().flatten().rev();
    let lowest = classes.next()?;
    classes.try_fold(lowest, |lower, higher| above(higher, lower))
}

/// As [`promoted`], with the reason if there is no type.
///
/// # Errors
/// `N0204` if an element type is not known; `N0203` if they meet in none.
pub(crate) fn common(b: &Lower, operands: &[&Value]) -> Lowered<DataType> {
    promoted(b, operands).ok_or_else(|| cannot_meet(b, operands))
}

fn cannot_meet(b: &Lower, operands: &[&Value]) -> Diagnostic {
    for operand in operands {
        if let Value::Var(v) = operand
            && let Err(unknown) = dtype_of(b, *v)
        {
            return unknown;
        }
    }
    b.diagnostic(Code::LayerUnsupported, "The operands have no element type in common.")
}

/// What two operands of one class give.
pub(crate) fn meet(a: DataType, b: DataType) -> Option<DataType> {
    let (low, high) = if category(a) <= category(b) { (a, b) } else { (b, a) };
    match (category(low), category(high)) {
        (0 | 1, 2 | 3) => Some(high),
        (2, 3) => Some(if low == Double { Complex128 } else { high }),
        _ => smallest_of_both(low, high),
    }
}

/// What operands of a class give with those of lower classes.
fn above(higher: DataType, lower: DataType) -> Option<DataType> {
    match (category(higher), category(lower)) {
        (high, low) if high >= low => Some(higher),
        (2, _) => meet(higher, Complex64),
        _ => meet(higher, lower),
    }
}

/// Bool, integer, float, complex.
fn category(dtype: DataType) -> u8 {
    match dtype {
        Bool => 0,
        d if is_complex(d) => 3,
        d if d.is_integer() => 1,
        _ => 2,
    }
}

/// A tensor or number as a value of the type `dtype`.
///
/// # Errors
/// `N0203` if a number cannot be of that type, or the argument is something else.
pub(crate) fn operand(b: &Lower, value: &Value, dtype: DataType) -> Lowered<Var> {
    let number = match value {
        Value::Var(v) => return b.cast(*v, dtype),
        Value::Bool(x) => scalar(i64::from(*x) as f64, Some(i64::from(*x)), dtype),
        Value::Int(x) => scalar(*x as f64, Some(*x), dtype),
        Value::Float(x) => scalar(*x, None, dtype),
        _ => None,
    };
    let number = number.ok_or_else(|| {
        let message = format!("A number of type {} is needed, found {value}.", dtype.word());
        b.diagnostic(Code::LayerUnsupported, message)
    })?;
    Ok(b.constant(number))
}

/// Operands as values of the type in which they meet.
///
/// # Errors
/// Those of [`common`] and [`operand`].
pub(crate) fn operands<const N: usize>(b: &Lower, values: [&Value; N]) -> Lowered<[Var; N]> {
    let dtype = common(b, &values)?;
    all_of(b, values, dtype)
}

/// As [`operands`]; integers become floats.
///
/// # Errors
/// Those of [`operands`].
pub(crate) fn float_operands<const N: usize>(b: &Lower, values: [&Value; N]) -> Lowered<[Var; N]> {
    let dtype = float_of(common(b, &values)?);
    all_of(b, values, dtype)
}

/// Operands as values of the type `dtype`.
///
/// # Errors
/// Those of [`operand`].
pub(crate) fn all_of<const N: usize>(
    b: &Lower,
    values: [&Value; N],
    dtype: DataType,
) -> Lowered<[Var; N]> {
    let all = values.iter().map(|v| operand(b, v, dtype)).collect::<Lowered<Vec<_>>>()?;
    Ok(std::array::from_fn(|i| all[i]))
}

/// The number that a constant scalar holds.
pub(crate) fn known(b: &Lower, x: Var) -> Option<f64> {
    let tensor = b.constant_of(x).filter(|t| t.rank() == 0)?;
    match tensor.to_i64s() {
        Some(items) => items.first().map(|x| *x as f64),
        None => tensor.to_reals()?.values.first().copied(),
    }
}

/// Whether an argument is this number.
pub(crate) fn is_known(value: &Value, number: f64) -> bool {
    match value {
        Value::Bool(x) => f64::from(u8::from(*x)) == number,
        Value::Int(x) => *x as f64 == number,
        Value::Float(x) => *x == number,
        _ => false,
    }
}

/// The type in which small integers are computed where a version or runtimes lack them.
pub(crate) fn wide(dtype: DataType) -> DataType {
    match dtype {
        Int8 | Uint8 | Int16 | Uint16 => Int32,
        other => other,
    }
}

/// A number as a scalar of a type; `None` if the type has no such number. Integers wrap as in C.
pub(crate) fn scalar(real: f64, whole: Option<i64>, dtype: DataType) -> Option<Tensor> {
    if dtype == Bool {
        let bytes = vec![u8::from(real != 0.0)];
        return Tensor::new(Bool, vec![], bytes.into()).ok();
    }
    if dtype.is_float() {
        return Reals { dims: vec![], values: vec![real] }.to_tensor(dtype);
    }
    let whole = whole.or_else(|| (real.abs() < 9.3e18).then_some(real as i64))?;
    let size = dtype.bits() / 8;
    let bytes = whole.to_le_bytes().get(..size)?.to_vec();
    Tensor::new(dtype, vec![], bytes.into()).ok().filter(|_| dtype.is_integer() && size > 0)
}

/// `x` as elements of type `to`.
pub(crate) fn cast(b: &Lower, x: Var, to: DataType) -> Lowered<Var> {
    let from = b.dtype_of(x);
    if from != Some(to) && (is_complex(to) || from.is_some_and(is_complex)) {
        let message = "ONNX does not convert numbers from or to complex ones.";
        return Err(b.diagnostic(Code::LayerUnsupported, message));
    }
    b.cast(x, to)
}

/// The type of a float function of this type: integers become float32.
pub(crate) fn float_of(dtype: DataType) -> DataType {
    if dtype == Bool || dtype.is_integer() { Float } else { dtype }
}

/// `x` for a float function: integers become float32.
///
/// # Errors
/// `N0204` if the element type is not known.
pub(crate) fn to_float(b: &Lower, x: Var) -> Lowered<Var> {
    b.cast(x, float_of(dtype_of(b, x)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aten::{RowContext, table};
    use onnxd_plugin_sdk::ir::{Graph, Opsets, ValueType};
    use onnxd_plugin_sdk::lower::{Driver, Fallback};

    fn with(check: impl FnOnce(&Lower, &dyn Fn(DataType, usize) -> Value)) {
        let (table, source) = (table(), RowContext::default());
        let opsets = Opsets::from([(String::new(), 18)]);
        let driver = Driver::new(&table, &source, Graph::new("g"), opsets, Fallback::default());
        let b = driver.builder();
        check(b, &|dtype, rank| Value::Var(b.input("x", ValueType::tensor(dtype, vec![2; rank]))));
    }

    /// Rows were taken from `torch.result_type`.
    #[test]
    fn operands_meet_as_in_torch() {
        with(|b, x| {
            let float = Value::Float(1.5);
            let complex = Value::List(vec![Value::Float(1.0), Value::Float(2.0)]);
            let rows = [
                (x(Int64, 1), float.clone(), Float),
                (x(Int8, 1), x(Float16, 1), Float16),
                (x(Int64, 2), x(Float16, 1), Float16),
                (x(Float16, 1), x(Double, 0), Float16),
                (x(Float16, 0), x(Double, 1), Double),
                (x(Float16, 0), x(Float, 0), Float),
                (x(Int32, 1), x(Double, 0), Double),
                (x(Int32, 1), x(Int64, 0), Int32),
                (x(Uint8, 1), Value::Int(-3), Uint8),
                (x(Uint8, 1), x(Int8, 1), Int16),
                (x(Bool, 1), Value::Int(1), Int64),
                (x(Bool, 1), Value::Bool(true), Bool),
                (x(Bool, 1), x(Int16, 0), Int16),
                (x(Double, 1), complex.clone(), Complex128),
                (x(Float, 1), x(Complex128, 0), Complex64),
                (x(Int32, 1), complex, Complex64),
                (x(Double, 1), x(Complex64, 1), Complex128),
                (x(Float16, 1), x(Bfloat16, 1), Float),
                (x(Double, 0), float, Double),
            ];
            for (one, other, expected) in rows {
                let both = [promoted(b, &[&one, &other]), promoted(b, &[&other, &one])];
                assert_eq!(both, [Some(expected); 2], "{one:?} {other:?}");
            }
            assert_eq!(promoted(b, &[&Value::Int(1), &Value::Float(1.0)]), Some(Float));
            assert_eq!(promoted(b, &[&Value::None]), None);
        });
    }

    #[test]
    fn numbers_become_scalars() {
        with(|b, _| {
            let of = |value, dtype| b.constant_of(operand(b, &value, dtype).unwrap()).unwrap();
            assert_eq!(of(Value::Float(0.1), Double), Tensor::scalar(0.1f64));
            assert_eq!(of(Value::Int(-1), Uint8), Tensor::scalar(255u8));
            assert_eq!(of(Value::Float(-2.7), Int64), Tensor::scalar(-2i64));
            assert_eq!(of(Value::Int(7), Bool).bytes().as_ref(), [1]);
            assert!(operand(b, &Value::Float(f64::INFINITY), Int32).is_err());
            assert!(operand(b, &Value::Text("x".into()), Float).is_err());
        });
    }

    #[test]
    fn numbers_of_types_lead_back() {
        for (n, dtype) in TYPES {
            assert_eq!(dtype_of_number(n), Some(dtype));
            assert_eq!(dtype_of_number(number(dtype)), Some(dtype));
        }
        assert_eq!(dtype_of_number(8), None);
    }
}
