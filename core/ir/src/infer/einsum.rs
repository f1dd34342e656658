//! Einstein's notation.

use super::Rules;
use super::site::{InferContext, Shapes, broadcast, one, show, unknown};
use crate::Shape;
use onnxd_diagnostics::refuse;
use std::collections::BTreeMap;

pub(super) const RULES: Rules = &[("Einsum", einsum)];

/// The letters of a term, an ellipsis as `.`.
fn letters(term: &str) -> Vec<char> {
    term.replace("...", ".").chars().collect()
}

/// Sizes of all letters; those of the ellipsis.
type LetterSizes = (BTreeMap<char, Shape>, Shape);

fn sizes(site: &InferContext<'_>, terms: &[Vec<char>]) -> Result<Option<LetterSizes>, String> {
    let (mut of, mut rest) = (BTreeMap::<char, Shape>::new(), Shape::new());
    for (i, term) in terms.iter().enumerate() {
        let Some(shape) = site.shape(i) else { return Ok(None) };
        let named = term.iter().filter(|c| **c != '.').count();
        let fits = if named == term.len() { shape.len() == named } else { shape.len() >= named };
        if !fits {
            let term: String = term.iter().collect();
            return Err(format!("`{}` does not fit {}", term.replace('.', "..."), show(shape)));
        }
        let mut left = shape;
        for letter in term {
            let taken = if *letter == '.' { shape.len() - named } else { 1 };
            let (these, others) = left.split_at(taken);
            left = others;
            let known = if *letter == '.' { &mut rest } else { of.entry(*letter).or_default() };
            *known = broadcast(known, these)?;
        }
    }
    Ok(Some((of, rest)))
}

fn einsum(site: &InferContext<'_>) -> Shapes {
    let equation: String = site.text("equation").split_whitespace().collect();
    let (left, right) = match equation.split_once("->") {
        Some((left, right)) => (left, Some(right)),
        None => (equation.as_str(), None),
    };
    let terms: Vec<Vec<char>> = left.split(',').map(letters).collect();
    let ellipses = |term: &[char]| term.iter().filter(|c| **c == '.').count();
    refuse!(terms.len() != site.node.inputs.len() || terms.iter().any(|t| ellipses(t) > 1) =>
        "`{equation}` does not fit {} inputs", site.node.inputs.len());
    let Some((of, rest)) = sizes(site, &terms)? else { return unknown() };
    let output = right.map_or_else(|| implied(&terms), letters);
    let mut out = Shape::new();
    for letter in output {
        match of.get(&letter) {
            _ if letter == '.' => out.extend(rest.iter().cloned()),
            Some(size) => out.extend(size.iter().cloned()),
            None => return Err(format!("`{letter}` of `{equation}` is in no input")),
        }
    }
    one(out)
}

/// What stands for an output that is left out: the ellipsis, then the letters that occur once.
fn implied(terms: &[Vec<char>]) -> Vec<char> {
    let mut counts = BTreeMap::new();
    terms.iter().flatten().for_each(|c| *counts.entry(*c).or_insert(0) += 1);
    // `.` sorts before the letters.
    counts.into_iter().filter(|(c, n)| *n == 1 || *c == '.').map(|(c, _)| c).collect()
}
