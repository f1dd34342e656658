//! The worker process: confinement, the link to the daemon, and the stages of a conversion.

pub mod confine;
pub mod link;
pub mod recognition;
mod serve;
mod stages;
pub mod tools;

pub use serve::worker_main;
