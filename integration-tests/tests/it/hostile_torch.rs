//! PyTorch archives that were made to do harm: each gives one clear diagnostic or a harmless model, in little memory,
//! without a panic, and runs nothing.

use crate::hostile::{self, Member, zipped};

/// A module without attributes, as a pickle.
const MODULE: &[u8] = b"\x80\x02c__torch__\nM\n)\x81}b.";
const NOTHING: &[u8] = b"\x80\x02).";

fn member(name: &str, content: impl Into<Vec<u8>>) -> Member {
    hostile::member(&format!("net/{name}"), content)
}

fn script(code: &str, module: &[u8], constants: &[u8], more: &[Member]) -> Vec<Member> {
    let mut members = vec![
        member("data.pkl", module),
        member("code/__torch__.py", code),
        member("constants.pkl", constants),
        member("version", "3\n"),
    ];
    members.extend_from_slice(more);
    members
}

/// Code whose `forward` has these lines, behind functions.
fn code(functions: &str, lines: &str) -> String {
    let lines = lines.replace('\n', "\n    ");
    format!(
        "{functions}class M(Module):\n  def forward(self: __torch__.M, x: Tensor) -> Tensor:\n    {lines}\n"
    )
}

fn program(functions: &str, lines: &str) -> Vec<u8> {
    zipped(&script(&code(functions, lines), MODULE, NOTHING, &[]), 0)
}

fn forward(lines: &str) -> Vec<u8> {
    program("", lines)
}

