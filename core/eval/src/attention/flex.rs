//! Attention whose scores and probabilities a network may change by sub-graphs.

use super::four;
use crate::call::{KernelCall, RunBody};
use crate::cells::transposed;
use crate::fault::{Fault, Outcome};
use crate::item::{RunValue, items};
use crate::linear::multiplied;
use crate::num::slice;
use crate::reals::{reals, stored};
use crate::shape::{cast, dtype_attr};
use onnxd_diagnostics::refuse;
use onnxd_ir::{DataType, Tensor};

/// `prob_mod(softmax(score_mod(sqrt(scale) * Q * (sqrt(scale) * K)'))) * V` per batch and head.
/// Scores are computed in the type of the inputs, all behind them in that of the softmax.
pub(super) fn flex_attention(
    call: &KernelCall,
    _: &[Option<RunValue>],
    run: &mut RunBody,
) -> Outcome<Vec<RunValue>> {
    let (q, k, v) = (call.x(0)?, call.x(1)?, call.x(2)?);
    let ([batch, heads, queries, size], [bk, shared, keys, sk]) = (four(q)?, four(k)?);
    let [bv, hv, sv, width] = four(v)?;
    let same = [bk, bv] == [batch; 2] && sk == size && [hv, sv] == [shared, keys];
    let typed = [k, v].iter().all(|x| x.dtype() == q.dtype()) && q.dtype().is_float();
    refuse!(!same || !typed || shared == 0 || heads % shared != 0 => "{q:?}, {k:?} and {v:?} do not fit each other");
    let precise = match dtype_attr(call, "softmax_precision")? {
        None if q.dtype() == DataType::Double => DataType::Double,
        None => DataType::Float,
        Some(t) if t.is_float() => t,
        Some(other) => return Err(Fault::invalid(format!("a softmax of type {other}"))),
    };
    let root = root_of_scale(call, size, q.dtype())?;
    let scaled = |x: &Tensor| {
        call.room(DataType::Double, x.dims())?;
        wide(&stored(q.dtype(), x.dims(), reals(x)?.iter().map(|v| v * root).collect())?)
    };
    // Query heads that share keys are further rows of one product.
    let rows = heads / shared * queries;
    let q = scaled(q)?.reshaped([batch, shared, rows, size])?;
    let k = transposed(&scaled(k)?, &[0, 1, 3, 2])?;
    let scores = cast(&multiplied::<f64>(call, &q, &k)?, call.x(0)?.dtype())?;
    let scores = cast(&scores, precise)?.reshaped([batch, heads, queries, keys])?;
    let scores = modified(call, "score_mod", scores, run)?;
    let shares = softmax(call, &scores)?;
    let shares = modified(call, "prob_mod", shares, run)?;
    let shares = wide(&shares)?.reshaped([batch, shared, rows, keys])?;
    let y = multiplied::<f64>(call, &shares, &wide(&cast(v, precise)?)?)?;
    let y = cast(&cast(&y, precise)?, v.dtype())?;
    Ok(items(vec![y.reshaped([batch, heads, queries, width])?]))
}

fn wide(x: &Tensor) -> Outcome<Tensor> {
    cast(x, DataType::Double)
}

/// The root of the scale, computed in `float` and rounded to `dtype`.
fn root_of_scale(call: &KernelCall, size: usize, dtype: DataType) -> Outcome<f64> {
    let scale = call.float_opt("scale")?.unwrap_or((size as f64).sqrt().recip() as f32);
    refuse!(scale < 0.0 => "the scale {scale} has no root");
    let root = cast(&Tensor::scalar(scale.sqrt()), dtype)?;
    crate::call::scalar(&root)
}

/// The output of the sub-graph that the attribute holds, or `x` if it is absent.
fn modified(call: &KernelCall, name: &str, x: Tensor, run: &mut RunBody) -> Outcome<Tensor> {
    if call.attr(name).is_none() {
        return Ok(x);
    }
    let body = call.graph(name)?;
    refuse!((body.inputs().len(), body.outputs().len()) != (1, 1) => "`{name}` must have one input and one output");
    let (dtype, dims) = (x.dtype(), x.dims().to_vec());
    let y = run(body, items(vec![x]))?.swap_remove(0).into_tensor()?;
    refuse!(y.dtype() != dtype || y.dims() != dims => "`{name}` made {y:?} of {dtype}{dims:?}");
    Ok(y)
}

/// Over the last axis. A query that may see no key has no probabilities: they are NaN.
fn softmax(call: &KernelCall, x: &Tensor) -> Outcome<Tensor> {
    call.room(DataType::Double, x.dims())?;
    let mut values = slice::<f64>(&wide(x)?)?.into_owned();
    for row in values.chunks_mut(x.dims()[3].max(1)) {
        let top = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        row.iter_mut().for_each(|v| *v = (*v - top).exp());
        let sum: f64 = row.iter().sum();
        row.iter_mut().for_each(|v| *v /= sum);
    }
    stored(x.dtype(), x.dims(), values)
}

#[cfg(test)]
mod tests {
    use crate::testing::{reals, run};
    use crate::{Executor, RunOptions};
    use onnxd_ir::{Attr, DataType, Graph, Model, Node, Tensor};
    use std::collections::BTreeMap;

    /// Numbers from -1 to 1 without any order.
    fn tensor(dims: &[usize], start: usize) -> Tensor {
        let n: usize = dims.iter().product();
        let value = |i: usize| ((i + start) * 37 % 101) as f32 / 50.0 - 1.0;
        Tensor::from_vec(dims, (0..n).map(value).collect())
    }

