//! Matching of formulas: what computes a value, whatever the order of factors and terms.
//!
//! [`Parts`] follows values back from the root of a pattern, and remembers the nodes that it went through. In the end
//! [`Parts::closed`] demands that nothing else reads what they compute, since they would have to stay then.

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
pub(crate) struct Parts<'a, 'g> {
    cx: &'a Rewriter<'g>,
    root: ValueId,
    nodes: RefCell<Vec<NodeId>>,
}

/// `scale * factors[0] * factors[1] ... / divisors[0] ...`
#[derive(Debug)]
pub(crate) struct Product {
    pub(crate) scale: f64,
    pub(crate) factors: Vec<ValueId>,
    pub(crate) divisors: Vec<Divisor>,
}

/// What a product is divided by.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Divisor {
    Value(ValueId),
    RootOf(ValueId),
}

/// `constant + terms[0] + terms[1] ...`, where a term is 1 or -1 times a value.
#[derive(Debug)]
pub(crate) struct Terms {
    pub(crate) constant: f64,
    pub(crate) terms: Vec<(f64, ValueId)>,
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

impl<'a, 'g> Parts<'a, 'g> {
    /// The pattern that computes `root`.
    pub(crate) fn of(cx: &'a Rewriter<'g>, root: ValueId) -> Parts<'a, 'g> {
        Parts { cx, root, nodes: RefCell::default() }
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
    pub(crate) fn product(&self, v: ValueId) -> Product {
        let mut product = Product { scale: 1.0, factors: vec![], divisors: vec![] };
        self.multiply(v, false, false, &mut product);
        product
    }

    /// `v` as a product with signs and divisors, too. It is taken apart if nothing else reads it or it is `shared`.
    pub(crate) fn quotient(&self, v: ValueId, shared: bool) -> Product {
        let mut product = Product { scale: 1.0, factors: vec![], divisors: vec![] };
        self.multiply(v, shared, true, &mut product);
        product
    }

    fn multiply(&self, v: ValueId, shared: bool, divides: bool, into: &mut Product) {
        if !(shared || self.is_inner(v)) || into.factors.len() >= FACTORS_MAX {
            return into.factors.push(v);
        }
        if let Ok((x, times)) = self.attempt(|| self.small_power(v)) {
            return into.factors.extend(std::iter::repeat_n(x, times));
        }
        match self.attempt(|| self.multiplied(v, divides)) {
            Ok((scale, factors, divisor)) => {
                into.scale *= scale;
                into.divisors.extend(divisor);
                factors.into_iter().for_each(|x| self.multiply(x, false, divides, into));
            }
            Err(_) => into.factors.push(v),
        }
    }

    /// The number, the factors and the divisor of `v`.
    fn multiplied(
        &self,
        v: ValueId,
        divides: bool,
    ) -> Result<(f64, Vec<ValueId>, Option<Divisor>), Skip> {
        let over = |number, factors, divisor| Ok((number, factors, Some(divisor)));
        match self.op(v) {
            "Mul" => {
                let pair = self.pair("Mul", v)?;
                let by_number = self.number_of(pair).map(|(x, c)| (c, vec![x], None));
                Ok(by_number.unwrap_or_else(|| (1.0, pair.to_vec(), None)))
            }
            "Div" => {
                let [a, b] = self.pair("Div", v)?;
                match (self.number_beside(a, b), self.number_beside(b, a)) {
                    (_, Some(c)) => Ok((c.recip(), vec![a], None)),
                    _ if !divides => Skip::unlike(),
                    (Some(c), None) => over(c, vec![], Divisor::Value(b)),
                    (None, None) => over(1.0, vec![a], Divisor::Value(b)),
                }
            }
            "Neg" if divides => Ok((-1.0, vec![self.unary("Neg", v)?], None)),
            "Reciprocal" if divides => {
                over(1.0, vec![], Divisor::Value(self.unary("Reciprocal", v)?))
            }
            "Pow" if divides => over(1.0, vec![], Divisor::RootOf(self.power(v, -0.5)?)),
            _ => Skip::unlike(),
        }
    }

    /// `x` and the exponent of `v = x^2` and `v = x^3`.
    fn small_power(&self, v: ValueId) -> Result<(ValueId, usize), Skip> {
        let (x, exponent) = self.with_number("Pow", v)?;
        let times = [2u8, 3].into_iter().find(|n| f64::from(*n) == exponent);
        Ok((x, times.ok_or_else(unlike)?.into()))
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

    /// `v` as a sum, of which `numbers` are taken together or are terms like others. It is taken apart if nothing else
    /// reads it or it is `shared`.
    pub(crate) fn sum(&self, v: ValueId, shared: bool, numbers: bool) -> Terms {
        let mut sum = Terms { constant: 0.0, terms: vec![] };
        self.add((1.0, v), shared, numbers, &mut sum);
        sum
    }

    fn add(&self, (sign, v): (f64, ValueId), shared: bool, numbers: bool, into: &mut Terms) {
        if !(shared || self.is_inner(v)) || into.terms.len() >= FACTORS_MAX {
            return into.terms.push((sign, v));
        }
        match self.attempt(|| self.added(v)) {
            Ok([a, b]) => {
                let sides =
                    [(a, b), (b, a)].map(|((_, x), (_, beside))| self.number_beside(x, beside));
                let constant = sides.iter().rposition(Option::is_some).filter(|_| numbers);
                for (i, (own, x)) in [a, b].into_iter().enumerate() {
                    match sides[i].filter(|_| constant == Some(i)) {
                        Some(c) => into.constant += sign * own * c,
                        None => self.add((sign * own, x), false, numbers, into),
                    }
                }
            }
            Err(_) => into.terms.push((sign, v)),
        }
    }

    /// The terms of `v`, 1 or -1 times a value each.
    fn added(&self, v: ValueId) -> Result<[(f64, ValueId); 2], Skip> {
        let (op, sign) = match self.op(v) {
            "Add" => ("Add", 1.0),
            "Sub" => ("Sub", -1.0),
            _ => return Skip::unlike(),
        };
        let [a, b] = self.pair(op, v)?;
        Ok([(1.0, a), (sign, b)])
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
