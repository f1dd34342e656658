//! What an adapter sees: one node, what is known about what it reads, and ways to change it.

use onnxd_build::{GraphBuilder, Var};
use onnxd_diagnostics::{Diagnostic, shown};
use onnxd_ir::schema::{self, OpSchema};
use onnxd_ir::{Attr, DataType, Dim, Node, NodeId, Tensor, ValueId, verify};
use std::cell::Ref;

/// Why a node cannot be converted.
#[derive(Debug)]
pub(crate) struct Refusal(pub(crate) String);

/// Done, or what the version lacks.
pub(crate) type Done = Result<(), Refusal>;

impl From<&str> for Refusal {
    fn from(why: &str) -> Refusal {
        Refusal(why.to_owned())
    }
}

impl From<String> for Refusal {
    fn from(why: String) -> Refusal {
        Refusal(why)
    }
}

impl From<Diagnostic> for Refusal {
    fn from(found: Diagnostic) -> Refusal {
        Refusal(found.message.trim_end_matches('.').to_owned())
    }
}

/// A refusal for this reason.
pub(crate) fn refuse<T>(why: impl Into<Refusal>) -> Result<T, Refusal> {
    Err(why.into())
}

/// One version up or down.
#[derive(Clone, Copy)]
pub(crate) struct OpsetStep {
    pub(crate) from: i64,
    pub(crate) to: i64,
    /// The version after the last step.
    pub(crate) target: i64,
}

impl OpsetStep {
    pub(crate) fn up(self) -> bool {
        self.to > self.from
    }

    /// The version whose changes are made or taken back.
    pub(crate) fn since(self) -> i64 {
        self.from.max(self.to)
    }
}

/// A node to be converted, and the builder of its graph, which is of version `step.to`.
pub(crate) struct LowerContext<'b> {
    pub(crate) b: &'b GraphBuilder,
    pub(crate) step: OpsetStep,
    id: NodeId,
    /// The node as it was, once others compute what it did.
    stale: Option<Node>,
}

impl<'b> LowerContext<'b> {
    pub(crate) fn new(b: &'b GraphBuilder, id: NodeId, step: OpsetStep) -> LowerContext<'b> {
        LowerContext { b, step, id, stale: None }
    }

    // ---- looking ----

    /// The node; it must be let go before the graph changes.
    pub(crate) fn node(&self) -> Ref<'b, Node> {
        Ref::map(self.b.graph(), |g| &g[self.id])
    }

    pub(crate) fn op(&self) -> String {
        self.node().op.clone()
    }

    /// Whether others compute what the node did.
    pub(crate) fn is_replaced(&self) -> bool {
        self.stale.is_some()
    }

    /// The node as it is, or was.
    pub(crate) fn into_node(self) -> Node {
        match self.stale {
            Some(node) => node,
            None => self.node().clone(),
        }
    }

    /// Input `i`, which the standard demands.
    pub(crate) fn var(&self, i: usize) -> Result<Var, Refusal> {
        self.optional(i).ok_or_else(|| format!("input {i} is missing").into())
    }

    /// The first `N` inputs, which the standard demands.
    pub(crate) fn vars<const N: usize>(&self) -> Result<[Var; N], Refusal> {
        let found: Vec<Var> = (0..N).map(|i| self.var(i)).collect::<Result<_, _>>()?;
        Ok(found.try_into().expect("one value per input"))
    }

    pub(crate) fn optional(&self, i: usize) -> Option<Var> {
        let v = self.node().input(i)?;
        Some(self.b.var(v))
    }

    pub(crate) fn has(&self, i: usize) -> bool {
        self.node().input(i).is_some()
    }

    /// All inputs by position.
    pub(crate) fn inputs(&self) -> Vec<Option<Var>> {
        (0..self.node().inputs.len()).map(|i| self.optional(i)).collect()
    }

    /// Number of outputs, absent ones included.
    pub(crate) fn output_count(&self) -> usize {
        self.node().outputs.len()
    }

    /// Whether output `i` is read by anything.
    pub(crate) fn wants(&self, i: usize) -> bool {
        self.output(i).is_some_and(|v| self.b.graph().uses(v) > 0)
    }

    pub(crate) fn has_output(&self, i: usize) -> bool {
        self.output(i).is_some()
    }

    fn output(&self, i: usize) -> Option<ValueId> {
        self.node().output(i)
    }

    pub(crate) fn name(&self, v: Var) -> String {
        format!("`{}`", shown(&self.b.name_of(v)))
    }

