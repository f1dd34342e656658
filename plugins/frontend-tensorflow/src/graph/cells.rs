//! The formulas of recurrent cells in the body of a loop: what a step adds up for each gate, and what the gates do.

use onnxd_plugin_sdk::build::GraphBuilder;
use onnxd_plugin_sdk::ir::{Attr, Graph, Node, Origin, ValueId};
use std::collections::HashSet;

/// Nodes between a gate and the products that it adds up.
const DEPTH_MAX: usize = 24;

/// Activations that the operators of ONNX have under these names.
const ACTIVATIONS: [&str; 3] = ["Sigmoid", "Tanh", "Relu"];

/// A part of an axis: its begin and its size. `None` is all of it.
pub(crate) type Part = Option<(i64, i64)>;

/// A matrix or a bias that is the same in each turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weight {
    pub(crate) value: ValueId,
    pub(crate) rows: Part,
    pub(crate) columns: Part,
}

/// A sum of products and biases.
#[derive(Clone, Debug, Default)]
pub(crate) struct Affine {
    pub(crate) products: Vec<(ValueId, Weight)>,
    pub(crate) biases: Vec<Weight>,
}

/// An activation and what it is applied to.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    pub(crate) activation: &'static str,
    pub(crate) sum: Affine,
}

/// What a step computes.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    pub(crate) op: &'static str,
    /// In the order of ONNX.
    pub(crate) gates: Vec<Gate>,
    /// The activation of a cell state, before it goes out.
    pub(crate) output: Option<&'static str>,
    /// Of a GRU: biases that the reset gate applies to, if it applies to the product.
    pub(crate) reset: Option<Vec<Weight>>,
    /// What is read beside the hidden state.
    pub(crate) input: ValueId,
    /// The hidden state before the step.
    pub(crate) state: ValueId,
}

/// The body of a loop as it is looked at.
pub(crate) struct Body<'g> {
    b: &'g GraphBuilder,
    graph: &'g Graph,
    /// Values that are the same in each turn.
    constant: HashSet<ValueId>,
}

/// A value without the Identity nodes before it.
pub(crate) fn plain(graph: &Graph, mut v: ValueId) -> ValueId {
    for _ in 0..DEPTH_MAX {
        let Origin::Node(id, _) = graph[v].origin() else { break };
        match graph[id].input(0).filter(|_| graph[id].is("Identity")) {
            Some(input) => v = input,
            None => break,
        }
    }
    v
}

/// Both orders of two values.
fn orders(pair: [ValueId; 2]) -> [[ValueId; 2]; 2] {
    [pair, [pair[1], pair[0]]]
}

