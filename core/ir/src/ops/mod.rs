//! The operators as typed views over [`Node`]: inputs by name, attributes with the standard's defaults filled in.
//!
//! A row `Conv(x, w; b) { group: i64 = 1 }` is at once pattern, builder and documentation: `Conv::new(x, w)` fills the
//! defaults, `Conv { b: Some(b), ..old }` changes one thing, [`At<Conv>`] is a `Conv` found at a place.
//! Operators without a row stay generic nodes and pass through untouched.

use crate::{Graph, Node, NodeId, ValueId};
use std::ops::Deref;

mod activation;
mod control;
mod conv;
mod linear;
mod logic;
mod math;
mod norm;
mod pool;
mod quant;
mod reduce;
mod shape;

pub use activation::*;
pub use control::*;
pub use conv::*;
pub use linear::*;
pub use logic::*;
pub use math::*;
pub use norm::*;
pub use pool::*;
pub use quant::*;
pub use reduce::*;
pub use shape::*;

/// A typed view of a node.
pub trait Op: Sized {
    /// Operator type.
    const NAME: &'static str;
    /// Names of all attributes the view knows.
    const ATTRIBUTES: &'static [&'static str];

    /// Reads `node`; `None` if it applies another operator, lacks a required part, or has an attribute the view would
    /// lose.
    fn view(node: &Node) -> Option<Self>;

    /// The node that computes `out`; attributes at their defaults are left out.
    fn into_node(self, out: ValueId) -> Node;
}

/// A view found at a place in a graph. Dereferences to the view.
#[derive(Clone, Debug)]
pub struct At<O> {
    /// The node.
    pub node: NodeId,
    /// Its first output.
    pub out: ValueId,
    /// The view.
    pub op: O,
}

impl<O: Op> At<O> {
    /// The view of `node`, if it applies this operator and its first output is wanted.
    pub fn find(graph: &Graph, node: NodeId) -> Option<At<O>> {
        let found = graph.node(node)?;
        Some(At { node, out: found.output(0)?, op: O::view(found)? })
    }
}

impl<O> Deref for At<O> {
    type Target = O;
    fn deref(&self) -> &O {
        &self.op
    }
}

