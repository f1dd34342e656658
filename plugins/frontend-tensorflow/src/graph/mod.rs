//! Graphs of nodes, as SavedModels and frozen files have them, and their functions.

pub(crate) mod calls;
pub(crate) mod control;
pub(crate) mod frames;
pub(crate) mod frozen;
pub(crate) mod lists;
pub(crate) mod node;
pub(crate) mod resources;
pub(crate) mod run;
