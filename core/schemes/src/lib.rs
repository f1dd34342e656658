//! What quantizers of several plugins share, because two plugins do not link together: what params
//! ask for, the search for the best way to quantize, and what the report says.

mod dynamic;
mod params;
mod reload;
mod report;
mod search;
mod trial;

pub use dynamic::quantize_dynamic;
pub use params::{key, method, nearest_alone, request};
pub use report::{report, saturation, written};
pub use search::quantize;
