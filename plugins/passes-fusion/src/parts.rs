//! Matching of formulas: what computes a value, whatever the order of factors and terms.
//!
//! [`PatternNodes`] follows values back from the root of a pattern, and remembers the nodes that it went through. In
//! the end [`PatternNodes::closed`] demands that nothing else reads what they compute, since they would have to stay
//! then.

use onnxd_plugin_sdk::ir::{Attr, DataType, Dim, Node, NodeId, ValueId, ValueType};
use onnxd_plugin_sdk::rewrite::{Rewrite, Rewriter, Skip};
use std::cell::RefCell;

/// Element types of which runtimes compute all the standard's functions.
pub(crate) const FLOATS: &[DataType] = &[DataType::Float, DataType::Float16, DataType::Double];

/// No formula here has more factors; without a bound, a long chain would be followed from each of its nodes.
const FACTORS_MAX: usize = 6;

/// No pattern here has more nodes. A chain of numbers that are added or multiplied may have any length.
const NODES_MAX: usize = 32;

/// The nodes of a pattern, as far as it is matched.
pub(crate) struct PatternNodes<'a, 'g> {
    cx: &'a Rewriter<'g>,
    root: ValueId,
    nodes: RefCell<Vec<NodeId>>,
}

/// `number + k * v + ...` or `number * v^k * ...`, with each value once.
pub(crate) struct Combined {
    pub(crate) number: f64,
    pub(crate) items: Vec<(f64, ValueId)>,
}

/// How values are combined.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum By {
    /// Add and Sub.
    Sum,
    /// The same, where numbers are terms like others.
    SumOfTerms,
    /// Mul and Pow, and Div by a number.
    Product,
    /// All divisions, and Neg, too.
    Quotient,
}

/// A reduction along known axes.
#[derive(Clone, PartialEq)]
pub(crate) struct Reduction {
    pub(crate) data: ValueId,
    /// In ascending order, counted from the front.
    pub(crate) axes: Vec<usize>,
    /// Number of axes of `data`.
    pub(crate) rank: usize,
    pub(crate) keepdims: bool,
}

impl Reduction {
    /// How many axes at the end it reduces, if it reduces no others.
    pub(crate) fn trailing(&self) -> Option<usize> {
        let count = self.axes.len();
        (count > 0 && self.axes.iter().copied().eq(self.rank - count..self.rank)).then_some(count)
    }
}

impl By {
    fn is_sum(self) -> bool {
        matches!(self, By::Sum | By::SumOfTerms)
    }
}

/// A number or a value with its factor or exponent. A value may be taken apart itself, if it does not stay whole.
enum Operand {
    Number(f64, f64),
    Value(f64, ValueId),
    Whole(f64, ValueId),
}

impl<'a, 'g> PatternNodes<'a, 'g> {
    /// The pattern that computes `root`.
    pub(crate) fn from_root(cx: &'a Rewriter<'g>, root: ValueId) -> PatternNodes<'a, 'g> {
        PatternNodes { cx, root, nodes: RefCell::default() }
    }

    /// Forgets the nodes of `f` if it does not match.
    pub(crate) fn attempt<T>(&self, f: impl FnOnce() -> Result<T, Skip>) -> Result<T, Skip> {
        let before = self.nodes.borrow().len();
        f().inspect_err(|_| self.nodes.borrow_mut().truncate(before))
    }

