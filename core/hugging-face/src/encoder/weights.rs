//! Weights of an encoder as constants of the graph, each once: layers may share them.

use super::Encoder;
use crate::layers::{Layers, checked};
use onnxd_plugin_sdk::build::{Result, Var};
use onnxd_plugin_sdk::ir::Tensor;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Deref;

/// What writes an encoder: its description, its weights, and the graph.
pub(super) struct Net<'a> {
    pub(super) layers: Layers<'a>,
    pub(super) e: &'a Encoder,
    pub(super) held: RefCell<HashMap<String, Var>>,
}

impl<'a> Deref for Net<'a> {
    type Target = Layers<'a>;

    fn deref(&self) -> &Layers<'a> {
        &self.layers
    }
}

impl Net<'_> {
    /// The constant of this name.
    fn held(&self, name: &str, tensor: impl FnOnce() -> Result<Tensor>) -> Result<Var> {
        if let Some(held) = self.held.borrow().get(name) {
            return Ok(*held);
        }
        let new = self.constant(name, tensor()?);
        self.held.borrow_mut().insert(name.to_owned(), new);
        Ok(new)
    }

    /// A tensor of the checkpoint as it lies.
    pub(super) fn weight(&self, name: &str, dims: &[usize]) -> Result<Var> {
        self.held(name, || self.w.tensor(name, dims))
    }

    /// The same, if the checkpoint has it.
    pub(super) fn optional_weight(&self, name: &str, dims: &[usize]) -> Result<Option<Var>> {
        let tensor = self.w.optional(name, dims)?;
        tensor.map(|tensor| self.held(name, || Ok(tensor))).transpose()
    }

    /// The linear layer `name` of `x`.
    pub(super) fn project(&self, x: Var, name: &str, [inputs, outputs]: [usize; 2]) -> Result<Var> {
        let weight = format!("{name}.weight");
        let turned = || {
            let weight = self.w.tensor(&weight, &[outputs, inputs])?;
            checked(name, weight.permuted(&[1, 0]))
        };
        let y = self.b.mat_mul(x, self.held(&weight, turned)?)?;
        match self.optional_weight(&format!("{name}.bias"), &[outputs])? {
            Some(bias) => self.b.add(y, bias),
            None => Ok(y),
        }
    }

    /// The norm `name` of the last axis, which has `size` elements.
    pub(super) fn norm(&self, x: Var, name: &str, size: usize) -> Result<Var> {
        let weight = self.weight(&format!("{name}.weight"), &[size])?;
        let call = self.b.layer_normalization(x, weight).axis(-1).epsilon(self.e.epsilon);
        match self.optional_weight(&format!("{name}.bias"), &[size])? {
            Some(bias) => call.b(bias).one(),
            None => call.one(),
        }
    }
}
