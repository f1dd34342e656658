//! Makes one Cast of two, or none, where the first loses nothing.
//!
//! ```onnx
//! before (float16[2] x) => (float16[2] y)
//! {
//!   a = Cast<to = 1>(x)
//!   b = Cast<to = 10>(a)
//!   y = Relu(b)
//! }
//! ```
//!
//! becomes
//!
//! ```onnx
//! after (float16[2] x) => (float16[2] y)
//! {
//!   y = Relu(x)
//! }
//! ```

use onnxd_plugin_sdk::ir::ops::Cast;
use onnxd_plugin_sdk::ir::{At, DataType};
use onnxd_plugin_sdk::rewrite::{Rewrite, Rewriter, Skip};

pub(crate) fn merge_casts(cx: &mut Rewriter, outer: At<Cast>) -> Rewrite {
    let Ok(inner) = cx.producer::<Cast>(outer.input) else { return Skip::unlike() };
    let (from, through) = (cx.dtype(inner.input)?, cx.dtype(inner.out)?);
    if !holds(through, from) {
        return Skip::because(format!("{through} does not hold every {from}"));
    }
    if outer.to == i64::from(from.number()) {
        return cx.bypass(outer.out, inner.input);
    }
    let to = i32::try_from(outer.to).ok().and_then(DataType::from_number);
    let whole = from.is_integer() || from == DataType::Bool;
    if !to.is_some_and(|to| to.is_float() || to.is_integer() && whole) {
        return Skip::because("what a number outside the type becomes may differ");
    }
    cx.read_once(inner.out)?;
    cx.replace(outer.out, Cast { input: inner.input, ..outer.op })
}

/// Whether `wide` has every value of `narrow`, and a cast to it and back gives that value again.
fn holds(wide: DataType, narrow: DataType) -> bool {
    use DataType::{Bfloat16, Bool, Double, Float, Float16};
    match (narrow, wide) {
        (a, b) if a == b => a.is_float() || a.is_integer() || a == Bool,
        (Bool, b) => b.is_float() || b.is_integer(),
        (Float16 | Bfloat16, Float | Double) | (Float, Double) => true,
        (a, b) if a.is_integer() && b.is_integer() => {
            let fits = a.bits() < b.bits();
            fits && (is_signed(b) || !is_signed(a))
        }
        (a, b) if a.is_integer() => match b {
            Double => a.bits() <= 32,
            Float => a.bits() <= 16,
            Float16 | Bfloat16 => a.bits() <= 8,
            _ => false,
        },
        _ => false,
    }
}

fn is_signed(integer: DataType) -> bool {
    use DataType::{Int8, Int16, Int32, Int64};
    matches!(integer, Int8 | Int16 | Int32 | Int64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_plugin_sdk::rewrite::check::{check_doc_example, check_same, check_skip};

    #[test]
    fn doc_example() {
        check_doc_example(include_str!("merge_casts.rs"), merge_casts);
    }

    #[test]
    fn one_is_left_of_two() {
        let model = check_same(
            merge_casts,
            "g (float16[2] x, bool[2] b) => (double[2] y, float[2] z)
             {
               a = Cast<to = 1>(x)
               y = Cast<to = 11>(a)
               c = Cast<to = 7>(b)
               z = Cast<to = 1>(c)
             }",
        );
        assert_eq!(model.graph.node_count(), 2);
    }

    #[test]
    fn what_is_lost_stays_lost() {
        let skips = |from: &str, through: i32, to: i32, reason: &str| {
            let result = DataType::from_number(to).unwrap();
            let graph = format!(
                "g ({from}[2] x) => ({result}[2] y) {{ a = Cast<to = {through}>(x) y = Cast<to = {to}>(a) }}"
            );
            check_skip(merge_casts, reason, &graph);
        };
        skips("float", 10, 1, "float16 does not hold every float");
        skips("float", 7, 1, "int64 does not hold every float");
        skips("int64", 1, 7, "float does not hold every int64");
        skips("int8", 12, 3, "uint32 does not hold every int8");
        skips("float", 11, 3, "what a number outside the type becomes may differ");
    }

    /// bfloat16 has 8 significant bits, the integers of 8 bits need no more.
    #[test]
    fn integers_in_floats() {
        use DataType::*;
        assert!(holds(Bfloat16, Uint8) && holds(Float, Int16) && holds(Double, Uint32));
        assert!(!holds(Float16, Int16) && !holds(Float, Int32) && !holds(Double, Int64));
        assert!(holds(Int16, Uint8) && !holds(Uint16, Int8) && !holds(Bool, Uint8));
    }
}
