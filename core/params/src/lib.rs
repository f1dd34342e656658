//! Params are declared once, by [`params!`]: it makes rows for the host (help, types, defaults; as text that lies in a
//! plugin's static data) and a struct for the code that reads them. The params that all conversions have are declared
//! here, in [`host`].

pub mod host;
mod resolved;
pub mod words;

pub use resolved::{ReadKeys, Resolved};
pub use serde;
use std::sync::Arc;

/// A section of params, as [`params!`] makes it.
pub trait Section: Sized {
    /// Takes its values out of all params.
    ///
    /// # Errors
    /// If a value does not have the type of its field.
    fn of(resolved: &Arc<Resolved>) -> Result<Self, String>;
}

/// Declares a section of params.
///
/// ```ignore
/// onnxd_params::params! {
///     /// Params of the pass `clip-weights`.
///     pub struct ClipWeights in "passes.clip-weights" {
///         /// Largest magnitude that stays.
///         limit: f64 = "0.0..", 6.0;
///         /// What becomes of larger ones.
///         beyond: Beyond = "clip | zero", "clip", option "beyond";
///         /// Names of weights to clip; unset clips all.
///         names: Option<Vec<String>> = "[text]", unset;
///     }
/// }
/// ```
///
/// The type that users see is one of `bool`, `int`, `float`, `text`, `path` (inside the submission), a range (`1..16`,
/// `0.0..`), a word (`clip`), a list (`[text]`), or several of them joined by `|`. The default is a literal or `unset`.
/// `option` is a spelling without section that INI files and `--set` understand.
///
/// The words of a field are an enum that [`words!`] declares.
///
/// Each field becomes a method. Calling it says that the value counts, see [`Resolved`].
#[macro_export]
macro_rules! params {
    (
        $(#[$about:meta])*
        $vis:vis struct $Name:ident in $section:literal {
            $(
                $(#[doc = $help:literal])+
                $key:ident: $type:ty = $kind:literal, $default:tt $($more:literal)? $(, option $option:literal)?;
            )+
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug)]
        $vis struct $Name {
            resolved: ::std::sync::Arc<$crate::Resolved>,
            $($key: $type,)+
        }

        impl $Name {
            $(
                $(#[doc = $help])+
                $vis fn $key(&self) -> $type {
                    self.resolved.mark(concat!($section, ".", stringify!($key)));
                    self.$key.clone()
                }
            )+
        }

        impl $Name {
            /// The rows in the notation of a descriptor.
            $vis const ROWS: &'static str = concat!($(
                "[[components.params]]\nkey = '", $section, ".", stringify!($key), "'\ntype = '", $kind, "'\n",
                $crate::params!(@default $default $($more)?),
                $("option = '", $option, "'\n",)?
                "help = '''", $($help,)+ "'''\n",
            )+);
        }

        impl $crate::Section for $Name {
            fn of(resolved: &::std::sync::Arc<$crate::Resolved>) -> Result<Self, String> {
                Ok($Name {
                    $($key: resolved.typed(
                        concat!($section, ".", stringify!($key)),
                        $crate::params!(@json $default $($more)?),
                    )?,)+
                    resolved: ::std::sync::Arc::clone(resolved),
                })
            }
        }
    };
    (@json unset) => { "null" };
    (@json - $number:literal) => { concat!("-", stringify!($number)) };
    (@json $value:tt) => { stringify!($value) };
    (@default unset) => { "" };
    (@default - $number:literal) => { concat!("default = -", stringify!($number), "\n") };
    (@default $toml:tt) => { concat!("default = ", stringify!($toml), "\n") };
}