    /// The standard's operator `op` that computes `v` as its only output.
    pub(crate) fn node(&self, op: &str, v: ValueId) -> Result<&'a Node, Skip> {
        let graph = &*self.cx.graph;
        let Some(id) = graph.producer(v).filter(|id| graph[*id].is(op)) else {
            return Skip::unlike();
        };
        if graph[id].output(0) != Some(v) || graph[id].outputs.iter().flatten().count() > 1 {
            return Skip::unlike();
        }
        self.nodes.borrow_mut().push(id);
        Ok(&graph[id])
    }

    /// `x` of `v = op(x)`.
    pub(crate) fn unary(&self, op: &str, v: ValueId) -> Result<ValueId, Skip> {
        match self.node(op, v)?.inputs[..] {
            [Some(x)] => Ok(x),
            _ => Skip::unlike(),
        }
    }

    /// `a` and `b` of `v = op(a, b)`, each broadcast without an attribute.
    pub(crate) fn pair(&self, op: &str, v: ValueId) -> Result<[ValueId; 2], Skip> {
        let node = self.node(op, v)?;
        match node.inputs[..] {
            [Some(a), Some(b)] if node.attrs.is_empty() => Ok([a, b]),
            _ => Skip::unlike(),
        }
    }

    /// What `f` finds in one of the orders of a pair.
    pub(crate) fn either<T>(
        &self,
        [a, b]: [ValueId; 2],
        f: impl Fn(ValueId, ValueId) -> Result<T, Skip>,
    ) -> Result<T, Skip> {
        self.attempt(|| f(a, b)).or_else(|_| self.attempt(|| f(b, a)))
    }

    /// The only element of the constant `v`.
    pub(crate) fn number(&self, v: ValueId) -> Option<f64> {
        let constant = self.cx.graph.constant(v).filter(|t| t.len() == 1)?;
        constant.to_reals().map(|r| r.values[0])
    }

    /// The only element of the constant `v`, which does not give `beside` more axes.
    fn number_beside(&self, v: ValueId, beside: ValueId) -> Option<f64> {
        let rank = self.cx.graph.constant(v)?.rank();
        let fits = rank == 0 || self.cx.rank(beside).is_ok_and(|r| r >= rank);
        self.number(v).filter(|_| fits)
    }

    /// `v` as a product of numbers and values.
    pub(crate) fn product(&self, v: ValueId) -> Combined {
        self.combined(By::Product, v, false)
    }

    /// What `v` combines. It is taken apart if nothing else reads it or it is `shared`.
    pub(crate) fn combined(&self, by: By, v: ValueId, shared: bool) -> Combined {
        self.taken_apart(by, v, shared, |_| true)
    }

    /// `alpha`, `x` and `beta` of `v = alpha * x + beta`. What else computes `x` stays whole.
    pub(crate) fn linear(&self, v: ValueId) -> Result<(f64, ValueId, f64), Skip> {
        let has_number = |all: &[Operand]| all.iter().any(|one| matches!(one, Operand::Number(..)));
        let apart = |by, v| self.taken_apart(by, v, false, has_number);
        let sum = apart(By::Sum, v);
        let [(k, term)] = sum.items[..] else { return Skip::unlike() };
        let product = apart(By::Product, term);
        match product.items[..] {
            [(1.0, x)] => Ok((k * product.number, x, sum.number)),
            _ => Skip::unlike(),
        }
    }

    /// What `v` combines, as far as the operands of a node `are_taken`.
    fn taken_apart(
        &self,
        by: By,
        v: ValueId,
        shared: bool,
        are_taken: impl Fn(&[Operand]) -> bool,
    ) -> Combined {
        let number = if by.is_sum() { 0.0 } else { 1.0 };
        let mut combined = Combined { number, items: vec![] };
        self.combine(by, (1.0, v), shared, &are_taken, &mut combined);
        combined
    }

    fn combine(
        &self,
        by: By,
        (k, v): (f64, ValueId),
        shared: bool,
        are_taken: &dyn Fn(&[Operand]) -> bool,
        into: &mut Combined,
    ) {
        let inner = (shared || self.is_inner(v)) && into.items.len() < FACTORS_MAX;
        let taken = || {
            let operands = self.operands(by, v)?;
            if are_taken(&operands) { Ok(operands) } else { Skip::unlike() }
        };
        let operands = if inner { self.attempt(taken) } else { Skip::unlike() };
        for operand in operands.unwrap_or_else(|_| vec![Operand::Whole(1.0, v)]) {
            match operand {
                Operand::Number(own, c) if by.is_sum() => into.number += k * own * c,
                Operand::Number(own, c) if k * own < 0.0 => into.number /= c,
                Operand::Number(_, c) => into.number *= c,
                Operand::Value(own, x) => self.combine(by, (k * own, x), false, are_taken, into),
                Operand::Whole(own, x) => match into.items.iter_mut().find(|item| item.1 == x) {
                    Some(item) => item.0 += k * own,
                    None => into.items.push((k * own, x)),
                },
            }
        }
    }

    /// What the operator that computes `v` combines.
    fn operands(&self, by: By, v: ValueId) -> Result<Vec<Operand>, Skip> {
        let op = self.op(v);
        let second = match (by, op) {
            (By::Sum | By::SumOfTerms, "Add") | (By::Product | By::Quotient, "Mul") => 1.0,
            (By::Sum | By::SumOfTerms, "Sub") | (By::Product | By::Quotient, "Div") => -1.0,
            (By::Quotient, "Neg") => {
                return Ok(vec![
                    Operand::Number(1.0, -1.0),
                    Operand::Value(1.0, self.unary(op, v)?),
                ]);
            }
            (By::Quotient, "Reciprocal") => {
                return Ok(vec![Operand::Value(-1.0, self.unary(op, v)?)]);
            }
            (By::Product | By::Quotient, "Pow") => {
                let (x, k) = self.with_number(op, v)?;
                let known = [2.0, 3.0].contains(&k) || (k == -0.5 && by == By::Quotient);
                return if known { Ok(vec![Operand::Whole(k, x)]) } else { Skip::unlike() };
            }
            _ => return Skip::unlike(),
        };
        let [a, b] = self.pair(op, v)?;
        let (x, y) = (Operand::Value(1.0, a), Operand::Value(second, b));
        Ok(match (self.number_beside(a, b), self.number_beside(b, a)) {
            _ if by == By::SumOfTerms => vec![x, y],
            (_, Some(c)) => vec![x, Operand::Number(second, c)],
            _ if by == By::Product && op == "Div" => return Skip::unlike(),
            (Some(c), None) => vec![Operand::Number(1.0, c), y],
            (None, None) => vec![x, y],
        })
    }

    /// `x` of `v = x^exponent`.
    pub(crate) fn power(&self, v: ValueId, exponent: f64) -> Result<ValueId, Skip> {
        let (x, found) = self.with_number("Pow", v)?;
        if found == exponent { Ok(x) } else { Skip::unlike() }
    }

    /// The operator that computes `v`.
    fn op(&self, v: ValueId) -> &'a str {
        let graph = &*self.cx.graph;
        graph.producer(v).map_or("", |id| &graph[id].op)
    }

    /// Whether `v` may be taken apart: it is the result, or read once.
    fn is_inner(&self, v: ValueId) -> bool {
        (v == self.root || self.cx.graph.uses(v) == 1) && self.count() < NODES_MAX
    }

    /// The pair as a value and a number.
    fn number_of(&self, [a, b]: [ValueId; 2]) -> Option<(ValueId, f64)> {
        let right = self.number_beside(b, a).map(|c| (a, c));
        right.or_else(|| self.number_beside(a, b).map(|c| (b, c)))
    }

    /// `x` and `c` of `v = op(x, c)`, where `c` is a number; in any order if `op` has none.
    pub(crate) fn with_number(&self, op: &str, v: ValueId) -> Result<(ValueId, f64), Skip> {
        self.attempt(|| {
            let [a, b] = self.pair(op, v)?;
            let found = match op {
                "Sub" | "Div" | "Pow" => self.number_beside(b, a).map(|c| (a, c)),
                _ => self.number_of([a, b]),
            };
            found.ok_or_else(unlike)
        })
    }

    /// `v` as the reduction `op` along known axes of a value of known rank.
    pub(crate) fn reduction(&self, op: &str, v: ValueId) -> Result<Reduction, Skip> {
        let node = self.node(op, v)?;
        let data = node.input(0).ok_or_else(unlike)?;
        let rank = self.cx.rank(data)?;
        let axes = match (node.input(1), node.attr("axes")) {
            (Some(axes), _) => self.cx.integers(axes)?,
            (None, Some(Attr::Ints(axes))) => axes.clone(),
            (None, Some(_)) => return Skip::unlike(),
            (None, None) if node.int("noop_with_empty_axes", 0) != 0 => return Skip::unlike(),
            (None, None) => (0..rank as i64).collect(),
        };
        if axes.is_empty() {
            return Skip::unlike();
        }
        let axes = axes.iter().map(|axis| axis_of(*axis, rank));
        let mut axes = axes.collect::<Option<Vec<usize>>>().ok_or_else(unlike)?;
        axes.sort_unstable();
        axes.dedup();
        Ok(Reduction { data, axes, rank, keepdims: node.int("keepdims", 1) != 0 })
    }

    /// Takes a node into the pattern that was matched by other means.
    pub(crate) fn visit(&self, id: NodeId) {
        self.nodes.borrow_mut().push(id);
    }

    /// The nodes of the pattern so far; one may be there several times.
    pub(crate) fn nodes(&self) -> Vec<NodeId> {
        self.nodes.borrow().clone()
    }

    /// How many nodes the pattern has so far.
    pub(crate) fn count(&self) -> usize {
        self.nodes.borrow().len()
    }

    /// Demands that only the pattern reads what its nodes compute, other than its result.
    pub(crate) fn closed(&self) -> Rewrite {
        let graph = &*self.cx.graph;
        let mut nodes = self.nodes.borrow().clone();
        nodes.extend(graph.producer(self.root));
        let inner = |v: &ValueId| *v != self.root;
        for v in nodes.iter().filter_map(|id| graph[*id].output(0)).filter(inner) {
            let read = |id: &NodeId| !nodes.contains(id);
            if graph.is_output(v) || graph.readers(v).iter().any(read) {
                return Skip::because(format!("{} is read elsewhere, too", self.cx.name(v)));
            }
        }
        Ok(())
    }

    /// Whether a node outside of the pattern reads `v`, or it is an output.
    pub(crate) fn is_read_elsewhere(&self, v: ValueId) -> bool {
        let graph = &*self.cx.graph;
        let nodes = self.nodes.borrow();
        graph.is_output(v) || graph.readers(v).iter().any(|id| !nodes.contains(id))
    }

    /// Whether `found` is `wanted`, as near as the element type of `v` says it.
    pub(crate) fn is(&self, found: f64, wanted: f64, v: ValueId) -> bool {
        let tolerance = match self.cx.dtype(v) {
            Ok(DataType::Double) => 1e-12,
            Ok(DataType::Float) => 1e-6,
            Ok(DataType::Float16) => 1e-3,
            Ok(DataType::Bfloat16) => 8e-3,
            _ => 0.0,
        };
        (found - wanted).abs() <= tolerance * wanted.abs()
    }
}