    /// The constant that input `i` is; `None` if the input is absent.
    pub(crate) fn fixed(&self, i: usize) -> Result<Option<Tensor>, Refusal> {
        let Some(v) = self.optional(i) else { return Ok(None) };
        let found = self.b.constant_of(v);
        found.map(Some).ok_or_else(|| {
            format!("its input {} must be a constant there, and is computed", self.name(v)).into()
        })
    }

    /// The integers that input `i` holds; `None` if the input is absent.
    pub(crate) fn fixed_ints(&self, i: usize) -> Result<Option<Vec<i64>>, Refusal> {
        let Some(tensor) = self.fixed(i)? else { return Ok(None) };
        let ints = tensor.to_i64s();
        ints.map(Some).ok_or_else(|| format!("its input {i} is not of an integer type").into())
    }

    /// The numbers that input `i` holds; `None` if the input is absent.
    pub(crate) fn fixed_floats(&self, i: usize) -> Result<Option<Vec<f64>>, Refusal> {
        let Some(tensor) = self.fixed(i)? else { return Ok(None) };
        let reals = tensor.to_reals().map(|r| r.values);
        reals.map(Some).ok_or_else(|| format!("its input {i} is not of a number type").into())
    }

    pub(crate) fn dtype(&self, v: Var) -> Result<DataType, Refusal> {
        let found = self.b.dtype_of(v);
        found.ok_or_else(|| format!("the element type of {} is not known", self.name(v)).into())
    }

    pub(crate) fn shape(&self, v: Var) -> Result<Vec<Dim>, Refusal> {
        let found = self.b.shape_of(v);
        found.ok_or_else(|| format!("the rank of {} is not known", self.name(v)).into())
    }

    pub(crate) fn rank(&self, v: Var) -> Result<usize, Refusal> {
        self.shape(v).map(|s| s.len())
    }

    /// All sizes of `v`.
    pub(crate) fn dims(&self, v: Var) -> Result<Vec<i64>, Refusal> {
        let found: Option<Vec<i64>> = self.shape(v)?.iter().map(Dim::known).collect();
        found.ok_or_else(|| format!("the shape of {} is not known", self.name(v)).into())
    }

    // ---- attributes ----

    /// The attribute; one that stands for an attribute of the enclosing function has no value.
    pub(crate) fn attr(&self, name: &str) -> Result<Option<Attr>, Refusal> {
        match self.node().attr(name) {
            Some(Attr::Ref { name: of, .. }) => {
                let of = shown(of);
                refuse(format!("its attribute `{name}` is the attribute `{of}` of the function"))
            }
            other => Ok(other.cloned()),
        }
    }

    /// What `read` finds in the attribute; `None` if it is absent.
    fn typed<T>(
        &self,
        name: &str,
        read: impl FnOnce(Attr) -> Option<T>,
    ) -> Result<Option<T>, Refusal> {
        let Some(attr) = self.attr(name)? else { return Ok(None) };
        let wrong = || format!("its attribute `{name}` is of the wrong type").into();
        read(attr).map(Some).ok_or_else(wrong)
    }

    pub(crate) fn int(&self, name: &str) -> Result<Option<i64>, Refusal> {
        self.typed(name, |attr| if let Attr::Int(x) = attr { Some(x) } else { None })
    }

    /// Whether the attribute, a truth value, is 1; `default` if it is absent.
    pub(crate) fn flag(&self, name: &str, default: bool) -> Result<bool, Refusal> {
        Ok(self.int(name)?.map_or(default, |x| x != 0))
    }

    pub(crate) fn float(&self, name: &str) -> Result<Option<f32>, Refusal> {
        self.typed(name, |attr| if let Attr::Float(x) = attr { Some(x) } else { None })
    }

    pub(crate) fn ints(&self, name: &str) -> Result<Option<Vec<i64>>, Refusal> {
        self.typed(name, |attr| if let Attr::Ints(x) = attr { Some(x) } else { None })
    }

    /// The word that the attribute says, or `default`.
    pub(crate) fn word(&self, name: &str, default: &str) -> Result<String, Refusal> {
        let text = |attr| match attr {
            Attr::Str(x) => Some(String::from_utf8_lossy(&x).into_owned()),
            _ => None,
        };
        Ok(self.typed(name, text)?.unwrap_or_else(|| default.to_owned()))
    }

    /// All attributes.
    pub(crate) fn attrs(&self) -> Vec<(String, Attr)> {
        self.node().attrs.clone()
    }

    /// Names of all attributes.
    pub(crate) fn attr_names(&self) -> Vec<String> {
        self.node().attrs.iter().map(|(name, _)| name.clone()).collect()
    }

