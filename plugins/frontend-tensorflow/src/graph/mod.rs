//! Graphs of nodes, as SavedModels and frozen files have them, and their functions.

mod body;
pub(crate) mod branch;
pub(crate) mod bundle;
pub(crate) mod calls;
pub(crate) mod cells;
pub(crate) mod checkpoint;
pub(crate) mod control;
pub(crate) mod effects;
pub(crate) mod extent;
#[cfg(test)]
pub(crate) mod fixture;
pub(crate) mod flow;
pub(crate) mod frames;
pub(crate) mod frozen;
pub mod fuzzing;
pub(crate) mod idioms;
pub(crate) mod index;
pub(crate) mod leftovers;
pub(crate) mod list;
pub(crate) mod lists;
mod narrow;
pub(crate) mod network;
pub(crate) mod node;
mod order;
pub(crate) mod recurrent;
pub(crate) mod repeat;
pub(crate) mod resources;
pub(crate) mod restore;
pub(crate) mod run;
pub(crate) mod saved;
pub(crate) mod scans;
pub(crate) mod sequence;
pub(crate) mod siblings;
pub(crate) mod slices;
pub(crate) mod slots;
pub(crate) mod states;
pub(crate) mod turns;
