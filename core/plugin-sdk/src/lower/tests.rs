// A function takes its arguments by value, used up or not: all rows have one form.
#![allow(clippy::needless_pass_by_value)]

use super::{Driver, Fallback, Lower, Lowered, Lowering, Table};
use crate::build::Var;
use crate::diagnostics::{Code, Diagnostics};
use crate::ir::text::{parse_graph, print_graph};
use crate::ir::{DataType, Graph, Model, Opsets, Tensor, ValueType};

#[test]
fn what_a_plugin_lowers_is_left_to_its_pass() {
    let dropped = crate::testing::Dropped::file("a", "").lowered("my::double");
    let fallback = Fallback::of(dropped.submission().lowered());
    let lowered = |ops: &[&str]| {
        let (table, opsets) = (Table::new(), Opsets::from([(String::new(), 18)]));
        let driver = Driver::new(&table, &(), Graph::new("g"), opsets, fallback.clone());
        let x = driver.builder().input("x", ValueType::tensor(DataType::Float, [2, 3]));
        for op in ops {
            let (named, arguments) = (vec![("times".into(), 2i64.into())], vec![x.into()]);
            let results = vec![String::new()];
            driver.lower(Lowering {
                op: (*op).into(),
                arguments,
                named,
                results,
                ..Lowering::default()
            });
        }
        driver.finish().map(|(graph, _)| print_graph(&graph))
    };
    let text = lowered(&["my::double"]).unwrap();
    assert!(text.contains("my.double<times = 2>(x)"), "{text}");
    let found = lowered(&["my::double", "my::triple"]).unwrap_err().0;
    assert!(
        found.len() == 1 && found[0].message.contains("`my::triple` is not known"),
        "{found:?}"
    );
}

/// The last items of the last axis, whose number has to be known.
fn last(b: &Lower, x: Var, count: Option<i64>) -> Lowered<Var> {
    let axis = b.rank_of(x).ok_or_else(|| b.diagnostic(Code::LayerParameter, "No rank."))? - 1;
    b.slice(x, vec![-count.unwrap_or(1)], vec![i64::MAX]).axes(vec![axis as i64]).one()
}

fn split(b: &Lower) -> Lowered<[Var; 2]> {
    let x = b.constant(Tensor::vector(vec![1.0f32, 2.0]));
    b.split(x).axis(0).num_outputs(2).outputs()
}

crate::lowering! {
    struct My { "my::last" => last(x, count), "my::pair" => split() }
}

fn lowered(graph: &str) -> Result<Model, Diagnostics> {
    let model = Model::new(parse_graph(graph).unwrap(), 8, 18);
    crate::testing::run_pass(My::pass("my"), &model).map(|done| done.model)
}

/// The first one gives the operators between them their types.
#[test]
fn rows_of_a_pass_see_types_of_what_was_lowered_before() {
    assert_eq!(My::ROWS, "lowers = ['''my::last''', '''my::pair''', ]\n");
    let graph = "g (float[2,3] x) => (y) { a = my.last<count = 2>(x) b = Relu(a) y = my.last(b) }";
    let model = lowered(graph).unwrap();
    let y = model.graph.outputs()[0];
    assert_eq!(model.graph[y].ty.as_ref().unwrap().to_string(), "float[2,1]");
    let text = print_graph(&model.graph);
    assert_eq!(text.matches("Slice(").count(), 2, "{text}");
    let inner = "g (bool c, float[2,3] z) => (y) {
        y = If<then_branch = t () => (p) { p = my.last(z) }, else_branch = e () => (q) { q = Neg(z) }>(c)
    }";
    assert!(print_graph(&lowered(inner).unwrap().graph).contains("Slice("));
}

#[test]
fn a_pass_reports_all_nodes_that_it_cannot_lower() {
    let graph = "g (float[2] x) => (y) {
        a = my.last<argument_2 = \"two\">(x) b = my.last(a) y = my.last<kind = 1, count = [1,2]>(b)
    }";
    let found = lowered(graph).unwrap_err();
    let shown: Vec<String> = found.0.iter().map(ToString::to_string).collect();
    assert_eq!(shown.len(), 3, "{shown:?}");
    assert!(shown[0].contains("`count` must be an integer, found a word"), "{shown:?}");
    assert!(shown[1].contains("No rank."), "nothing is known of `a`: {shown:?}");
    assert!(shown[2].contains("found a list"), "{shown:?}");
    let few =
        lowered("g (float[2] x) => (y) { a, b, c = my.pair() y = Sum(a, b, c) }").unwrap_err();
    assert!(few.0[0].message.contains("gives 2 of 3 results"), "{few:?}");
}
