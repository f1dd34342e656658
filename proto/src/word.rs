//! Enums in JSON: the words of the `.proto` files; what is not set is an empty text.

use crate::onnxd::{FileRole, Verdict};
use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::Serializer;
use std::marker::PhantomData;

/// An enum of a message.
pub(crate) trait Enumeration: TryFrom<i32> + Into<i32> + Default + PartialEq {
    fn word(&self) -> &'static str;
    fn of(word: &str) -> Option<Self>;
}

macro_rules! enumerations {
    ($($name:ident)*) => {$(
        impl Enumeration for $name {
            fn word(&self) -> &'static str { self.as_str_name() }
            fn of(word: &str) -> Option<$name> { $name::from_str_name(word) }
        }
    )*};
}
enumerations!(FileRole Verdict);

/// A field with numbers of `E`.
pub(crate) struct Word<E>(PhantomData<E>);

impl<E: Enumeration> Word<E> {
    pub(crate) fn serialize<S: Serializer>(number: &i32, out: S) -> Result<S::Ok, S::Error> {
        match E::try_from(*number).unwrap_or_default() {
            unset if unset == E::default() => out.serialize_str(""),
            word => out.serialize_str(word.word()),
        }
    }

    pub(crate) fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<i32, D::Error> {
        let word = String::deserialize(from)?;
        let known = if word.is_empty() { Some(E::default()) } else { E::of(&word) };
        known.map(Into::into).ok_or_else(|| D::Error::custom(format!("unknown word `{word}`")))
    }
}
