//! What an adapter sees: one node, what is known about what it reads, and ways to change it.

use bytes::Bytes;
use onnxd_diagnostics::shown;
use onnxd_ir::{Attr, DataType, Dim, Graph, Node, NodeId, Tensor, ValueId, ValueType};
use std::collections::HashMap;

/// Done, or what the version lacks.
pub(crate) type Done = Result<(), String>;

/// Constants of the enclosing graphs, by the values that stand for them in a sub-graph.
pub(crate) type Known = HashMap<ValueId, Tensor>;

/// Nodes of type `Identity` between a value and its constant that are looked through.
const IDENTITIES_MAX: usize = 16;

/// A node and its graph. Nodes that are added must be right for version `to`.
pub(crate) struct Site<'g> {
    pub(crate) graph: &'g mut Graph,
    pub(crate) id: NodeId,
    /// The version after this step.
    pub(crate) to: i64,
    /// The version after the last step.
    pub(crate) target: i64,
    pub(crate) known: &'g Known,
}

impl Site<'_> {
    // ---- looking ----

    pub(crate) fn node(&self) -> &Node {
        &self.graph[self.id]
    }

    /// Input `i`, which the standard demands.
    pub(crate) fn input(&self, i: usize) -> Result<ValueId, String> {
        self.node().input(i).ok_or_else(|| format!("input {i} is missing"))
    }

    pub(crate) fn has(&self, i: usize) -> bool {
        self.node().input(i).is_some()
    }

    /// Whether output `i` is read by anything.
    pub(crate) fn wants(&self, i: usize) -> bool {
        self.node().output(i).is_some_and(|v| self.graph.uses(v) > 0)
    }

    pub(crate) fn name(&self, v: ValueId) -> String {
        format!("`{}`", shown(&self.graph[v].name))
    }

    /// The value as a constant, also through `Identity` and from an enclosing graph.
    pub(crate) fn constant(&self, mut v: ValueId) -> Option<Tensor> {
        for _ in 0..IDENTITIES_MAX {
            if let Some(found) = self.known.get(&v).or_else(|| self.graph.constant(v)) {
                return Some(found.clone());
            }
            let node = &self.graph[self.graph.producer(v)?];
            if node.is("Constant") {
                return node.attrs.iter().find_map(|(_, attr)| written_out(attr));
            }
            v = node.input(0).filter(|_| node.is("Identity"))?;
        }
        None
    }

    /// The constant that input `i` is; `None` if the input is absent.
    pub(crate) fn fixed(&self, i: usize) -> Result<Option<Tensor>, String> {
        let Some(v) = self.node().input(i) else { return Ok(None) };
        let found = self.constant(v);
        found.map(Some).ok_or_else(|| {
            format!("its input {} must be a constant there, and is computed", self.name(v))
        })
    }

    /// The integers that input `i` holds; `None` if the input is absent.
    pub(crate) fn fixed_ints(&self, i: usize) -> Result<Option<Vec<i64>>, String> {
        let Some(tensor) = self.fixed(i)? else { return Ok(None) };
        let ints = tensor.to_i64s();
        ints.map(Some).ok_or_else(|| format!("its input {i} is not of an integer type"))
    }

    /// The numbers that input `i` holds; `None` if the input is absent.
    pub(crate) fn fixed_floats(&self, i: usize) -> Result<Option<Vec<f64>>, String> {
        let Some(tensor) = self.fixed(i)? else { return Ok(None) };
        let reals = tensor.to_reals().map(|r| r.values);
        reals.map(Some).ok_or_else(|| format!("its input {i} is not of a number type"))
    }

    pub(crate) fn dtype(&self, v: ValueId) -> Result<DataType, String> {
        let found = self.graph[v].ty.as_ref().and_then(ValueType::dtype);
        found.ok_or_else(|| format!("the element type of {} is not known", self.name(v)))
    }

    pub(crate) fn shape(&self, v: ValueId) -> Result<Vec<Dim>, String> {
        let found = self.graph[v].ty.as_ref().and_then(ValueType::shape).map(<[Dim]>::to_vec);
        found.ok_or_else(|| format!("the rank of {} is not known", self.name(v)))
    }

    pub(crate) fn rank(&self, v: ValueId) -> Result<usize, String> {
        self.shape(v).map(|s| s.len())
    }

    /// All sizes of `v`.
    pub(crate) fn dims(&self, v: ValueId) -> Result<Vec<i64>, String> {
        let found: Option<Vec<i64>> = self.shape(v)?.iter().map(Dim::known).collect();
        found.ok_or_else(|| format!("the shape of {} is not known", self.name(v)))
    }

    /// The attribute; one that stands for an attribute of the enclosing function has no value.
    fn attr(&self, name: &str) -> Result<Option<&Attr>, String> {
        match self.node().attr(name) {
            Some(Attr::Ref { name: of, .. }) => {
                let of = shown(of);
                Err(format!("its attribute `{name}` is the attribute `{of}` of the function"))
            }
            other => Ok(other),
        }
    }

    pub(crate) fn int(&self, name: &str) -> Result<Option<i64>, String> {
        match self.attr(name)? {
            Some(Attr::Int(x)) => Ok(Some(*x)),
            other => unlike(name, other),
        }
    }

    pub(crate) fn float(&self, name: &str) -> Result<Option<f32>, String> {
        match self.attr(name)? {
            Some(Attr::Float(x)) => Ok(Some(*x)),
            other => unlike(name, other),
        }
    }

    pub(crate) fn ints(&self, name: &str) -> Result<Option<Vec<i64>>, String> {
        match self.attr(name)? {
            Some(Attr::Ints(x)) => Ok(Some(x.clone())),
            other => unlike(name, other),
        }
    }

    pub(crate) fn floats(&self, name: &str) -> Result<Option<Vec<f32>>, String> {
        match self.attr(name)? {
            Some(Attr::Floats(x)) => Ok(Some(x.clone())),
            other => unlike(name, other),
        }
    }

    /// The word that the attribute says, or `default`.
    pub(crate) fn word(&self, name: &str, default: &str) -> Result<String, String> {
        match self.attr(name)? {
            Some(Attr::Str(x)) => Ok(String::from_utf8_lossy(x).into_owned()),
            Some(other) => unlike(name, Some(other)).map(|_: Option<()>| String::new()),
            None => Ok(default.to_owned()),
        }
    }

    // ---- attributes ----

    pub(crate) fn set(&mut self, name: &str, attr: Attr) {
        let attrs = &mut self.graph.node_mut(self.id).attrs;
        match attrs.iter_mut().find(|(n, _)| n == name) {
            Some((_, old)) => *old = attr,
            None => attrs.push((name.to_owned(), attr)),
        }
    }

    pub(crate) fn drop(&mut self, name: &str) {
        self.graph.node_mut(self.id).attrs.retain(|(n, _)| n != name);
    }

    // ---- values and nodes ----

    fn named(&self, role: &str) -> String {
        let first = self.node().outputs.iter().flatten().next();
        let base = first.map_or(self.node().op.as_str(), |v| &self.graph[*v].name);
        format!("{base}_{role}")
    }

    /// A new constant, named after what the node computes.
    pub(crate) fn tensor(&mut self, role: &str, tensor: Tensor) -> ValueId {
        let name = self.named(role);
        self.graph.add_initializer(&name, tensor)
    }

    pub(crate) fn vector(&mut self, role: &str, items: &[i64]) -> ValueId {
        self.tensor(role, Tensor::vector(items.to_vec()))
    }

    /// A scalar of the element type `dtype`.
    pub(crate) fn scalar(
        &mut self,
        role: &str,
        x: f64,
        dtype: DataType,
    ) -> Result<ValueId, String> {
        let tensor = number(x, dtype).ok_or_else(|| format!("{x} is no {dtype}"))?;
        Ok(self.tensor(role, tensor))
    }

    /// A new value of unknown type.
    pub(crate) fn value(&mut self, role: &str) -> ValueId {
        let name = self.named(role);
        self.graph.add_value(&name, None)
    }

    /// Adds a node of one output.
    pub(crate) fn add(
        &mut self,
        op: &str,
        role: &str,
        inputs: &[ValueId],
        attrs: &[(&str, Attr)],
    ) -> ValueId {
        let out = self.value(role);
        self.add_to(out, op, inputs, attrs);
        out
    }

    /// Adds a node that computes `out`.
    pub(crate) fn add_to(
        &mut self,
        out: ValueId,
        op: &str,
        inputs: &[ValueId],
        attrs: &[(&str, Attr)],
    ) {
        let layers = self.node().layers.clone();
        let attrs = attrs.iter().map(|(n, a)| ((*n).to_owned(), a.clone())).collect();
        let node = Node { attrs, layers, ..Node::new(op, inputs.iter().copied(), [out]) };
        self.graph.add_node(node);
    }

    /// Makes this node apply another operator to other inputs. The outputs stay.
    pub(crate) fn become_node(&mut self, op: &str, inputs: &[ValueId], attrs: &[(&str, Attr)]) {
        self.set_inputs(inputs.iter().copied().map(Some).collect());
        let node = self.graph.node_mut(self.id);
        op.clone_into(&mut node.op);
        node.attrs = attrs.iter().map(|(n, a)| ((*n).to_owned(), a.clone())).collect();
    }

    /// Renames the operator.
    pub(crate) fn rename(&mut self, op: &str) {
        op.clone_into(&mut self.graph.node_mut(self.id).op);
    }

    /// Sets the inputs; absent ones at the end are left out.
    pub(crate) fn set_inputs(&mut self, mut inputs: Vec<Option<ValueId>>) {
        while inputs.last() == Some(&None) {
            inputs.pop();
        }
        let before = self.node().inputs.clone();
        self.graph.set_inputs(self.id, inputs);
        // A constant that became an attribute is not needed any more.
        for v in before.into_iter().flatten() {
            let producer = self.graph.producer(v).filter(|n| self.graph[*n].is("Constant"));
            if let Some(node) = producer.filter(|_| self.graph.uses(v) == 0) {
                self.graph.remove_node(node);
            }
        }
    }

    /// Sets input `i`, also one that was not there.
    pub(crate) fn set_input(&mut self, i: usize, to: Option<ValueId>) {
        let mut inputs = self.node().inputs.clone();
        inputs.resize(inputs.len().max(i + 1), None);
        inputs[i] = to;
        self.set_inputs(inputs);
    }

    /// Leaves the node its first `keep` outputs; nothing produces the others any more.
    pub(crate) fn keep_outputs(&mut self, keep: usize) {
        let mut outputs = self.node().outputs.clone();
        outputs.truncate(keep);
        self.graph.set_node_outputs(self.id, outputs);
    }

    /// Makes output `i` a new value, and gives what it was, which is to be computed from that.
    pub(crate) fn detach(&mut self, i: usize, role: &str) -> Result<(ValueId, ValueId), String> {
        let old = self.node().output(i).ok_or_else(|| format!("output {i} is missing"))?;
        let new = self.value(role);
        self.graph.set_output(self.id, i, new);
        Ok((new, old))
    }

    /// Computes in another element type: the inputs `ins` are cast to it, the outputs `outs` back.
    pub(crate) fn through(&mut self, wide: DataType, ins: &[usize], outs: &[usize]) -> Done {
        let narrow = self.dtype(self.input(ins[0])?)?;
        for i in ins {
            if let Some(v) = self.node().input(*i) {
                let constant = self.constant(v).and_then(|t| t.to_reals()?.to_tensor(wide));
                let cast = match constant {
                    Some(tensor) => self.tensor("wide", tensor),
                    None => self.cast("wide", v, wide),
                };
                self.set_input(*i, Some(cast));
            }
        }
        for i in
            outs.iter().filter(|i| self.node().output(**i).is_some()).copied().collect::<Vec<_>>()
        {
            let (inner, out) = self.detach(i, "wide")?;
            let to = Attr::Int(i64::from(narrow.number()));
            self.add_to(out, "Cast", &[inner], &[("to", to)]);
        }
        Ok(())
    }

    // ---- operators whose form depends on the version ----

    /// Reduces along `axes` and keeps them with size 1.
    pub(crate) fn reduce(&mut self, op: &str, role: &str, x: ValueId, axes: &[i64]) -> ValueId {
        let as_input = self.to >= if op == "ReduceSum" { 13 } else { 18 };
        if as_input {
            let axes = self.vector("axes", axes);
            return self.add(op, role, &[x, axes], &[]);
        }
        self.add(op, role, &[x], &[("axes", Attr::Ints(axes.to_vec()))])
    }

    /// `Squeeze` or `Unsqueeze`.
    pub(crate) fn squeeze(&mut self, op: &str, role: &str, x: ValueId, axes: &[i64]) -> ValueId {
        if self.to >= 13 {
            let axes = self.vector("axes", axes);
            return self.add(op, role, &[x, axes], &[]);
        }
        self.add(op, role, &[x], &[("axes", Attr::Ints(axes.to_vec()))])
    }

    /// `Reshape` to `shape`.
    pub(crate) fn reshape(&mut self, role: &str, x: ValueId, shape: &[i64]) -> ValueId {
        let shape = self.vector("shape", shape);
        self.add("Reshape", role, &[x, shape], &[])
    }

    /// `Cast` to `dtype`.
    pub(crate) fn cast(&mut self, role: &str, x: ValueId, dtype: DataType) -> ValueId {
        self.add("Cast", role, &[x], &[("to", Attr::Int(i64::from(dtype.number())))])
    }

    /// `Transpose`.
    pub(crate) fn transpose(&mut self, role: &str, x: ValueId, perm: &[i64]) -> ValueId {
        self.add("Transpose", role, &[x], &[("perm", Attr::Ints(perm.to_vec()))])
    }
}

