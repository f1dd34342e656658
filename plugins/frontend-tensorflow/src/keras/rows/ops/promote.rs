//! Element types of results as Keras finds them: those of JAX, with 32 bits for Python's own numbers.

use crate::ops::dtype_of;
use onnxd_plugin_sdk::build::{GraphBuilder, Operand, Var};
use onnxd_plugin_sdk::diagnostics::shown;
use onnxd_plugin_sdk::ir::DataType::{self, Bfloat16, Bool, Double, Float, Float16, Int32, Int64};
use onnxd_plugin_sdk::ir::Tensor;
use onnxd_plugin_sdk::lower::{Lowered, Value};

/// The type of an operand. Python's numbers give way to tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Fixed(DataType),
    AnyInt,
    AnyFloat,
}

impl Type {
    fn is_float(self) -> bool {
        matches!(self, Type::AnyFloat) || matches!(self, Type::Fixed(d) if d.is_float())
    }

    pub(crate) fn fixed(self) -> DataType {
        match self {
            Type::Fixed(dtype) => dtype,
            Type::AnyInt => Int32,
            Type::AnyFloat => Float,
        }
    }
}

fn is_signed(dtype: DataType) -> bool {
    use DataType::{Int8, Int16};
    matches!(dtype, Int8 | Int16 | Int32 | Int64)
}

/// The least type that holds both.
pub(crate) fn common(x: Type, y: Type) -> Type {
    use Type::{AnyFloat, AnyInt, Fixed};
    match (x, y) {
        _ if x == y => x,
        (Fixed(Bool), other) | (other, Fixed(Bool)) => other,
        (AnyInt, other) | (other, AnyInt) => other,
        (Fixed(d), Fixed(e)) if d.is_float() && e.is_float() => match d.bits() == e.bits() {
            true => Fixed(Float),
            false => Fixed(if d.bits() > e.bits() { d } else { e }),
        },
        (Fixed(d), AnyFloat) | (AnyFloat, Fixed(d)) if d.is_float() => Fixed(d),
        (Fixed(_), AnyFloat) | (AnyFloat, Fixed(_)) => AnyFloat,
        (Fixed(d), Fixed(e)) if d.is_float() || e.is_float() => {
            Fixed(if d.is_float() { d } else { e })
        }
        (Fixed(d), Fixed(e)) if is_signed(d) == is_signed(e) => {
            Fixed(if d.bits() > e.bits() { d } else { e })
        }
        (Fixed(d), Fixed(e)) => {
            let (signed, other) = if is_signed(d) { (d, e) } else { (e, d) };
            match other.bits() {
                bits if bits < signed.bits() => Fixed(signed),
                8 => Fixed(DataType::Int16),
                16 => Fixed(Int32),
                32 => Fixed(Int64),
                _ => AnyFloat,
            }
        }
        _ => AnyFloat,
    }
}

/// The type of a value, before others are looked at.
pub(crate) fn type_of(b: &GraphBuilder, x: &Value) -> Lowered<Type> {
    Ok(match x {
        Value::Var(v) => Type::Fixed(dtype_of(b, *v)?),
        Value::Int(_) => Type::AnyInt,
        Value::Float(_) => Type::AnyFloat,
        Value::Bool(_) => Type::Fixed(Bool),
        // A list becomes a tensor.
        Value::List(items) => {
            let mut all = Type::Fixed(Bool);
            for item in items {
                all = common(all, type_of(b, item)?);
            }
            Type::Fixed(if items.is_empty() { Float } else { all.fixed() })
        }
        _ => return Err(b.wrong("An operand is neither a tensor nor a number.")),
    })
}

/// The type of the result of operands.
pub(crate) fn result(b: &GraphBuilder, all: &[&Value]) -> Lowered<Type> {
    all[1..].iter().try_fold(type_of(b, all[0])?, |found, x| Ok(common(found, type_of(b, x)?)))
}

/// A value as a tensor of a type.
pub(crate) fn tensor(b: &GraphBuilder, x: &Value, to: DataType) -> Lowered<Var> {
    let number = |operand: Operand| match operand.to_tensor(Some(to)) {
        Some(tensor) => Ok(b.constant(tensor)),
        None => b.cast(operand, to),
    };
    match x {
        Value::Var(v) => b.cast(*v, to),
        Value::Int(x) => number(Operand::Int(*x)),
        Value::Float(x) if to.is_integer() => number(Operand::Int(*x as i64)),
        Value::Float(x) => number(Operand::Float(*x)),
        Value::Bool(x) if to == Bool => {
            let tensor = Tensor::from_vec_as(Bool, vec![], vec![u8::from(*x)]);
            Ok(b.constant(tensor))
        }
        Value::Bool(x) => number(Operand::Int(i64::from(*x))),
        Value::List(items) => {
            let rows = items.iter().map(|item| b.unsqueeze(tensor(b, item, to)?, [0]));
            b.concat(rows.collect::<Lowered<Vec<_>>>()?).axis(0).one()
        }
        _ => Err(b.wrong("An operand is no tensor.")),
    }
}

