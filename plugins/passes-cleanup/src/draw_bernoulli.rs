//! Compares uniform random numbers with the probabilities, in place of Bernoulli: ONNX Runtime (1.17 to 1.32 at least)
//! draws 1 with the probability of 0. `integration-tests/judges/random_numbers.py` holds all random operators to the
//! standard's means and variances; the others are right.
//!
//! ```onnx
//! before () => (int64[4] y)
//! <float[4] p = {0.25, 0.5, 0.0, 1.0}>
//! {
//!   y = Bernoulli<dtype = 7, seed = 3.0>(p)
//! }
//! ```
//!
//! becomes
//!
//! ```onnx
//! after () => (int64[4] y)
//! <float[4] p = {0.25, 0.5, 0.0, 1.0}>
//! {
//!   y_random_uniform_like = RandomUniformLike<dtype = 1, seed = 3.0>(p)
//!   y_less = Less(y_random_uniform_like, p)
//!   y = Cast<to = 7>(y_less)
//! }
//! ```

use onnxd_plugin_sdk::ir::{At, Attr, DataType, Node, Op, ValueId};
use onnxd_plugin_sdk::rewrite::{Rewrite, Rewriter, Skip};

/// Draws 0 or 1.
#[derive(Clone)]
pub(crate) struct Bernoulli {
    p: ValueId,
    /// Of the result; that of the probabilities, where it is not there.
    dtype: Option<DataType>,
    seed: Option<f32>,
}

impl Op for Bernoulli {
    const NAME: &'static str = "Bernoulli";
    const ATTRIBUTES: &'static [&'static str] = &["dtype", "seed"];

    fn view(node: &Node) -> Option<Self> {
        let p = node.input(0).filter(|_| node.is(Self::NAME))?;
        let dtype = match node.attr("dtype") {
            Some(Attr::Int(number)) => Some(DataType::from_number(i32::try_from(*number).ok()?)?),
            _ => None,
        };
        let seed = match node.attr("seed") {
            Some(Attr::Float(seed)) => Some(*seed),
            _ => None,
        };
        Some(Bernoulli { p, dtype, seed })
    }

    fn into_node(self, out: ValueId) -> Node {
        let mut node = Node::new(Self::NAME, [self.p], [out]);
        if let Some(dtype) = self.dtype {
            node = node.with("dtype", Attr::Int(i64::from(dtype.number())));
        }
        match self.seed {
            Some(seed) => node.with("seed", Attr::Float(seed)),
            None => node,
        }
    }
}

pub(crate) fn draw_bernoulli(cx: &mut Rewriter, at: At<Bernoulli>) -> Rewrite {
    let given = cx.dtype(at.p)?;
    // Runtimes draw doubles and floats. Numbers of 16 bits would be too coarse for the comparison.
    let within = if given == DataType::Double { given } else { DataType::Float };
    if !given.is_float() {
        return Skip::because(format!("its probabilities are {given}"));
    }
    let to = at.dtype.unwrap_or(given);
    let (p, seed) = (at.p, at.seed);
    cx.rebuild(at.out, |b| {
        let p = b.cast(p, within)?;
        let drawn = b.random_uniform_like(p).dtype(within);
        let drawn = match seed {
            Some(seed) => drawn.seed(f64::from(seed)).one()?,
            None => drawn.one()?,
        };
        b.cast(b.less(drawn, p)?, to)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_plugin_sdk::rewrite::check::{check_doc_example, check_same};

    #[test]
    fn doc_example() {
        check_doc_example(include_str!("draw_bernoulli.rs"), draw_bernoulli);
    }

    #[test]
    fn all_types() {
        for (from, to, text) in [
            ("float16", "bool", "<dtype = 9, seed = 1.0>"),
            ("double", "double", "<seed = 1.0>"),
            ("double", "float16", "<dtype = 10, seed = 1.0>"),
        ] {
            let graph = format!(
                "g () => ({to}[3] y) <{from}[3] p = {{0.25, 0.5, 1.0}}> {{ y = Bernoulli{text}(p) }}"
            );
            let model = check_same(draw_bernoulli, &graph);
            assert!(model.graph.nodes().all(|(_, node)| node.op != "Bernoulli"), "{from} {to}");
        }
    }
}
