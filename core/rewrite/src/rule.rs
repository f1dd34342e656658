//! Rewrite rules: one pattern, rooted at one operator.

use crate::pass::{Pass, PassContext};
use crate::rewriter::Rewriter;
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics};
use onnxd_ir::{At, Facts, Graph, Model, NodeId, Op, ValueId};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;

/// Why a rule left a place alone, in words for the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skip(pub String);

impl Skip {
    /// Nothing worth telling: the place only looked like the pattern.
    pub fn unlike<T>() -> Result<T, Skip> {
        Err(Skip(String::new()))
    }

    /// A reason.
    pub fn because<T>(reason: impl Into<String>) -> Result<T, Skip> {
        Err(Skip(reason.into()))
    }
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// `Ok` if the place was rewritten.
pub type Rewrite = Result<(), Skip>;

/// Rewrites per node of the graph as it was; a rule that makes more would go on for ever.
const REWRITES_PER_NODE_MAX: u64 = 100;

/// How often a rule goes over all nodes. What it could still do waits for the next round of the passes.
const ROUNDS_MAX: usize = 32;

/// A pass that applies `apply` wherever the operator `O` is found, until it changes nothing.
pub fn rule<O: Op + 'static>(
    name: &'static str,
    apply: fn(&mut Rewriter, At<O>) -> Rewrite,
) -> Box<dyn Pass> {
    Box::new(Rule { name, apply })
}

/// A pass that applies several rules, one after the other.
pub fn rules(name: &'static str, rules: Vec<Box<dyn Pass>>) -> Box<dyn Pass> {
    Box::new(Rules { name, rules })
}

struct Rules {
    name: &'static str,
    rules: Vec<Box<dyn Pass>>,
}

impl Pass for Rules {
    fn name(&self) -> &'static str {
        self.name
    }

    fn run(&self, model: &mut Model, cx: &mut PassContext) -> Result<(), Diagnostics> {
        self.rules.iter().try_for_each(|rule| rule.run(model, cx))
    }
}

struct Rule<O> {
    name: &'static str,
    apply: fn(&mut Rewriter, At<O>) -> Rewrite,
}

impl<O: Op> Pass for Rule<O> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn run(&self, model: &mut Model, cx: &mut PassContext) -> Result<(), Diagnostics> {
        let mut outcome = Ok(());
        model.for_each_graph_mut(&mut |graph, opset| {
            if outcome.is_ok() {
                outcome = rewrite_nodes(self.name, graph, opset, cx, &|rewriter, id| {
                    let at = At::<O>::find(rewriter.graph, id)?;
                    Some((at.out, (self.apply)(rewriter, at)))
                });
            }
        });
        Ok(outcome?)
    }
}

/// A pass that applies `apply` to every node whose first output is wanted, as [`rule`] does, with what inference knows
/// of the values. A value that a rewrite adds is not known before the pass runs again.
pub fn rule_on_facts(
    name: &'static str,
    apply: fn(&mut Rewriter, NodeId, &Facts) -> Rewrite,
) -> Box<dyn Pass> {
    Box::new(FactsRule { name, apply })
}

struct FactsRule {
    name: &'static str,
    apply: fn(&mut Rewriter, NodeId, &Facts) -> Rewrite,
}

impl Pass for FactsRule {
    fn name(&self) -> &'static str {
        self.name
    }

    fn run(&self, model: &mut Model, cx: &mut PassContext) -> Result<(), Diagnostics> {
        let facts = cx.facts(model);
        Ok(for_each_graph_known(model, &facts, &mut |graph, opset, facts| {
            rewrite_nodes(self.name, graph, opset, cx, &|rewriter, id| {
                let out = rewriter.graph.node(id)?.output(0)?;
                Some((out, (self.apply)(rewriter, id, facts)))
            })
        })?)
    }
}

/// Calls `f` for every graph of `model`, inner ones first, with what is known of its values.
///
/// # Errors
/// The first of `f`.
pub fn for_each_graph_known<E>(
    model: &mut Model,
    facts: &Facts,
    f: &mut dyn FnMut(&mut Graph, i64, &Facts) -> Result<(), E>,
) -> Result<(), E> {
    let opset = model.opset();
    with_subgraphs_known(&mut model.graph, opset, facts, f)?;
    let nothing = Facts::default();
    model.functions.iter_mut().try_for_each(|function| {
        let opset = function.opsets.get("").copied().unwrap_or(opset);
        with_subgraphs_known(&mut function.graph, opset, &nothing, f)
    })
}

fn with_subgraphs_known<E>(
    graph: &mut Graph,
    opset: i64,
    facts: &Facts,
    f: &mut dyn FnMut(&mut Graph, i64, &Facts) -> Result<(), E>,
) -> Result<(), E> {
    let nothing = Facts::default();
    let outer = graph.nodes().filter(|(_, n)| n.subgraphs().next().is_some());
    for id in outer.map(|(id, _)| id).collect::<Vec<_>>() {
        let mut inside = facts.inside(id).iter();
        let mut outcome = Ok(());
        graph.edit_subgraphs(id, |inner| {
            let known = inside.next().unwrap_or(&nothing);
            if outcome.is_ok() {
                outcome = with_subgraphs_known(inner, opset, known, f);
            }
        });
        outcome?;
    }
    f(graph, opset, facts)
}

