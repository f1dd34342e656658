//! The worker process: confinement, the link to the daemon, and the stages of a conversion.

pub mod confine;
mod described;
mod installed;
mod integers;
pub mod link;
mod needs;
mod params;
pub mod recognition;
mod serve;
mod stages;
mod summary;
pub mod tools;

pub use serve::worker_main;
