//! Files that h5py wrote (`hdf5/fixtures/make.py`). Element `i` of a tensor in them is `(i + 1) % 100`.

use super::Hdf5;
use onnxd_plugin_sdk::ir::DataType;

fn file(name: &str) -> Hdf5 {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/hdf5/fixtures");
    let bytes = std::fs::read(folder.join(name).with_extension("h5")).unwrap();
    Hdf5::open(bytes.into()).unwrap()
}

fn both(name: &str) -> [(String, Hdf5); 2] {
    ["earliest", "latest"].map(|version| {
        let name = format!("{name}-{version}");
        (name.clone(), file(&name))
    })
}

fn counted(i: usize) -> f64 {
    ((i + 1) % 100) as f64
}

/// Demands that a tensor is what a rule says.
fn assert_is(
    (file_name, file): &(String, Hdf5),
    path: &str,
    dtype: DataType,
    dims: &[usize],
    rule: impl Fn(usize) -> f64,
) {
    let tensor = file.tensor(path).map_err(|e| e.to_string()).unwrap();
    let tensor = tensor.unwrap_or_else(|| panic!("{file_name} has `{path}`"));
    assert_eq!((tensor.dtype(), tensor.dims()), (dtype, dims), "`{path}` of {file_name}");
    let values: Vec<f64> = (0..dims.iter().product()).map(rule).collect();
    assert_eq!(tensor.to_reals().unwrap().values, values, "`{path}` of {file_name}");
}

#[test]
fn numbers_of_both_byte_orders() {
    let kinds = [
        ("i1", DataType::Int8),
        ("i2", DataType::Int16),
        ("i4", DataType::Int32),
        ("i8", DataType::Int64),
        ("u1", DataType::Uint8),
        ("u2", DataType::Uint16),
        ("u4", DataType::Uint32),
        ("u8", DataType::Uint64),
        ("f2", DataType::Float16),
        ("f4", DataType::Float),
        ("f8", DataType::Double),
    ];
    for file in both("numbers") {
        assert_eq!(file.1.tensors("").len(), 2 * kinds.len());
        for (kind, dtype) in kinds {
            for order in ["little", "big"] {
                assert_is(&file, &format!("{order}-{kind}"), dtype, &[2, 3], counted);
            }
        }
    }
}

#[test]
fn other_types_and_tensors_without_elements() {
    for file in both("types") {
        assert_is(&file, "bool", DataType::Bool, &[2, 3], |i| (i % 2) as f64);
        assert_is(&file, "bfloat16", DataType::Bfloat16, &[3], counted);
        assert_is(&file, "scalar", DataType::Float, &[], counted);
        assert_is(&file, "empty", DataType::Float, &[0, 3], counted);
        assert_is(&file, "unwritten", DataType::Float, &[3], |_| 0.0);
        assert_is(&file, "filled", DataType::Int32, &[3], |_| 7.0);
        assert_is(&file, "compact", DataType::Int32, &[5], counted);
        assert_is(&file, "of-a-named-type", DataType::Float, &[4], counted);
        assert_is(&file, "a/b/x", DataType::Float, &[2], counted);
        let refusal = |path: &str| file.1.tensor(path).unwrap_err().to_string();
        assert!(refusal("nothing").contains("has no value"), "{}", refusal("nothing"));
        for (path, named) in [("text", "text of variable length"), ("pairs", "compound of 8 bytes")]
        {
            let message = refusal(path);
            assert!(message.contains(&format!("has the type {named}")), "{message}");
        }
        for path in ["soft", "other-file", "named", "a", "absent", "a/absent/x"] {
            assert!(file.1.tensor(path).unwrap().is_none(), "`{path}`");
        }
    }
}

