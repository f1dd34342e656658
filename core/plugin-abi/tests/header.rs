//! Holds `onnxd_plugin.h` equal to the Rust definitions: a C program prints sizes, offsets and
//! constants as its compiler sees them, and they must be those of `rustc`.

use onnxd_plugin_abi as abi;
use std::mem::{offset_of, size_of};
use std::process::Command;

type Field = (&'static str, usize);

/// One struct: C name, size, fields with their offsets.
type Struct = (&'static str, usize, Vec<Field>);

/// Lists a struct; the pattern without `..` makes a forgotten field a compile error.
macro_rules! layout {
    ($c:literal, $rust:ident { $($field:ident),* }) => {{
        #[allow(dead_code, unused_variables)]
        fn all_fields(value: abi::$rust) {
            let abi::$rust { $($field),* } = value;
        }
        let fields = vec![$((stringify!($field), offset_of!(abi::$rust, $field))),*];
        ($c, size_of::<abi::$rust>(), fields)
    }};
}

fn structs() -> Vec<Struct> {
    vec![
        layout!("onnxd_str", Str { ptr, len }),
        layout!("onnxd_err", ErrorBuffer { cap, len, ptr }),
        layout!("onnxd_bytes", Bytes { struct_size, reserved, ptr, len, id }),
        layout!("onnxd_tensor", Tensor { struct_size, dtype, rank, flags, dims, data, nbytes }),
        layout!(
            "onnxd_derivation",
            Derivation {
                struct_size,
                kind,
                sources,
                source_count,
                offset,
                strides,
                axis,
                reserved
            }
        ),
        layout!("onnxd_job", Job { struct_size, threads }),
        layout!("onnxd_named_tensor", NamedTensor { name, id }),
        layout!(
            "onnxd_run",
            Run { struct_size, flags, graph, inputs, input_count, outputs, output_count }
        ),
        layout!(
            "onnxd_host",
            Host {
                struct_size,
                abi_major,
                abi_minor,
                log,
                progress,
                submission,
                input_map,
                graph_get,
                graph_put,
                tensor_get,
                tensor_new,
                tensor_seal,
                tensor_alias,
                artifact,
                metric,
                run_model,
                extension,
                input_unmap,
                progress_about,
                tensor_derive,
                tensor_derivation
            }
        ),
        layout!("onnxd_plugin", Plugin { struct_size, reserved, create, run, destroy, extension }),
        layout!("onnxd_probe_extension", ProbeExtension { struct_size, reserved, probe }),
        layout!(
            "onnxd_header",
            Header {
                magic,
                struct_size,
                abi_major,
                abi_minor,
                min_host_minor,
                reserved,
                abi_tag,
                id,
                version,
                descriptor,
                entry
            }
        ),
    ]
}

fn numbers() -> Vec<(&'static str, i64)> {
    vec![
        ("ONNXD_ABI_MAJOR", abi::ABI_MAJOR.into()),
        ("ONNXD_ABI_MINOR", abi::ABI_MINOR.into()),
        ("ONNXD_RANK_MAX", abi::RANK_MAX.into()),
        ("ONNXD_ABOUT_BYTES_MAX", abi::ABOUT_BYTES_MAX.into()),
        ("ONNXD_TENSOR_ALIGNED_64", abi::TENSOR_ALIGNED_64.into()),
        ("ONNXD_DERIVE_STRIDED", abi::DERIVE_STRIDED.into()),
        ("ONNXD_DERIVE_CAST", abi::DERIVE_CAST.into()),
        ("ONNXD_DERIVE_CONCAT", abi::DERIVE_CONCAT.into()),
        ("ONNXD_DERIVE_SCALED", abi::DERIVE_SCALED.into()),
        ("ONNXD_DERIVE_LOOKUP", abi::DERIVE_LOOKUP.into()),
        ("ONNXD_DERIVE_TAKEN", abi::DERIVE_TAKEN.into()),
        ("ONNXD_DERIVE_BLOCKS", abi::DERIVE_BLOCKS.into()),
        ("ONNXD_DERIVATIONS_MAX", abi::DERIVATIONS_MAX.into()),
        ("ONNXD_OK", abi::OK.into()),
        ("ONNXD_DECLINED", abi::DECLINED.into()),
        ("ONNXD_INVALID", abi::INVALID.into()),
        ("ONNXD_INTERNAL", abi::INTERNAL.into()),
        ("ONNXD_CANCELLED", abi::CANCELLED.into()),
        ("ONNXD_UNSUPPORTED", abi::UNSUPPORTED.into()),
        ("ONNXD_OUT_OF_MEMORY", abi::OUT_OF_MEMORY.into()),
        ("ONNXD_IO", abi::IO.into()),
        ("ONNXD_LOG_ERROR", abi::LOG_ERROR.into()),
        ("ONNXD_LOG_WARN", abi::LOG_WARN.into()),
        ("ONNXD_LOG_INFO", abi::LOG_INFO.into()),
        ("ONNXD_LOG_DEBUG", abi::LOG_DEBUG.into()),
        ("ONNXD_LOG_TRACE", abi::LOG_TRACE.into()),
    ]
}

fn texts() -> Vec<(&'static str, &'static str)> {
    vec![
        ("ONNXD_MAGIC", std::str::from_utf8(&abi::MAGIC).unwrap()),
        ("ONNXD_ABI_TAG", abi::ABI_TAG),
        ("ONNXD_PLUGIN_SYMBOL", abi::PLUGIN_SYMBOL),
        ("ONNXD_EXTENSION_PROBE", abi::EXTENSION_PROBE),
        ("ONNXD_ARTIFACT_PROBE", abi::ARTIFACT_PROBE),
        ("ONNXD_ARTIFACT_PASS_LOG", abi::ARTIFACT_PASS_LOG),
        ("ONNXD_ARTIFACT_QUANTIZE_LOG", abi::ARTIFACT_QUANTIZE_LOG),
        ("ONNXD_ARTIFACT_IMPORT_LOG", abi::ARTIFACT_IMPORT_LOG),
        ("ONNXD_ARTIFACT_DIAGNOSTICS", abi::ARTIFACT_DIAGNOSTICS),
        ("ONNXD_HANDLE_KEY", abi::HANDLE_KEY),
    ]
}

/// What both compilers must say, one fact per line.
fn expected() -> String {
    let mut out = String::new();
    for (name, size, fields) in structs() {
        out += &format!("{name} {size}\n");
        for (field, offset) in fields {
            out += &format!("{name}.{field} {offset}\n");
        }
    }
    for (name, value) in numbers() {
        out += &format!("{name} {value}\n");
    }
    for (name, value) in texts() {
        out += &format!("{name} {value}\n");
    }
    out
}

fn program() -> String {
    let mut out =
        String::from("#include <stdio.h>\n#include \"onnxd_plugin.h\"\nint main(void) {\n");
    for (name, _, fields) in structs() {
        out += &format!("printf(\"{name} %zu\\n\", sizeof({name}));\n");
        for (field, _) in fields {
            out += &format!("printf(\"{name}.{field} %zu\\n\", offsetof({name}, {field}));\n");
        }
    }
    for (name, _) in numbers() {
        out += &format!("printf(\"{name} %ld\\n\", (long)({name}));\n");
    }
    for (name, _) in texts() {
        out += &format!("printf(\"{name} %s\\n\", {name});\n");
    }
    out + "return 0; }\n"
}

#[test]
fn c_header_says_the_same() {
    if Command::new("cc").arg("--version").output().is_err() {
        eprintln!("not compared: there is no C compiler `cc` on this machine");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("layout.c");
    let binary = folder.path().join("layout");
    std::fs::write(&source, program()).unwrap();
    let built = Command::new("cc")
        .args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-I"])
        .arg(env!("CARGO_MANIFEST_DIR"))
        .arg("-o")
        .args([&binary, &source])
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let printed = Command::new(&binary).output().unwrap();
    assert_eq!(String::from_utf8(printed.stdout).unwrap(), expected());
}
