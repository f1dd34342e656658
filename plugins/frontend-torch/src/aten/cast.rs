//! Conversions of the element type, and operators that give their argument as it is.

use super::dtype::{self, cast, dtype_of, named, operand};
use super::torchao;
use super::{Lower, RowContext, sizes};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{Operand, Var};
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::formulas::complex;
use onnxd_plugin_sdk::ir::DataType::{
    self, Double, Float, Float16, Int8, Int16, Int32, Int64, Uint8,
};
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    let table = super::rows! { table;
        "aten::to" | "aten::_to_copy" | "aten::to_dense" | "aten::to_mkldnn" => to;
        "aten::promote_types" => |b, type1: i64, type2: i64| {
            let (one, other) = (named(b, type1)?, named(b, type2)?);
            let common = dtype::meet(one, other).map(dtype::number);
            common.ok_or_else(|| {
                let message = format!("The types {one} and {other} meet in none.");
                b.diagnostic(Code::LayerUnsupported, message)
            })
        };
        "aten::type_as" => |b, input: Var, other: Var| like(b, input, other);
        "prims::convert_element_type" => |b, a: Var, dtype: i64| cast(b, a, named(b, dtype)?);
        "aten::_cast_Byte" => |b, input: Var| cast(b, input, Uint8);
        "aten::_cast_Char" => |b, input: Var| cast(b, input, Int8);
        "aten::_cast_Short" => |b, input: Var| cast(b, input, Int16);
        "aten::_cast_Int" => |b, input: Var| cast(b, input, Int32);
        "aten::_cast_Long" => |b, input: Var| cast(b, input, Int64);
        "aten::_cast_Half" => |b, input: Var| cast(b, input, Float16);
        "aten::_cast_Float" => |b, input: Var| cast(b, input, Float);
        "aten::_cast_Double" => |b, input: Var| cast(b, input, Double);
        "aten::_autocast_to_full_precision" => autocast_full(input, cuda_enabled, cpu_enabled);
        "aten::_autocast_to_reduced_precision" => autocast_reduced;
        "aten::result_type" => result_type;
    };
    super::rows! { table;
        "aten::clone" | "aten::detach" | "aten::detach_copy" | "aten::contiguous" | "aten::alias" | "aten::alias_copy"
        | "aten::lift" | "aten::lift_fresh" | "aten::lift_fresh_copy" | "aten::cpu" | "aten::cuda" | "aten::data"
        | "aten::pin_memory" | "aten::_pin_memory" | "aten::_lazy_clone" | "prims::clone"
            => |_, input: Var| Ok(input);
        "aten::_conj" | "aten::_conj_copy" | "aten::_conj_physical" | "aten::conj" | "aten::conj_physical"
        | "aten::resolve_conj" | "aten::resolve_neg" | "prims::conj_physical" => conjugate(input);
        "prims::view_of" | "prims::device_put" => |_, a: Var| Ok(a);
        "prims::copy_strided" => |_, a: Var, stride: Value| Ok(a);
        "aten::_fw_primal" | "aten::_fw_primal_copy" => |_, input: Var, level: i64| Ok(input);
        "aten::rename" | "aten::refine_names" => |_, input: Var, names: Value| Ok(input);
        "aten::copy" => copy(input, src);
        "aten::fill" | "prims::fill" => |b, input: Var, value: Value| filled(b, input, &value);
        "aten::zero" => |b, input: Var| filled(b, input, &Value::Int(0));
    }
}

arguments! {
    /// `to.dtype`, `to.other`
    struct To { input: Var, dtype: Option<i64>, other: Option<Var>, masked_grad: Option<bool> }
    /// `_autocast_to_reduced_precision`
    struct Reduced { input: Var, cuda_enabled: bool, cpu_enabled: bool, cuda_dtype: i64, cpu_dtype: i64 }
    /// `result_type.Tensor`
    struct Both {
        tensor: Value = Value::None, other: Value = Value::None, scalar: Value = Value::None,
        scalar1: Value = Value::None, scalar2: Value = Value::None,
    }
}

/// `x` as elements of the type that `other` has.
fn like(b: &Lower, x: Var, other: Var) -> Lowered<Var> {
    match b.dtype_of(other) {
        None if b.opset() >= 15 => b.cast_like(x, other).one(),
        _ => cast(b, x, dtype_of(b, other)?),
    }
}

