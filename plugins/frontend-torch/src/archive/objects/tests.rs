use super::*;
use crate::archive::fixture::{archive, floats, pickle, script};
use crate::archive::kind::{FileKind, file_kind};
use crate::diag::Class;
use std::rc::Rc;

fn open(bytes: Bytes) -> Result<ScriptArchive, Diagnostic> {
    ScriptArchive::open(Archive::open(bytes)?)
}

fn attribute(of: &Pickled, name: &str) -> Pickled {
    let Pickled::Object(object) = of else { panic!("{of:?} is no object") };
    object.attribute(name).unwrap()
}

fn numbers(of: &Pickled) -> Vec<f32> {
    let Pickled::Tensor(stored) = of else { panic!("{of:?} is no tensor") };
    stored.tensor.as_slice::<f32>().unwrap().into_owned()
}

#[test]
fn scripts_have_objects_constants_and_code() {
    let script = open(script()).unwrap();
    assert_eq!((script.version, script.old), (3, false));
    let modules: Vec<&str> = script.code.keys().map(|module| &**module).collect();
    assert_eq!(modules, ["__torch__.net"]);
    assert_eq!(script.debug("__torch__.net").unwrap().unwrap(), "lines");
    assert!(script.debug("__torch__.other").unwrap().is_none());
    assert_eq!(numbers(&script.constants[0]), [8.0]);
    let (inner, tied) = (attribute(&script.root, "inner"), attribute(&script.root, "tied"));
    let weight = attribute(&inner, "weight");
    assert_eq!(numbers(&weight), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    let (Pickled::Tensor(a), Pickled::Tensor(b)) = (&weight, &tied) else { panic!() };
    assert!(Rc::ptr_eq(a, b));
}

const OLD: &str = r#"{"protoVersion":"5","mainModule":{"name":"net","torchscriptArena":{"key":"code/net.py"},
    "attributes":[{"name":"k","type":"int","id":"1"},{"name":"buf","type":"Tensor","id":"0"}],
    "submodules":[{"name":"lin","parameters":[{"name":"weight","tensorId":"1"}]}]},
    "tensors":[{"dataType":"FLOAT","data":{"key":"tensors/0"},"offset":"1"},
    {"dims":["2","2"],"strides":["1","2"],"dataType":"FLOAT","data":{"key":"tensors/0"}}]}"#;

fn old(model: &str) -> Bytes {
    with_attributes(model, b"(ctorch.jit._pickle\nbuild_tensor_from_id\n(K\x00tRK\x07t")
}

fn with_attributes(model: &str, attributes: &[u8]) -> Bytes {
    archive(&[
        ("net/version", b"1\n"),
        ("net/code/net.py", b"op_version_set = 1\n"),
        ("net/attributes.pkl", &pickle(attributes)),
        ("net/libs/__torch__/sub.py", b"op_version_set = 1\n"),
        ("net/tensors/0", &floats(&[1.0, 2.0, 3.0, 4.0])),
        ("net/model.json", model.as_bytes()),
    ])
}

