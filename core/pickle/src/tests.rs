use super::*;
use crate::testing::{dict, object, pickle, text};

fn value(bytes: &[u8]) -> Pickled {
    read(&pickle(bytes), &Context::default()).unwrap().checked().unwrap()
}

/// Reads bytes that need not be a pickle.
fn any(bytes: &[u8]) {
    let _ = read(bytes, &Context::default()).and_then(PickledTree::checked);
}

fn error(bytes: &[u8]) -> (String, String) {
    let tree = read(&pickle(bytes), &Context::default()).and_then(PickledTree::checked);
    let error = tree.unwrap_err().into_finding();
    (error.code.into_owned(), error.message)
}

#[test]
fn literals_are_read() {
    let cases: &[(&[u8], &str)] = &[
        (b"N", "None"),
        (b"\x88", "Bool(true)"),
        (b"J\xfe\xff\xff\xff", "Int(-2)"),
        (b"K\xff", "Int(255)"),
        (b"M\x01\x01", "Int(257)"),
        (b"\x8a\x00", "Int(0)"),
        (b"\x8a\x01\x80", "Int(-128)"),
        (b"\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80", "Int(-9223372036854775808)"),
        (b"G\x3f\xf8\0\0\0\0\0\0", "Float(1.5)"),
        (b"X\x01\0\0\0a", "Text(\"a\")"),
        (b"\x8c\x02\xc3\xa9", "Text(\"é\")"),
        (b"U\x01a", "Text(\"a\")"),
        (b"C\x01a", "Bytes"),
        (b"K\x01K\x02\x86", "Tuple([Int(1), Int(2)])"),
        (b"(K\x01K\x02t", "Tuple([Int(1), Int(2)])"),
        (b"cbuiltins\ncomplex\nK\x01K\x02\x86R", "Complex(1.0, 2.0)"),
        (b"ctorch\ndevice\n\x8c\x04cuda\x85R", "Device(\"cuda\")"),
        (b"\x8c\x01a\x8c\x01b\x93", "Global(\"a\", \"b\")"),
    ];
    for (bytes, expected) in cases {
        assert_eq!(format!("{:?}", value(bytes)), *expected, "{bytes:?}");
    }
    // A number beyond 64 bits stays opaque.
    let long = value(b"\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\x00");
    assert!(matches!(long, Pickled::Object(object) if &*object.class == "builtins.int"));
}

#[test]
fn containers_are_shared_and_filled_later() {
    // A list that two items of a tuple are, filled after that.
    let both = value(b"]q\x00h\x00\x86h\x00K\x07a0");
    let Pickled::Tuple(items) = both else { panic!() };
    let [Pickled::List(a), Pickled::List(b)] = &items[..] else { panic!() };
    assert!(Rc::ptr_eq(a, b));
    assert!(matches!(a.borrow()[..], [Pickled::Int(7)]));
    // Protocol 4 numbers what it remembers.
    assert!(matches!(value(b"\x8c\x01a\x94K\x010h\x00"), Pickled::Text(_)));
    // The last value of a key counts, at the place of the first.
    let items =
        value(&dict(&[("a", b"K\x01".to_vec()), ("b", b"N".to_vec()), ("a", b"K\x02".to_vec())]));
    assert_eq!(format!("{items:?}").matches("Text").count(), 2);
    assert!(matches!(items.get("a"), Some(Pickled::Int(2))));
    let set = value(b"\x8f(K\x01K\x02\x90");
    let Pickled::Object(set) = set else { panic!() };
    assert_eq!(set.state.borrow().as_ref().unwrap().items().unwrap().len(), 2);
}

#[test]
fn typed_containers_and_ordered_dicts_are_plain_ones() {
    let list = value(b"ctorch.jit._pickle\nbuild_intlist\n](K\x01K\x02e\x85R");
    assert_eq!(list.items().unwrap().len(), 2);
    let tagged = value(
        &[&b"ctorch.jit._pickle\nrestore_type_tag\n}"[..], &text("Dict[str, int]"), b"\x86R"]
            .concat(),
    );
    assert!(matches!(tagged, Pickled::Dict(_)));
    let ordered = value(&[b"ccollections\nOrderedDict\n)R", &text("a")[..], b"K\x01s"].concat());
    assert!(matches!(ordered.get("a"), Some(Pickled::Int(1))));
}

#[test]
fn unknown_calls_are_opaque_and_nothing_is_executed() {
    let call = value(&[b"cos\nsystem\n", &text("touch /tmp/never")[..], b"\x85R"].concat());
    let Pickled::Object(object) = call else { panic!() };
    assert_eq!((&*object.class, object.arguments.len()), ("os.system", 1));
    assert!(object.state.borrow().is_none());
    let module = value(&object_of_scripts());
    let Pickled::Object(module) = module else { panic!() };
    assert_eq!(&*module.class, "__torch__.a.Net");
    assert!(matches!(module.attribute("k"), Some(Pickled::Int(1))));
    let state = value(b"c__torch__.a\nNet\n)\x81K\x01K\x02\x86b");
    let Pickled::Object(state) = state else { panic!() };
    assert!(matches!(&*state.state.borrow(), Some(Pickled::Tuple(_))));
}

#[test]
fn members_of_enums_are_made_of_bare_values() {
    let Pickled::Object(member) = value(b"c__torch__.net\nColor\nK\x02R") else { panic!() };
    assert_eq!(&*member.class, "__torch__.net.Color");
    assert!(matches!(member.arguments[..], [Pickled::Int(2)]));
    assert!(error(b"cnet\nColor\nK\x02R").1.contains("calls without a tuple"));
}

