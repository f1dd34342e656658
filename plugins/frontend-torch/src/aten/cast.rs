//! Conversions of the element type, and operators that give their argument as it is.

use super::dtype::{self, cast, named, of, operand};
use super::torchao;
use super::{Lower, Source, Unary, sizes};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{Operand, Var};
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::formulas::complex;
use onnxd_plugin_sdk::ir::DataType::{
    self, Double, Float, Float16, Int8, Int16, Int32, Int64, Uint8,
};
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

pub(crate) fn rows(table: Table<Source>) -> Table<Source> {
    let table = super::rows! { table;
        "aten::to" | "aten::_to_copy" | "aten::to_dense" | "aten::to_mkldnn" => to;
        "aten::promote_types" => |b, a: Types| {
            let (one, other) = (named(b, a.type1)?, named(b, a.type2)?);
            let common = dtype::meet(one, other).map(dtype::number);
            common.ok_or_else(|| {
                let message = format!("The types {one} and {other} meet in none.");
                b.diagnostic(Code::LayerUnsupported, message)
            })
        };
        "aten::type_as" => |b, a: Like| like(b, a.input, a.other);
        "prims::convert_element_type" => |b, a: Converted| cast(b, a.a, named(b, a.dtype)?);
        "aten::_cast_Byte" => |b, a: Unary| cast(b, a.input, Uint8);
        "aten::_cast_Char" => |b, a: Unary| cast(b, a.input, Int8);
        "aten::_cast_Short" => |b, a: Unary| cast(b, a.input, Int16);
        "aten::_cast_Int" => |b, a: Unary| cast(b, a.input, Int32);
        "aten::_cast_Long" => |b, a: Unary| cast(b, a.input, Int64);
        "aten::_cast_Half" => |b, a: Unary| cast(b, a.input, Float16);
        "aten::_cast_Float" => |b, a: Unary| cast(b, a.input, Float);
        "aten::_cast_Double" => |b, a: Unary| cast(b, a.input, Double);
        "aten::_autocast_to_full_precision" => autocast_full;
        "aten::_autocast_to_reduced_precision" => autocast_reduced;
        "aten::result_type" => result_type;
    };
    super::rows! { table;
        "aten::clone" | "aten::detach" | "aten::detach_copy" | "aten::contiguous" | "aten::alias" | "aten::alias_copy"
        | "aten::lift" | "aten::lift_fresh" | "aten::lift_fresh_copy" | "aten::cpu" | "aten::cuda" | "aten::data"
        | "aten::pin_memory" | "aten::_pin_memory" | "aten::_lazy_clone" | "prims::clone"
            => |_, a: Unary| Ok(a.input);
        "aten::_conj" | "aten::_conj_copy" | "aten::_conj_physical" | "aten::conj" | "aten::conj_physical"
        | "aten::resolve_conj" | "aten::resolve_neg" | "prims::conj_physical" => conjugate;
        "prims::view_of" | "prims::device_put" => |_, a: Single| Ok(a.a);
        "prims::copy_strided" => |_, a: Strided| Ok(a.a);
        "aten::_fw_primal" | "aten::_fw_primal_copy" => |_, a: Level| Ok(a.input);
        "aten::rename" | "aten::refine_names" => |_, a: Named| Ok(a.input);
        "aten::copy" => copy;
        "aten::fill" | "prims::fill" => |b, a: Fill| filled(b, a.input, &a.value);
        "aten::zero" => |b, a: Unary| filled(b, a.input, &Value::Int(0));
    }
}

