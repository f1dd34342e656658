//! What a builder does to nodes besides adding them.

use crate::GraphBuilder;

impl GraphBuilder {
    /// Keeps shape arithmetic whose result is known as nodes.
    #[must_use]
    pub fn without_folding(self) -> GraphBuilder {
        self.state.borrow_mut().folding = false;
        self
    }

    /// Adds nodes also where shapes contradict. A graph that is edited may contradict itself, as in
    /// branches that no run takes; whoever verifies it reports that.
    #[must_use]
    pub fn lenient(self) -> GraphBuilder {
        self.state.borrow_mut().strict = false;
        self
    }

    /// Leaves what is added without types in the end, for graphs whose readers infer them anyway.
    #[must_use]
    pub fn untyped(self) -> GraphBuilder {
        self.state.borrow_mut().typed = false;
        self
    }

    /// Adds nodes as they are told, for graphs that no runtime accepts: types need not fit, none are
    /// inferred, and nothing is cast.
    #[must_use]
    pub fn unchecked(self) -> GraphBuilder {
        self.state.borrow_mut().checked = false;
        self
    }
}
