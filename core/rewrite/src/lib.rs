//! Changing graphs: a rule either rewrites or says why not, and the reasons reach the report.
//!
//! A *rewrite rule* handles one pattern, rooted at one operator; a *pass* works on the whole model. Both are run by
//! [`run_passes`], which counts rewrites against [`Fuel`], so that "which rewrite broke it" is found by bisection.
//!
//! Passes live in plugins; only what quantizers need as well is here: [`EqualizeWeights`].

#[cfg(any(test, feature = "check"))]
pub mod check;
mod equalize_weights;
#[cfg(any(test, feature = "check"))]
mod equivalence;
mod fuel;
mod pass;
mod rewriter;
mod rule;
mod types;

pub use equalize_weights::EqualizeWeights;
#[cfg(any(test, feature = "check"))]
pub use equivalence::{Difference, Effort, Equivalence, compare_outputs, equivalence};
pub use fuel::Fuel;
pub use pass::{Pass, PassContext, PassReport, run_passes};
pub use rewriter::{REALS_MAX, Rewriter};
pub use rule::{Rewrite, Skip, for_each_graph_known, rule, rule_on_facts, rules};
