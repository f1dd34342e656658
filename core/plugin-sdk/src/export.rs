//! The macro that makes a library of components.

/// Exports a plugin: the header that onnxd reads without running the plugin's code, and the table behind it.
///
/// ```ignore
/// onnxd_plugin_sdk::export_plugin! {
///     id: "org.example.tidy",
///     summary: "What the plugin is for",
///     components: [
///         pass("remove-foo", "Removes Foo, which does nothing" => || rule("remove-foo", remove_foo)),
///         frontend("bar", "Reads Bar files"; "*.bar" => || Box::new(Bar)),
///         quantizer("nibbles", "Weights of four bits" => || Box::new(Nibbles)),
///     ],
/// }
/// ```
///
/// Ids, summaries and globs are literals without quotation marks, backslashes and line ends, because they become static
/// JSON; others do not compile.
#[macro_export]
macro_rules! export_plugin {
    (
        id: $id:literal,
        summary: $summary:literal,
        components: [
            $( $kind:ident (
                $name:literal, $about:literal $(; $($glob:literal),+)? => $make:expr $(,)?
            ) ),+ $(,)?
        ] $(,)?
    ) => {
        struct ExportedPlugin;

        impl $crate::private::Definition for ExportedPlugin {
            fn components() -> Vec<$crate::Component> {
                vec![$( $crate::export_plugin!(@component $kind, $name, $make) ),+]
            }
        }

        const _: () = {
            $( assert!($crate::private::is_plain($name) && $crate::private::is_plain($about)); )+
            $( $( $( assert!($crate::private::is_plain($glob)); )+ )? )+
            assert!($crate::private::is_plain($id) && $crate::private::is_plain($summary));

            use $crate::private::{abi, create, destroy, entry, extension, run};

            const DESCRIPTOR: &str = concat!(
                "{\"summary\":\"", $summary, "\",\"licence\":\"", env!("CARGO_PKG_LICENSE"),
                "\",\"deterministic\":true,\"components\":[",
                $crate::export_plugin!(@json $( ($kind, $name, $about, [$($($glob),+)?]) )+),
                "]}"
            );

            static PLUGIN: abi::Plugin = abi::Plugin {
                struct_size: size_of::<abi::Plugin>() as u32,
                reserved: 0,
                create: Some(create::<ExportedPlugin>),
                run: Some(run),
                destroy: Some(destroy),
                extension: Some(extension),
            };

            unsafe extern "C" fn start(host: *const abi::Host) -> *const abi::Plugin {
                // SAFETY: the host passes its table.
                unsafe { entry(host, &PLUGIN) }
            }

            #[unsafe(no_mangle)]
            #[allow(non_upper_case_globals)]
            static onnxd_plugin_header: abi::Header = abi::Header {
                magic: abi::MAGIC,
                struct_size: size_of::<abi::Header>() as u32,
                abi_major: abi::ABI_MAJOR,
                abi_minor: abi::ABI_MINOR,
                min_host_minor: 0,
                reserved: [0; 3],
                abi_tag: abi::Str::of(abi::ABI_TAG.as_bytes()),
                id: abi::Str::of($id.as_bytes()),
                version: abi::Str::of(env!("CARGO_PKG_VERSION").as_bytes()),
                descriptor: abi::Str::of(DESCRIPTOR.as_bytes()),
                entry: Some(start),
            };
        };
    };
    (@json $first:tt $($rest:tt)*) => {
        concat!($crate::export_plugin!(@one $first) $(, ",", $crate::export_plugin!(@one $rest))*)
    };
    (@one ($kind:ident, $name:literal, $about:literal, $globs:tt)) => {
        concat!(
            "{\"kind\":\"", stringify!($kind), "\",\"id\":\"", $name, "\",\"summary\":\"", $about,
            "\",\"globs\":[", $crate::export_plugin!(@globs $globs), "]}"
        )
    };
    (@globs []) => { "" };
    (@globs [$first:literal $(, $rest:literal)*]) => {
        concat!("\"", $first, "\"" $(, ",\"", $rest, "\"")*)
    };
    (@component $kind:ident, $name:literal, $make:expr) => {
        $crate::Component::$kind($name, $make)
    };
}

/// Whether a text may stand between quotation marks of JSON as it is.
#[must_use]
pub const fn is_plain(text: &str) -> bool {
    let mut i = 0;
    while i < text.len() {
        if matches!(text.as_bytes()[i], b'"' | b'\\' | 0..=31) {
            return false;
        }
        i += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::is_plain;

    #[test]
    fn texts_that_would_break_the_descriptor_are_found() {
        assert!(is_plain("Reads *.onnx, caf\u{e9}"));
        assert!(!is_plain("a \"word\"") && !is_plain("a\\b") && !is_plain("a\nb"));
    }
}