/// Operands as tensors of a type.
fn tensors<const N: usize>(b: &GraphBuilder, all: [&Value; N], to: DataType) -> Lowered<[Var; N]> {
    let tensors = all.iter().map(|x| tensor(b, x, to)).collect::<Lowered<Vec<_>>>()?;
    Ok(std::array::from_fn(|i| tensors[i]))
}

/// Operands as tensors of the type that holds all of them.
pub(crate) fn together<const N: usize>(b: &GraphBuilder, all: [&Value; N]) -> Lowered<[Var; N]> {
    tensors(b, all, result(b, &all)?.fixed())
}

/// As [`together`], for operators that make tensors of Python's numbers before they look at types.
pub(crate) fn as_tensors<const N: usize>(b: &GraphBuilder, all: [&Value; N]) -> Lowered<[Var; N]> {
    let fixed = |x: &Value| Ok(Type::Fixed(type_of(b, x)?.fixed()));
    let to = all[1..].iter().try_fold(fixed(all[0])?, |to, x| Ok(common(to, fixed(x)?)))?;
    tensors(b, all, to.fixed())
}

/// As [`together`], in floats.
pub(crate) fn in_floats<const N: usize>(b: &GraphBuilder, all: [&Value; N]) -> Lowered<[Var; N]> {
    let found = result(b, &all)?;
    tensors(b, all, if found.is_float() { found.fixed() } else { Float })
}

/// The element type that a word names.
///
/// # Errors
/// `N0203` if ONNX has no such.
pub(crate) fn named(b: &GraphBuilder, word: &str) -> Lowered<DataType> {
    crate::keras::dtype::dtype_of_word(word).ok_or_else(|| {
        let message = format!("The element type `{}` is not known.", shown(word));
        b.unsupported(message)
    })
}

/// As [`named`], if there is a word.
pub(crate) fn named_if(b: &GraphBuilder, word: Option<&String>) -> Lowered<Option<DataType>> {
    word.map(|word| named(b, word)).transpose()
}

/// Integers and truth values as float32; floats as they are.
pub(crate) fn floats(b: &GraphBuilder, x: Var) -> Lowered<Var> {
    if dtype_of(b, x)?.is_float() { Ok(x) } else { b.cast(x, Float) }
}

/// Integers as floats, those of 64 bits as float64.
pub(crate) fn wide_floats(b: &GraphBuilder, x: Var) -> Lowered<Var> {
    if dtype_of(b, x)? == Int64 { b.cast(x, Double) } else { floats(b, x) }
}

/// Truth values as int32; others as they are.
pub(crate) fn numbers(b: &GraphBuilder, x: Var) -> Lowered<Var> {
    if dtype_of(b, x)? == Bool { b.cast(x, Int32) } else { Ok(x) }
}

/// The type in which sums and products of a type are.
pub(crate) fn summed(dtype: DataType) -> DataType {
    use DataType::{Int8, Int16, Uint8, Uint16, Uint32};
    match dtype {
        Bool | Int8 | Int16 => Int32,
        Uint8 | Uint16 => Uint32,
        other => other,
    }
}

/// Half floats in float32, where their range is too small.
pub(crate) fn not_half(b: &GraphBuilder, x: Var) -> Lowered<Var> {
    match dtype_of(b, x)? {
        Float16 | Bfloat16 => b.cast(x, Float),
        _ => floats(b, x),
    }
}

/// Numbers of another type: those beyond its ends become the ends.
pub(crate) fn bounded(b: &GraphBuilder, x: Var, to: DataType) -> Lowered<Var> {
    if to.is_float() || to == DataType::Bool || to.bits() > 32 {
        return b.cast(x, to);
    }
    let is_signed = matches!(to, DataType::Int8 | DataType::Int16 | DataType::Int32);
    let steps = 1i64 << to.bits();
    let (low, high) = if is_signed { (-steps / 2, steps / 2 - 1) } else { (0, steps - 1) };
    let wide = if dtype_of(b, x)?.is_float() { DataType::Double } else { DataType::Int64 };
    b.cast(b.clip(b.cast(x, wide)?).min(low).max(high).one()?, to)
}

#[cfg(test)]
mod tests {
    use super::{Type, common};
    use onnxd_plugin_sdk::ir::DataType::{
        Bfloat16, Bool, Float, Float16, Int8, Int16, Int32, Int64, Uint8, Uint32, Uint64,
    };

    #[test]
    fn types_meet_as_in_keras() {
        use Type::{AnyFloat, AnyInt, Fixed};
        let cases = [
            (Fixed(Int32), Fixed(Float16), Fixed(Float16)),
            (Fixed(Int64), AnyFloat, AnyFloat),
            (Fixed(Int8), AnyInt, Fixed(Int8)),
            (Fixed(Bool), AnyInt, AnyInt),
            (Fixed(Uint8), Fixed(Int8), Fixed(Int16)),
            (Fixed(Uint32), Fixed(Int8), Fixed(Int64)),
            (Fixed(Uint64), Fixed(Int64), AnyFloat),
            (Fixed(Float16), Fixed(Bfloat16), Fixed(Float)),
            (Fixed(Float16), AnyFloat, Fixed(Float16)),
        ];
        for (x, y, expected) in cases {
            assert_eq!(common(x, y), expected, "{x:?} {y:?}");
            assert_eq!(common(y, x), expected, "{y:?} {x:?}");
        }
    }
}
