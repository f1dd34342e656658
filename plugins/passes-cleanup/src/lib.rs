//! Clean-up: removes what does not change the result.

// A rule takes what it matched by value, used up or not: all rules have one form.
#![allow(clippy::needless_pass_by_value)]

mod fold_constants;
mod inline_functions;
mod merge_duplicates;
mod remove_dead_code;
mod remove_dropout;
mod remove_identity;

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
            "fold-constants",
            "Computes what depends on constants only";
            declares ["when = { \"export.constant_folding\" = \"true\" }"] =>
            |_| Box::new(fold_constants::FoldConstants),
        ),
        pass(
            "remove-identity",
            "Removes operators that return their input" =>
            || rule_on_facts("remove-identity", remove_identity::remove_identity),
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