arguments! {
    /// `to.dtype(Tensor self, ScalarType dtype)`, `to.other(Tensor self, Tensor other)`
    struct To { input: Var, dtype: Option<i64>, other: Option<Var>, masked_grad: Option<bool> }
    /// `promote_types(ScalarType type1, ScalarType type2) -> ScalarType`
    struct Types { type1: i64, type2: i64 }
    /// `type_as(Tensor self, Tensor other)`
    struct Like { input: Var, other: Var }
    /// `prims::convert_element_type(Tensor a, ScalarType dtype)`
    struct Converted { a: Var, dtype: i64 }
    /// `_autocast_to_full_precision(Tensor self, bool cuda_enabled, bool cpu_enabled)`
    struct Full { input: Var, cuda_enabled: bool, cpu_enabled: bool }
    /// `_autocast_to_reduced_precision(Tensor self, bool cuda_enabled, bool cpu_enabled, ScalarType cuda_dtype, ...)`
    struct Reduced { input: Var, cuda_enabled: bool, cpu_enabled: bool, cuda_dtype: i64, cpu_dtype: i64 }
    /// `result_type.Tensor(Tensor tensor, Tensor other)`
    struct Both {
        tensor: Value = Value::None, other: Value = Value::None, scalar: Value = Value::None,
        scalar1: Value = Value::None, scalar2: Value = Value::None,
    }
    /// `prims::view_of(Tensor a)`
    struct Single { a: Var }
    /// `prims::copy_strided(Tensor a, SymInt[] stride)`
    struct Strided { a: Var, stride: Value }
    /// `_fw_primal(Tensor self, int level)`
    struct Level { input: Var, level: i64 }
    /// `rename(Tensor self, str[]? names)`
    struct Named { input: Var, names: Value }
    /// `copy(Tensor self, Tensor src)`
    struct Copy { input: Var, src: Value }
    /// `fill(Tensor self, Scalar value)`
    struct Fill { input: Var, value: Value }
}

/// `x` as elements of the type that `other` has.
fn like(b: &Lower, x: Var, other: Var) -> Lowered<Var> {
    match b.dtype_of(other) {
        None if b.opset() >= 15 => b.cast_like(x, other).one(),
        _ => cast(b, x, of(b, other)?),
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

fn autocast_full(b: &Lower, a: Full) -> Lowered<Var> {
    let half = matches!(of(b, a.input)?, Float16 | DataType::Bfloat16);
    if half && a.cpu_enabled { cast(b, a.input, Float) } else { Ok(a.input) }
}

fn autocast_reduced(b: &Lower, a: Reduced) -> Lowered<Var> {
    let float = of(b, a.input)? == Float;
    if float && a.cpu_enabled { cast(b, a.input, named(b, a.cpu_dtype)?) } else { Ok(a.input) }
}

fn result_type(b: &Lower, a: Both) -> Lowered<i64> {
    let all = [&a.tensor, &a.other, &a.scalar, &a.scalar1, &a.scalar2];
    let given: Vec<&Value> = all.into_iter().filter(|v| **v != Value::None).collect();
    dtype::common(b, &given).map(dtype::number)
}

/// Real numbers are their own conjugates.
fn conjugate(b: &Lower, a: Unary) -> Lowered<Var> {
    if complex::is(b, a.input) {
        let message = "ONNX has no conjugate of complex numbers.";
        return Err(b.diagnostic(Code::LayerUnsupported, message));
    }
    Ok(a.input)
}

/// The shape of `x`: numbers, where they are known.
fn shape(b: &Lower, x: Var) -> Lowered<Operand> {
    match b.dims_of(x) {
        Some(dims) => Ok(dims.into()),
        None => b.shape(x).one().map(Operand::Var),
    }
}

/// `src` with the type and the shape of `input`.
fn copy(b: &Lower, a: Copy) -> Lowered<Var> {
    let src = match b.dtype_of(a.input) {
        Some(dtype) => operand(b, &a.src, dtype)?,
        None => operand(b, &a.src, Float)?,
    };
    let same = match (b.shape_of(a.input), b.shape_of(src)) {
        (Some(x), Some(y)) => x.len() == y.len() && x.iter().zip(&y).all(|(x, y)| x.same(y)),
        _ => false,
    };
    if same { Ok(src) } else { b.expand(src, shape(b, a.input)?) }
}

/// `value` in the type and the shape of `x`.
pub(crate) fn filled(b: &Lower, x: Var, value: &Value) -> Lowered<Var> {
    let value = operand(b, value, of(b, x)?)?;
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
