//! How a value can be computed a constant factor times as large without a multiplication: by weights and other
//! constants that the factor goes into. First the graph is searched and nothing changes; then it is built.

use crate::arithmetic::per_channel;
use onnxd_plugin_sdk::ir::{Attr, Layers, Node, NodeId, Reals, Tensor, ValueId};
use onnxd_plugin_sdk::rewrite::{Rewriter, Skip};

/// Nodes that are looked at for one factor.
const NODES_MAX: usize = 16;

/// Elements of a constant from which on it is scaled without being held.
const SMALL_MAX: usize = 1 << 12;

/// Operators that only move the elements of their first input.
pub(crate) const MOVES: [&str; 9] = [
    "Expand", "Flatten", "Gather", "Identity", "Reshape", "Slice", "Squeeze", "Transpose",
    "Unsqueeze",
];

/// A value times the factor.
pub(crate) enum Scaled {
    /// A constant that the factor went into; `None` if that changes nothing.
    Constant(ValueId, Option<Tensor>),
    /// The node with other inputs, by slot.
    Node(NodeId, Vec<(usize, Scaled)>),
    /// `Gemm` with other factors of its own.
    Factors(NodeId, f64),
}

/// The nodes that read a value, changed so that they may read one that lacks the factor.
pub(crate) struct CompensatedReader {
    node: NodeId,
    slot: usize,
    how: Compensated,
}

enum Compensated {
    /// It moves elements; its readers make up for the factor.
    Later(Vec<CompensatedReader>),
    /// Another input has the factor.
    Input(usize, Scaled),
}

/// A search for constants that `factor` can go into.
pub(crate) struct FactorSearch<'a, 'g> {
    cx: &'a Rewriter<'g>,
    /// Broadcasts to what is scaled without enlarging it.
    factor: &'a Reals,
    left: usize,
}

impl<'a, 'g> FactorSearch<'a, 'g> {
    pub(crate) fn new(cx: &'a Rewriter<'g>, factor: &'a Reals) -> FactorSearch<'a, 'g> {
        FactorSearch { cx, factor, left: NODES_MAX }
    }

    /// The factor, if it is one number.
    fn scalar(&self) -> Result<f64, Skip> {
        match self.factor.values[..] {
            [factor] => Ok(factor),
            _ => Skip::because("a factor per channel only goes into the operator before it"),
        }
    }

    /// `v * factor`.
    pub(crate) fn value(&mut self, v: ValueId) -> Result<Scaled, Skip> {
        let cx = self.cx;
        if cx.graph.constant(v).is_some() {
            return self.constant(v, self.factor);
        }
        let id = match cx.graph.producer(v) {
            Some(id) if self.left > 0 && cx.graph[id].output(0) == Some(v) => id,
            _ => return Skip::because(format!("no weights compute {}", cx.name(v))),
        };
        self.left -= 1;
        cx.read_once(v)?;
        let node = &cx.graph[id];
        let [a, b] = [0, 1].map(|slot| node.input(slot));
        let (true, Some(a)) = (node.is_standard() && node.outputs.iter().flatten().count() == 1, a)
        else {
            return self.no_place(node);
        };
        let inputs = match (node.op.as_str(), b) {
            (op, _) if MOVES.contains(&op) => {
                self.scalar()?;
                vec![(0, self.value(a)?)]
            }
            ("Mul", Some(b)) if cx.graph.constant(b).is_some() => vec![(1, self.value(b)?)],
            ("Mul", Some(b)) => match self.operand(0, a) {
                Ok(first) => vec![first],
                Err(_) => vec![self.operand(1, b)?],
            },
            ("Div", Some(b)) => match cx.graph.constant(b) {
                Some(_) => vec![(1, self.constant(b, &self.factor.map(f64::recip))?)],
                None => vec![self.operand(0, a)?],
            },
            ("Add" | "Sub", Some(b)) => vec![(0, self.value(a)?), (1, self.value(b)?)],
            ("Conv" | "ConvTranspose" | "Gemm" | "MatMul", Some(b)) => {
                return self.product(id, a, b);
            }
            ("BatchNormalization" | "InstanceNormalization", Some(_)) => {
                let rank = cx.rank(a)?;
                let of = |search: &Self, slot| search.along(slot, id, rank, 1);
                vec![of(self, 1)?, of(self, 2)?]
            }
            ("LayerNormalization", Some(scale)) => {
                self.scalar()?;
                let bias = node.input(2).map(|bias| (2, bias));
                let own = [(1, scale)].into_iter().chain(bias);
                own.map(|(slot, v)| Ok((slot, self.constant(v, self.factor)?)))
                    .collect::<Result<_, _>>()?
            }
            _ => return self.no_place(node),
        };
        Ok(Scaled::Node(id, inputs))
    }