fn object_of_scripts() -> Vec<u8> {
    object("__torch__.a", "Net", &[("k", b"K\x01".to_vec())])
}

#[test]
fn wrong_pickles_are_refused() {
    let cases: &[(&[u8], &str)] = &[
        (b"0", "takes a value"),
        (b"t", "no mark"),
        (b"(0h\x01", "never remembered"),
        (b"(K\x01(0a", "takes a value"),
        (b"}(K\x01u", "key without value"),
        (b"K\x01K\x02a", "appends to an integer"),
        (b"K\x01)R", "calls an integer"),
        (b"K\x01Q", "no storage"),
        (b"\x8c\x01\xff", "not UTF-8"),
        (b"I1\n", "operation 0x49"),
        (b"ctorch._utils\n_rebuild_sparse_tensor\n)R", "not dense"),
    ];
    for (bytes, expected) in cases {
        let (_, message) = error(bytes);
        assert!(message.contains(expected), "{bytes:?}: {message}");
    }
    assert_eq!(read(b"\x80\x02K", &Context::default()).unwrap_err().code, "N0202");
    assert!(error(b"\x80\x00N").1.contains("protocol 0"));
}

#[test]
fn deep_pickles_end_with_an_error_and_not_with_the_stack() {
    const DEEP: usize = 200_000;
    let lists = [b"]".repeat(DEEP), b"a".repeat(DEEP - 1)].concat();
    assert_eq!(error(&lists).0, "N0213");
    let tuples = [b")".to_vec(), b"\x85".repeat(DEEP)].concat();
    assert_eq!(error(&tuples).0, "N0213");
    // Deep, and then cut off, or thrown away.
    assert!(read(&pickle(&lists)[..DEEP * 2 - 9], &Context::default()).is_err());
    let thrown = [&lists[..], b"0N"].concat();
    assert!(matches!(value(&thrown), Pickled::None));
    let objects =
        [b"cx\ny\nq\x00".to_vec(), b"h\x00)\x81".repeat(DEEP), b"b".repeat(DEEP)].concat();
    assert!(error(&objects).1.contains("gives a state") || error(&objects).0 == "N0213");
}

#[test]
fn cycles_and_what_unfolds_without_measure_are_refused() {
    assert!(error(b"]q\x00h\x00a").1.contains("contains itself"));
    // A thousand million lists from forty.
    let laughs = [b")".to_vec(), b"q\x00h\x00\x86".repeat(40)].concat();
    assert_eq!(error(&laughs).0, "N0213");
    let many = [b"]".to_vec(), b"]a".repeat(1 << 19)].concat();
    assert_eq!(error(&many).0, "N0213");
}

#[test]
fn damaged_pickles_never_panic() {
    let bytes = pickle(&dict(&[
        ("a", object_of_scripts()),
        ("b", b"ctorch.jit._pickle\nbuild_intlist\n](K\x01K\x02e\x85Rq\x01".to_vec()),
        ("c", b"K\x01K\x02\x86\x8a\x02\x01\x02\x86h\x01\x86".to_vec()),
    ]));
    assert!(read(&bytes, &Context::default()).is_ok());
    for at in 0..bytes.len() {
        any(&bytes[..at]);
        for byte in 0..=255 {
            let mut damaged = bytes.clone();
            damaged[at] = byte;
            any(&damaged);
        }
    }
}

/// Containers that are given to many calls cost little in a file, and much if each call copies them.
#[test]
fn copies_have_a_limit() {
    let shared = |container: &[u8], callee: &[u8], call: &[u8]| {
        [b"(", container, b"q\0", callee, b"q\x01", &call.repeat(2000), b"t"].concat()
    };
    let many =
        |open: &[u8], item: &[u8], close: &[u8]| [open, &item.repeat(10_000), close].concat();
    let list = many(b"](", b"K\x01", b"e");
    let pairs = many(b"](", b"K\x01K\x02\x86", b"e");
    let tuple = many(b"(", b"K\x01", b"t");
    let length = 100_000u32;
    let name = [b"X", &length.to_le_bytes()[..], &b"a".repeat(length as usize)].concat();
    let device = [&name[..], b"K\x01\x86"].concat();
    let storages = [&text("storage")[..], b"q\x02ctorch\nFloatStorage\nq\x03"].concat();
    let object = |class: &str, index: u8| {
        [b"cx\n", class.as_bytes(), b"\n)\x81q", &[index], b"}K\x01Nsq", &[index + 1, b'b']]
            .concat()
    };
    let states = [object("A", 0), object("B", 2), b"h\0h\x03bh\x02h\x01b".repeat(40)].concat();
    for bytes in [
        shared(&list, b"ctorch\nSize\n", b"h\x01h\0\x85R"),
        shared(&pairs, b"ccollections\nOrderedDict\n", b"h\x01h\0\x85R"),
        shared(&tuple, b"cx\ny\n", b"h\x01h\0R"),
        shared(&tuple, b"cx\ny\n", b"h\x01h\0}\x92"),
        shared(&device, b"ctorch\ndevice\n", b"h\x01h\0R"),
        shared(&name, &text("b"), b"h\0h\x01\x93)R"),
        shared(&name, &storages, b"(h\x02h\x03h\0h\x02K\0tQ"),
        states,
    ] {
        let (code, message) = error(&bytes);
        assert!(code == "N0213" && message.contains("copies"), "{code} {message}");
    }
}
