//! Numbers in JSON that may be infinite or not a number: then they are `"inf"`, `"-inf"` or `"nan"`, which Python's
//! `float` and Rust's `parse` read.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serializer};

#[derive(Deserialize)]
#[serde(untagged)]
enum JsonNumber {
    Finite(f64),
    Word(String),
}

pub(crate) fn serialize<S: Serializer>(x: &f64, out: S) -> Result<S::Ok, S::Error> {
    match x {
        x if x.is_finite() => out.serialize_f64(*x),
        x if x.is_nan() => out.serialize_str("nan"),
        x if *x > 0.0 => out.serialize_str("inf"),
        _ => out.serialize_str("-inf"),
    }
}

pub(crate) fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<f64, D::Error> {
    match JsonNumber::deserialize(from)? {
        JsonNumber::Finite(x) => Ok(x),
        JsonNumber::Word(word) => match word.as_str() {
            "nan" => Ok(f64::NAN),
            "inf" => Ok(f64::INFINITY),
            "-inf" => Ok(f64::NEG_INFINITY),
            _ => Err(D::Error::custom("expected a number, \"inf\", \"-inf\" or \"nan\"")),
        },
    }
}

/// Such numbers that may be unset.
pub(crate) mod optional {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    struct Real(#[serde(with = "super")] f64);

    pub(crate) fn serialize<S: Serializer>(x: &Option<f64>, out: S) -> Result<S::Ok, S::Error> {
        x.map(Real).serialize(out)
    }

    pub(crate) fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<Option<f64>, D::Error> {
        Ok(Option::<Real>::deserialize(from)?.map(|Real(x)| x))
    }
}
