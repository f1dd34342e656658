//! Settings, taken out of a section into the struct of the function that reads them.

use super::SectionRef;
use crate::diag::Diagnostic;

/// A struct of settings; [`settings!`] writes this.
pub(crate) trait Settings: Sized {
    /// Names of the settings that stand in the section itself.
    const KEYS: &'static [&'static str];

    /// Takes all of them; the section's own keys begin with `prefix`.
    fn take(section: SectionRef, prefix: &str) -> Result<Self, Diagnostic>;

    fn of(section: SectionRef) -> Result<Self, Diagnostic> {
        Self::take(section, "")
    }
}

impl Settings for () {
    const KEYS: &'static [&'static str] = &[];

    fn take(_: SectionRef, _: &str) -> Result<(), Diagnostic> {
        Ok(())
    }
}

/// Declares what a function reads: settings of its section (`struct`), parameters of the section's
/// configuration sections (`config`), and what several keys say together (`parts`). A setting
/// without a default must be there.
macro_rules! settings {
    ($(
        $(#[$doc:meta])*
        struct $name:ident { $($key:ident : $ty:ty $(= $default:expr)?),* $(,)? }
        $(config { $($param:ident : $param_ty:ty = $param_default:expr),* $(,)? })?
        $(parts { $($part:ident : $part_ty:ty = $read:expr),* $(,)? })?
    )*) => { $(
        $(#[$doc])*
        // The fields are spelled as the source spells its keys.
        #[allow(non_snake_case)]
        pub(super) struct $name {
            $($key: $ty,)* $($($param: $param_ty,)*)? $($($part: $part_ty,)*)?
        }

        impl $crate::ini::Settings for $name {
            const KEYS: &'static [&'static str] = &[$(stringify!($key)),*];

            fn take(s: $crate::ini::SectionRef, prefix: &str) -> Result<$name, $crate::diag::Diagnostic> {
                let _ = prefix;
                Ok($name {
                    $($key: settings!(@take s, &format!("{prefix}{}", stringify!($key)) $(, $default)?),)*
                    $($($param: s.parameter(stringify!($param))?.unwrap_or($param_default),)*)?
                    $($($part: ($read)(s)?,)*)?
                })
            }
        }
    )* };
    (@take $section:ident, $key:expr) => { $section.required($key)? };
    (@take $section:ident, $key:expr, $default:expr) => { $section.or($key, $default)? };
}
pub(crate) use settings;
