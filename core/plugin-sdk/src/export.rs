//! The macro that makes a library of components.

/// Exports a plugin: the header that onnxd reads without running the plugin's code, and the table behind it.
///
/// ```ignore
/// onnxd_plugin_sdk::export_plugin! {
///     id: "org.example.tidy",
///     summary: "What the plugin is for",
///     components: [
///         pass("remove-foo", "Removes Foo, which does nothing" => || rule("remove-foo", remove_foo)),
///         pass(
///             "clip-weights", "Clips weights"; declares [ClipWeights::ROWS] =>
///             |params| Box::new(Clip(params.section())),
///         ),
///         frontend("bar", "Reads Bar files"; "*.bar" => || Box::new(Bar)),
///         quantizer(
///             "nibbles", "Weights of four bits"; declares [include_str!("nibbles.toml")] =>
///             || Box::new(Nibbles),
///         ),
///     ],
/// }
/// ```
///
/// `declares` takes pieces of the component's table in the descriptor: the rows that [`params!`](crate::params!) makes,
/// and TOML. What is not in a table of its own comes first. A pass that declares anything is made with its params.
///
/// Ids, summaries and globs are literals without control characters, `'''` and a `'` at their ends, because they become
/// static TOML; others do not compile.
#[macro_export]
macro_rules! export_plugin {
    (
        id: $id:literal,
        summary: $summary:literal,
        components: [
            $( $kind:ident (
                $name:literal, $about:literal $(; $($glob:literal),+)? $(; declares $declares:tt)? => $make:expr $(,)?
            ) ),+ $(,)?
        ] $(,)?
    ) => {
        struct ExportedPlugin;

        impl $crate::private::Definition for ExportedPlugin {
            fn components() -> Vec<$crate::Component> {
                vec![$( $crate::export_plugin!(@component $kind, $name, $make $(, $declares)?) ),+]
            }
        }

        const _: () = {
            $( assert!($crate::private::is_plain($name) && $crate::private::is_plain($about)); )+
            $( $( $( assert!($crate::private::is_plain($glob)); )+ )? )+
            assert!($crate::private::is_plain($id) && $crate::private::is_plain($summary));

            use $crate::private::{abi, create, destroy, entry, extension, join, len, run};

            const PARTS: &[&[&str]] = &[
                &[concat!(
                    "summary = '''", $summary, "'''\nlicence = '", env!("CARGO_PKG_LICENSE"),
                    "'\ndeterministic = true\n"
                )],
                $(
                    &[concat!(
                        "[[components]]\nkind = '", stringify!($kind), "'\nid = '", $name, "'\nsummary = '''", $about,
                        "'''\nglobs = [", $($("'''", $glob, "''', ",)+)? "]\n"
                    )],
                    $( &$declares, )?
                )+
            ];
            static DESCRIPTOR: [u8; len(PARTS)] = join(PARTS);

            static PLUGIN: abi::Plugin = abi::Plugin {
                struct_size: size_of::<abi::Plugin>() as u32,
                reserved: 0,
                create: Some(create::<ExportedPlugin>),
                run: Some(run),
                destroy: Some(destroy),
                extension: Some(extension),
            };

            unsafe extern "C" fn start(host: *const abi::Host) -> *const abi::Plugin {
                // SAFETY: the host calls the entry with its own table, a static, or with null.
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
                descriptor: abi::Str::of(&DESCRIPTOR),
                entry: Some(start),
            };
        };
    };
    (@component pass, $name:literal, $make:expr) => {
        $crate::Component::pass($name, |_| ($make)())
    };
    (@component $kind:ident, $name:literal, $make:expr $(, $declares:tt)?) => {
        $crate::Component::$kind($name, $make)
    };
}

/// Bytes of the texts, with a line end behind each.
#[must_use]
pub const fn len(parts: &[&[&str]]) -> usize {
    let (mut n, mut i) = (0, 0);
    while i < parts.len() {
        let mut j = 0;
        while j < parts[i].len() {
            n += parts[i][j].len() + 1;
            j += 1;
        }
        i += 1;
    }
    n
}

/// The texts one after the other, with a line end behind each.
#[must_use]
pub const fn join<const N: usize>(parts: &[&[&str]]) -> [u8; N] {
    let (mut out, mut at, mut i) = ([b'\n'; N], 0, 0);
    while i < parts.len() {
        let mut j = 0;
        while j < parts[i].len() {
            let text = parts[i][j].as_bytes();
            out.split_at_mut(at).1.split_at_mut(text.len()).0.copy_from_slice(text);
            at += text.len() + 1;
            j += 1;
        }
        i += 1;
    }
    out
}

/// Whether a text may stand between the quotation marks of a TOML literal as it is.
#[must_use]
pub const fn is_plain(text: &str) -> bool {
    let (bytes, mut i, mut quotes) = (text.as_bytes(), 0, 0);
    while i < bytes.len() {
        quotes = if bytes[i] == b'\'' { quotes + 1 } else { 0 };
        if quotes == 3 || bytes[i] < 32 {
            return false;
        }
        i += 1;
    }
    quotes == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_would_break_the_descriptor_are_found() {
        assert!(is_plain("Reads *.onnx, caf\u{e9}, \"words\", N2D2's own"));
        assert!(!is_plain("quoted'") && !is_plain("a'''b") && !is_plain("a\nb"));
    }

    #[test]
    fn pieces_become_lines() {
        const PARTS: &[&[&str]] = &[&["a = 1"], &[], &["b", "c"]];
        static TEXT: [u8; len(PARTS)] = join(PARTS);
        assert_eq!(&TEXT, b"a = 1\nb\nc\n");
    }
}
