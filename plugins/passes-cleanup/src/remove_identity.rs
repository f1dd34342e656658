//! Removes operators that return their input: Identity, Cast to the same type, Transpose that moves nothing, Pad by
//! nothing, Concat and Sum of one, Reshape and Expand to the same constant shape.

use onnxd_plugin_sdk::diagnostics::Diagnostics;
use onnxd_plugin_sdk::ir::ops::{
    Cast, Concat, Expand, Identity, Max, Min, Pad, Reshape, Sum, Transpose,
};
use onnxd_plugin_sdk::ir::{At, Model, ValueType};
use onnxd_plugin_sdk::rewrite::{Pass, PassContext, Rewrite, Rewriter, Skip, rule};

pub(crate) struct RemoveIdentity;

impl Pass for RemoveIdentity {
    fn name(&self) -> &'static str {
        "remove-identity"
    }

    fn run(&self, model: &mut Model, cx: &mut PassContext) -> Result<(), Diagnostics> {
        let rules: [Box<dyn Pass>; 10] = [
            rule("identity", identity),
            rule("cast", cast),
            rule("transpose", transpose),
            rule("pad", pad),
            rule("concat", concat),
            rule("sum", |cx, at: At<Sum>| only(cx, at.out, &at.inputs)),
            rule("max", |cx, at: At<Max>| only(cx, at.out, &at.inputs)),
            rule("min", |cx, at: At<Min>| only(cx, at.out, &at.inputs)),
            rule("reshape", reshape),
            rule("expand", expand),
        ];
        rules.iter().try_for_each(|rule| rule.run(model, cx))
    }
}

fn identity(cx: &mut Rewriter, at: At<Identity>) -> Rewrite {
    cx.bypass(at.out, at.input)
}

fn cast(cx: &mut Rewriter, at: At<Cast>) -> Rewrite {
    let from = cx.dtype(at.input)?;
    if i64::from(from.number()) != at.to {
        return Skip::unlike();
    }
    cx.bypass(at.out, at.input)
}

fn transpose(cx: &mut Rewriter, at: At<Transpose>) -> Rewrite {
    if at.perm.is_empty() || at.perm.iter().enumerate().any(|(i, p)| *p != i as i64) {
        return Skip::unlike();
    }
    cx.bypass(at.out, at.data)
}

fn pad(cx: &mut Rewriter, at: At<Pad>) -> Rewrite {
    if cx.integers(at.pads)?.iter().any(|p| *p != 0) {
        return Skip::unlike();
    }
    cx.bypass(at.out, at.data)
}

fn concat(cx: &mut Rewriter, at: At<Concat>) -> Rewrite {
    only(cx, at.out, &at.inputs)
}

fn only(
    cx: &mut Rewriter,
    out: onnxd_plugin_sdk::ir::ValueId,
    inputs: &[onnxd_plugin_sdk::ir::ValueId],
) -> Rewrite {
    match inputs {
        [one] => cx.bypass(out, *one),
        _ => Skip::unlike(),
    }
}

fn reshape(cx: &mut Rewriter, at: At<Reshape>) -> Rewrite {
    let wanted = cx.integers(at.shape)?;
    same_shape(cx, at.data, &wanted)?;
    cx.bypass(at.out, at.data)
}

fn expand(cx: &mut Rewriter, at: At<Expand>) -> Rewrite {
    let wanted = cx.integers(at.shape)?;
    same_shape(cx, at.input, &wanted)?;
    cx.bypass(at.out, at.input)
}

fn same_shape(cx: &Rewriter, v: onnxd_plugin_sdk::ir::ValueId, wanted: &[i64]) -> Rewrite {
    let dims = cx.graph[v].ty.as_ref().and_then(ValueType::dims);
    match dims {
        Some(dims) if dims == wanted && !dims.contains(&0) => Ok(()),
        Some(_) => Skip::unlike(),
        None => Skip::because(format!("the shape of {} is not known", cx.name(v))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_plugin_sdk::rewrite::check::{check_pass_same, check_pass_skip};

    #[test]
    fn all_kinds_go() {
        let model = check_pass_same(
            &RemoveIdentity,
            "g (float[2,3] x) => (float[2,3] y)
             <int64[4] none = {0, 0, 0, 0}, int64[2] shape = {2, 3}>
             {
               a = Identity(x)
               b = Cast<to = 1>(x)
               c = Transpose<perm = [0, 1]>(b)
               d = Pad(c, none)
               e = Concat<axis = 1>(d)
               f = Sum(e)
               h = Reshape(x, shape)
               s = Add(a, f)
               t = Mul(s, h)
               y = Identity(t)
             }",
        );
        assert_eq!(model.graph.node_count(), 2);
        let y = model.graph.outputs()[0];
        assert_eq!(model.graph[y].name, "y");
    }

    #[test]
    fn a_real_transpose_stays() {
        check_pass_skip(
            &RemoveIdentity,
            "",
            "g (float[2,3] x) => (float[3,2] y)
             {
               t = Transpose(x)
               y = Relu(t)
             }",
        );
    }
}