    /// A sub-graph that applies `op` to its input and a constant.
    fn body(op: &str, operand: Tensor) -> Attr {
        let mut g = Graph::new("body");
        let x = g.add_input("x", None);
        let c = g.add_initializer("c", operand);
        let y = g.add_value("y", None);
        g.add_node(Node::new(op, [x, c], [y]));
        g.mark_output(y);
        Attr::Graph(Box::new(g))
    }

    fn flex(inputs: &[&Tensor; 3], attrs: &[(&str, Attr)]) -> Result<Tensor, String> {
        let mut g = Graph::new("g");
        let names = ["q", "k", "v"];
        let ids = names.map(|name| g.add_input(name, None));
        let y = g.add_value("y", None);
        let mut node =
            Node { domain: "ai.onnx.preview".into(), ..Node::new("FlexAttention", ids, [y]) };
        node.attrs = attrs.iter().map(|(n, a)| ((*n).to_owned(), a.clone())).collect();
        g.add_node(node);
        g.mark_output(y);
        let mut model = Model::new(g, 13, 23);
        model.opsets.insert("ai.onnx.preview".into(), 1);
        let fed: BTreeMap<String, Tensor> =
            names.iter().zip(inputs).map(|(n, x)| ((*n).to_owned(), (*x).clone())).collect();
        let executor = Executor::new(&model).map_err(|d| d.to_string())?;
        let found = executor.run(&fed, RunOptions::default()).map_err(|d| d.to_string())?;
        Ok(found[0].1.clone())
    }

    fn near(found: &Tensor, expected: &Tensor, bound: f64) {
        assert_eq!((found.dtype(), found.dims()), (expected.dtype(), expected.dims()));
        for (a, b) in reals(found).iter().zip(reals(expected)) {
            assert!((a - b).abs() <= bound, "{a} instead of {b}");
        }
    }

    #[test]
    fn without_sub_graphs_it_is_attention() {
        let q = tensor(&[2, 6, 3, 4], 0);
        let (k, v) = (tensor(&[2, 2, 5, 4], 11), tensor(&[2, 2, 5, 7], 23));
        near(&flex(&[&q, &k, &v], &[]).unwrap(), &run("Attention", 23, &[], &[&q, &k, &v]), 1e-5);
        let scale = [("scale", Attr::Float(0.3))];
        let expected = run("Attention", 23, &scale, &[&q, &k, &v]);
        near(&flex(&[&q, &k, &v], &scale).unwrap(), &expected, 1e-5);
        for (dtype, bound) in [(DataType::Float16, 3e-3), (DataType::Bfloat16, 3e-2)] {
            let small = [&q, &k, &v].map(|x| crate::shape::cast(x, dtype).unwrap());
            let found = flex(&[&small[0], &small[1], &small[2]], &scale).unwrap();
            near(&found, &crate::shape::cast(&expected, dtype).unwrap(), bound);
        }
    }

    #[test]
    fn sub_graphs_change_scores_and_probabilities() {
        let (q, k) = (tensor(&[1, 2, 3, 4], 5), tensor(&[1, 2, 3, 4], 9));
        let v = tensor(&[1, 2, 3, 2], 2);
        let hidden = f32::NEG_INFINITY;
        let mask = [0.0, hidden, hidden, 0.5, 0.0, hidden, 0.0, 0.25, 0.0];
        let mask = Tensor::from_vec([3, 3], mask.to_vec());
        let expected = run("Attention", 23, &[], &[&q, &k, &v, &mask]);
        let doubled = run("Add", 14, &[], &[&expected, &expected]);
        let score = ("score_mod", body("Add", mask));
        let twice = ("prob_mod", body("Mul", Tensor::scalar(2f32)));
        near(&flex(&[&q, &k, &v], std::slice::from_ref(&score)).unwrap(), &expected, 1e-5);
        near(&flex(&[&q, &k, &v], &[score, twice]).unwrap(), &doubled, 1e-5);
        // Sub-graphs see the type of the softmax.
        let number = Attr::Int(DataType::Double.number().into());
        let thrice = ("prob_mod", body("Mul", Tensor::scalar(3f64)));
        let precise = [("softmax_precision", number), thrice];
        assert_eq!(flex(&[&q, &k, &v], &precise).unwrap().dtype(), DataType::Float);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let x = tensor(&[1, 2, 3, 4], 0);
        let refused = |inputs: &[&Tensor; 3], attrs: &[(&str, Attr)], says: &str| {
            let found = flex(inputs, attrs).unwrap_err();
            assert!(found.contains(says), "{found}");
        };
        refused(&[&x, &tensor(&[1, 2, 3, 5], 0), &x], &[], "do not fit each other");
        refused(&[&x, &x, &tensor(&[1, 2, 9, 4], 0)], &[], "do not fit each other");
        refused(&[&x, &tensor(&[2, 4], 0), &x], &[], "four axes");
        refused(&[&x, &x, &x], &[("scale", Attr::Float(-1.0))], "no root");
        refused(&[&x, &x, &x], &[("softmax_precision", Attr::Int(7))], "a softmax of type");
        let other = body("Add", tensor(&[5, 1, 1, 1, 1], 0));
        refused(&[&x, &x, &x], &[("score_mod", other)], "`score_mod` made");
    }
}