impl<'g> Body<'g> {
    pub(crate) fn new(b: &'g GraphBuilder, graph: &'g Graph) -> Body<'g> {
        let mut constant = HashSet::new();
        let is = |constant: &HashSet<ValueId>, v: ValueId| match graph[v].origin() {
            Origin::Captured(_) => true,
            Origin::Node(..) => constant.contains(&v),
            _ => graph.constant(v).is_some(),
        };
        for id in graph.node_ids() {
            let node = &graph[id];
            let pure = node.is_standard() && node.subgraphs().next().is_none();
            if pure
                && !node.op.starts_with("Random")
                && node.inputs.iter().flatten().all(|v| is(&constant, *v))
            {
                constant.extend(node.outputs.iter().flatten());
            }
        }
        Body { b, graph, constant }
    }

    fn is_constant(&self, v: ValueId) -> bool {
        match self.graph[v].origin() {
            Origin::Captured(_) => true,
            Origin::Node(..) => self.constant.contains(&v),
            _ => self.graph.constant(v).is_some(),
        }
    }

    /// The node that computes a value, and the number of the output.
    pub(crate) fn node(&self, mut v: ValueId) -> Option<(&'g Node, usize)> {
        for _ in 0..DEPTH_MAX {
            let Origin::Node(id, slot) = self.graph[v].origin() else { return None };
            let node = &self.graph[id];
            match node.is("Identity") {
                true => v = node.input(0)?,
                false => return Some((node, slot)),
            }
        }
        None
    }

    pub(crate) fn plain(&self, v: ValueId) -> ValueId {
        plain(self.graph, v)
    }

    fn same(&self, x: ValueId, y: ValueId) -> bool {
        self.plain(x) == self.plain(y)
    }

    /// Whether two values are computed in the same way from the same ones.
    fn equal(&self, x: ValueId, y: ValueId, depth: usize) -> bool {
        if self.same(x, y) {
            return true;
        }
        let constant = |v: ValueId| self.graph.constant(v);
        if let (Some(x), Some(y)) = (constant(x), constant(y)) {
            return x == y;
        }
        let (Some((left, i)), Some((right, j))) = (self.node(x), self.node(y)) else {
            return false;
        };
        let attrs = |node: &Node| format!("{:?}", node.attrs);
        let alike = left.op == right.op && i == j && attrs(left) == attrs(right);
        let pure = left.is_standard() && !left.op.starts_with("Random");
        let inputs = || left.inputs.iter().zip(&right.inputs);
        let each = |(x, y): (&Option<ValueId>, &Option<ValueId>)| match (x, y) {
            (Some(x), Some(y)) => self.equal(*x, *y, depth / 2),
            (x, y) => x == y,
        };
        depth > 0 && alike && pure && left.inputs.len() == right.inputs.len() && inputs().all(each)
    }

    fn pair(&self, v: ValueId, op: &str) -> Option<[ValueId; 2]> {
        let (node, _) = self.node(v).filter(|(node, _)| node.is(op))?;
        Some([node.input(0)?, node.input(1)?])
    }

    /// Sizes of a value, -1 where they are not known.
    pub(crate) fn sizes(&self, v: ValueId) -> Option<Vec<i64>> {
        let shape = self.graph[v].ty.as_ref()?.shape()?;
        Some(shape.iter().map(|n| n.known().unwrap_or(-1)).collect())
    }

    fn width(&self, v: ValueId) -> Option<i64> {
        self.sizes(v)?.last().copied().filter(|n| *n > 0)
    }

    /// Whether an attribute names the last axis of a value.
    fn is_last(&self, node: &Node, v: ValueId, default: i64) -> bool {
        let axis = match node.attr("axis") {
            Some(Attr::Int(axis)) => *axis,
            _ => default,
        };
        let rank = self.sizes(v).map_or(0, |sizes| sizes.len() as i64);
        axis == -1 || axis == rank - 1
    }

    /// As [`Body::split`], of a Slice.
    fn slice(&self, v: ValueId, within: Part) -> Option<(ValueId, Part)> {
        let (node, _) = self.node(v).filter(|(node, _)| node.is("Slice"))?;
        let whole = node.input(0)?;
        let number = |at: usize| {
            let input = node.input(at)?;
            self.b.ints_of(self.b.var(input)).filter(|n| n.len() == 1).map(|n| n[0])
        };
        let (rank, width) = (self.sizes(whole)?.len() as i64, self.width(whole)?);
        let last = matches!(number(3)?, axis if axis == -1 || axis == rank - 1);
        let plain = node.inputs.len() < 5 || number(4)? == 1;
        let clamped = |n: i64| if n < 0 { (n + width).max(0) } else { n.min(width) };
        let (start, end) = (clamped(number(1)?), clamped(number(2)?));
        let (first, n) = within.unwrap_or((0, end - start));
        (last && plain && start < end).then_some((whole, Some((start + first, n))))
    }

    /// The whole that `v` is columns of, and which; `within` are columns of `v`.
    fn split(&self, v: ValueId, within: Part) -> Option<(ValueId, Part)> {
        if let Some(found) = self.slice(v, within) {
            return Some(found);
        }
        let (node, slot) = self.node(v).filter(|(node, _)| node.is("Split"))?;
        let whole = node.input(0)?;
        if !self.is_last(node, whole, 0) {
            return None;
        }
        let mut start = 0;
        for output in node.outputs.iter().take(slot) {
            start += self.width((*output)?)?;
        }
        let size = self.width((*node.outputs.get(slot)?)?)?;
        let (first, n) = within.unwrap_or((0, size));
        Some((whole, Some((start + first, n))))
    }

    /// Adds to `sum` what `v` is the sum of.
    fn affine(&self, v: ValueId, columns: Part, depth: usize, sum: &mut Affine) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        if self.is_constant(v) {
            let sizes = self.sizes(v)?;
            let rows = sizes.split_last().map_or(&[][..], |(_, rows)| rows);
            let one = sizes.last().is_none_or(|n| *n == 1);
            let columns = columns.filter(|_| !one);
            let bias = Weight { value: v, rows: None, columns };
            return rows.iter().all(|n| *n == 1).then(|| sum.biases.push(bias));
        }
        if let Some(pair) = self.pair(v, "Add") {
            let kept = pair.iter().all(|x| {
                self.is_constant(*x) || self.width(*x).is_some() && self.width(*x) == self.width(v)
            });
            if !kept {
                return None;
            }
            self.affine(pair[0], columns, depth, sum)?;
            return self.affine(pair[1], columns, depth, sum);
        }
        if let Some((whole, columns)) = self.split(v, columns) {
            return self.affine(whole, columns, depth, sum);
        }
        let [x, value] = self.pair(v, "MatMul")?;
        if !self.is_constant(value) || self.sizes(value)?.len() != 2 {
            return None;
        }
        let joined = self.node(x).filter(|(node, _)| node.is("Concat") && self.is_last(node, x, 0));
        match joined {
            Some((node, _)) => {
                let mut start = 0;
                for part in &node.inputs {
                    let part = (*part)?;
                    let rows = self.width(part)?;
                    sum.products.push((part, Weight { value, rows: Some((start, rows)), columns }));
                    start += rows;
                }
            }
            None => sum.products.push((x, Weight { value, rows: None, columns })),
        }
        Some(())
    }

    fn sum(&self, v: ValueId) -> Option<Affine> {
        let mut sum = Affine::default();
        self.affine(v, None, DEPTH_MAX, &mut sum)?;
        Some(sum)
    }

    /// The activation that gives `v`, and what it is applied to.
    fn activation(&self, v: ValueId) -> Option<(&'static str, ValueId)> {
        let (node, _) = self.node(v)?;
        let activation = ACTIVATIONS.iter().find(|op| node.is(op))?;
        Some((activation, node.input(0)?))
    }

    /// `v` as a gate; the activation may come before what splits the gates.
    fn gate(&self, v: ValueId) -> Option<Gate> {
        let (mut v, mut columns) = (v, None);
        loop {
            if let Some((activation, x)) = self.activation(v) {
                let mut sum = Affine::default();
                self.affine(x, columns, DEPTH_MAX, &mut sum)?;
                return Some(Gate { activation, sum });
            }
            (v, columns) = self.split(v, columns)?;
        }
    }

    /// What is read beside the state, if all gates add up one product of each.
    fn input(&self, gates: &[Gate], state: ValueId) -> Option<ValueId> {
        let mut input = None;
        for gate in gates {
            let [x, y] = gate.sum.products[..] else { return None };
            let (x, y) = (self.plain(x.0), self.plain(y.0));
            let other = match (x == state, y == state) {
                (true, false) => y,
                (false, true) => x,
                _ => return None,
            };
            if !self.equal(*input.get_or_insert(other), other, DEPTH_MAX) {
                return None;
            }
        }
        input
    }

    /// `h = o * tanh(c)`, `c = f * before + i * g`.
    pub(crate) fn lstm(&self, h: [ValueId; 2], c: [ValueId; 2]) -> Option<Cell> {
        let after = |[gate, rest]: [ValueId; 2]| {
            let (activation, inner) = self.activation(rest)?;
            self.same(inner, c[1]).then_some((self.gate(gate)?, activation))
        };
        let (o, output) = orders(self.pair(h[1], "Mul")?).into_iter().find_map(after)?;
        let kept = |[kept, new]: [ValueId; 2]| {
            let forget = |[f, before]: [ValueId; 2]| {
                (self.plain(before) == c[0]).then(|| self.gate(f)).flatten()
            };
            let f = orders(self.pair(kept, "Mul")?).into_iter().find_map(forget)?;
            let [i, g] = self.pair(new, "Mul")?;
            Some((f, [self.gate(i)?, self.gate(g)?]))
        };
        let (f, [i, g]) = orders(self.pair(c[1], "Add")?).into_iter().find_map(kept)?;
        // Of the two gates that are multiplied, the one like the forget gate is the input gate.
        let (i, g) = match (i.activation == f.activation, g.activation == f.activation) {
            (true, _) => (i, g),
            (false, true) => (g, i),
            _ => return None,
        };
        if o.activation != f.activation {
            return None;
        }
        let gates = vec![i, o, f, g];
        let input = self.input(&gates, h[0])?;
        Some(Cell { op: "LSTM", gates, output: Some(output), reset: None, input, state: h[0] })
    }

    /// `h = act(x * w + before * r + b)`.
    pub(crate) fn plain_cell(&self, h: [ValueId; 2]) -> Option<Cell> {
        let gates = vec![self.gate(h[1])?];
        let input = self.input(&gates, h[0])?;
        Some(Cell { op: "RNN", gates, output: None, reset: None, input, state: h[0] })
    }

    /// `h = z * before + (1 - z) * n`.
    pub(crate) fn gru(&self, h: [ValueId; 2]) -> Option<Cell> {
        let mixture = |[kept, new]: [ValueId; 2]| {
            let keeps = |[z, before]: [ValueId; 2]| (self.plain(before) == h[0]).then_some(z);
            let z = orders(self.pair(kept, "Mul")?).into_iter().find_map(keeps)?;
            let rest = |[rest, n]: [ValueId; 2]| {
                let [one, same] = self.pair(rest, "Sub")?;
                (self.same(same, z) && self.is_one(one)).then_some(n)
            };
            let n = orders(self.pair(new, "Mul")?).into_iter().find_map(rest)?;
            Some((z, n))
        };
        let (z, n) = orders(self.pair(h[1], "Add")?).into_iter().find_map(mixture)?;
        let z = self.gate(z)?;
        let (activation, sum) = self.activation(n)?;
        let (r, sum, reset) =
            self.reset_after(sum, h[0]).or_else(|| self.reset_before(sum, h[0]))?;
        let gates = vec![z, r, Gate { activation, sum }];
        let input = self.input(&gates, h[0])?;
        if gates[0].activation != gates[1].activation {
            return None;
        }
        Some(Cell { op: "GRU", gates, output: None, reset, input, state: h[0] })
    }

    fn is_one(&self, v: ValueId) -> bool {
        let tensor = self.b.constant_of(self.b.var(v));
        let numbers = tensor.filter(|t| t.len() == 1).and_then(|t| t.to_reals());
        numbers.is_some_and(|numbers| numbers.values == [1.0])
    }

    /// `x * w + b + r * (before * u + c)`: the gate, the sum, and the biases that it applies to.
    fn reset_after(
        &self,
        v: ValueId,
        before: ValueId,
    ) -> Option<(Gate, Affine, Option<Vec<Weight>>)> {
        let product = |[gate, product]: [ValueId; 2]| {
            let sum = self.sum(product)?;
            let [(source, _)] = sum.products[..] else { return None };
            (self.plain(source) == before).then_some((self.gate(gate)?, sum))
        };
        let (mut open, mut found, mut sum) = (vec![v], None, Affine::default());
        while let Some(v) = open.pop() {
            let reset =
                self.pair(v, "Mul").and_then(|pair| orders(pair).into_iter().find_map(product));
            match (reset, self.pair(v, "Add")) {
                (Some(reset), _) if found.is_none() => found = Some(reset),
                (None, Some(pair)) if !self.is_constant(v) && open.len() < DEPTH_MAX => {
                    open.extend(pair);
                }
                (None, None) => self.affine(v, None, DEPTH_MAX, &mut sum)?,
                _ => return None,
            }
        }
        let (gate, hidden) = found?;
        sum.products.extend(hidden.products);
        Some((gate, sum, Some(hidden.biases)))
    }

    /// `x * w + (r * before) * u + b`.
    fn reset_before(
        &self,
        v: ValueId,
        before: ValueId,
    ) -> Option<(Gate, Affine, Option<Vec<Weight>>)> {
        let mut sum = self.sum(v)?;
        let mut found = None;
        for (source, _) in &mut sum.products {
            let gate = |[gate, state]: [ValueId; 2]| {
                (self.plain(state) == before).then(|| self.gate(gate)).flatten()
            };
            let pair = self.pair(*source, "Mul");
            if let Some(gate) = pair.and_then(|pair| orders(pair).into_iter().find_map(gate)) {
                found = Some(gate);
                *source = before;
            }
        }
        Some((found?, sum, None))
    }
}
