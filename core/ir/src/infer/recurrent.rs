//! Recurrent networks.

use super::Rules;
use super::site::{InferContext, Shapes, show, unknown};
use crate::Dim;

pub(super) const RULES: Rules = &[("GRU", recurrent), ("LSTM", recurrent), ("RNN", recurrent)];

/// All states, then the last hidden one (for LSTM also the last cell).
fn recurrent(site: &InferContext<'_>) -> Shapes {
    let directions = match site.text("direction") {
        "bidirectional" => 2,
        _ => 1,
    };
    let directions = Dim::Known(directions);
    let hidden = match site.node.attr("hidden_size") {
        Some(_) => Dim::Known(site.int("hidden_size", 0)),
        None => match site.shape(2) {
            Some([_, _, hidden]) => hidden.clone(),
            _ => Dim::Unknown,
        },
    };
    let Some(x) = site.shape(0) else { return unknown() };
    let [first, second, _] = x else {
        return Err(format!("the input {} has not three axes", show(x)));
    };
    let (y, last) = if site.int("layout", 0) == 0 {
        ([first, &directions, second, &hidden], [&directions, second, &hidden])
    } else {
        ([first, second, &directions, &hidden], [first, &directions, &hidden])
    };
    let [y, last] = [&y[..], &last[..]].map(|dims| Some(dims.iter().copied().cloned().collect()));
    Ok(vec![y, last.clone(), last])
}
