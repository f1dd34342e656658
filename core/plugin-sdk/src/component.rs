//! What a plugin provides, and what runs when it is asked for.

use crate::contract::contract;
use crate::diagnostics::{Diagnostic, Diagnostics};
use crate::host::JobHandle;

/// One thing a plugin can do, found by its kind and id. Its constructor alone refers to the code that runs it, so that
/// a library holds only what its own kinds of components need.
pub struct Component {
    pub(crate) id: &'static str,
    pub(crate) make: Make,
    /// Makes what runs, of what was asked for by this id and this JSON.
    pub(crate) begin: fn(&[Component], &str, &[u8]) -> Begun,
}

pub(crate) type Begun = Result<Box<dyn Instance>, Diagnostic>;

/// Makes one component, by its kind.
pub(crate) enum Make {
    Frontend(fn() -> Box<dyn crate::Frontend>),
    #[cfg(feature = "pass")]
    Pass(fn(&crate::Params) -> Box<dyn crate::rewrite::Pass>),
    #[cfg(feature = "quantizer")]
    Quantizer(fn() -> Box<dyn crate::Quantizer>),
}

impl Component {
    /// As the host calls it.
    pub(crate) fn kind(&self) -> &'static str {
        match self.make {
            Make::Frontend(_) => "frontend",
            #[cfg(feature = "pass")]
            Make::Pass(_) => "pass",
            #[cfg(feature = "quantizer")]
            Make::Quantizer(_) => "quantizer",
        }
    }
}

/// A front-end, a quantizer, or a list of passes.
pub(crate) trait Instance {
    fn run(&mut self, job: JobHandle) -> Result<(), Diagnostics>;

    fn probe(&mut self, _: JobHandle) -> Result<(), Diagnostics> {
        Err(contract("only front-ends have a probe").into())
    }
}

/// What the host's `kind` names: `frontend/ID`, `quantizer/ID`, or `pass`, whose ids are in the params.
pub(crate) fn instance(components: &[Component], kind: &str, asked: &[u8]) -> Begun {
    let (word, id) = kind.split_once('/').unwrap_or((kind, ""));
    match components.iter().find(|c| c.kind() == word) {
        Some(first) => (first.begin)(components, id, asked),
        None => Err(contract(format!("no component of kind `{kind}` in this plugin"))),
    }
}

/// What `make` gives for the component of this id.
pub(crate) fn made<T>(
    components: &[Component],
    id: &str,
    what: &str,
    make: impl Fn(&Make) -> Option<T>,
) -> Result<T, Diagnostic> {
    let found = components.iter().filter(|c| c.id == id).find_map(|c| make(&c.make));
    found.ok_or_else(|| contract(format!("no {what} `{id}` in this plugin")))
}
