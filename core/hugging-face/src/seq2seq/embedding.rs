//! Words as vectors, and vectors as scores of words.

use super::net::Net;
use super::positions::{self, Places};
use super::{Head, Stack};
use onnxd_plugin_sdk::build::{Result, Var};
use onnxd_plugin_sdk::ir::Tensor;

/// The table of words of a stack, and what its first layer reads.
pub(super) fn embedded(
    net: &Net<'_>,
    stack: &Stack,
    (ids, words): (Var, usize),
    places: &Places,
) -> Result<(Var, Var)> {
    let (b, d) = (net.b, net.d);
    let name = match d.embedding.shared {
        Some(shared) => format!("{shared}.weight"),
        None => format!("{}.embed_tokens.weight", stack.name),
    };
    let table = net.constant(&name, table(net, stack, &name, words)?);
    let mut x = b.gather(table, ids).one()?;
    if d.embedding.scale != 1.0 {
        x = b.mul(x, d.embedding.scale)?;
    }
    if let Some(added) = positions::added(net, stack, places)? {
        x = b.add(x, added)?;
    }
    let x = match d.embedding.norm {
        Some(norm) => net.norm(x, &format!("{}.{norm}", stack.name))?,
        None => x,
    };
    Ok((table, x))
}

/// The table of words `name`. A file may have copies of it under the other names of a tied one, or one of these alone.
fn table(net: &Net<'_>, stack: &Stack, name: &str, words: usize) -> Result<Tensor> {
    let (d, w, dims) = (net.d, net.w, [words, net.d.hidden]);
    let mut names = vec![];
    let is_shared = d.embedding.shared.is_some();
    if is_shared {
        names.extend(["encoder", "decoder"].map(|stack| format!("{stack}.embed_tokens.weight")));
    }
    // An encoder with words of its own has nothing to do with logits.
    if d.whose_head == Head::OfWords && (is_shared || stack.cross.is_some()) {
        names.push(format!("{}.weight", d.lm_head));
    }
    let copies = names.iter().map(|name| w.optional(name, &dims)).collect::<Result<Vec<_>>>()?;
    match (w.optional(name, &dims)?, copies.into_iter().flatten().next()) {
        (Some(table), _) | (None, Some(table)) => Ok(table),
        (None, None) => w.tensor(name, &dims),
    }
}

/// Scores of all words. A table of words that gives them, too, is used as it lies, so that it is there once.
pub(super) fn logits(net: &Net<'_>, x: Var, ids: Var, table: Var) -> Result<Var> {
    let (b, d) = (net.b, net.d);
    let x = if d.logits_scale == 1.0 { x } else { b.mul(x, d.logits_scale)? };
    let name = "final_logits_bias";
    let bias = net.w.optional(name, &[1, d.words])?.map(|bias| net.constant(name, bias));
    let own = format!("{}.weight", d.lm_head);
    let is_own = match d.whose_head {
        Head::OfWords => false,
        Head::Own => true,
        Head::OwnIfThere => net.w.optional(&own, &[d.words, d.hidden])?.is_some(),
    };
    if is_own {
        let words = net.apply(x, &net.plain(d.lm_head, [d.hidden, d.words])?)?;
        return bias.map_or(Ok(words), |bias| b.add(words, bias));
    }
    net.by_table(x, table, (bias, ids), [d.hidden, d.words])
}
