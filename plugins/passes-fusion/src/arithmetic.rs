//! Add, Sub, Mul and Div as one view, and the constants that they apply.

use onnxd_plugin_sdk::ir::{At, Node, Op, Reals, ValueId};
use onnxd_plugin_sdk::rewrite::{Rewriter, Skip};

/// Which of the four.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArithmeticOp {
    Add,
    Sub,
    Mul,
    Div,
}

/// An operator with two operands that broadcast.
#[derive(Clone, Debug)]
pub(crate) struct Arithmetic {
    pub(crate) kind: ArithmeticOp,
    pub(crate) a: ValueId,
    pub(crate) b: ValueId,
}

impl Op for Arithmetic {
    const NAME: &'static str = "Add, Sub, Mul or Div";
    const ATTRIBUTES: &'static [&'static str] = &[];

    fn view(node: &Node) -> Option<Self> {
        let kinds = [
            ("Add", ArithmeticOp::Add),
            ("Sub", ArithmeticOp::Sub),
            ("Mul", ArithmeticOp::Mul),
            ("Div", ArithmeticOp::Div),
        ];
        let kind = kinds.iter().find(|(name, _)| node.is(name))?.1;
        match node.inputs[..] {
            // The first versions broadcast by attributes.
            [Some(a), Some(b)] if node.attrs.is_empty() => Some(Arithmetic { kind, a, b }),
            _ => None,
        }
    }

    fn into_node(self, out: ValueId) -> Node {
        Node::new(format!("{:?}", self.kind), [self.a, self.b], [out])
    }
}

/// A value and the constant that is applied to it.
pub(crate) struct Applied {
    /// What is not constant.
    pub(crate) x: ValueId,
    /// The constant as the graph has it.
    pub(crate) constant: ValueId,
    /// What `x` is multiplied by, or what is added to it.
    pub(crate) by: Reals,
}

impl Applied {
    /// The factor of `x * c`, `c * x` or `x / c`.
    pub(crate) fn factor(cx: &Rewriter, at: &At<Arithmetic>) -> Result<Applied, Skip> {
        let found = Applied::find(cx, at, ArithmeticOp::Mul, ArithmeticOp::Div)?;
        match at.kind {
            ArithmeticOp::Div => Ok(Applied { by: found.by.map(f64::recip), ..found }),
            _ => Ok(found),
        }
    }

    /// The addend of `x + c`, `c + x` or `x - c`.
    pub(crate) fn addend(cx: &Rewriter, at: &At<Arithmetic>) -> Result<Applied, Skip> {
        let found = Applied::find(cx, at, ArithmeticOp::Add, ArithmeticOp::Sub)?;
        match at.kind {
            ArithmeticOp::Sub => Ok(Applied { by: found.by.map(|x| -x), ..found }),
            _ => Ok(found),
        }
    }

    fn find(
        cx: &Rewriter,
        at: &At<Arithmetic>,
        both: ArithmeticOp,
        right: ArithmeticOp,
    ) -> Result<Applied, Skip> {
        let is_constant = |v| cx.graph.constant(v).is_some_and(|t| t.dtype().is_float());
        let (x, constant) = match (is_constant(at.a), is_constant(at.b)) {
            (false, true) if at.kind == both || at.kind == right => (at.a, at.b),
            (true, false) if at.kind == both => (at.b, at.a),
            _ => return Skip::unlike(),
        };
        Ok(Applied { x, constant, by: cx.reals(constant)? })
    }
}

/// One number for each of the `channels` along `axis` of a value with `rank` axes, if `constant` broadcasts along all
/// others.
pub(crate) fn per_channel(
    constant: &Reals,
    channels: usize,
    rank: usize,
    axis: usize,
) -> Result<Reals, Skip> {
    let dims = &constant.dims;
    let offset = rank.checked_sub(dims.len());
    let only_channels = offset.is_some_and(|offset| {
        dims.iter().enumerate().all(|(i, d)| *d == 1 || (i + offset == axis && *d == channels))
    });
    match only_channels {
        true if constant.values.len() == channels => {
            Ok(Reals { dims: vec![channels], values: constant.values.clone() })
        }
        true if constant.values.len() == 1 => Ok(Reals::full(&[channels], constant.values[0])),
        _ => Skip::because(format!("the constant {dims:?} is not one value per channel")),
    }
}
