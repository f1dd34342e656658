//! Files of people who are not trusted: opened without following links, copied with a digest, and
//! written beside them without touching what they put there.
//!
//! A path below a folder that others can write means something else from one moment to the next. So
//! a folder is opened once, and everything in it is reached from its descriptor.

mod copy;
mod lease;
mod open;
mod remove;
mod tree;
mod write;

pub use copy::{Copied, copy, digest};
pub use lease::is_open_for_writing;
pub use open::{
    beneath, folder, folder_beneath, make_folder, own_folder, own_regular, regular, regular_beneath,
};
pub use remove::remove_tree;
pub use tree::copy_tree;
pub use write::replace_in;
