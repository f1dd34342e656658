//! Functions of any number of tensors, with broadcasting.

use crate::call::{KernelCall, one};
use crate::elementwise::{map, zip};
use crate::fault::Outcome;
use crate::num::{Num, float, numeric};
use onnxd_diagnostics::refuse;
use onnxd_ir::Tensor;

fn fold<T: Num>(call: &KernelCall, f: fn(T, T) -> T) -> Outcome<Tensor> {
    let all = call.all()?;
    refuse!(all.iter().any(|x| x.dtype() != all[0].dtype()) => "the inputs differ in element type");
    all[1..].iter().try_fold(all[0].clone(), |acc, x| zip(call, x.dtype(), (&acc, x), f))
}

macro_rules! folds {
    ($($name:ident $method:ident;)*) => { $(
        pub(super) fn $name(call: &KernelCall) -> Outcome<Vec<Tensor>> {
            numeric!(call.x(0)?.dtype(), T => one(fold(call, T::$method)?))
        }
    )* };
}

folds! {
    max larger;
    min smaller;
    sum plus;
}

pub(super) fn mean(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let count = call.all()?.len();
    float!(call.x(0)?.dtype(), T => {
        one(map(&fold(call, T::plus)?, |x: T| x / count as T)?)
    })
}
