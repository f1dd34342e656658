//! What a plugin provides.

use crate::rewrite::Pass;
use crate::{Frontend, Quantizer};

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
    /// Quantizes graphs.
    Quantizer {
        /// Id, unique within its kind.
        id: &'static str,
        /// Makes one.
        make: fn() -> Box<dyn Quantizer>,
    },
}
