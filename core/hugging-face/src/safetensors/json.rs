//! The JSON of a header, read into what describes tensors without a tree between. Keys that occur twice are refused,
//! because readers differ in which one counts.

use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::collections::HashSet;
use std::fmt;

/// Axes of a tensor.
const RANK_MAX: usize = 64;

/// What the header says of a tensor.
#[derive(Debug)]
pub(super) struct Described {
    pub(super) name: String,
    pub(super) dtype: String,
    pub(super) shape: Vec<u64>,
    pub(super) offsets: [u64; 2],
}

/// The tensors of a header, `most` at most.
pub(super) fn parse(header: &str, most: usize) -> serde_json::Result<Vec<Described>> {
    let mut reader = serde_json::Deserializer::from_str(header);
    let found = Header { most }.deserialize(&mut reader)?;
    reader.end()?;
    Ok(found)
}

struct Header {
    most: usize,
}

impl<'de> DeserializeSeed<'de> for Header {
    type Value = Vec<Described>;
    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Vec<Described>, D::Error> {
        reader.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Header {
    type Value = Vec<Described>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tensors")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Vec<Described>, M::Error> {
        let (mut found, mut seen) = (Vec::new(), HashSet::new());
        while let Some(name) = map.next_key::<String>()? {
            if !seen.insert(name.clone()) {
                return Err(M::Error::custom(format!("`{name}` is there twice")));
            }
            if name == "__metadata__" {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            if found.len() == self.most {
                return Err(M::Error::custom(format!("more than {} tensors", self.most)));
            }
            let HeaderEntry { dtype, shape: Sizes(shape), offsets } = map.next_value()?;
            found.push(Described { name, dtype, shape, offsets });
        }
        Ok(found)
    }
}

/// `serde` refuses fields that are there twice.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HeaderEntry {
    dtype: String,
    shape: Sizes,
    #[serde(rename = "data_offsets")]
    offsets: [u64; 2],
}

/// Sizes of axes, as many as a tensor may have.
struct Sizes(Vec<u64>);

impl<'de> Deserialize<'de> for Sizes {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Sizes, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = Sizes;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of sizes")
            }
            fn visit_seq<S: SeqAccess<'de>>(self, mut list: S) -> Result<Sizes, S::Error> {
                let mut sizes = Vec::new();
                while let Some(size) = list.next_element()? {
                    if sizes.len() == RANK_MAX {
                        return Err(S::Error::custom(format!("more than {RANK_MAX} axes")));
                    }
                    sizes.push(size);
                }
                Ok(Sizes(sizes))
            }
        }
        reader.deserialize_seq(List)
    }
}