/// What a rule says of a node: nothing if it is not concerned, else the value that the node computes, and the rewrite.
type Apply<'a> = &'a dyn Fn(&mut Rewriter, NodeId) -> Option<(ValueId, Rewrite)>;

/// Visits every node, and what a rewrite opened up: the new nodes, their readers, and what is around a value that is
/// read once from then on. A rewrite may also matter elsewhere, so this goes on until a whole round changes nothing.
fn rewrite_nodes(
    name: &str,
    graph: &mut Graph,
    opset: i64,
    cx: &mut PassContext,
    apply: Apply,
) -> Result<(), Diagnostic> {
    let mut left = (graph.node_count() as u64).saturating_mul(REWRITES_PER_NODE_MAX);
    let mut skipped: BTreeMap<ValueId, Skip> = BTreeMap::new();
    for _ in 0..ROUNDS_MAX {
        let before = cx.report.rewrites;
        round(name, graph, opset, cx, apply, &mut left, &mut skipped)?;
        if cx.report.rewrites == before {
            break;
        }
    }
    for (out, reason) in skipped {
        if graph.producer(out).is_some() {
            cx.skip(&graph[out].name, reason);
        }
    }
    Ok(())
}

fn round(
    name: &str,
    graph: &mut Graph,
    opset: i64,
    cx: &mut PassContext,
    apply: Apply,
    left: &mut u64,
    skipped: &mut BTreeMap<ValueId, Skip>,
) -> Result<(), Diagnostic> {
    let mut queue: VecDeque<NodeId> = graph.node_ids().into();
    while let Some(id) = queue.pop_front() {
        if cx.fuel.is_empty() {
            break;
        }
        if graph.node(id).is_none() {
            continue;
        }
        let first_new = graph.node_bound();
        let mut rewriter = Rewriter::new(graph, opset);
        let Some((out, rewrite)) = apply(&mut rewriter, id) else { continue };
        skipped.remove(&out);
        match rewrite {
            Ok(()) => {
                let lost = rewriter.finish();
                cx.rewrote();
                queue.extend(opened_up(graph, first_new, lost));
                *left = left.checked_sub(1).ok_or_else(|| {
                    let text = format!("the rule {name} fires on its own results");
                    Diagnostic::new(Code::PluginContract, text)
                })?;
            }
            Err(reason) if reason.0.is_empty() => {}
            Err(reason) => drop(skipped.insert(out, reason)),
        }
    }
    Ok(())
}

/// Nodes added since `first_new`, the nodes that read their outputs, and those around values that are read once now.
fn opened_up(graph: &Graph, first_new: usize, lost: Vec<ValueId>) -> Vec<NodeId> {
    let new = graph.nodes_from(first_new);
    let mut found: Vec<NodeId> = new.clone();
    for id in new {
        found.extend(graph[id].outputs.iter().flatten().flat_map(|v| graph.readers(*v)));
    }
    for v in lost.into_iter().filter(|v| graph.uses(*v) == 1) {
        found.extend(graph.producer(v).into_iter().chain(graph.readers(v).iter().copied()));
    }
    found
}

#[cfg(test)]
mod tests {
    // A rule takes what it matched by value, used up or not: all rules have one form.
    #![allow(clippy::needless_pass_by_value)]

    use super::*;
    use crate::Fuel;
    use onnxd_ir::ops::{Add, Dropout, Identity, Neg, Relu};
    use onnxd_ir::text;

    fn model(graph: &str) -> Model {
        Model::new(text::parse_graph(graph).unwrap(), 8, 17)
    }