    pub(crate) fn set(&self, name: &str, attr: Attr) {
        let mut graph = self.b.graph_mut();
        let attrs = &mut graph.node_mut(self.id).attrs;
        match attrs.iter_mut().find(|(n, _)| n == name) {
            Some((_, old)) => *old = attr,
            None => attrs.push((name.to_owned(), attr)),
        }
    }

    pub(crate) fn set_int(&self, name: &str, x: i64) {
        self.set(name, Attr::Int(x));
    }

    pub(crate) fn set_word(&self, name: &str, word: &str) {
        self.set(name, Attr::Str(word.to_owned().into()));
    }

    pub(crate) fn drop(&self, name: &str) {
        self.b.graph_mut().node_mut(self.id).attrs.retain(|(n, _)| n != name);
    }

    // ---- the node ----

    /// Renames the operator.
    pub(crate) fn rename(&self, op: &str) {
        op.clone_into(&mut self.b.graph_mut().node_mut(self.id).op);
    }

    /// Sets the inputs; absent ones at the end are left out.
    pub(crate) fn set_inputs(&self, inputs: &[Option<Var>]) -> Done {
        let ids = inputs.iter().map(|v| v.map(|v| self.b.id(v)).transpose());
        self.b.set_inputs(self.id, ids.collect::<Result<_, _>>()?);
        Ok(())
    }

    /// Sets input `i`, also one that was not there.
    pub(crate) fn set_input(&self, i: usize, to: Option<Var>) -> Done {
        let mut inputs = self.inputs();
        inputs.resize(inputs.len().max(i + 1), None);
        inputs[i] = to;
        self.set_inputs(&inputs)
    }

    /// Leaves the node its first `keep` outputs; nothing produces the others any more.
    pub(crate) fn keep_outputs(&self, keep: usize) {
        let mut outputs = self.node().outputs.clone();
        outputs.truncate(keep);
        self.b.graph_mut().set_node_outputs(self.id, outputs);
    }

    /// Whether the node is what the standard describes.
    pub(crate) fn fits(&self, schema: &OpSchema) -> Done {
        let found = verify::verify_node(&self.b.graph(), &self.node(), schema);
        match found.0.as_slice() {
            [] => Ok(()),
            all => {
                let texts = all.iter().map(|d| d.message.trim_end_matches('.'));
                refuse(texts.collect::<Vec<_>>().join("; "))
            }
        }
    }

    /// Attributes that are inputs in the new version become that, and the other way round.
    pub(crate) fn restate(&self) -> Done {
        let old = schema::find("", &self.op(), self.step.from);
        Ok(self.b.restate(self.id, old.ok_or("it does not exist in its own version")?)?)
    }

    /// Lets output `i` be what `f` makes of what the node computes; an output that is absent stays.
    pub(crate) fn then(
        &self,
        i: usize,
        f: impl FnOnce(&GraphBuilder, Var) -> onnxd_build::Result<Var>,
    ) -> Done {
        let Some(out) = self.output(i) else { return Ok(()) };
        let v = f(self.b, self.b.detach(out)?)?;
        Ok(self.b.settle(v, out)?)
    }

    /// `v` is what the node computed from now on.
    pub(crate) fn becomes(&mut self, v: Var) -> Done {
        self.becomes_all(&[Some(v)])
    }

    /// Each of `by` is what an output of the node was, in their order.
    pub(crate) fn becomes_all(&mut self, by: &[Option<Var>]) -> Done {
        self.stale = Some(self.b.replace(self.id, by)?);
        Ok(())
    }

    /// Computes in another element type: the inputs `ins` are cast to it, the outputs `outs` back.
    pub(crate) fn through(&self, wide: DataType, ins: &[usize], outs: &[usize]) -> Done {
        let narrow = self.dtype(self.var(ins[0])?)?;
        for i in ins {
            if let Some(v) = self.optional(*i) {
                self.set_input(*i, Some(self.b.cast(v, wide)?))?;
            }
        }
        outs.iter().try_for_each(|i| self.then(*i, |b, v| b.cast(v, narrow)))
    }
}

/// `axis` counted from the front.
pub(crate) fn axis(axis: i64, rank: usize) -> Result<i64, Refusal> {
    let rank = rank as i64;
    let front = if axis < 0 { axis.saturating_add(rank) } else { axis };
    let exists = (0..rank.max(1)).contains(&front);
    let wrong = || format!("axis {axis} does not exist at rank {rank}").into();
    exists.then_some(front).ok_or_else(wrong)
}

/// All of `axes` counted from the front.
pub(crate) fn axes(axes: &[i64], rank: usize) -> Result<Vec<i64>, Refusal> {
    axes.iter().map(|a| axis(*a, rank)).collect()
}