fn to(b: &Lower, a: To) -> Lowered<Var> {
    match (a.dtype, a.other) {
        (Some(number), _) => match named(b, number)? {
            Float => torchao::stored(b, a.input, Float),
            dtype => cast(b, a.input, dtype),
        },
        (None, Some(other)) => like(b, a.input, other),
        (None, None) => Ok(a.input),
    }
}

fn autocast_full(b: &Lower, input: Var, _cuda_enabled: bool, cpu_enabled: bool) -> Lowered<Var> {
    let half = matches!(dtype_of(b, input)?, Float16 | DataType::Bfloat16);
    if half && cpu_enabled { cast(b, input, Float) } else { Ok(input) }
}

fn autocast_reduced(b: &Lower, a: Reduced) -> Lowered<Var> {
    let float = dtype_of(b, a.input)? == Float;
    if float && a.cpu_enabled { cast(b, a.input, named(b, a.cpu_dtype)?) } else { Ok(a.input) }
}

fn result_type(b: &Lower, a: Both) -> Lowered<i64> {
    let all = [&a.tensor, &a.other, &a.scalar, &a.scalar1, &a.scalar2];
    let given: Vec<&Value> = all.into_iter().filter(|v| **v != Value::None).collect();
    dtype::common(b, &given).map(dtype::number)
}

/// Real numbers are their own conjugates.
fn conjugate(b: &Lower, input: Var) -> Lowered<Var> {
    if complex::is(b, input) {
        let message = "ONNX has no conjugate of complex numbers.";
        return Err(b.diagnostic(Code::LayerUnsupported, message));
    }
    Ok(input)
}

/// The shape of `x`: numbers, where they are known.
fn shape(b: &Lower, x: Var) -> Lowered<Operand> {
    match b.dims_of(x) {
        Some(dims) => Ok(dims.into()),
        None => b.shape(x).one().map(Operand::Var),
    }
}

/// `src` with the type and the shape of `input`.
fn copy(b: &Lower, input: Var, src: Value) -> Lowered<Var> {
    let src = match b.dtype_of(input) {
        Some(dtype) => operand(b, &src, dtype)?,
        None => operand(b, &src, Float)?,
    };
    let same = match (b.shape_of(input), b.shape_of(src)) {
        (Some(x), Some(y)) => x.len() == y.len() && x.iter().zip(&y).all(|(x, y)| x.same(y)),
        _ => false,
    };
    if same { Ok(src) } else { b.expand(src, shape(b, input)?) }
}

/// `value` in the type and the shape of `x`.
pub(crate) fn filled(b: &Lower, x: Var, value: &Value) -> Lowered<Var> {
    let value = operand(b, value, dtype_of(b, x)?)?;
    if sizes::rank(b, x)? == 0 {
        return match b.rank_of(value) {
            Some(0) => Ok(value),
            _ => b.reshape(value, Vec::<i64>::new()).one(),
        };
    }
    match b.constant_of(value).and_then(|t| t.reshaped([1]).ok()) {
        Some(value) => b.constant_of_shape(shape(b, x)?).value(value).one(),
        None => b.expand(value, shape(b, x)?),
    }
}

#[cfg(test)]
mod tests {
    use crate::aten::tests::{bools, floats, ints, run, run_at};
    use onnxd_plugin_sdk::ir::Tensor;

    #[test]
    fn values_are_copied_into_the_type_and_shape() {
        let to = |number: i64| {
            run("aten::to", [("input", floats([-1.7, 0.0, 2.5]).into()), ("dtype", number.into())])
        };
        assert_eq!(to(4), ints([-1, 0, 2]));
        assert_eq!(to(11), bools([true, false, true]));
        let copied =
            run("aten::copy", [("input", ints([1, 2]).into()), ("src", floats([3.9]).into())]);
        assert_eq!(copied, ints([3, 3]));
        assert_eq!(
            run("aten::fill", [("input", ints([1, 2]).into()), ("value", 7i64.into())]),
            ints([7, 7])
        );
        let scalar = [("input", Tensor::scalar(1.0f32).into()), ("value", 2i64.into())];
        assert_eq!(run("aten::fill", scalar), Tensor::scalar(2.0f32));
    }

    #[test]
    fn what_cannot_be_cast_is_refused() {
        let to = |op, number: i64| {
            let arguments = [("input", floats([1.0]).into()), ("dtype", number.into())];
            run_at(18, op, arguments).unwrap_err()
        };
        assert!(to("aten::to", 9).contains("complex"));
        assert!(to("aten::to", 99).contains("element type number 99"));
    }
}
