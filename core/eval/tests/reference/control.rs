//! Branches and loops over bodies of a few integer operators, and constants.

use crate::case::{Case, case};
use crate::dice::Dice;
use crate::nd::{Nd, codes, from_codes, from_whole, indices, put, whole};
use onnxd_ir::{DataType, Graph, Node, Tensor, ValueId};

properties! {
    branch: "If";
    counted: "Loop";
    scan: "Scan";
    constant: "Constant";
}

/// A sub-graph whose outputs `build` makes from its inputs.
fn body(inputs: &[&str], build: impl FnOnce(&mut Graph, &[ValueId]) -> Vec<ValueId>) -> Graph {
    let mut g = Graph::new("body");
    let ids: Vec<ValueId> = inputs.iter().map(|name| g.add_input(name, None)).collect();
    for id in build(&mut g, &ids) {
        g.mark_output(id);
    }
    g
}

/// A node with one output.
fn apply(g: &mut Graph, op: &str, inputs: &[ValueId]) -> ValueId {
    let name = g.fresh_name(op);
    let y = g.add_value(&name, None);
    g.add_node(Node::new(op, inputs.iter().copied(), [y]));
    y
}

fn fixed(g: &mut Graph, value: i64) -> ValueId {
    let name = g.fresh_name("fixed");
    g.add_initializer(&name, Tensor::scalar(value))
}

fn truth(value: bool) -> Tensor {
    from_codes(DataType::Bool, &[], &[u128::from(value)])
}

fn branch(op: &str, d: &mut Dice) -> Option<Case> {
    let dims = d.shape(3, 3);
    let (a, b) = (d.tensor(DataType::Int64, &dims), d.tensor(DataType::Int64, &dims));
    let side = |name: &str| {
        body(&[], |g, _| {
            let [x, y] = [("a", &a), ("b", &b)].map(|(n, t)| g.add_initializer(n, t.clone()));
            vec![apply(g, name, &[x, y])]
        })
    };
    let taken = d.coin();
    let y = crate::math::zip(&whole(&a), &whole(&b), |x, y| if taken { x + y } else { x - y });
    let case = case(op, d.pick(&[16, 1, 11, 13]));
    let case = case.attr("then_branch", side("Add")).attr("else_branch", side("Sub"));
    Some(case.input(&truth(taken)).same(from_whole(DataType::Int64, &y)))
}

fn counted(op: &str, d: &mut Dice) -> Option<Case> {
    let dims = d.shape(2, 3);
    let limit = d.below(5) as i64;
    let (trips, start) = (d.coin().then(|| d.below(6) as i64), d.coin().then(|| d.coin()));
    let state = d.tensor(DataType::Int64, &dims);
    // next = 3 * state + i, as long as i < limit.
    let inner = body(&["i", "go", "state"], |g, x| {
        let (three, limit) = (fixed(g, 3), fixed(g, limit));
        let product = apply(g, "Mul", &[x[2], three]);
        let next = apply(g, "Add", &[product, x[0]]);
        let more = apply(g, "Less", &[x[0], limit]);
        let before = apply(g, "Identity", &[x[2]]);
        vec![more, next, before]
    });
    let (mut now, mut seen) = (whole(&state), vec![]);
    let (mut i, mut go) = (0, start.unwrap_or(true));
    while go && trips.is_none_or(|n| i < n) {
        seen.extend(now.v.clone());
        now.v.iter_mut().for_each(|v| *v = v.wrapping_mul(3) + i128::from(i));
        go = i < limit;
        i += 1;
    }
    let case = case(op, d.pick(&[16, 11, 13])).attr("body", inner);
    let case = case.maybe(trips.map(Tensor::scalar).as_ref());
    let case = case.maybe(start.map(truth).as_ref()).input(&state);
    let case = case.same(from_whole(DataType::Int64, &now));
    // What no iteration made has no known shape.
    if i == 0 {
        return Some(case);
    }
    let all = Nd { dims: [&[i as usize], &dims[..]].concat(), v: seen };
    Some(case.same(from_whole(DataType::Int64, &all)))
}

fn scan(op: &str, d: &mut Dice) -> Option<Case> {
    let rank = 1 + d.below(3);
    let dims: Vec<usize> = (0..rank).map(|_| 1 + d.below(4)).collect();
    let opset = d.pick(&[16, 9, 11]);
    let axis = |d: &mut Dice| {
        let (axis, spelt) = d.axis(rank);
        (axis, if opset < 11 { axis as i64 } else { spelt })
    };
    let ((from, spelt_from), (to, spelt_to)) = (axis(d), axis(d));
    let (back, reversed) = (d.coin(), d.coin());
    let x = d.tensor(DataType::Int64, &dims);
    let mut slice = dims.clone();
    let steps = slice.remove(from);
    let state = d.tensor(DataType::Int64, &slice);
    // next = state + slice; shown = next * slice.
    let inner = body(&["state", "slice"], |g, x| {
        let next = apply(g, "Add", &[x[0], x[1]]);
        let shown = apply(g, "Mul", &[next, x[1]]);
        vec![next, shown]
    });
    let (xs, mut now) = (whole(&x), whole(&state));
    let mut out = slice.clone();
    out.insert(to, steps);
    let mut shown = Nd::fill(&out, |_| 0i128);
    for step in 0..steps {
        let t = if back { steps - 1 - step } else { step };
        let place = if reversed { steps - 1 - step } else { step };
        for (n, i) in indices(&slice).iter().enumerate() {
            let with = |axis: usize, k: usize| [&i[..axis], &[k], &i[axis..]].concat();
            let value = xs.at(&put(&with(from, 0), from, t));
            now.v[n] += value;
            let at = crate::nd::flat(&out, &with(to, place));
            shown.v[at] = now.v[n] * value;
        }
    }
    let case = case(op, opset)
        .attr("body", inner)
        .attr("num_scan_inputs", 1i64)
        .attr_if(from != 0 || d.coin(), "scan_input_axes", &vec![spelt_from])
        .attr_if(to != 0 || d.coin(), "scan_output_axes", &vec![spelt_to])
        .attr_if(back || d.coin(), "scan_input_directions", &vec![i64::from(back)])
        .attr_if(reversed || d.coin(), "scan_output_directions", &vec![i64::from(reversed)]);
    let case = case.input(&state).input(&x).same(from_whole(DataType::Int64, &now));
    Some(case.same(from_whole(DataType::Int64, &shown)))
}

fn constant(op: &str, d: &mut Dice) -> Option<Case> {
    let dims = d.shape(4, 4);
    let dtype = d.pick(&crate::shape::ANY);
    let x = d.bits(dtype, &dims);
    let case = case(op, d.pick(&[13, 1, 9, 12]));
    Some(case.attr("value", &x).same(from_codes(dtype, &dims, &codes(&x).v)))
}
