//! How a value that is not a tensor is held by tensors with names, in files of arrays and wherever
//! outputs are compared: the elements of a sequence `s` are `s.0`, `s.1` and so on; the keys and the
//! values of a map `m` are `m.keys` and `m.values`; a sequence of maps is held like a map, with a row
//! of values for each. Keys stand in ascending order.

/// The name of an element of a sequence.
#[must_use]
pub fn element(name: &str, i: usize) -> String {
    format!("{name}.{i}")
}

/// The name of the keys of a map.
#[must_use]
pub fn keys(name: &str) -> String {
    format!("{name}.keys")
}

/// The name of the values of a map.
#[must_use]
pub fn values(name: &str) -> String {
    format!("{name}.values")
}
