//! Whole models through the crate's public functions: written and read, damaged, spread over files.

mod build;
mod files;
mod findings;
mod hostile;
mod round_trip;
mod typed_data;