fn unlike<T>(name: &str, attr: Option<&Attr>) -> Result<Option<T>, String> {
    match attr {
        None => Ok(None),
        Some(_) => Err(format!("its attribute `{name}` is of the wrong type")),
    }
}

/// A string attribute.
pub(crate) fn word(text: &str) -> Attr {
    Attr::Str(Bytes::copy_from_slice(text.as_bytes()))
}

/// The tensor that an attribute of `Constant` describes.
pub(crate) fn written_out(attr: &Attr) -> Option<Tensor> {
    Some(match attr {
        Attr::Tensor(tensor) => tensor.clone(),
        Attr::Int(x) => Tensor::scalar(*x),
        Attr::Float(x) => Tensor::scalar(*x),
        Attr::Ints(x) => Tensor::vector(x.clone()),
        Attr::Floats(x) => Tensor::vector(x.clone()),
        Attr::Str(x) => Tensor::strings(vec![], vec![x.clone()]).ok()?,
        Attr::Strs(x) => Tensor::strings(vec![x.len()], x.clone()).ok()?,
        _ => return None,
    })
}

/// A scalar of type `dtype`, if it can have the value.
pub(crate) fn number(x: f64, dtype: DataType) -> Option<Tensor> {
    if dtype.is_float() {
        return onnxd_ir::Reals { dims: vec![], values: vec![x] }.to_tensor(dtype);
    }
    let bytes = dtype.bits() / 8;
    let fits = dtype.is_integer() && x.fract() == 0.0 && x.abs() < 9e15;
    let all = (x as i64).to_le_bytes();
    fits.then(|| Tensor::new(dtype, vec![], Bytes::copy_from_slice(&all[..bytes])).ok()).flatten()
}

/// `axis` counted from the front.
pub(crate) fn axis(axis: i64, rank: usize) -> Result<i64, String> {
    let rank = rank as i64;
    let front = if axis < 0 { axis.saturating_add(rank) } else { axis };
    let exists = (0..rank.max(1)).contains(&front);
    exists.then_some(front).ok_or_else(|| format!("axis {axis} does not exist at rank {rank}"))
}
