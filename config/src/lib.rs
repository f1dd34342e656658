//! Settings of the daemon and params of one conversion, each declared once in a table.
//!
//! Help, example file, range checks, suggestions for mistyped keys and the origin of every value
//! are derived from the rows, so that none of them can disagree with the others.

mod defaults;
pub mod descriptor;
mod example;
mod folders;
mod kind;
mod load;
mod params;
mod profile;
mod source;
mod table;

pub mod settings;

pub use defaults::Environment;
pub use descriptor::Descriptor;
pub use example::{example, starter};
pub use kind::ValueKind;
pub use load::{Loaded, default_files, load};
pub use params::{BYTES_MAX as PARAMS_BYTES_MAX, Clash, Declared, Params, Preset};
pub use profile::{PROFILES, profile};
pub use settings::Settings;
pub use table::{DefaultValue, KeyEntry, KeyRow, toml_text};

#[cfg(test)]
mod unit_tests;
