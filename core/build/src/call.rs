//! One operator on its way into the graph.

use crate::draft::Draft;
use crate::result::Result;
use crate::{GraphBuilder, Operand, Var};
use onnxd_diagnostics::Code;
use onnxd_ir::{Attr, DataType, Node};
use std::marker::PhantomData;

/// Elements of a constant that is cast when it is read, and not by a node.
const CAST_MAX: usize = 64;

/// An operator `O` that lacks its outputs. Optional inputs and attributes are set by methods of
/// their names; [`Call::one`], [`Call::outputs`], [`Call::list`] and [`Call::only`] add the node.
#[must_use = "the node is added by `one`, `outputs`, `list` or `only`"]
pub struct Call<'b, O> {
    /// Boxed, so that each setter of a chain passes a pointer on.
    pub(crate) draft: Box<Draft<'b>>,
    of: PhantomData<O>,
}

impl<'b, O> Call<'b, O> {
    /// Required inputs by their names, then any number of variadic ones.
    pub(crate) fn new(
        builder: &'b GraphBuilder,
        (domain, op): (&'b str, &'b str),
        inputs: Vec<(&'b str, Operand)>,
        variadic: Vec<Operand>,
    ) -> Call<'b, O> {
        Call { draft: Draft::new(builder, (domain, op), inputs, variadic), of: PhantomData }
    }

    /// Sets an input or attribute by its name in the newest version of the standard.
    pub fn set(self, name: &'b str, to: impl Into<Operand>) -> Self {
        self.with(name, to.into())
    }

    /// As [`Call::set`], for what is an operand already.
    pub(crate) fn with(mut self, name: &'b str, to: Operand) -> Self {
        self.draft.set(name, to);
        self
    }

    /// Attributes to be taken over from another node, at their defaults too.
    pub fn attrs(mut self, attrs: impl IntoIterator<Item = (impl Into<String>, Attr)>) -> Self {
        self.draft.kept.extend(attrs.into_iter().map(|(name, attr)| (name.into(), attr)));
        self
    }

    /// Names the first output `<prefix>_<role>`; without it, the role is the operator's name.
    pub fn role(mut self, role: &str) -> Self {
        self.draft.roles(&[role]);
        self
    }

    /// As [`Call::role`], for the first outputs in their order.
    pub fn roles<const N: usize>(mut self, roles: [&str; N]) -> Self {
        self.draft.roles(&roles);
        self
    }

    /// Names the first output.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.draft.names = [name.into()].into();
        self
    }

    /// Names the node.
    pub fn called(mut self, name: impl Into<String>) -> Self {
        self.draft.called = Some(name.into());
        self
    }

    /// Adds the node and gives its only output, or the first one.
    ///
    /// # Errors
    /// `N0502` where the operator, an attribute or an input does not exist in this version or is of
    /// another type; `N0215` where shapes cannot meet.
    pub fn one(mut self) -> Result<Var> {
        self.draft.only(0)
    }

    /// As [`Call::one`], for the first `N` outputs.
    ///
    /// # Errors
    /// Those of [`Call::one`].
    pub fn outputs<const N: usize>(mut self) -> Result<[Var; N]> {
        let all = self.draft.emit(&[true; N])?;
        Ok(std::array::from_fn(|i| all[i]))
    }

    /// As [`Call::one`], for `n` outputs.
    ///
    /// # Errors
    /// Those of [`Call::one`].
    pub fn list(mut self, n: usize) -> Result<Vec<Var>> {
        self.draft.emit(&vec![true; n])
    }

    /// As [`Call::one`], for output number `slot` alone; the others are left out.
    ///
    /// # Errors
    /// Those of [`Call::one`].
    pub fn only(mut self, slot: usize) -> Result<Var> {
        self.draft.only(slot)
    }

    /// As [`Call::one`], for the outputs that `node` has; those that it leaves out are left out.
    ///
    /// # Errors
    /// Those of [`Call::one`].
    pub fn outputs_of(mut self, node: &Node) -> Result<Vec<Option<Var>>> {
        self.draft.outputs_of(node)
    }
}

/// An operator of any domain.
pub struct AnyOp;

impl GraphBuilder {
    /// An operator of any domain. Inputs are by position; attributes are set by [`Call::set`], and so
    /// are inputs of an operator that a table lists.
    pub fn op<'b>(
        &'b self,
        domain: &'b str,
        op: &'b str,
        inputs: impl IntoIterator<Item = impl Into<Operand>>,
    ) -> Call<'b, AnyOp> {
        let inputs = inputs.into_iter().map(Into::into).collect();
        let mut call = Call::new(self, (domain, op), vec![], inputs);
        call.draft.positional = true;
        call
    }

    /// The operator of `node` on other inputs, with its name and attributes.
    pub fn again<'b>(
        &'b self,
        node: &'b Node,
        inputs: impl IntoIterator<Item = impl Into<Operand>>,
    ) -> Call<'b, AnyOp> {
        let domain = if node.is_standard() { "" } else { node.domain.as_str() };
        let call = self.op(domain, &node.op, inputs).attrs(node.attrs.iter().cloned());
        let mut call = call.called(node.name.as_str());
        call.draft.like = Some(node);
        call
    }

    /// `x` as elements of type `to`; `x` itself if it has that type.
    ///
    /// # Errors
    /// Those of [`Call::one`].
    pub fn cast(&self, x: impl Into<Operand>, to: DataType) -> Result<Var> {
        self.cast_operand(x.into(), to)
    }

    fn cast_operand(&self, mut x: Operand, to: DataType) -> Result<Var> {
        self.locate(&mut x);
        match x {
            Operand::Var(v) if self.dtype_of(v) == Some(to) => Ok(v),
            Operand::Var(v) => {
                let small = self.constant_of(v).filter(|t| t.len() <= CAST_MAX && to.is_float());
                if let Some(tensor) = small.and_then(|t| t.to_reals()?.to_tensor(to)) {
                    return Ok(self.constant(tensor));
                }
                let given = vec![("input", Operand::Var(v)), ("to", to.into())];
                Draft::new(self, ("", "Cast"), given, vec![]).only(0)
            }
            other => {
                let id = self.materialize(&other, Some(to), ("Cast", "constant"))?;
                id.map(|id| self.var(id))
                    .ok_or_else(|| self.diagnostic(Code::OnnxInvalid, "There is nothing to cast."))
            }
        }
    }
}
