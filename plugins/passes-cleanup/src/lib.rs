//! Clean-up: removes what does not change the result.

// A rule takes what it matched by value, used up or not: all rules have one form.
#![allow(clippy::needless_pass_by_value)]

mod dead_outputs;
mod draw_bernoulli;
mod fold_constants;
mod inline_branches;
mod inline_functions;
mod known;
mod merge_casts;
mod merge_concats;
mod merge_duplicates;
mod merge_gathers;
mod merge_pads;
mod merge_reshapes;
mod merge_signs;
mod merge_slices;
mod merge_splits;
mod merge_transposes;
mod remove_dead_code;
mod remove_dropout;
mod remove_identity;
mod reshape_sizes;
mod shapes;
mod simplify_logic;
mod split_before_transpose;
mod split_slices;
mod unroll_loops;

use onnxd_plugin_sdk::rewrite::{rule, rule_on_facts};

onnxd_plugin_sdk::export_plugin! {
    id: "org.onnxd.passes-cleanup",
    summary: "Removes what does not change the result",
    components: [
        pass(
            "inline-functions",
            "Inlines local functions";
            // A float model keeps its functions.
            declares ["unless = { \"quantization.format\" = \"none\" }"] =>
            |_| Box::new(inline_functions::InlineFunctions),
        ),
        pass(
            "remove-dropout",
            "Removes Dropout, which is the identity at inference" =>
            || rule("remove-dropout", remove_dropout::remove_dropout),
        ),
        pass(
            "draw-bernoulli",
            "Draws as Bernoulli does, which ONNX Runtime draws with the probabilities exchanged" =>
            || rule("draw-bernoulli", draw_bernoulli::draw_bernoulli),
        ),
        pass(
            "fold-constants",
            "Computes what depends on constants only";
            declares ["when = { \"export.constant_folding\" = \"true\" }"] =>
            |params| {
                let widens = params.get("quantization.format") != "none";
                Box::new(fold_constants::FoldConstants { widens })
            },
        ),
        pass(
            "simplify-shapes",
            "Computes shapes as far as they are known";
            declares ["when = { \"export.constant_folding\" = \"true\" }"] =>
            |_| Box::new(shapes::SimplifyShapes),
        ),
        pass(
            "inline-branches",
            "Puts the branch of an If with a constant condition in its place" =>
            || Box::new(inline_branches::InlineBranches),
        ),
        pass(
            "unroll-loops",
            "Puts the iterations of a Loop, at most 64 and constant in number, in its place" =>
            || Box::new(unroll_loops::UnrollLoops),
        ),
        pass(
            "remove-identity",
            "Removes operators that return their input" =>
            || rule_on_facts("remove-identity", remove_identity::remove_identity),
        ),
        pass(
            "merge-transposes",
            "Makes one Transpose of two, or none" =>
            || rule("merge-transposes", merge_transposes::merge_transposes),
        ),
        pass(
            "merge-reshapes",
            "Makes one Reshape of two operators that keep the order of elements, or none" =>
            || rule_on_facts("merge-reshapes", merge_reshapes::merge_reshapes),
        ),
        pass(
            "merge-casts",
            "Makes one Cast of two, or none, where the first loses nothing" =>
            || rule("merge-casts", merge_casts::merge_casts),
        ),
        pass(
            "merge-slices",
            "Makes one Slice of two along different axes" =>
            || rule_on_facts("merge-slices", merge_slices::merge_slices),
        ),
        pass(
            "merge-pads",
            "Makes one Pad of two that pad with the same value" =>
            || rule("merge-pads", merge_pads::merge_pads),
        ),
        pass(
            "merge-concats",
            "Makes one Concat of two, and none of one that joins all parts of a Split" =>
            || rule("merge-concats", merge_concats::merge_concats),
        ),
        pass(
            "merge-signs",
            "Removes signs and roundings that make no difference" =>
            || rule("merge-signs", merge_signs::merge_signs),
        ),
        pass(
            "simplify-logic",
            "Removes Where and Not as far as it is known what they give" =>
            || rule_on_facts("simplify-logic", simplify_logic::simplify_logic),
        ),
        pass(
            "merge-gathers",
            "Lets Gather give the rank that Squeeze or Unsqueeze makes behind it" =>
            || rule("merge-gathers", merge_gathers::merge_gathers),
        ),
        pass(
            "split-slices",
            "Makes one Split of the slices that share out a value" =>
            || Box::new(split_slices::SplitSlices),
        ),
        pass(
            "merge-splits",
            "Takes elements by Gather where Split or Slice and Squeeze do";
            declares ["when = { \"quantization.format\" = \"none\" }"] =>
            |_| rule_on_facts("merge-splits", merge_splits::merge_splits),
        ),
        pass(
            "merge-duplicates",
            "Merges equal initializers and nodes that compute the same" =>
            || Box::new(merge_duplicates::MergeDuplicates),
        ),
        pass(
            "remove-dead-code",
            "Removes what no output depends on" =>
            || Box::new(remove_dead_code::RemoveDeadCode),
        ),
    ],
}
