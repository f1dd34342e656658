//! Matrix products.

use super::{Lower, Source, of, rank};
use crate::wire::dtype::ElementType;
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::lower::{Lowered, Table};

pub(crate) fn rows(table: Table<Source>) -> Table<Source> {
    super::rows! { table;
        "MatMul" => |b, a: MatMul| product(b, [a.a, a.b], [a.transpose_a, a.transpose_b]);
        "BatchMatMul" | "BatchMatMulV2" => |b, a: Batch| product(b, [a.x, a.y], [a.adj_x, a.adj_y]);
        "BatchMatMulV3" => |b, a: Typed| {
            let to = a.tout.0;
            product(b, [b.cast(a.x, to)?, b.cast(a.y, to)?], [a.adj_x, a.adj_y])
        };
        "Einsum" => einsum;
    }
}

arguments! {
    /// `MatMul(a, b; transpose_a: bool = false, transpose_b: bool = false, T: type, grad_a: bool = false,
    /// grad_b: bool = false) -> product`
    struct MatMul { a: Var, b: Var, transpose_a: bool, transpose_b: bool }
    /// `BatchMatMulV2(x, y; T: type, adj_x: bool = false, adj_y: bool = false, grad_x: bool = false,
    /// grad_y: bool = false) -> output`
    struct Batch { x: Var, y: Var, adj_x: bool, adj_y: bool }
    /// `BatchMatMulV3(x, y; Ta: type, Tb: type, Tout: type, adj_x: bool = false, adj_y: bool = false, ...) -> output`
    struct Typed { x: Var, y: Var, tout: ElementType, adj_x: bool, adj_y: bool }
    /// `Einsum(inputs*N; equation: string, N: int, T: type) -> output`
    struct Einsum { inputs: Vec<Var>, equation: String }
}

/// The product of two matrices, or of stacks of them, each transposed or not.
pub(crate) fn product(b: &GraphBuilder, [x, y]: [Var; 2], turned: [bool; 2]) -> Lowered<Var> {
    let matrices = b.rank_of(x) == Some(2) && b.rank_of(y) == Some(2);
    // Gemm turns what is computed; a constant is turned at once.
    let computed = |v: Var| b.constant_of(v).is_none();
    let worth = (turned[0] && computed(x)) || (turned[1] && computed(y));
    if matrices && worth && of(b, x)?.is_float() {
        let call = b.gemm(x, y);
        return call.trans_a(turned[0].then_some(1)).trans_b(turned[1].then_some(1)).one();
    }
    let side = |v: Var, turned: bool| match turned {
        true => swapped(b, v),
        false => Ok(v),
    };
    b.mat_mul(side(x, turned[0])?, side(y, turned[1])?)
}

/// `x` with its last two axes in the other order.
pub(crate) fn swapped(b: &GraphBuilder, x: Var) -> Lowered<Var> {
    let n = rank(b, x)? as i64;
    let mut perm: Vec<i64> = (0..n).collect();
    if n >= 2 {
        perm.swap(n as usize - 2, n as usize - 1);
    }
    b.transpose(x).perm(perm).one()
}

fn einsum(b: &Lower, a: Einsum) -> Lowered<Var> {
    let equation: String = a.equation.chars().filter(|c| !c.is_whitespace()).collect();
    b.einsum(a.inputs).equation(equation).one()
}
