//! Matrix products.

use super::{Lower, Source};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::lower::{Lowered, Table};

pub(crate) fn rows(table: Table<Source>) -> Table<Source> {
    super::rows! { table;
        "MatMul" => matmul;
    }
}

arguments! {
    /// `MatMul(a, b; transpose_a: bool = false, transpose_b: bool = false, T: type, grad_a: bool = false,
    /// grad_b: bool = false) -> product`
    struct MatMul { a: Var, b: Var, transpose_a: bool, transpose_b: bool, grad_a: bool, grad_b: bool }
}

fn matmul(b: &Lower, a: MatMul) -> Lowered<Var> {
    let side = |x: Var, transposed: bool| match transposed {
        true => b.transpose(x).perm(vec![1i64, 0]).one(),
        false => Ok(x),
    };
    b.mat_mul(side(a.a, a.transpose_a)?, side(a.b, a.transpose_b)?)
}