    fn no_place<T>(&self, node: &Node) -> Result<T, Skip> {
        Skip::because(format!("no factor goes into {}", node.op))
    }

    /// Input `slot` of a product or quotient, which may be smaller than the result if it is computed.
    fn operand(&mut self, slot: usize, v: ValueId) -> Result<(usize, Scaled), Skip> {
        if self.cx.graph.constant(v).is_none() {
            self.scalar()?;
        }
        Ok((slot, self.value(v)?))
    }

    /// The factor, one number per channel, times the constant of as many channels that input `slot` is.
    fn along(
        &self,
        slot: usize,
        id: NodeId,
        rank: usize,
        axis: usize,
    ) -> Result<(usize, Scaled), Skip> {
        let v = self.cx.graph[id].input(slot).expect("the operator demands it");
        let [channels] = self.cx.constant(v)?.dims()[..] else {
            return Skip::because(format!("{} is not one value per channel", self.cx.name(v)));
        };
        Ok((slot, self.constant(v, &per_channel(self.factor, channels, rank, axis)?)?))
    }

    /// The constant `v` times `factor`; both broadcast.
    fn constant(&self, v: ValueId, factor: &Reals) -> Result<Scaled, Skip> {
        let tensor = self.cx.constant(v)?;
        if let ([factor], [first, ..]) = (&factor.values[..], tensor.dims())
            && tensor.len() > SMALL_MAX
        {
            return self.slices(v, 0, &vec![*factor; *first]);
        }
        let old = self.cx.reals(v)?;
        let Some(new) = old.zip(factor, |a, b| a * b) else {
            return Skip::because(format!("{} differs in shape", self.cx.name(v)));
        };
        if new.values.len() > old.values.len().max(factor.values.len()) {
            return Skip::because(format!("{} would grow", self.cx.name(v)));
        }
        if new == old {
            return Ok(Scaled::Constant(v, None));
        }
        self.own(v)?;
        let new = new.to_tensor(tensor.dtype()).expect("a float type");
        self.sound(v, new)
    }

    /// The weights `v` with one factor for each slice along `axis`.
    fn slices(&self, v: ValueId, axis: usize, gain: &[f64]) -> Result<Scaled, Skip> {
        self.own(v)?;
        self.sound(v, self.cx.scaled(v, axis, gain)?)
    }

    /// Weights that others read would be there twice.
    fn own(&self, v: ValueId) -> Result<(), Skip> {
        match self.cx.graph.constant(v).is_some_and(|t| t.len() > 1) {
            true => self.cx.read_once(v),
            false => Ok(()),
        }
    }

    /// No factor is 0, so that weights that were not finite are not so now.
    fn sound(&self, v: ValueId, new: Tensor) -> Result<Scaled, Skip> {
        match new.is_finite() {
            true => Ok(Scaled::Constant(v, Some(new))),
            false => Skip::because(format!("{} is beyond {}", self.cx.name(v), new.dtype())),
        }
    }

    /// A linear operator: its weights and its bias, or one of two values that it multiplies.
    fn product(&mut self, id: NodeId, a: ValueId, b: ValueId) -> Result<Scaled, Skip> {
        let cx = self.cx;
        let node = &cx.graph[id];
        let gemm = node.is("Gemm");
        let Ok(w) = cx.ranked(b, 1) else {
            return match (gemm, self.scalar()?) {
                (true, factor) => Ok(Scaled::Factors(id, factor)),
                _ => self.computed(id, a, b),
            };
        };
        let [axis, rank, of_output] = match node.op.as_str() {
            "Conv" => [0, w.rank(), 1],
            "ConvTranspose" if node.int("group", 1) == 1 => [1, w.rank(), 1],
            "ConvTranspose" => return Skip::because("ConvTranspose has groups"),
            "Gemm" => [usize::from(node.int("transB", 0) == 0), 2, 1],
            _ if w.rank() == 1 => return Skip::because("MatMul is of a vector"),
            _ => [w.rank() - 1, cx.rank(a)?.max(w.rank()), cx.rank(a)?.max(w.rank()) - 1],
        };
        if node.is("MatMul") && cx.rank(a)? == 1 {
            return Skip::because("MatMul is of a vector");
        }
        let channels =
            *w.dims().get(axis).ok_or_else(|| Skip("the weights have no channels".into()))?;
        let gain = per_channel(self.factor, channels, rank, of_output)?;
        let mut inputs = Vec::new();
        if let Some(bias) = node.input(2) {
            cx.constant(bias)?;
            inputs.push((2, self.constant(bias, &gain)?));
        }
        inputs.push((1, self.slices(b, axis, &gain.values)?));
        Ok(Scaled::Node(id, inputs))
    }

