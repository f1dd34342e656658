//! A layer: its branches, and linear layers by their names.

use super::formulas::{Each, ExpertWeights, Flow, Formulas, LATENT_NAMES, Mlp};
use super::packed;
use super::source::{Matrix, Plain, Row};
use crate::raw::Find;

/// Outputs of a linear layer.
const OUTPUTS_MAX: usize = 1 << 20;

/// Keys and values of tokens before the new ones: [heads, tokens, elements].
#[derive(Clone)]
pub(super) struct Past {
    pub(super) tokens: usize,
    pub(super) keys: Row,
    pub(super) values: Row,
}

pub(super) struct Layer<'a> {
    pub(super) f: &'a Formulas,
    pub(super) number: usize,
    find: &'a Find<'a>,
    /// What names of its weights begin with.
    prefix: String,
}

impl<'a> Layer<'a> {
    /// The layer of this number, if its weights are there.
    pub(super) fn new(f: &'a Formulas, find: &'a Find<'a>, number: usize) -> Plain<Layer<'a>> {
        let of = |prefix: &&str| format!("{prefix}{}.{number}.", f.names.layers);
        let is_there = |prefix: &String| {
            let of = |part: &&str| find(&format!("{prefix}{}.{part}", f.names.o)).is_some();
            packed::NAMES.iter().any(of)
        };
        let prefix = f.names.prefixes.iter().map(of).find(is_there);
        let prefix = prefix
            .ok_or_else(|| format!("its weights are not called as those of {}", f.names.layers))?;
        match f.heads.checked_rem(f.kv_heads) {
            Some(0) if f.head > 0 && f.value > 0 && number < f.each.len() => {
                Ok(Layer { f, number, find, prefix })
            }
            _ => Err("its sizes are not those of heads".to_owned()),
        }
    }

    pub(super) fn each(&self) -> Each {
        self.f.each[self.number]
    }

    /// What the layer makes of new tokens.
    pub(super) fn run(&self, x: &[Row], past: &Past) -> Plain<Vec<Row>> {
        let names = &self.f.names;
        let attention = |x: &[Row]| self.attention(x, past);
        match self.f.flow {
            Flow::Serial => {
                let x = self.sum(x, &attention(&self.norm(x, names.norm)?)?);
                Ok(self.sum(&x, &self.think(&self.norm(&x, names.mlp_norm)?)?))
            }
            Flow::Between => {
                let mixed = attention(&self.norm(x, names.norm)?)?;
                let x = self.sum(x, &self.norm(&mixed, names.behind[0])?);
                let thought = self.think(&self.norm(&x, names.mlp_norm)?)?;
                Ok(self.sum(&x, &self.norm(&thought, names.behind[1])?))
            }
            Flow::Behind => {
                let x = self.sum(x, &self.norm(&attention(x)?, names.behind[0])?);
                Ok(self.sum(&x, &self.norm(&self.think(&x)?, names.behind[1])?))
            }
            Flow::Side => {
                let first = self.norm(x, names.norm)?;
                Ok(self.sum(&self.sum(x, &attention(&first)?), &self.think(&first)?))
            }
            Flow::SideByTwo => {
                let mixed = attention(&self.norm(x, names.norm)?)?;
                let thought = self.think(&self.norm(x, names.mlp_norm)?)?;
                Ok(self.sum(&self.sum(x, &mixed), &thought))
            }
        }
    }

    fn sum(&self, x: &[Row], branch: &[Row]) -> Vec<Row> {
        let of_token =
            |(x, y): (&Row, &Row)| x.iter().zip(y).map(|(x, y)| x + self.f.residual * y).collect();
        x.iter().zip(branch).map(of_token).collect()
    }

    /// The linear layer `name` of each token; its bias may be absent.
    pub(super) fn linear(&self, name: &str, x: &[Row]) -> Plain<Vec<Row>> {
        let full = format!("{}{name}", self.prefix);
        let weight = Matrix::of_layer(self.find, &full, self.f.packing)?;
        let mut weight = weight.ok_or_else(|| missing(&full))?;
        weight.rows_are_inputs |= self.f.rows_are_inputs;
        let [inputs, outputs] = weight.sizes();
        if outputs > OUTPUTS_MAX {
            return Err(format!("`{full}` has {outputs} outputs"));
        }
        if x.iter().any(|x| x.len() != inputs) {
            return Err(format!("`{full}` has {inputs} inputs, and another number is given"));
        }
        let mut y = weight.times(x);
        if let Some(bias) = self.vector(&format!("{name}.bias"), outputs)? {
            for row in &mut y {
                row.iter_mut().zip(&bias).for_each(|(y, bias)| *y += bias);
            }
        }
        Ok(y)
    }

    /// The same by one of so many matrices, without bias.
    pub(super) fn one_of(
        &self,
        name: &str,
        (i, count): (usize, usize),
        x: &[Row],
    ) -> Plain<Vec<Row>> {
        let full = format!("{}{name}.weight", self.prefix);
        let all = Matrix::find(self.find, &full)?.ok_or_else(|| missing(&full))?;
        let one = all.one_of(i, count).filter(|one| x.iter().all(|x| x.len() == one.columns));
        let one = one.ok_or_else(|| format!("`{full}` has no {count} matrices for its inputs"))?;
        Ok(one.times(x))
    }

    /// The elements of the tensor `name`, if it is there.
    pub(super) fn vector(&self, name: &str, size: usize) -> Plain<Option<Row>> {
        let full = format!("{}{name}", self.prefix);
        match Matrix::find(self.find, &full)? {
            Some(tensor) if tensor.rows.checked_mul(tensor.columns) == Some(size) => {
                Ok(Some(tensor.all()))
            }
            Some(_) => Err(format!("`{full}` has not {size} elements")),
            None => Ok(None),
        }
    }

    /// How many weights the products of the graph have.
    pub(super) fn weights(&self) -> usize {
        let names = &self.f.names;
        let mlp: &[&str] = match &self.f.mlp {
            Mlp::Gated { gate, up, down } => &[gate, up, down],
            Mlp::InOne { gate_up, down } => &[gate_up, down],
            Mlp::Plain { up, down } => &[up, down],
        };
        let size = |name: &str| {
            let weight =
                Matrix::of_layer(self.find, &format!("{}{name}", self.prefix), self.f.packing);
            weight.ok().flatten().map_or(0, |weight| weight.rows.saturating_mul(weight.columns))
        };
        let attention: usize = names
            .qkv
            .iter()
            .chain([&names.all, &names.o])
            .chain(&LATENT_NAMES)
            .map(|n| size(n))
            .sum();
        let of_experts = self.f.experts.filter(|_| self.each().has_experts).map(|experts| {
            match experts.weights {
                ExpertWeights::Each([before, parts @ ..]) => {
                    let of = |part: &&str| size(&format!("{before}.0.{part}"));
                    parts.iter().map(of).sum::<usize>().saturating_mul(experts.count)
                }
                ExpertWeights::Stacked(names) => names.iter().map(|name| size(name)).sum(),
                ExpertWeights::StackedApart(names) => names.iter().map(|name| size(name)).sum(),
            }
        });
        attention + of_experts.unwrap_or_else(|| mlp.iter().map(|name| size(name)).sum())
    }
}

fn missing(name: &str) -> String {
    format!("`{name}` is not there")
}