#[test]
fn old_scripts_give_the_same_objects() {
    assert_eq!(file_kind(&old(OLD)).unwrap(), FileKind::ScriptOld);
    let script = open(old(OLD)).unwrap();
    assert!(script.old && script.code.contains_key("__torch__.net"));
    let Pickled::Object(root) = &script.root else { panic!() };
    assert_eq!(&*root.class, "__torch__.net.Module");
    assert!(matches!(attribute(&script.root, "k"), Pickled::Int(7)));
    assert_eq!(numbers(&attribute(&script.root, "buf")), [2.0]);
    let inner = attribute(&script.root, "lin");
    assert_eq!(numbers(&attribute(&inner, "weight")), [1.0, 3.0, 2.0, 4.0]);
    assert_eq!(script.constants.len(), 2);
    assert!(script.code.contains_key("__torch__.sub"));
    let unset = open(old(&OLD.replacen(r#""id":"1""#, r#""id":"-1""#, 1))).unwrap();
    assert!(matches!(attribute(&unset.root, "k"), Pickled::None));
    // As torch 1.1 has tensors and lists.
    let first = b"](c__main__\nTensorID\n)\x81J\0\0\0\0bc__main__\nIntList\n)\x81](K\xffebe";
    let model = OLD.replacen(r#""protoVersion":"5""#, r#""protoVersion":"2""#, 1);
    let first = open(with_attributes(&model, first)).unwrap();
    assert_eq!(numbers(&attribute(&first.root, "buf")), [2.0]);
    assert!(matches!(attribute(&first.root, "k").items().unwrap()[..], [Pickled::Int(-1)]));
    for (from, to, expected) in [
        (r#""id":"1""#, r#""id":"9""#, "has not"),
        (r#""tensorId":"1""#, r#""tensorId":"-1""#, "size of -1"),
        (r#""strides":["1","2"]"#, r#""strides":["9","2"]"#, "cannot be derived"),
        (r#""offset":"1""#, r#""offset":"x""#, "in place of an integer"),
        (r#""name":"lin","#, "", "without name"),
        (r#""name":"lin","#, r#""name":"lin","getStateAttributeId":"1","#, "`__getstate__`"),
        (r#"{"protoVersion""#, r#"["protoVersion""#, "`model.json`"),
    ] {
        let error = open(old(&OLD.replacen(from, to, 1))).unwrap_err();
        assert!(error.message.contains(expected), "{to}: {error}");
    }
    let deep = format!("{}{}", "{\"submodules\":[".repeat(100_000), "]}".repeat(100_000));
    assert!(open(old(&deep)).unwrap_err().message.contains("recursion limit"));
}

#[test]
fn objects_of_torch_1_3_may_have_their_tensors_in_json() {
    let root =
        b"c__torch__\nNet\n)\x81}(\x8c\x01wctorch.jit._pickle\nbuild_tensor_from_id\nK\x01\x85Rub";
    let script = open(archive(&[
        ("net/version", b"2\n"),
        ("net/data.pkl", &pickle(root)),
        ("net/code/__torch__.py", b""),
        ("net/tensors/0", &floats(&[1.0, 2.0, 3.0, 4.0])),
        ("net/model.json", OLD.as_bytes()),
    ]));
    let script = script.unwrap();
    assert_eq!(numbers(&attribute(&script.root, "w")), [1.0, 3.0, 2.0, 4.0]);
    assert!(!script.old && script.code.contains_key("__torch__"));
    assert_eq!(numbers(&script.constants[0]), [2.0]);
}

#[test]
fn what_is_no_module_is_refused() {
    let with = |data: &[u8], version: &[u8], order: &[u8]| {
        open(archive(&[
            ("net/data.pkl", &pickle(data)),
            ("net/code/__torch__.py", b""),
            ("net/version", version),
            ("net/byteorder", order),
        ]))
    };
    let module = b"c__torch__\nNet\n)\x81}b";
    assert!(with(module, b"3", b"little").is_ok());
    assert!(with(b"K\x01", b"3", b"little").unwrap_err().message.contains("in place of a module"));
    assert!(with(module, b"three", b"little").unwrap_err().message.contains("no number"));
    assert_eq!(with(module, b"3", b"big").unwrap_err().code, "N0214");
}

#[test]
fn kinds_are_told_by_members() {
    let of = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| format!("a/{name}")).collect();
        let members: Vec<(&str, &[u8])> =
            names.iter().map(|name| (name.as_str(), &b""[..])).collect();
        file_kind(&archive(&members)).unwrap()
    };
    assert_eq!(of(&["code/__torch__.py", "data.pkl", "bytecode.pkl"]), FileKind::Script);
    assert_eq!(of(&["bytecode.pkl", "data.pkl"]), FileKind::Mobile);
    assert_eq!(of(&["data/aotinductor/model/x.so", "archive_format"]), FileKind::Inductor);
    assert_eq!(of(&["python_version", "m.py"]), FileKind::Package);
    assert_eq!(of(&["x.npy"]), FileKind::Unknown);
    let graphs = of(&["archive_format", "models/a.json", "models/b.json"]);
    assert_eq!(graphs, FileKind::Program(vec!["models/a.json".into(), "models/b.json".into()]));
    assert!(matches!(of(&["serialized_exported_program.json", "version"]), FileKind::Program(_)));
    let plain = |bytes: &[u8]| file_kind(&Bytes::copy_from_slice(bytes)).unwrap();
    assert_eq!(plain(b"\x10\0\0\0PTMF"), FileKind::MobileFlatbuffer);
    assert_eq!(plain(b"\x02\0\0\0\0\0\0\0{}"), FileKind::Safetensors);
    assert_eq!(plain(crate::archive::weights::LEGACY), FileKind::LegacySave);
    assert_eq!(plain(b""), FileKind::Unknown);
    for kind in [FileKind::Script, FileKind::ScriptOld, graphs] {
        assert!(kind.refusal().is_none());
    }
    let refused = [
        FileKind::StateDict,
        FileKind::Safetensors,
        FileKind::PickledModule,
        FileKind::Package,
        FileKind::Inductor,
    ];
    for kind in refused {
        let refusal = kind.refusal().unwrap();
        let weights = matches!(kind, FileKind::StateDict | FileKind::Safetensors);
        let class = if weights { Class::Input } else { Class::Unsupported };
        assert_eq!(refusal.class, class);
        assert!(refusal.help.contains("torch.export.save"));
    }
}
