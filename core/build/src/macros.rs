//! The notation of the files in `operators`.

/// `direct name = Op(required: "input", ...; ..variadic)` is an operator of one output without
/// further inputs and attributes, and gives that output; `call ... { setter: "input or attribute" }`
/// gives a [`crate::Call`].
macro_rules! operators {
    ($domain:literal $(
        $(#[$doc:meta])*
        $kind:ident $f:ident = $op:ident ( $($req:ident : $name:literal),* $(; .. $var:ident)? )
        $({ $($set:ident : $key:literal),* $(,)? })?
    )*) => { $(
        impl $crate::GraphBuilder {
            $(#[$doc])*
            #[allow(clippy::too_many_arguments)]
            pub fn $f(
                &self,
                $($req: impl Into<$crate::Operand>,)*
                $($var: impl IntoIterator<Item = impl Into<$crate::Operand>>,)?
            ) -> operators!(@returns $kind $op) {
                #[allow(unused_mut, unused_assignments)]
                let mut variadic = vec![];
                $(variadic = $var.into_iter().map(Into::into).collect();)?
                let inputs = vec![$(($name, $req.into())),*];
                operators!(@result $kind $op, self, ($domain, stringify!($op)), inputs, variadic)
            }
        }
        $(
            #[allow(missing_docs)]
            impl $crate::Call<'_, op::$op> {
                $(
                    pub fn $set(self, to: impl Into<$crate::Operand>) -> Self {
                        self.with($key, to.into())
                    }
                )*
            }
        )?
    )*
        operators!(@markers $($op)*);
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
