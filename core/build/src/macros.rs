//! The notation of the files in `operators`.

/// `direct name = Op(required, ...; optional, ...; ..variadic) -> "outputs"` is an operator of one
/// output without optional inputs and attributes, and gives that output;
/// `call ... { attribute, ... }` gives a [`crate::Call`] with a method for each optional input and
/// attribute. A name of ONNX stands behind the one in Rust where they differ.
macro_rules! operators {
    ($domain:literal $link:literal $(
        $kind:ident $f:ident = $op:ident (
            $($req:ident $($name:literal)?),*
            $(; $($opt:ident $($opt_name:literal)?),+)? $(; .. $var:ident)?
        )
        $({ $($attr:ident $($key:literal)?),+ })? -> $out:literal
    )*) => { $(
        impl $crate::GraphBuilder {
            #[doc = concat!(
                "`", stringify!($op), "(",
                operators!(@list
                    $(operators!(@name $req $($name)?),)*
                    $($(concat!(operators!(@name $opt $($opt_name)?), "?"),)+)?
                    $(concat!(stringify!($var), "..."),)?
                ),
                ") -> ", $out, "`, <", $link, stringify!($op), ".html>"
            )]
            #[allow(clippy::too_many_arguments)]
            pub fn $f(
                &self,
                $($req: impl Into<$crate::Operand>,)*
                $($var: impl IntoIterator<Item = impl Into<$crate::Operand>>,)?
            ) -> operators!(@returns $kind $op) {
                #[allow(unused_mut, unused_assignments)]
                let mut variadic = vec![];
                $(variadic = $var.into_iter().map(Into::into).collect();)?
                let inputs = vec![$((operators!(@name $req $($name)?), $req.into())),*];
                operators!(@result $kind $op, self, ($domain, stringify!($op)), inputs, variadic)
            }
        }
        operators!(@setters $op $($($opt $($opt_name)?,)+)? $($($attr $($key)?,)+)?);
    )*
        operators!(@markers $($op)*);
    };
    (@name $f:ident) => { stringify!($f) };
    (@name $f:ident $name:literal) => { $name };
    (@list) => { "" };
    (@list $first:expr, $($more:expr,)*) => { concat!($first $(, ", ", $more)*) };
    (@setters $op:ident) => {};
    (@setters $op:ident $($set:ident $($key:literal)?,)+) => {
        #[allow(missing_docs)]
        impl $crate::Call<'_, op::$op> {
            $(
                pub fn $set(self, to: impl Into<$crate::Operand>) -> Self {
                    self.with(operators!(@name $set $($key)?), to.into())
                }
            )+
        }
    };
    (@returns direct $op:ident) => { $crate::Result<$crate::Var> };
    (@returns call $op:ident) => { $crate::Call<'_, op::$op> };
    (@result direct $op:ident, $($given:expr),*) => { $crate::draft::Draft::new($($given),*).only(0) };
    (@result call $op:ident, $($given:expr),*) => { $crate::Call::<op::$op>::new($($given),*) };
    (@markers $($op:ident)*) => {
        /// The operators as types, by which [`crate::Call`] knows what may be set.
        pub(crate) mod op {
            $(#[allow(missing_docs)] pub struct $op;)*
        }
    };
}
pub(crate) use operators;
