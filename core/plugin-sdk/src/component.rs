//! What a plugin provides.

use crate::Frontend;
use crate::rewrite::Pass;

/// One thing a plugin can do, found by its id.
pub enum Component {
    /// Reads networks of some format.
    Frontend {
        /// Id, unique within its kind.
        id: &'static str,
        /// Makes one.
        make: fn() -> Box<dyn Frontend>,
    },
    /// Changes graphs.
    Pass {
        /// Id, unique within its kind.
        id: &'static str,
        /// Makes one.
        make: fn() -> Box<dyn Pass>,
    },
}