fn assert_harmless(files: Vec<(&str, Vec<u8>, &[&'static str])>) {
    let sets = [
        "export.input_shapes=[[2, 3]]", "export.input_dtypes=[\"float32\"]", "passes.profile=none",
    ];
    let named = files.into_iter().map(|(name, file, codes)| {
        let extension = if name.starts_with("json") { "pt2" } else { "pt" };
        (format!("{}.{extension}", name.replace(' ', "-")), file, codes)
    });
    hostile::assert_harmless("libonnxd_frontend_torch.so", &sets, &named.collect::<Vec<_>>());
}

const LIMIT: &[&str] = &["N0213"];
const DAMAGED: &[&str] = &["N0201"];
const FINE: &[&str] = &[];

#[test]
fn archives() {
    let fine = script(&code("", "return x"), MODULE, NOTHING, &[]);
    let with = |more: Member| zipped(&[fine.clone(), vec![more]].concat(), 0);
    let whole = zipped(&fine, 0);
    let code_of = |bytes: Vec<u8>| {
        let mut members = fine.clone();
        members[1] = member("code/__torch__.py", bytes);
        zipped(&members, 0)
    };
    let many = (0..65_000).map(|i| member(&format!("extra/{i}"), ""));
    assert_harmless(vec![
        ("sound", whole.clone(), FINE),
        ("path traversal", with(member("../../../etc/cron.d/x", "x")), DAMAGED),
        ("absolute path", with(("/etc/passwd".into(), b"x".to_vec(), false)), DAMAGED),
        ("two of one name", with(member("version", "4\n")), DAMAGED),
        ("overlapping members", zipped(&fine, 8), DAMAGED),
        ("bomb", code_of(vec![b'#'; 1 << 29]), LIMIT),
        ("much code", code_of(vec![b'\n'; 100 << 20]), LIMIT),
        ("many members", zipped(&[fine.clone(), many.collect()].concat(), 0), FINE),
        ("control characters", with(member("extra/\u{1b}[31m\nN0101 red", "x")), FINE),
        ("truncated", whole[..whole.len() - 30].to_vec(), &["N0202"]),
        ("short", whole[..60].to_vec(), &["N0202"]),
        ("empty", vec![], &["N0101"]),
    ]);
}

#[test]
fn pickles() {
    let attribute =
        |value: &[u8]| [b"\x80\x02c__torch__\nM\n)\x81}X\x01\0\0\0a", value, b"sb."].concat();
    let read = code("", "return x");
    let pickle = |bytes: Vec<u8>| zipped(&script(&read, &bytes, NOTHING, &[]), 0);
    let doubled: Vec<u8> = (0..100u8).flat_map(|i| [b'q', i, b'h', i, 0x86]).collect();
    let doubled = [b"K\x01", &doubled[..]].concat();
    let object = |class: &str, at: u8| {
        let head = [b"cx\n", class.as_bytes(), b"\n)\x81q"].concat();
        [&head[..], &[at], b"}K\x01Nsq", &[at + 1, b'b']].concat()
    };
    let states =
        [&b"("[..], &object("A", 0), &object("B", 2), &b"h\0h\x03bh\x02h\x01b".repeat(60), b"t"]
            .concat();
    // A long list that many calls get.
    let shared = |callee: &[u8], call: &[u8]| {
        let list = [&b"]("[..], &b"K\x01".repeat(100_000), b"e"].concat();
        [b"(", &list[..], b"q\0", callee, b"q\x01", &call.repeat(10_000), b"t"].concat()
    };
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("run");
    let command = text(&format!("touch {}", mark.display()));
    let system = [b"cposix\nsystem\n(", &command[..], b"tR"].concat();
    let own = "class M(Module):\n  a : __torch__.M\n  def forward(self: __torch__.M, x: Tensor) -> \
        Tensor:\n    return ((self).a).forward(x, )\n";
    let itself = b"\x80\x02c__torch__\nM\n)\x81q\0}X\x01\0\0\0ah\0sb.";
    assert_harmless(vec![
        ("os system", pickle([b"\x80\x02", &system[..], b"."].concat()), &["N0105", "N0201"]),
        (
            "os system in constants",
            zipped(&script(&read, MODULE, &[b"\x80\x02", &system[..], b"\x85."].concat(), &[]), 0),
            FINE,
        ),
        ("recursive modules", zipped(&script(own, itself, NOTHING, &[]), 0), DAMAGED),
        (
            "eval",
            pickle([b"\x80\x02cbuiltins\neval\n", &command[..], b"\x85R."].concat()),
            &["N0105", "N0201"],
        ),
        (
            "getattr",
            pickle(
                [
                    b"\x80\x02cbuiltins\ngetattr\ncbuiltins\n__import__\n",
                    &text("os")[..],
                    b"\x85R",
                    &text("system"),
                    b"\x86R",
                    &command,
                    b"\x85R.",
                ]
                .concat(),
            ),
            &["N0105", "N0201"],
        ),
        ("states of each other", pickle(attribute(&states)), LIMIT),
        ("copied lists", pickle(attribute(&shared(b"ctorch\nSize\n", b"h\x01h\0\x85R"))), LIMIT),
        ("list in itself", pickle(attribute(b"]q\x01h\x01a")), DAMAGED),
        (
            "deep tuples",
            pickle([&b"\x80\x02"[..], &[b'('; 1_000_000], &[b't'; 1_000_000], b"."].concat()),
            LIMIT,
        ),
        (
            "deep lists",
            pickle([&b"\x80\x02"[..], &[b']'; 1_000_000], &[b'a'; 999_999], b"."].concat()),
            LIMIT,
        ),
        ("doubled tuples", pickle(attribute(&doubled)), LIMIT),
        ("many lists", pickle([&b"\x80\x02"[..], &vec![b']'; 60 << 20], b"."].concat()), LIMIT),
    ]);
    assert!(!mark.exists(), "a pickle ran a program");
}

/// A text as a pickle says it.
fn text(t: &str) -> Vec<u8> {
    [b"X", &(t.len() as u32).to_le_bytes()[..], t.as_bytes()].concat()
}

/// A tensor of four floats, by offset, sizes, strides.
fn tensor(offset: i64, sizes: &[i64], strides: &[i64]) -> Vec<u8> {
    let int = |x: i64| [&b"\x8a\x08"[..], &x.to_le_bytes()].concat();
    let tuple = |xs: &[i64]| {
        [b"(", &xs.iter().flat_map(|x| int(*x)).collect::<Vec<u8>>()[..], b"t"].concat()
    };
    let storage =
        [&text("storage")[..], b"ctorch\nFloatStorage\n", &text("0"), &text("cpu"), &int(4)]
            .concat();
    [
        &b"ctorch._utils\n_rebuild_tensor_v2\n(("[..],
        &storage,
        b"tQ",
        &int(offset),
        &tuple(sizes),
        &tuple(strides),
        b"\x89ccollections\nOrderedDict\n)RtR",
    ]
    .concat()
}

#[test]
fn tensors() {
    let file = |tensor: Vec<u8>| {
        let code = "class M(Module):\n  __parameters__ = [\"a\", ]\n  a : Tensor\n  def forward(self: \
            __torch__.M, x: Tensor) -> Tensor:\n    return torch.add(torch.sum(x), (self).a)\n";
        let module = [b"\x80\x02c__torch__\nM\n)\x81}X\x01\0\0\0a", &tensor[..], b"sb."].concat();
        zipped(&script(code, &module, NOTHING, &[member("data/0", [0; 16])]), 0)
    };
    assert_harmless(vec![
        ("sound tensor", file(tensor(0, &[2, 2], &[1, 2])), FINE),
        ("strides beyond", file(tensor(0, &[4], &[1_000_000])), DAMAGED),
        ("strides overflow", file(tensor(0, &[4, 4], &[1 << 62, 1 << 62])), DAMAGED),
        ("offset beyond", file(tensor(1 << 40, &[4], &[1])), DAMAGED),
        ("negative offset", file(tensor(-1, &[4], &[1])), DAMAGED),
        ("negative stride", file(tensor(3, &[4], &[-1])), DAMAGED),
        ("negative size", file(tensor(0, &[-4], &[1])), DAMAGED),
        ("repeated", file(tensor(0, &[1 << 40], &[0])), LIMIT),
        ("many axes", file(tensor(0, &[1; 100_000], &[1; 100_000])), LIMIT),
    ]);
}

#[test]
fn nesting() {
    const DEEP: usize = 1_000_000;
    let around = |open: &str, close: &str| {
        forward(&format!("return {}x{}", open.repeat(DEEP), close.repeat(DEEP)))
    };
    let exported = |json: String| {
        let config = "{\"config\":{}}";
        zipped(
            &[
                member("models/model.json", json),
                member("archive_format", "pt2"),
                member("data/weights/model_weights_config.json", config),
                member("data/constants/model_constants_config.json", config),
            ],
            0,
        )
    };
    let numbers = format!(
        "{{\"graph_module\":{{\"graph\":{{\"inputs\":[{{\"as_ints\":[{}0]}}]}}}}}}",
        "0,".repeat(9_000_000)
    );
    let blocks: String =
        (0..3000).map(|i| format!("{}if torch.gt(1, 0):\n", "  ".repeat(i))).collect();
    assert_harmless(vec![
        ("parentheses", around("(", ")"), LIMIT),
        ("calls", around("torch.relu(", ")"), LIMIT),
        ("attributes", around("", ".a"), LIMIT),
        ("indices", around("", "[0]"), LIMIT),
        (
            "types",
            forward(&format!(
                "y = annotate({}Tensor{}, x)\nreturn y",
                "List[".repeat(DEEP),
                "]".repeat(DEEP)
            )),
            LIMIT,
        ),
        ("blocks", forward(&format!("{blocks}{}pass\nreturn x", "  ".repeat(3000))), LIMIT),
        (
            "json fields",
            exported(format!("{{\"a\":{}{}}}", "[".repeat(DEEP), "]".repeat(DEEP))),
            DAMAGED,
        ),
        ("json numbers", exported(numbers), LIMIT),
        ("json text", exported(format!("{{\"a\":\"{}\"}}", "x".repeat(130 << 20))), LIMIT),
        ("json lists", exported(format!("{}{}", "[".repeat(DEEP), "]".repeat(DEEP))), DAMAGED),
        (
            "json objects",
            exported(format!("{}1{}", "{\"a\":".repeat(DEEP), "}".repeat(DEEP))),
            DAMAGED,
        ),
        (
            "json inputs",
            exported(format!("{{\"graph_module\":{{\"graph\":{{\"inputs\":{}", "[".repeat(DEEP))),
            DAMAGED,
        ),
    ]);
}

#[test]
fn programs_without_end() {
    let f =
        |lines: &str| format!("def f(x: Tensor) -> Tensor:\n  {}\n", lines.replace('\n', "\n  "));
    let chain: String = (0..60)
        .map(|i| {
            format!(
                "def g{i}(x: int) -> int:\n  return __torch__.g{0}(__torch__.g{0}(x, ), )\n",
                i + 1
            )
        })
        .chain(["def g60(x: int) -> int:\n  return torch.add(x, 1)\n".to_owned()])
        .collect();
    let methods = "class M(Module):\n  def forward(self: __torch__.M, x: Tensor) -> Tensor:\n    return \
        (self).f(x, )\n  def f(self: __torch__.M, x: Tensor) -> Tensor:\n    return torch.add((self).forward(x, ), \
        (self).forward(x, ))\n";
    let condition = "bool(torch.gt(torch.select(torch.select(x, 0, 0), 0, 0), 0))";
    let arms: String = (0..140).map(|i| format!("{}if {condition}:\n", "  ".repeat(i))).collect();
    assert_harmless(vec![
        ("while", forward("y = x\nwhile True:\n  y = torch.relu(y)\nreturn y"), FINE),
        ("while without tensors", forward("while True:\n  i = 1\nreturn x"), LIMIT),
        (
            "turns",
            forward("y = x\nfor k in range(1000000000000):\n  y = torch.add(y, k)\nreturn y"),
            FINE,
        ),
        (
            "turns without tensors",
            forward(
                "i = 0\nfor k in range(1000000000000):\n  i = torch.add(i, k)\nreturn torch.add(x, i)",
            ),
            LIMIT,
        ),
        (
            "turns that collect",
            forward(
                "l = annotate(List[int], [])\nfor k in range(1000000000000):\n  _0 = torch.append(l, k)\nreturn x",
            ),
            LIMIT,
        ),
        (
            "recursion",
            program(&f("return __torch__.f(torch.relu(x), )"), "return __torch__.f(x, )"),
            LIMIT,
        ),
        ("methods that call each other", zipped(&script(methods, MODULE, NOTHING, &[]), 0), LIMIT),
        (
            "dict that grows",
            forward(
                "d = annotate(Dict[int, int], {})\nfor k in range(1000000):\n  d[k] = k\nreturn x",
            ),
            LIMIT,
        ),
        (
            "text that grows slowly",
            forward(
                "s = \"\"\nfor k in range(1000000):\n  s = torch.add(s, \"aaaaaaaaaaaaaaaa\")\nreturn x",
            ),
            LIMIT,
        ),
        (
            "recursion in arms",
            program(
                &f(&format!("if {condition}:\n  y = __torch__.f(x, )\nelse:\n  y = x\nreturn y")),
                "return __torch__.f(x, )",
            ),
            LIMIT,
        ),
        ("calls that double", program(&chain, "return torch.add(x, __torch__.g0(1, ))"), LIMIT),
        ("arms in arms", forward(&format!("{arms}{}y = 1\nreturn x", "  ".repeat(140))), LIMIT),
    ]);
}

#[test]
fn values_that_grow() {
    let double = |start: &str, twice: &str| {
        forward(&format!("s = {start}\nfor k in range(60):\n  s = {twice}\nreturn x"))
    };
    assert_harmless(vec![
        ("text", double("\"aaaaaaaa\"", "torch.add(s, s)"), &["N0204"]),
        ("format", double("\"{}{}\"", "torch.format(\"{}{}\", s, s)"), &["N0204"]),
        ("list", double("[1, 2]", "torch.add(s, s)"), LIMIT),
        ("list of lists", double("[[1]]", "[s, s]"), LIMIT),
        ("tuple", double("(x, x)", "(s, s)"), LIMIT),
        ("list times", forward("s = torch.mul([1], 1099511627776)\nreturn x"), LIMIT),
        (
            "list in itself",
            forward("l = annotate(List[int], [])\n_0 = torch.append(l, l)\nreturn x"),
            LIMIT,
        ),
        ("zeros", forward("return torch.zeros([1099511627776])"), FINE),
        ("repeat", forward("return torch.repeat(x, [1099511627776, 1099511627776])"), FINE),
        ("eye", forward("return torch.eye(1048576)"), FINE),
        (
            "product",
            forward("return torch.mm(torch.ones([65536, 65536]), torch.ones([65536, 65536]))"),
            FINE,
        ),
        ("parts", forward("return torch.cat(torch.split(torch.zeros([1099511627776]), 1))"), LIMIT),
        ("power", forward("return torch.add(x, torch.pow(2, 100000000000))"), FINE),
        ("shift", forward("return torch.add(x, torch.__lshift__(1, 1000000000000))"), &["N0204"]),
        (
            "overflow",
            forward("return torch.add(x, torch.mul(9223372036854775807, 9223372036854775807))"),
            &["N0204"],
        ),
        ("division", forward("return torch.add(x, torch.floordiv(1, 0))"), &["N0204"]),
        ("name", forward("return getattr(self, \"a\\x1b[31m\\n\")"), DAMAGED),
    ]);
}