    fn run<O: Op + 'static>(
        apply: fn(&mut Rewriter, At<O>) -> Rewrite,
        model: &mut Model,
    ) -> Result<PassContext, Diagnostics> {
        let mut cx = PassContext::new("test", Fuel::UNLIMITED);
        rule("test", apply).run(model, &mut cx).map(|()| cx)
    }

    #[test]
    fn a_rewrite_opens_up_an_earlier_node() {
        // `a` is read once only after the last Relu was rewritten.
        fn simplify(cx: &mut Rewriter, relu: At<Relu>) -> Rewrite {
            if let Ok(sum) = cx.sole_producer::<Add>(relu.x) {
                return cx.replace(relu.out, Identity::new(sum.b));
            }
            let inner = cx.sole_producer::<Relu>(relu.x)?;
            cx.bypass(inner.out, inner.x)
        }
        let text = "g (float[2] x) => (float[2] y)
            { a = Relu(x) b = Relu(a) s = Add(a, x) c = Relu(s) y = Add(b, c) }";
        let mut model = model(text);
        let cx = run(simplify, &mut model).unwrap();
        assert_eq!(cx.report.rewrites, 2);
        let skipped = [("b".to_owned(), Skip("`x` is not produced by Relu".into()))];
        assert_eq!(cx.report.skipped, skipped);
    }

    /// Each rewrite lets the one before it be made. In rounds alone that would be as many rounds as nodes.
    #[test]
    fn rewrites_that_open_up_each_other_backwards() {
        use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
        static LOOKED_AT: AtomicUsize = AtomicUsize::new(0);
        fn drop_first(cx: &mut Rewriter, add: At<Add>) -> Rewrite {
            LOOKED_AT.fetch_add(1, Relaxed);
            cx.read_once(add.b)?;
            cx.replace(add.out, Neg::new(add.b))
        }
        let n = 1_000;
        let values: Vec<String> = (0..=n).map(|i| format!("v{i} = Exp(x)")).collect();
        let sums: Vec<String> = (1..=n).map(|i| format!("s{i} = Add(v{}, v{i})", i - 1)).collect();
        let outputs: Vec<String> = (1..=n).map(|i| format!("float[2] s{i}")).collect();
        let (values, sums) = (values.join(" "), sums.join(" "));
        let graph = format!("g (float[2] x) => ({}) {{ {values} {sums} }}", outputs.join(", "));
        let cx = run(drop_first, &mut model(&graph)).unwrap();
        assert_eq!(cx.report.rewrites, n);
        let looked_at = LOOKED_AT.load(Relaxed) as u64;
        assert!(looked_at <= 4 * n, "{looked_at} looks at {n} nodes");
    }

    #[test]
    fn a_rule_builds_a_formula() {
        fn positive(cx: &mut Rewriter, relu: At<Relu>) -> Rewrite {
            cx.rebuild(relu.out, |b| {
                let x = b.var(relu.x);
                b.mul(b.add(b.abs(x)?, x)?, 0.5)
            })
        }
        let text = "g (float16[2] x) => (float16[2] y) { [act] a = Relu(x) y = Neg(a) }";
        let mut model = model(text);
        let relu = model.graph.node_ids()[0];
        let layer = onnxd_diagnostics::Layer::new("act", "ReLU");
        model.graph.node_mut(relu).layers.push(layer.clone());
        assert_eq!(run(positive, &mut model).unwrap().report.rewrites, 1);
        let text = text::print_graph(&model.graph);
        for line in ["a_abs = Abs(x)", "a_add = Add(a_abs, x)", "a = Mul(a_add, a_constant)"] {
            assert!(text.contains(line), "{text}");
        }
        let layers = model.graph.nodes().map(|(_, node)| node.layers.len());
        assert_eq!(layers.sum::<usize>(), 3);
    }

    #[test]
    fn what_cannot_be_built_is_the_reason() {
        fn wrong(cx: &mut Rewriter, relu: At<Relu>) -> Rewrite {
            cx.rebuild(relu.out, |b| b.add(b.neg(b.var(relu.x))?, vec![1.0f32, 2.0, 3.0]))
        }
        let text = "g (float[2] x) => (float[2] y) { y = Relu(x) }";
        let mut model = model(text);
        let before = text::print_graph(&model.graph);
        let cx = run(wrong, &mut model).unwrap();
        assert!(cx.report.skipped[0].1.0.contains("do not broadcast"), "{:?}", cx.report.skipped);
        assert_eq!(text::print_graph(&model.graph), before);
    }

    #[test]
    fn a_rule_without_end_is_stopped() {
        fn again(cx: &mut Rewriter, neg: At<Neg>) -> Rewrite {
            cx.replace(neg.out, Neg::new(neg.x))
        }
        let mut model = model("g (float[2] x) => (float[2] y) { y = Neg(x) }");
        assert_eq!(run(again, &mut model).unwrap_err().0[0].code, "N0406");
    }

    #[test]
    fn a_node_with_another_wanted_output_stays() {
        fn drop(cx: &mut Rewriter, dropout: At<Dropout>) -> Rewrite {
            cx.bypass(dropout.out, dropout.data)
        }
        let mut model =
            model("g (float[2] x) => (float[2] y, bool[2] m) { d, m = Dropout(x) y = Relu(d) }");
        let cx = run(drop, &mut model).unwrap();
        assert_eq!(cx.report.skipped, [("d".to_owned(), Skip("`m` is read too".into()))]);
        assert_eq!(model.graph.node_count(), 2);
    }

    #[test]
    fn weights_have_a_rank() {
        fn look(cx: &mut Rewriter, add: At<Add>) -> Rewrite {
            cx.weights(add.b, 2).map(|_| ())
        }
        let mut model =
            model("g (float[2] x) => (float[2] y) <float[2] w = {1.0, 2.0}> { y = Add(x, w) }");
        let cx = run(look, &mut model).unwrap();
        assert_eq!(cx.report.skipped[0].1.0, "`w` has rank 1");
    }
}
