//! Work grows with the graph and no faster: four times the nodes take about four times the bytes from the allocator.
//! That number is nearly the same on every machine, and whoever copies what grows asks for more.

use onnxd_ir::ops::Op;
use onnxd_ir::{At, Model, Node, ValueId, infer, text};
use onnxd_rewrite::{
    Effort, Equivalence, Fuel, Pass, PassContext, Rewrite, Rewriter, equivalence, rule,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fmt::Write;

struct Counting;

thread_local! {
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: everything is passed on to the system's allocator; only a number is kept beside it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // At the end of a thread nothing is counted any more.
        let _ = BYTES.try_with(|bytes| bytes.set(bytes.get() + layout.size()));
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes that `f` asks for on this thread.
fn asked(f: impl FnOnce()) -> usize {
    let before = BYTES.with(Cell::get);
    f();
    BYTES.with(Cell::get) - before
}

/// Four times as much may take this many times the bytes, as tables grow in powers of two.
const GROWTH_MAX: f64 = 6.0;

fn check(what: &str, work: impl Fn(usize) -> usize) {
    let (small, large) = (work(1_000), work(4_000));
    let growth = large as f64 / small as f64;
    assert!(growth < GROWTH_MAX, "{what}: {small} bytes for 1,000 and {large} for 4,000");
}

fn model(graph: &str) -> Model {
    let mut model = Model::new(text::parse_graph(graph).unwrap(), 8, 17);
    assert!(infer(&mut model).0.is_empty());
    for id in model.graph.node_ids() {
        let layer = onnxd_diagnostics::Layer::new(format!("layer {}", id.index()), "Add");
        model.graph.node_mut(id).layers.push(layer);
    }
    model
}

/// `x + c + c + ...`; each constant has a name of its own if it is to.
fn sums(n: usize, own: bool) -> Model {
    let name = |i: usize| if own { format!("c{i}") } else { "c".to_owned() };
    let count = if own { n } else { 1 };
    let constants = (0..count).map(|i| format!("float[2] {} = {{0.5, 1.0}}", name(i)));
    let constants = constants.collect::<Vec<_>>().join(", ");
    let mut body = String::from("v0 = Neg(x)\n");
    for i in 0..n {
        writeln!(body, "v{} = Add(v{i}, {})", i + 1, name(i)).unwrap();
    }
    model(&format!("g (float[2] x) => (float[2] y) <{constants}> {{ {body} y = Neg(v{n}) }}"))
}

struct Sum {
    a: ValueId,
    b: ValueId,
}

impl Op for Sum {
    const NAME: &'static str = "Add";
    const ATTRIBUTES: &'static [&'static str] = &[];

    fn view(node: &Node) -> Option<Sum> {
        let [a, b] = [node.input(0)?, node.input(1)?];
        node.is("Add").then_some(Sum { a, b })
    }

    fn into_node(self, out: ValueId) -> Node {
        Node::new("Add", [self.a, self.b], [out])
    }
}

/// `(x + c) + d` as `x + (c + d)`.
// A rule takes what it matched by value: all rules have one form.
#[allow(clippy::needless_pass_by_value)]
fn merge(cx: &mut Rewriter, at: At<Sum>) -> Rewrite {
    let first = cx.sole_producer::<Sum>(at.a)?;
    let total = cx.reals(first.b)?.zip(&cx.reals(at.b)?, |c, d| c + d).expect("of one shape");
    let b = cx.derive_reals(first.b, "merged", &total, at.b)?;
    cx.replace(at.out, Sum { a: first.a, b })
}

/// `(x + c) + d` as `x + d`, by the builder.
#[allow(clippy::needless_pass_by_value)]
fn rebuild(cx: &mut Rewriter, at: At<Sum>) -> Rewrite {
    let first = cx.sole_producer::<Sum>(at.a)?;
    cx.rebuild(at.out, |b| b.add(b.var(first.a), b.var(at.b)))
}

fn run(pass: &dyn Pass, model: &mut Model, rewrites: usize) {
    let mut cx = PassContext::new("test", Fuel::UNLIMITED);
    pass.run(model, &mut cx).unwrap();
    assert_eq!(cx.report.rewrites, rewrites as u64);
    assert_eq!(model.graph.node_count(), 3);
    let layers = model.graph.nodes().map(|(_, node)| node.layers.len()).max();
    assert_eq!(layers, Some(rewrites + 1), "the union is kept");
    let longest = model.graph.value_ids().map(|v| model.graph[v].name.len()).max();
    assert!(longest < Some(40), "{longest:?}");
}

#[test]
fn a_chain_that_becomes_one_node() {
    type Rule = fn(&mut Rewriter, At<Sum>) -> Rewrite;
    let rules: [(_, Rule); 2] = [("merged", merge), ("rebuilt", rebuild)];
    for (what, apply) in rules {
        for own in [true, false] {
            check(what, |n| {
                let mut model = sums(n, own);
                asked(|| run(rule("merge", apply).as_ref(), &mut model, n - 1))
            });
        }
    }
}

/// Bytes of a comparison, of which `is_right` looks at the result.
fn compared(before: &str, after: &str, is_right: impl Fn(&Equivalence) -> bool) -> usize {
    let effort = Effort { work: 1 << 24, bytes_max: 1 << 24, stop: None };
    let (before, after) = (model(before), model(after));
    asked(|| {
        let found = equivalence(&before, &after, effort);
        assert!(found.different.is_empty() && is_right(&found), "{found:?}");
    })
}

#[test]
fn slices_that_become_the_parts_of_one_node() {
    check("slices", |n| {
        let bounds = (0..=n).map(|i| format!("int64[1] b{i} = {{{i}}}"));
        let bounds = bounds.collect::<Vec<_>>().join(", ");
        let slices = (0..n).map(|i| format!("s{i} = Slice(x, b{i}, b{})\n", i + 1));
        let slices = slices.collect::<String>();
        let parts = (0..n).map(|i| format!("s{i}")).collect::<Vec<_>>().join(", ");
        let head = format!("g (float[{n}] x) => (float[{n}] y)");
        let end = format!("y = Concat<axis = 0>({parts}) }}");
        compared(
            &format!("{head} <{bounds}> {{ {slices} {end}"),
            &format!("{head} {{ {parts} = Split<axis = 0>(x) {end}"),
            |found| found.equal == n && found.not_compared == 0,
        )
    });
}

/// Each output depends on a chain that has other names after the change. All parts together have the square of the
/// nodes, so that only some are compared.
#[test]
fn outputs_that_depend_on_new_values() {
    check("outputs", |n| {
        let graph = |name: &str| {
            let (mut body, mut outputs) = (format!("{name}0 = Neg(x)\n"), vec![]);
            for i in 0..n {
                writeln!(body, "{name}{} = Neg({name}{i}) y{i} = Abs({name}{i})", i + 1).unwrap();
                outputs.push(format!("float[2] y{i}"));
            }
            format!("g (float[2] x) => ({}) {{ {body} }}", outputs.join(", "))
        };
        compared(&graph("a"), &graph("b"), |found| {
            found.equal >= 16 && found.equal + found.not_compared == n
        })
    });
}
