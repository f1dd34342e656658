//! Lowering a framework's operators, for front-ends and as passes.

pub use onnxd_lowering::*;

/// Declares a pass that lowers operators for all front-ends: a row for each, as in the table of a front-end.
///
/// ```ignore
/// lowering! {
///     /// Operators of `my`.
///     pub(crate) struct My { "my::gelu_tanh" => gelu_tanh(x) }
/// }
///
/// pass("my-operators", "Lowers operators of my"; declares [My::ROWS] => |_| My::pass("my-operators")),
/// ```
///
/// A front-end without a row for such an operator writes it as a node of the domain `my`, and the pass runs directly
/// after the import. Where the source is an ONNX model, it lowers nodes of that domain.
#[macro_export]
macro_rules! lowering {
    ($(
        $(#[$doc:meta])*
        $vis:vis struct $name:ident { $($op:literal => $($lower:ident)::+ $(($($argument:tt),*))?),+ $(,)? }
    )*) => { $(
        $(#[$doc])*
        $vis struct $name;

        impl $name {
            /// The operators, for the component's `declares`. They come before rows of params.
            $vis const ROWS: &'static str = {
                $( assert!($crate::private::is_plain($op)); )+
                concat!("lowers = [", $("'''", $op, "''', ",)+ "]\n")
            };

            /// The pass, under the component's id.
            $vis fn pass(id: &'static str) -> Box<dyn $crate::rewrite::Pass> {
                let table = $crate::rows! { $crate::lower::Table::new();
                    $($op => $($lower)::+ $(($($argument),*))?;)+
                };
                $crate::lower::pass(id, table)
            }
        }
    )* };
}

#[cfg(test)]
mod tests;
