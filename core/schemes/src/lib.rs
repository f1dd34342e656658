//! What quantizers of several plugins share, because two plugins do not link together: what params
//! ask for, the search for the best way to quantize, and what the report says.

mod auto;
mod bound;
mod clock;
mod dynamic;
mod idle;
mod params;
mod parts;
mod quality;
mod reload;
mod report;
mod search;
mod trial;
mod weights;

pub use dynamic::quantize_dynamic;
pub use idle::unmatched;
pub use params::{key, method, request};
pub use quality::{Held, cover, measure};
pub use report::{quantized_already, report, written};
pub use search::{Data, quantize};
pub use weights::{fix_weights, in_float32};
