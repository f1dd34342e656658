//! The life of a job and where it is kept.
//!
//! [`step()`] is the specification of the queue; a [`Store`] keeps jobs. [`SledStore`] writes every
//! change to a journal before anything else, so that the index can always be built again. Finished
//! jobs at rest are packed: they leave journal and index.

// A failed change is rare; boxing its diagnostic would only burden whoever reads it.
#![allow(clippy::result_large_err)]

mod at_hand;
mod crash;
mod digests;
mod finished;
mod frame;
mod id;
mod index;
mod journal;
mod layout;
mod lock;
mod memory_store;
mod mirror;
mod pack;
mod print;
mod queue;
mod record;
mod repair;
mod retention;
mod sled_store;
mod step;
mod store;

pub use finished::kept_in_packs;
pub use id::{Ids, one_id};
pub use memory_store::MemoryStore;
pub use print::print;
pub use queue::{Summary, next_job};
pub use record::SCHEMA;
pub use retention::{Retention, drop_expired, expired};
pub use sled_store::SledStore;
pub use step::{Event, Policy, What, is_finished, lacks_room, state_word, step};
pub use store::{Brief, Destination, Store, StoreError};