/// Declares operators: `Name(required inputs; optional inputs; ..variadic) [required attributes] {
/// attributes = defaults }`.
macro_rules! onnx_ops {
    ($(
        $(#[$doc:meta])*
        $op:ident ( $($req:ident),* $(; $($opt:ident),+)? $(; .. $var:ident)? )
        $([ $($must:ident : $must_ty:ty),+ $(,)? ])?
        { $($attr:ident : $ty:ty = $default:expr),* $(,)? }
    )*) => { $(
        $(#[$doc])*
        #[derive(Clone, Debug)]
        #[allow(missing_docs)]
        pub struct $op {
            $(pub $req: $crate::ValueId,)*
            $($(pub $opt: Option<$crate::ValueId>,)+)?
            $(pub $var: Vec<$crate::ValueId>,)?
            $($(pub $must: $must_ty,)+)?
            $(pub $attr: $ty,)*
        }

        impl $op {
            /// The operator with every optional part at the standard's default.
            #[allow(clippy::new_without_default, clippy::too_many_arguments)]
            pub fn new(
                $($req: $crate::ValueId,)* $($var: Vec<$crate::ValueId>,)? $($($must: $must_ty,)+)?
            ) -> Self {
                Self { $($req,)* $($($opt: None,)+)? $($var,)? $($($must,)+)? $($attr: $default,)* }
            }
        }

        impl $crate::ops::Op for $op {
            const NAME: &'static str = stringify!($op);
            const ATTRIBUTES: &'static [&'static str] =
                &[$($(stringify!($must),)+)? $(stringify!($attr),)*];

            #[allow(unused_mut, unused_variables)]
            fn view(node: &$crate::Node) -> Option<Self> {
                #[allow(unused_imports)]
                use $crate::attr::AttrValue;
                if !node.is(Self::NAME)
                    || node.attrs.iter().any(|(n, _)| !Self::ATTRIBUTES.contains(&n.as_str()))
                {
                    return None;
                }
                let mut inputs = node.inputs.iter().copied();
                let view = Self {
                    $($req: inputs.next()??,)*
                    $($($opt: inputs.next().flatten(),)+)?
                    $($var: inputs.by_ref().collect::<Option<Vec<_>>>()?,)?
                    $($($must: <$must_ty as AttrValue>::from_attr(node.attr(stringify!($must))?)?,)+)?
                    $($attr: match node.attr(stringify!($attr)) {
                        Some(attr) => <$ty as AttrValue>::from_attr(attr)?,
                        None => $default,
                    },)*
                };
                inputs.next().is_none().then_some(view)
            }

            #[allow(unused_mut, unused_variables)]
            fn into_node(self, out: $crate::ValueId) -> $crate::Node {
                #[allow(unused_imports)]
                use $crate::attr::AttrValue;
                let mut inputs: Vec<Option<$crate::ValueId>> =
                    vec![$(Some(self.$req),)* $($(self.$opt,)+)?];
                $(inputs.extend(self.$var.into_iter().map(Some));)?
                while inputs.last() == Some(&None) {
                    inputs.pop();
                }
                let mut node = $crate::Node { inputs, ..$crate::Node::new(Self::NAME, [], [out]) };
                $($(node.attrs.push((stringify!($must).into(), self.$must.into_attr()));)+)?
                $(let default: $ty = $default;
                if self.$attr != default {
                    node.attrs.push((stringify!($attr).into(), self.$attr.into_attr()));
                })*
                node
            }
        }
    )*
        #[cfg(test)]
        pub(super) const ROWS: &[super::ViewRow] = &[$(super::ViewRow {
            name: stringify!($op),
            required: 0 $(+ { let _ = stringify!($req); 1 })*,
            optional: 0 $($(+ { let _ = stringify!($opt); 1 })+)?,
            variadic: false $(|| { let _ = stringify!($var); true })?,
            attributes: || {
                #[allow(unused_imports)]
                use $crate::attr::AttrValue;
                vec![
                    $($((stringify!($must), <$must_ty as AttrValue>::KIND, None),)+)?
                    $((stringify!($attr), <$ty as AttrValue>::KIND, <$ty>::present($default)),)*
                ]
            },
        }),*];
    };
}
use onnx_ops;

/// A view's declaration, to be compared with the standard.
#[cfg(test)]
pub(crate) struct ViewRow {
    pub(crate) name: &'static str,
    pub(crate) required: usize,
    pub(crate) optional: usize,
    pub(crate) variadic: bool,
    /// Name, type and default of each attribute.
    pub(crate) attributes: fn() -> Vec<RowAttr>,
}

#[cfg(test)]
pub(crate) type RowAttr = (&'static str, i32, Option<crate::Attr>);

/// All views.
#[cfg(test)]
pub(crate) fn rows() -> impl Iterator<Item = &'static ViewRow> {
    let families = [
        activation::ROWS,
        control::ROWS,
        conv::ROWS,
        linear::ROWS,
        logic::ROWS,
        math::ROWS,
        norm::ROWS,
        pool::ROWS,
        quant::ROWS,
        reduce::ROWS,
        shape::ROWS,
    ];
    families.into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Attr;

    #[test]
    fn defaults_are_filled_in_and_left_out() {
        let mut g = Graph::new("g");
        let [x, w] = ["x", "w"].map(|n| g.add_input(n, None));
        let y = g.add("y", Conv { group: 2, ..Conv::new(x, w) });
        let node = &g[g.producer(y).unwrap()];
        assert_eq!(node.inputs, [Some(x), Some(w)]);
        assert_eq!(node.attrs.len(), 1);
        let conv = Conv::view(node).unwrap();
        assert_eq!((conv.group, conv.b, conv.auto_pad.as_str()), (2, None, "NOTSET"));
    }

    #[test]
    fn an_unknown_attribute_is_not_lost() {
        let mut g = Graph::new("g");
        let x = g.add_input("x", None);
        let y = g.add_value("y", None);
        let node = Node::new("Relu", [x], [y]).with("consumed_inputs", Attr::Ints(vec![0]));
        assert!(Relu::view(&node).is_none());
    }

    #[test]
    fn variadic_inputs_and_required_attributes() {
        let mut g = Graph::new("g");
        let [a, b] = ["a", "b"].map(|n| g.add_input(n, None));
        let y = g.add("y", Concat::new(vec![a, b], 1));
        let concat = At::<Concat>::find(&g, g.producer(y).unwrap()).unwrap();
        assert_eq!((concat.inputs.clone(), concat.axis, concat.out), (vec![a, b], 1, y));
        let bare = Node::new("Concat", [a], [b]);
        assert!(Concat::view(&bare).is_none());
    }
}