#[test]
fn groups_and_the_forms_of_words() {
    let mut files: Vec<(String, Hdf5)> = both("types").into();
    files.extend(["user-block", "narrow"].map(|name| (name.to_owned(), file(name))));
    for file in &files {
        let has_groups = file.0.starts_with("types");
        let groups = if has_groups { vec!["a"] } else { vec![] };
        assert_eq!(file.1.groups(""), groups);
        assert_eq!(file.1.has_group("a/b/c/d"), has_groups);
        assert!(!file.1.has_group("absent"));
        if !has_groups {
            assert_is(file, "x", DataType::Float, &[2], counted);
        }
        for path in if has_groups { &["", "a/b/c/d"][..] } else { &[""] } {
            let text = |name: &str| file.1.text(path, name);
            assert_eq!(text("fixed").as_deref(), Some("one"));
            assert_eq!(text("variable").as_deref(), Some("zwölf"));
            assert_eq!((text("number"), text("fixed-list"), text("absent")), (None, None, None));
            let list = |name: &str| file.1.list(path, name);
            let words = |words: &[&str]| Some(words.iter().map(|&w| w.to_owned()).collect());
            assert_eq!(list("fixed-list"), words(&["a", "", "ccc"]));
            assert_eq!(list("variable-list"), words(&["a", "", "ccc"]));
            assert_eq!(list("empty-list"), words(&[]));
            assert_eq!(list("none"), words(&[]));
            assert_eq!(list("long"), words(&["a", "b", "c"]));
            assert_eq!((list("number"), list("absent")), (None, None));
        }
    }
}

#[test]
fn chunks_of_every_index() {
    let part = |i: usize| match (i / 8, i % 8) {
        (2..4, 3..7) => counted(i),
        _ => 9.0,
    };
    let [old, new] = both("chunks");
    assert_is(&new, "implicit", DataType::Int32, &[5, 7], counted);
    for end in ["", "-packed"] {
        for (file, names) in
            [(&old, &["tree"][..]), (&new, &["single", "fixed", "extensible", "tree"])]
        {
            for name in names {
                assert_is(file, &format!("{name}{end}"), DataType::Int32, &[5, 7], counted);
                if *name != "single" {
                    let path = format!("{name}-in-part{end}");
                    assert_is(file, &path, DataType::Int32, &[6, 8], part);
                }
            }
        }
    }
}

#[test]
fn indexes_of_many_chunks() {
    let [old, new] = both("long");
    assert_is(&old, "levels", DataType::Uint8, &[9, 11], counted);
    assert_is(&new, "levels", DataType::Uint8, &[9, 11], counted);
    assert_is(&new, "blocks", DataType::Uint8, &[250], counted);
    let written = |i: usize| if i < 1030 { 9.0 } else { counted(i) };
    assert_is(&new, "pages", DataType::Uint8, &[1040], written);
}

#[test]
fn links_and_attributes_of_large_groups() {
    for file in both("ordered") {
        let names: Vec<String> = (0..20).rev().map(|i| format!("tensor-{i:02}")).collect();
        assert_eq!(file.1.tensors(""), names);
        for (i, name) in (0..20).rev().zip(&names) {
            assert_is(&file, name, DataType::Float, &[], |_| i as f64);
        }
        let words: Vec<String> = (0..20).map(|i| format!("word-{i}")).collect();
        assert_eq!(file.1.list("", "list"), Some(words));
    }
    for file in both("wide") {
        let names = (0..60).map(|i| format!("link-{i:02}"));
        let names: Vec<String> = names.chain(["x".to_owned()]).collect();
        assert_eq!(file.1.tensors(""), names);
        assert_is(&file, "link-59", DataType::Float, &[2], counted);
    }
}

#[test]
fn contiguous_tensors_are_views() {
    let [file, _] = both("numbers");
    for (path, is_view) in [("little-i4", true), ("big-i4", false)] {
        let [one, other] = [path, path].map(|path| file.1.tensor(path).unwrap().unwrap());
        assert_eq!(one.identity() == other.identity(), is_view, "`{path}`");
    }
}
