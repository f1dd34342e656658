//! A chunk of a dataset, and where it is in the file.

/// A chunk as it is stored.
#[derive(Clone, Copy)]
pub(super) struct StoredChunk {
    pub(super) address: u64,
    pub(super) size: u64,
    /// Filters that it did not go through.
    pub(super) skipped: u32,
}
