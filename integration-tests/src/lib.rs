//! Judges of the built binary; everything lives in `tests/`.
