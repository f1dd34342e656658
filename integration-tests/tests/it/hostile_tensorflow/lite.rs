//! TFLite files.

use super::{CYCLE, DAMAGED, FINE, LIMIT, assert_harmless};

/// A field of a table.
#[derive(Clone)]
enum Field {
    Byte(i8),
    Int(i32),
    Ints(Vec<i32>),
    Text(&'static str),
    Bytes(Vec<u8>),
    Table(Fields),
    Tables(Vec<Fields>),
    /// As many references to one table.
    Same(usize, Fields),
    /// A reference that leads where it says.
    Offset(u32),
}

use Field::{Byte, Bytes, Int, Ints, Offset, Same, Table, Tables, Text};

/// Fields by their numbers.
type Fields = Vec<(usize, Field)>;

fn point(out: &mut [u8], place: usize, to: usize) {
    out[place..place + 4].copy_from_slice(&((to - place) as u32).to_le_bytes());
}

fn table(out: &mut Vec<u8>, fields: &Fields) -> usize {
    let slots = fields.iter().map(|(slot, _)| slot + 1).max().unwrap_or(0);
    let vtable = out.len();
    out.resize(vtable + 4 + 2 * slots, 0);
    let at = out.len();
    out.extend(((at - vtable) as i32).to_le_bytes());
    for (i, (slot, _)) in fields.iter().enumerate() {
        let place = (4 + 4 * i) as u16;
        out[vtable + 4 + 2 * slot..][..2].copy_from_slice(&place.to_le_bytes());
    }
    let end = at + 4 + 4 * fields.len();
    out.resize(end, 0);
    for (i, size) in [(4 + 2 * slots) as u16, (end - at) as u16].into_iter().enumerate() {
        out[vtable + 2 * i..][..2].copy_from_slice(&size.to_le_bytes());
    }
    for (i, (_, field)) in fields.iter().enumerate() {
        let place = at + 4 + 4 * i;
        match field {
            Byte(x) => out[place] = *x as u8,
            Int(x) => out[place..place + 4].copy_from_slice(&x.to_le_bytes()),
            Offset(x) => out[place..place + 4].copy_from_slice(&x.to_le_bytes()),
            other => {
                let to = target(out, other);
                point(out, place, to);
            }
        }
    }
    at
}

/// Writes what a reference leads to.
fn target(out: &mut Vec<u8>, field: &Field) -> usize {
    let at = out.len();
    let mut list = |count: usize, bytes: &[u8]| {
        out.extend((count as u32).to_le_bytes());
        out.extend(bytes);
        at
    };
    match field {
        Table(fields) => table(out, fields),
        Tables(all) => {
            list(all.len(), &vec![0; 4 * all.len()]);
            for (i, fields) in all.iter().enumerate() {
                let to = table(out, fields);
                point(out, at + 4 + 4 * i, to);
            }
            at
        }
        Same(count, fields) => {
            list(*count, &vec![0; 4 * count]);
            let to = table(out, fields);
            (0..*count).for_each(|i| point(out, at + 4 + 4 * i, to));
            at
        }
        Ints(all) => list(all.len(), &all.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>()),
        Text(text) => list(text.len(), text.as_bytes()),
        Bytes(all) => list(all.len(), all),
        Byte(_) | Int(_) | Offset(_) => unreachable!("these stand in the table"),
    }
}

fn file(root: &Fields) -> Vec<u8> {
    let mut out = b"\0\0\0\0TFL3".to_vec();
    let at = table(&mut out, root);
    point(&mut out, 0, at);
    out
}

fn tensor(name: &'static str, dtype: i8, sizes: &[i32], constant: i32) -> Fields {
    vec![
        (0, Ints(sizes.to_vec())),
        (1, Byte(dtype)),
        (2, Int(constant)),
        (3, Text(name)),
        (8, Byte(1)),
    ]
}

fn float(name: &'static str) -> Fields {
    tensor(name, 0, &[2, 3], 0)
}

fn operator(code: i32, inputs: &[i32], outputs: &[i32], (kind, options): (i8, Fields)) -> Fields {
    vec![
        (0, Int(code)),
        (1, Ints(inputs.to_vec())),
        (2, Ints(outputs.to_vec())),
        (3, Byte(kind)),
        (4, Table(options)),
    ]
}

fn graph(tensors: Vec<Fields>, operators: Vec<Fields>) -> Fields {
    let last = tensors.len() as i32 - 1;
    vec![
        (0, Tables(tensors)),
        (1, Ints(vec![0])),
        (2, Ints(vec![last])),
        (3, Tables(operators)),
        (4, Text("main")),
    ]
}

/// A model of graphs whose operators have one code.
fn model(code: i32, graphs: Field, constants: &[Vec<u8>]) -> Fields {
    let old = i8::try_from(code).unwrap_or(127);
    let constants = constants.iter().map(|bytes| vec![(0, Bytes(bytes.clone()))]);
    vec![
        (0, Int(3)),
        (1, Tables(vec![vec![(0, Byte(old)), (3, Int(code))]])),
        (2, graphs),
        (4, Tables([vec![]].into_iter().chain(constants).collect())),
    ]
}

fn one(code: i32, tensors: Vec<Fields>, operators: Vec<Fields>, constants: &[Vec<u8>]) -> Vec<u8> {
    file(&model(code, Tables(vec![graph(tensors, operators)]), constants))
}

const RELU: i32 = 19;
const IF: i32 = 118;
const WHILE: i32 = 119;
const NOTHING: (i8, Fields) = (0, vec![]);
const REFUSED: &[&str] = &["N0201", "N0203", "N0204", "N0213", "N0215"];
const REFUSED_OR_FINE: &[&str] = &["", "N0201", "N0203", "N0204", "N0213", "N0215"];

fn relu() -> Vec<u8> {
    one(RELU, vec![float("x"), float("y")], vec![operator(0, &[0], &[1], NOTHING)], &[])
}

#[test]
fn references() {
    let broken = |slot: usize, field: Field| {
        let graph = graph(vec![float("x"), float("y")], vec![operator(0, &[0], &[1], NOTHING)]);
        let mut root = model(RELU, Tables(vec![graph]), &[]);
        root.iter_mut().filter(|(at, _)| *at == slot).for_each(|(_, at)| *at = field.clone());
        file(&root)
    };
    let patched = |at: usize, bytes: &[u8]| {
        let mut file = relu();
        file[at..at + bytes.len()].copy_from_slice(bytes);
        file
    };
    let indices = |inputs: &[i32], outputs: &[i32]| {
        one(RELU, vec![float("x"), float("y")], vec![operator(0, inputs, outputs, NOTHING)], &[])
    };
    let code = one(RELU, vec![float("x"), float("y")], vec![operator(9, &[0], &[1], NOTHING)], &[]);
    let same = |count: usize| {
        let relu = operator(0, &[0], &[1], NOTHING);
        let mut graph = graph(vec![float("x"), float("y")], vec![]);
        graph[3].1 = Same(count, relu);
        file(&model(RELU, Tables(vec![graph]), &[]))
    };
    let graphs = {
        let graph = graph(vec![float("x"), float("y")], vec![operator(0, &[0], &[1], NOTHING)]);
        file(&model(RELU, Same(300_000, graph), &[]))
    };
    let root = u32::from_le_bytes(relu()[..4].try_into().unwrap()) as usize;
    assert_harmless(
        "tflite",
        vec![
            ("sound", relu(), FINE),
            ("root outside", patched(0, &u32::MAX.to_le_bytes()), DAMAGED),
            ("root at its own place", patched(0, &[0; 4]), DAMAGED),
            ("fields outside", patched(root, &i32::MIN.to_le_bytes()), DAMAGED),
            ("fields before the file", patched(root, &i32::MAX.to_le_bytes()), DAMAGED),
            ("graphs outside", broken(2, Offset(1 << 30)), DAMAGED),
            ("graphs at the end of numbers", broken(2, Offset(u32::MAX)), DAMAGED),
            ("constants outside", broken(4, Offset(1 << 30)), DAMAGED),
            ("no graphs", broken(2, Tables(vec![])), DAMAGED),
            ("no such tensor", indices(&[7], &[1]), DAMAGED),
            ("negative tensor", indices(&[i32::MIN], &[1]), REFUSED),
            ("a result that is an input", indices(&[0], &[0]), REFUSED_OR_FINE),
            ("no such operator", code, DAMAGED),
            ("an operator many times", same(200_000), REFUSED_OR_FINE),
            ("a graph many times", graphs, LIMIT),
            ("truncated", relu()[..60].to_vec(), DAMAGED),
        ],
    );
}

#[test]
fn graphs_that_call_each_other() {
    let arms = || (91, vec![(0, Int(0)), (1, Int(0))]);
    let turns = || (92, vec![(0, Int(0)), (1, Int(0))]);
    let own_arm = vec![operator(0, &[0, 0], &[1], arms())];
    let own_body = vec![operator(0, &[0], &[1], turns())];
    let own = |code: i32, operators: Vec<Fields>| {
        one(code, vec![tensor("x", 6, &[1], 0), tensor("y", 6, &[1], 0)], operators, &[])
    };
    let chain: Vec<Fields> = (1..=20_000)
        .map(|i| {
            let next = (91, vec![(0, Int(i % 20_000)), (1, Int(i % 20_000))]);
            let tensors = vec![tensor("x", 6, &[1], 0), tensor("y", 6, &[1], 0)];
            graph(tensors, vec![operator(0, &[0, 0], &[1], next)])
        })
        .collect();
    let cycle = vec![operator(0, &[1], &[2], NOTHING), operator(0, &[2], &[1], NOTHING)];
    let tensors = vec![float("x"), float("a"), float("y")];
    assert_harmless(
        "tflite",
        vec![
            ("an arm in itself", own(IF, own_arm), LIMIT),
            ("a body in itself", own(WHILE, own_body), LIMIT),
            ("a ring of arms", file(&model(IF, Tables(chain), &[])), LIMIT),
            ("operators in a cycle", one(RELU, tensors, cycle, &[]), &["N0201", CYCLE[0]]),
        ],
    );
}

#[test]
fn sizes_that_overflow() {
    const LAST: i32 = i32::MAX;
    let words = |all: &[i32]| all.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let constant = |sizes: &[i32], bytes: Vec<u8>| {
        let tensors = vec![float("x"), tensor("c", 0, sizes, 1), float("y")];
        one(0, tensors, vec![operator(0, &[0, 1], &[2], NOTHING)], &[bytes])
    };
    // An operator of `x` and a list of integers.
    let listed = |code: i32, all: &[i32]| {
        let tensors = vec![float("x"), tensor("c", 2, &[all.len() as i32], 1), float("y")];
        one(code, tensors, vec![operator(0, &[0, 1], &[2], NOTHING)], &[words(all)])
    };
    let pads = |all: &[i32]| {
        let tensors = vec![float("x"), tensor("c", 2, &[2, 2], 1), float("y")];
        one(34, tensors, vec![operator(0, &[0, 1], &[2], NOTHING)], &[words(all)])
    };
    let window = |sizes: i32| {
        let options = (5, vec![(1, Int(sizes)), (2, Int(sizes)), (3, Int(sizes)), (4, Int(sizes))]);
        let image = |name| tensor(name, 0, &[1, 4, 4, 1], 0);
        one(17, vec![image("x"), image("y")], vec![operator(0, &[0], &[1], options)], &[])
    };
    let sparse = {
        let dimension = |size: i32| vec![(0, Byte(0)), (1, Int(size))];
        let levels = Tables(vec![dimension(LAST), dimension(LAST)]);
        let mut c = tensor("c", 0, &[LAST, LAST], 1);
        c.push((6, Table(vec![(0, Ints(vec![0, 1])), (2, levels)])));
        one(
            124,
            vec![float("x"), c, float("y")],
            vec![operator(0, &[1], &[2], NOTHING)],
            &[vec![0; 4]],
        )
    };
    assert_harmless(
        "tflite",
        vec![
            ("constant", constant(&[LAST; 4], vec![0; 8]), REFUSED),
            ("large constant", constant(&[LAST], vec![0; 8]), REFUSED),
            ("negative constant", constant(&[-3], vec![0; 8]), REFUSED_OR_FINE),
            ("many axes", constant(&[1; 1000], vec![0; 4]), REFUSED),
            ("reshape", listed(22, &[LAST, LAST, LAST]), REFUSED_OR_FINE),
            ("tile", listed(69, &[LAST, LAST]), REFUSED_OR_FINE),
            ("pads", pads(&[LAST, LAST, LAST, LAST]), REFUSED_OR_FINE),
            ("negative pads", pads(&[i32::MIN; 4]), REFUSED_OR_FINE),
            ("fill", listed(94, &[LAST, LAST]), REFUSED_OR_FINE),
            ("windows", window(LAST), REFUSED_OR_FINE),
            ("no windows", window(0), REFUSED),
            ("negative windows", window(-1), REFUSED),
            ("sparse", sparse, REFUSED),
        ],
    );
}
