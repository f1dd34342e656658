//! Scores by how far keys are, from tables of vectors.

use super::embedding::Tokens;
use super::weights::Net;
use super::{Encoder, Products, Relative, Vectors};
use onnxd_plugin_sdk::build::{Result, Var};

/// What layers share of it: which row each pair of a query and a key has, and the table.
pub(super) struct Distances {
    /// [B, heads, S, S]
    rows: Var,
    /// Vectors before each layer projects them: [rows, hidden].
    table: Option<Var>,
}

/// A number for each head and pair of tokens: [1, heads, S, S].
pub(super) fn biases(net: &Net<'_>, tokens: &Tokens) -> Result<Option<Var>> {
    let Relative::Bias { table, rows, places } = &net.e.attention.relative else { return Ok(None) };
    let b = net.b;
    let table = net.weight(&format!("{table}.weight"), &[*rows, net.e.heads])?;
    let all = b.gather(table, places.rows(b, tokens.places)?).one()?;
    b.unsqueeze(b.transpose(all).perm(vec![2, 0, 1]).one()?, vec![0]).map(Some)
}

impl Distances {
    pub(super) fn new(net: &Net<'_>, tokens: &Tokens) -> Result<Option<Distances>> {
        let Relative::Products(Products { rows, places, vectors, .. }) = &net.e.attention.relative
        else {
            return Ok(None);
        };
        let (b, Encoder { heads, hidden, .. }) = (net.b, net.e);
        let table = match vectors {
            Vectors::OfLayer { .. } => None,
            Vectors::Projected { table, norm, .. } => {
                let table = net.weight(&format!("{table}.weight"), &[*rows, *hidden])?;
                Some(norm.map_or(Ok(table), |norm| net.norm(table, norm, *hidden))?)
            }
        };
        let sizes = tokens.pairs(b, *heads)?;
        let rows = b.expand(places.rows(b, tokens.places)?, sizes)?;
        Ok(Some(Distances { rows, table }))
    }
}

/// Products of queries with vectors of keys' distances, and of keys with those of queries: [B, heads, S, S].
pub(super) fn products(
    net: &Net<'_>,
    distances: &Distances,
    [q, k]: [Var; 2],
    prefix: &str,
) -> Result<Var> {
    let Relative::Products(Products { vectors, scale, of_queries, of_keys, .. }) =
        &net.e.attention.relative
    else {
        unreachable!("there are distances only for products")
    };
    let b = net.b;
    let mut terms = vec![];
    if *of_queries {
        let vectors = turned(net, distances, prefix, (vectors, true))?;
        terms.push(b.gather_elements(b.mat_mul(q, vectors)?, distances.rows).axis(3).one()?);
    }
    if *of_keys {
        let vectors = turned(net, distances, prefix, (vectors, false))?;
        let scores = b.transpose(b.mat_mul(k, vectors)?).perm(vec![0, 1, 3, 2]).one()?;
        terms.push(b.gather_elements(scores, distances.rows).axis(2).one()?);
    }
    let [first, rest @ ..] = terms.as_slice() else {
        unreachable!("there are products of something")
    };
    let sum = rest.iter().try_fold(*first, |sum, term| b.add(sum, *term))?;
    if *scale == 1.0 { Ok(sum) } else { b.mul(sum, *scale) }
}

/// Vectors that queries are multiplied with, or those for keys: [heads, D, rows], or [D, rows] for all heads.
fn turned(
    net: &Net<'_>,
    distances: &Distances,
    prefix: &str,
    (vectors, are_for_queries): (&Vectors, bool),
) -> Result<Var> {
    let (b, Encoder { heads, head, hidden, attention, .. }) = (net.b, net.e);
    match vectors {
        Vectors::OfLayer { table } => {
            let Relative::Products(Products { rows, .. }) = attention.relative else {
                unreachable!("there are vectors only for products")
            };
            let table = net.weight(&format!("{prefix}{table}.weight"), &[rows, *head])?;
            b.transpose(table).perm(vec![1, 0]).one()
        }
        Vectors::Projected { keys, queries, .. } => {
            let name = format!("{prefix}{}", if are_for_queries { keys } else { queries });
            let table = distances.table.expect("there is a table for projected vectors");
            let all = net.project(table, &name, [*hidden, heads * head])?;
            let apart = b.reshape(all, vec![0, *heads as i64, *head as i64]).one()?;
            b.transpose(apart).perm(vec![1, 2, 0]).one()
        }
    }
}
