//! What a third-party author starts from: one front-end, one rewrite rule and one quantizer in
//! one library.
//!
//! The front-end reads `*.line` files, a toy format: each line is `scale OFFSET GAIN` or `clip MIN MAX`, applied to a
//! vector of any length, in order. The rule turns `Neg(Neg(x))` into `x`. The quantizer
//! rounds weights.

// A rule takes what it matched by value, used up or not: all rules have one form.
#![allow(clippy::needless_pass_by_value)]

mod line;
mod remove_double_neg;
mod round_weights;

use onnxd_plugin_sdk::rewrite::rule;

onnxd_plugin_sdk::export_plugin! {
    id: "org.onnxd.example",
    summary: "An example: a small front-end, a rewrite rule and a quantizer",
    components: [
        frontend("line", "Line files: scalings and clips of a vector"; "*.line" => || Box::new(line::Line)),
        pass(
            "remove-double-neg",
            "Removes two negations in a row" =>
            || rule("remove-double-neg", remove_double_neg::remove_double_neg),
        ),
        quantizer(
            "round-weights",
            "Rounds weights to a number of bits, in floating point";
            declares [round_weights::NEEDS, round_weights::Params::ROWS] =>
            || Box::new(round_weights::RoundWeights),
        ),
    ],
}
