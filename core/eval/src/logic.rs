//! Comparison, logic and selection.

use crate::call::{KernelCall, KernelRow, one, raw, row};
use crate::cells::{CellWidth, celled, expanded};
use crate::dims::broadcast;
use crate::elementwise::{pairs, test, zip};
use crate::fault::Outcome;
use crate::math::operands;
use crate::num::{float, is_nan, numeric, slice};
use onnxd_diagnostics::refuse;
use onnxd_ir::{DataType, Tensor};

pub(crate) const ROWS: &[KernelRow] = &[
    raw("And", and),
    row("Equal", equal),
    row("Greater", greater),
    row("GreaterOrEqual", greater_or_equal),
    row("IsInf", is_inf),
    row("IsNaN", is_nan_of),
    row("Less", less),
    row("LessOrEqual", less_or_equal),
    raw("Not", not),
    raw("Or", or),
    raw("Where", where_),
    raw("Xor", |call| boolean(call, |x, y| x ^ y)),
];

fn same_typed(call: &KernelCall) -> Outcome<(Tensor, Tensor)> {
    let (a, b) = operands(call)?;
    refuse!(a.dtype() != b.dtype() => "{a:?} and {b:?} differ in element type");
    Ok((a, b))
}

fn less(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let (a, b) = same_typed(call)?;
    below(call, &a, &b)
}

fn greater(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let (a, b) = same_typed(call)?;
    below(call, &b, &a)
}

fn less_or_equal(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let (a, b) = same_typed(call)?;
    not_above(call, &a, &b)
}

fn greater_or_equal(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let (a, b) = same_typed(call)?;
    not_above(call, &b, &a)
}

fn below(call: &KernelCall, a: &Tensor, b: &Tensor) -> Outcome<Vec<Tensor>> {
    numeric!(a.dtype(), T => {
        one(zip(call, DataType::Bool, (a, b), |x: T, y: T| u8::from(x < y))?)
    })
}

fn not_above(call: &KernelCall, a: &Tensor, b: &Tensor) -> Outcome<Vec<Tensor>> {
    numeric!(a.dtype(), T => {
        one(zip(call, DataType::Bool, (a, b), |x: T, y: T| u8::from(x <= y))?)
    })
}

fn equal(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let (a, b) = same_typed(call)?;
    let same = |x: bool| u8::from(x);
    if let (Some(x), Some(y)) = (a.as_strings(), b.as_strings()) {
        let dims = broadcast(a.dims(), b.dims())?;
        call.room(DataType::Bool, &dims)?;
        let bits = pairs(&dims, (x, a.dims()), (y, b.dims()), |x, y| same(x == y));
        return one(Tensor::from_vec_as(DataType::Bool, dims, bits));
    }
    if a.dtype() == DataType::Bool {
        return one(zip(call, DataType::Bool, (&a, &b), |x: u8, y: u8| same(x == y))?);
    }
    numeric!(a.dtype(), T => {
        one(zip(call, DataType::Bool, (&a, &b), |x: T, y: T| same(x == y))?)
    })
}

/// Applies `f` to booleans.
fn boolean(call: &KernelCall, f: fn(u8, u8) -> u8) -> Outcome<Vec<Tensor>> {
    let (a, b) = operands(call)?;
    refuse!(a.dtype() != DataType::Bool || b.dtype() != DataType::Bool =>
        "{a:?} and {b:?} where booleans are needed");
    one(zip(call, DataType::Bool, (&a, &b), |x: u8, y: u8| f(u8::from(x != 0), u8::from(y != 0)))?)
}

fn and(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    boolean(call, |x, y| x & y)
}

fn or(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    boolean(call, |x, y| x | y)
}

fn not(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    one(test(call.x(0)?, |x: u8| x == 0)?)
}

fn is_nan_of(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    float!(x.dtype(), T => one(test(x, |v: T| is_nan(v))?))
}

fn is_inf(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    let negative = call.flag("detect_negative", true)?;
    let positive = call.flag("detect_positive", true)?;
    float!(x.dtype(), T => {
        one(test(x, |v: T| {
            (negative && v == T::NEG_INFINITY) || (positive && v == T::INFINITY)
        })?)
    })
}

/// Selects by a condition; all three inputs broadcast.
fn where_(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let (condition, x, y) = (call.x(0)?, call.x(1)?, call.x(2)?);
    refuse!(x.dtype() != y.dtype() => "{x:?} and {y:?} differ in element type");
    let inner = broadcast(x.dims(), y.dims())?;
    let dims = broadcast(condition.dims(), &inner)?;
    call.room_like(x, &dims)?;
    let bits = slice::<u8>(condition)?;
    let (x, y) = (expanded(x, &dims)?, expanded(y, &dims)?);
    celled!(x.dtype(), T => {
        let (a, b) = (<T as CellWidth>::load(&x), <T as CellWidth>::load(&y));
        let both: Vec<(T, T)> = a.iter().cloned().zip(b.iter().cloned()).collect();
        let pick = |c: &u8, (a, b): &(T, T)| if *c != 0 { a.clone() } else { b.clone() };
        let out = pairs(&dims, (&bits, condition.dims()), (&both, &dims), pick);
        one(<T as CellWidth>::store(x.dtype(), dims, out)?)
    })
}

#[cfg(test)]
mod tests {
    use crate::testing::{bools, run};
    use onnxd_ir::Tensor;

    #[test]
    fn comparisons_broadcast() {
        let x = Tensor::vector(vec![1i32, 2, 3]);
        let two = Tensor::scalar(2i32);
        assert_eq!(run("Greater", 13, &[], &[&x, &two]), bools(&[false, false, true]));
        assert_eq!(run("LessOrEqual", 16, &[], &[&x, &two]), bools(&[true, true, false]));
        assert_eq!(run("Equal", 13, &[], &[&x, &two]), bools(&[false, true, false]));
        let nan = Tensor::scalar(f32::NAN);
        assert_eq!(run("Equal", 13, &[], &[&nan, &nan]).to_i64s().unwrap(), [0]);
    }

    #[test]
    fn logic() {
        let (a, b) = (bools(&[true, true, false]), bools(&[true, false, false]));
        assert_eq!(run("And", 7, &[], &[&a, &b]), bools(&[true, false, false]));
        assert_eq!(run("Xor", 7, &[], &[&a, &b]), bools(&[false, true, false]));
        assert_eq!(run("Not", 1, &[], &[&a]), bools(&[false, false, true]));
    }

    #[test]
    fn selection_broadcasts_all_three() {
        let condition = bools(&[true, false]);
        let x = Tensor::from_vec(vec![2, 1], vec![1i64, 2]);
        let y = Tensor::scalar(9i64);
        let found = run("Where", 16, &[], &[&condition, &x, &y]);
        assert_eq!((found.dims(), found.to_i64s().unwrap()), (&[2usize, 2][..], vec![1, 9, 2, 9]));
    }
}