/// Demands that operator `op` is in the opset: it is since `since`.
pub(crate) fn needs(cx: &Rewriter, op: &str, since: i64) -> Rewrite {
    match cx.opset {
        opset if opset < since => {
            Skip::because(format!("opset {opset} has no {op}, which came with {since}"))
        }
        _ => Ok(()),
    }
}

/// Demands that `v` has one of the element types.
pub(crate) fn of_type(cx: &Rewriter, v: ValueId, types: &[DataType]) -> Rewrite {
    let dtype = cx.dtype(v)?;
    match types.contains(&dtype) {
        true => Ok(()),
        false => Skip::because(format!("{} is of type {dtype}", cx.name(v))),
    }
}

/// The sizes of `v`, as far as known.
pub(crate) fn dims(cx: &Rewriter, v: ValueId) -> Result<Vec<Dim>, Skip> {
    let found = cx.graph[v].ty.as_ref().and_then(ValueType::shape).map(<[Dim]>::to_vec);
    found.ok_or_else(|| Skip(format!("the rank of {} is not known", cx.name(v))))
}

/// An axis that may be counted from the end.
pub(crate) fn axis_of(axis: i64, rank: usize) -> Option<usize> {
    onnxd_plugin_sdk::ir::axis_at(axis, rank)
}

/// The place only looked like the pattern.
pub(crate) fn unlike() -> Skip {
    Skip(String::new())
}

#[cfg(test)]
mod tests {
    use onnxd_plugin_sdk::ir::{Model, text};
    use onnxd_plugin_sdk::rewrite::{Fuel, PassContext};
    use std::fmt::Write;

    /// Without a bound, each node would be followed to the beginning, and the stack would end.
    #[test]
    fn long_chains_of_numbers() {
        for op in ["Mul", "Add", "Sub", "Div"] {
            let mut body = String::from("v0 = Neg(x)\n");
            for i in 1..20_000 {
                writeln!(body, "v{i} = {op}(v{}, one)", i - 1).unwrap();
            }
            let graph = format!(
                "g (float[2] x) => (float[2] y) <float one = {{1.0}}> {{ {body} y = Neg(v19999) }}"
            );
            let mut model = Model::new(text::parse_graph(&graph).unwrap(), 8, 17);
            for pass in [crate::activation::gelu::pass(), crate::norm::layer_norm::pass()] {
                let mut cx = PassContext::new("test", Fuel::UNLIMITED);
                pass.run(&mut model, &mut cx).unwrap();
                assert_eq!(cx.report.rewrites, 0);
            }
        }
    }
}
