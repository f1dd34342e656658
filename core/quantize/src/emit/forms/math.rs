//! Sums and products of two.

use super::{Folds, Unfolds, elementwise, elementwise_back};

pub(crate) const FOLDS: Folds = &[
    (&["Add"], |site| elementwise(site, "QLinearAdd", 2, &[])),
    (&["Mul"], |site| elementwise(site, "QLinearMul", 2, &[])),
];

pub(crate) const UNFOLDS: Unfolds = &[
    (&["QLinearAdd"], |site| elementwise_back(site, "Add", 2, &[])),
    (&["QLinearMul"], |site| elementwise_back(site, "Mul", 2, &[])),
];