    /// A matrix product of two computed values. In 16 bits, what was in range might be no more.
    fn computed(&mut self, id: NodeId, a: ValueId, b: ValueId) -> Result<Scaled, Skip> {
        if !self.cx.graph[id].is("MatMul") {
            return self.no_place(&self.cx.graph[id]);
        }
        if self.cx.dtype(a)?.bits() < 32 {
            return Skip::because("a product of 16 bits is easily out of range");
        }
        let second = self.value(b).map(|scaled| (1, scaled));
        let input = second.or_else(|_| self.value(a).map(|scaled| (0, scaled)))?;
        Ok(Scaled::Node(id, vec![input]))
    }

    /// How all that read `v` make up for its lack of the factor.
    pub(crate) fn readers(&mut self, v: ValueId) -> Result<Vec<CompensatedReader>, Skip> {
        let cx = self.cx;
        let readers = cx.graph.readers(v);
        if cx.graph.is_output(v) || readers.len() > self.left {
            return Skip::because(format!("not all readers of {} have weights", cx.name(v)));
        }
        self.left -= readers.len();
        readers.iter().map(|id| self.reader(v, *id)).collect()
    }

    fn reader(&mut self, v: ValueId, id: NodeId) -> Result<CompensatedReader, Skip> {
        let node = &self.cx.graph[id];
        let slots: Vec<usize> =
            (0..node.inputs.len()).filter(|i| node.input(*i) == Some(v)).collect();
        let single = node.is_standard() && node.outputs.iter().flatten().count() == 1;
        let ([slot], true, Some(out)) = (&slots[..], single, node.output(0)) else {
            return self.no_place(node);
        };
        let other = node.input(1 - slot.min(&1));
        let how = match (node.op.as_str(), *slot, other) {
            (op, 0, _) if MOVES.contains(&op) => Compensated::Later(self.readers(out)?),
            ("MatMul", 0 | 1, Some(other)) if self.cx.dtype(v)?.bits() >= 32 => {
                Compensated::Input(1 - slot, self.value(other)?)
            }
            ("Gemm", 0 | 1, Some(other)) | ("Conv" | "ConvTranspose", 0, Some(other)) => {
                self.cx.constant(other)?;
                Compensated::Input(1 - slot, self.value(other)?)
            }
            _ => return self.no_place(node),
        };
        Ok(CompensatedReader { node: id, slot: *slot, how })
    }
}

impl Scaled {
    /// The node that computes the value.
    pub(crate) fn node(self, cx: &mut Rewriter) -> Option<Node> {
        match self {
            Scaled::Constant(..) => None,
            Scaled::Factors(id, factor) => {
                let mut node = cx.graph[id].clone();
                let used = if node.input(2).is_some() { 2 } else { 1 };
                for name in ["alpha", "beta"].into_iter().take(used) {
                    let old = match node.attr(name) {
                        Some(Attr::Float(x)) => f64::from(*x),
                        _ => 1.0,
                    };
                    node.attrs.retain(|(other, _)| other != name);
                    node.attrs.push((name.into(), Attr::Float((old * factor) as f32)));
                }
                Some(node)
            }
            Scaled::Node(id, inputs) => {
                let mut node = cx.graph[id].clone();
                for (slot, input) in inputs {
                    node.inputs[slot] = Some(input.build(cx, node.inputs[slot]));
                }
                Some(node)
            }
        }
    }

    /// The value itself, beside `old`.
    fn build(self, cx: &mut Rewriter, old: Option<ValueId>) -> ValueId {
        match self {
            Scaled::Constant(v, None) => v,
            Scaled::Constant(v, Some(data)) => cx.derive(v, "scaled", data),
            node => {
                let old = old.expect("what is scaled is read");
                let node = node.node(cx).expect("no constant");
                beside(cx, old, node)
            }
        }
    }
}

/// Lets `node` compute what is like `old` in all but the factor.
fn beside(cx: &mut Rewriter, old: ValueId, mut node: Node) -> ValueId {
    let (name, ty) = (cx.graph.derived_name(old, "scaled"), cx.graph[old].ty.clone());
    let out = cx.graph.add_value(&name, ty);
    node.outputs = vec![Some(out)];
    cx.graph.add_node(node);
    out
}

impl CompensatedReader {
    /// Reads `v`, which lacks the factor, and what makes up for it. The latter is work of `layers`, too.
    pub(crate) fn build(self, cx: &mut Rewriter, v: ValueId, layers: &Layers) -> Result<(), Skip> {
        let mut node = cx.graph[self.node].clone();
        let out = node.output(0).expect("it has one output");
        node.inputs[self.slot] = Some(v);
        match self.how {
            Compensated::Input(slot, scaled) => {
                node.inputs[slot] = Some(scaled.build(cx, node.inputs[slot]));
                node.layers.add(layers);
                cx.replace_by(out, node)
            }
            Compensated::Later(readers) => {
                let moved = beside(cx, out, node);
                readers.into_iter().try_for_each(|reader| reader.build(cx, moved, layers))
            }
        }
    }
}
