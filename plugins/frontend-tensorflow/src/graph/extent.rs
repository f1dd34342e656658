//! What size the elements of a list have. Elements of one size fit in one tensor.

use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::ir::Dim;

/// The size of the elements that are set.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Extent {
    /// None is set.
    Nothing,
    /// All have these sizes.
    One(Vec<Dim>),
    /// Nothing says that they have the same.
    Varying,
}

impl Extent {
    /// Of a tensor that is an element.
    pub(crate) fn from_var(b: &GraphBuilder, v: Var) -> Extent {
        b.shape_of(v).map_or(Extent::Varying, Extent::One)
    }

    /// Of the elements of a tensor, which has a first axis for them.
    pub(crate) fn within(b: &GraphBuilder, v: Var) -> Extent {
        let rest = |shape: Vec<Dim>| shape.get(1..).map(<[Dim]>::to_vec);
        b.shape_of(v).and_then(rest).map_or(Extent::Varying, Extent::One)
    }

    /// Of the elements of both.
    pub(crate) fn and(self, other: Extent) -> Extent {
        match (self, other) {
            (Extent::Nothing, other) | (other, Extent::Nothing) => other,
            (Extent::One(x), Extent::One(y)) if fits(&x, &y) => Extent::One(x),
            _ => Extent::Varying,
        }
    }

    /// Of elements that each run of the graph that is open may set.
    pub(crate) fn repeated(self, b: &GraphBuilder) -> Extent {
        match self {
            Extent::One(sizes) if sizes.iter().any(|size| b.may_vary(size)) => Extent::Varying,
            other => other,
        }
    }
}

fn fits(x: &[Dim], y: &[Dim]) -> bool {
    x.len() == y.len() && x.iter().zip(y).all(|(x, y)| x.same(y))
}
