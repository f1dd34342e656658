//! Matrix products.

use super::Rules;
use super::site::{InferContext, Shapes, both, broadcast, one, show, unknown};
use crate::Dim;
use onnxd_diagnostics::refuse;

pub(super) const RULES: Rules = &[
    ("Gemm", |site| gemm(site, [0, 1, 2])),
    ("MatMul", |site| matmul(site, 1)),
    ("MatMulInteger", |site| matmul(site, 1)),
    ("QLinearMatMul", |site| matmul(site, 3)),
];

/// Both factors and the addend by their positions among the inputs.
pub(super) fn gemm(site: &InferContext<'_>, [a, b, c]: [usize; 3]) -> Shapes {
    let (Some(a), Some(b)) = (site.shape(a), site.shape(b)) else { return unknown() };
    let ([a0, a1], [b0, b1]) = (a, b) else {
        return Err(format!("{} and {} are not two matrices", show(a), show(b)));
    };
    let (m, k) = if site.int("transA", 0) == 0 { (a0, a1) } else { (a1, a0) };
    let (l, n) = if site.int("transB", 0) == 0 { (b0, b1) } else { (b1, b0) };
    refuse!(both(k, l).is_none() => "{} and {} cannot be multiplied", show(a), show(b));
    let out = vec![m.clone(), n.clone()];
    let broadcasts = site.opset >= 7 || !site.node.is_standard();
    if let Some(c) = site.shape(c).filter(|_| broadcasts) {
        let sum = broadcast(&out, c)?;
        refuse!(sum.len() > 2 => "the shapes {} and {} do not broadcast", show(&out), show(c));
    }
    one(out)
}

/// As NumPy's `matmul`: vectors are promoted, leading axes broadcast.
pub(super) fn matmul(site: &InferContext<'_>, second: usize) -> Shapes {
    let (Some(a), Some(b)) = (site.shape(0), site.shape(second)) else { return unknown() };
    product(a, b)
}

/// The shape of a product of factors of these shapes.
pub(super) fn product(a: &[Dim], b: &[Dim]) -> Shapes {
    let wrong = || Err(format!("{} and {} cannot be multiplied", show(a), show(b)));
    let (batch_a, m, k): (&[Dim], Option<&Dim>, &Dim) = match a {
        [k] => (&[], None, k),
        [batch @ .., m, k] => (batch, Some(m), k),
        [] => return wrong(),
    };
    let (batch_b, l, n): (&[Dim], &Dim, Option<&Dim>) = match b {
        [l] => (&[], l, None),
        [batch @ .., l, n] => (batch, l, Some(n)),
        [] => return wrong(),
    };
    if both(k, l).is_none() {
        return wrong();
    }
    let mut out = broadcast(batch_a, batch_b)?;
    out.extend(m.cloned());
    out.extend(n.cloned());
    one(out)
}
