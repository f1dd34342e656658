//! Maps by ids of nodes and values. Ids count up, so that mixing their bits is all that hashing has to do.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map by ids.
pub(crate) type IdMap<K, V> = HashMap<K, V, BuildHasherDefault<IdHasher>>;

/// Hashes one id.
#[derive(Default)]
pub(crate) struct IdHasher(u64);

/// Spreads ids over the upper bits, which tables look at as well: 2^64 over the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|b| self.write_u32(u32::from(*b)));
    }

    fn write_u32(&mut self, id: u32) {
        self.0 = (self.0 ^ u64::from(id)).wrapping_mul(SPREAD);
    }
}
