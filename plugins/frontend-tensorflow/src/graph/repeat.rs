//! Loops. The body is built again until what goes into it has the form of what comes out.

use super::branch::{known, truth};
use super::extent::Extent;
use super::item::Item;
use super::scans::{self, Scan};
use super::scope::Runner;
use super::slots::{Given, Slot, first_slot, has_form, is_same, widened};
use super::turns::{self, Counter, Limit};
use onnxd_plugin_sdk::build::{GraphBuilder, Result, Var};
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic};
use onnxd_plugin_sdk::ir::{DataType, Dim, Graph, ValueId, ValueType};
use std::rc::Rc;

/// How often a body is built. Each time some value has a more general form.
const ATTEMPTS_MAX: usize = 16;

/// A loop of the source.
pub(crate) struct Repetition<'f> {
    /// One turn: gives what goes into the next one.
    pub(crate) turn: &'f dyn Fn(&[Item]) -> Result<Vec<Item>>,
    /// Whether there is a turn with these values; asked before each.
    pub(crate) condition: &'f dyn Fn(&[Item]) -> Result<Item>,
    /// The shapes that the source declares for the values.
    pub(crate) declared: Vec<Option<Vec<Dim>>>,
    /// Whether a turn gives a value as it gets it.
    pub(crate) constant: Vec<bool>,
}

/// A body that is built.
struct Built {
    body: Graph,
    /// The values that are carried, by their numbers.
    carried: Vec<usize>,
    scans: Vec<(usize, Scan)>,
    /// Those of the counters alone, if nothing else ends the loop.
    limits: Option<Vec<Limit>>,
    /// Values that came out as holes.
    holes: Vec<usize>,
    /// The sizes of the elements of lists, by the numbers of the values.
    extents: Vec<(usize, Extent)>,
}

enum Attempt {
    Done(Box<Built>),
    Wider(Vec<Slot>),
}

/// Runs a loop; gives its values at the end.
///
/// # Errors
/// Those of the body; `N0203` if its values do not find a form.
pub(crate) fn repeat(
    runner: &Runner<'_, '_>,
    begins: &[Item],
    r: &Repetition<'_>,
) -> Result<Vec<Item>> {
    let b: &GraphBuilder = runner.builder();
    let first = (r.condition)(begins)?;
    let condition = match &first {
        Item::Tensor(v) => Some(truth(b, *v)?),
        Item::Hole => None,
        Item::Resource(_) | Item::List(_) => {
            runner.driver.report(no_condition(b));
            None
        }
    };
    if condition.and_then(|v| known(b, v)) == Some(false) {
        return Ok(begins.to_vec());
    }
    let mut slots: Vec<Slot> = begins
        .iter()
        .enumerate()
        .map(|(at, item)| first_slot(b, item, r.constant.get(at) == Some(&true)))
        .collect();
    for _ in 0..ATTEMPTS_MAX {
        let mut found = None;
        let paths = runner.remembered();
        runner.driver.attempt(|| {
            let attempt = attempt(runner, begins, &slots, r);
            let kept = !matches!(attempt, Ok(Attempt::Wider(_)));
            found = Some(attempt);
            kept
        });
        match found {
            Some(Ok(Attempt::Wider(wider))) => {
                slots = wider;
                runner.remember(paths);
            }
            Some(Ok(Attempt::Done(built))) => {
                return match condition {
                    Some(condition) => finished(b, begins, &slots, condition, *built),
                    None => Ok(vec![Item::Hole; begins.len()]),
                };
            }
            Some(Err(found)) => return Err(found),
            None => break,
        }
    }
    runner.driver.report(formless(b));
    Ok(vec![Item::Hole; begins.len()])
}

fn formless(b: &GraphBuilder) -> Diagnostic {
    let message = "The values that a loop carries have no common form.";
    b.diagnostic(Code::LayerUnsupported, message)
}

fn no_condition(b: &GraphBuilder) -> Diagnostic {
    b.diagnostic(Code::LayerUnsupported, "The condition is no tensor.")
}

fn attempt(
    runner: &Runner<'_, '_>,
    begins: &[Item],
    slots: &[Slot],
    r: &Repetition<'_>,
) -> Result<Attempt> {
    let b: &GraphBuilder = runner.builder();
    b.begin("body");
    let done = body(runner, begins, slots, r);
    match done {
        Ok(Ok((outputs, given, mut built))) => {
            let mut graph = b.close(&outputs)?;
            // A list that is only written has no value in the body.
            let lists = built.scans.iter().filter_map(|(at, _)| match given.get(*at) {
                Some(Given::List(v, _)) => Some(*v),
                _ => None,
            });
            let lists: Vec<ValueId> = lists.collect();
            graph.unmark_inputs(&lists);
            graph.drop_unread(lists);
            built.body = graph;
            Ok(Attempt::Done(Box::new(built)))
        }
        Ok(Err(wider)) => {
            b.discard();
            Ok(Attempt::Wider(wider))
        }
        Err(found) => {
            b.discard();
            Err(found)
        }
    }
}

type Body = (Vec<Var>, Vec<Given>, Built);

/// Builds one turn; gives the outputs of the body, or wider slots.
fn body(
    runner: &Runner<'_, '_>,
    begins: &[Item],
    slots: &[Slot],
    r: &Repetition<'_>,
) -> Result<std::result::Result<Body, Vec<Slot>>> {
    let b: &GraphBuilder = runner.builder();
    let scalar = |dtype| ValueType::tensor(dtype, Vec::<Dim>::new());
    b.input("iteration", scalar(DataType::Int64));
    let go_on = b.input("condition", scalar(DataType::Bool));
    let mut given = vec![];
    let mut items = vec![];
    for (slot, begin) in slots.iter().zip(begins) {
        let (one, item) = match (slot, begin) {
            (Slot::Tensor(ty), _) => {
                let v = b.input("state", ty.clone());
                (Given::Tensor(v), Item::Tensor(v))
            }
            (Slot::List(ty, extent), Item::List(list)) => {
                let v = b.input("list", ty.clone());
                let list = Rc::new(list.with(v).sized(extent.clone()));
                (Given::List(b.id(v)?, list.clone()), Item::List(list))
            }
            _ => (Given::Fixed, begin.clone()),
        };
        given.push(one);
        items.push(item);
    }
    let next = (r.turn)(&items)?;
    let condition = (r.condition)(&next)?;
    let mut wider = slots.to_vec();
    let mut stable = true;
    let mut extents = vec![];
    for at in 0..slots.len().min(next.len()) {
        let declared = r.declared.get(at).and_then(Option::as_deref);
        let slot = widened(b, (&slots[at], &given[at]), &begins[at], &next[at], declared)?;
        if let Some(slot) = slot {
            wider[at] = slot;
            stable = false;
        }
    }
    for (at, (given, next)) in given.iter().zip(&next).enumerate() {
        let (Given::List(input, list), Item::List(next)) = (given, next) else { continue };
        let extent = list.extent.clone().and(next.extent.clone().repeated(b));
        // What reads the list in the body must know the size, too.
        if let Slot::List(_, known) = &mut wider[at]
            && *known != extent
            && b.graph().uses(*input) > 0
        {
            *known = extent.clone();
            stable = false;
        }
        extents.push((at, extent));
    }
    if !stable {
        return Ok(Err(wider));
    }
    let (outputs, given, built) = outputs(runner, begins, given, &next, (&condition, go_on))?;
    Ok(Ok((outputs, given, Built { extents, ..built })))
}

/// The outputs of a body whose values have their forms.
fn outputs(
    runner: &Runner<'_, '_>,
    begins: &[Item],
    given: Vec<Given>,
    next: &[Item],
    (condition, go_on): (&Item, Var),
) -> Result<Body> {
    let b: &GraphBuilder = runner.builder();
    let counters: Vec<Counter> = begins
        .iter()
        .zip(&given)
        .zip(next)
        .filter_map(|((begin, given), next)| {
            let (Item::Tensor(begin), Given::Tensor(state), Item::Tensor(next)) =
                (begin, given, next)
            else {
                return None;
            };
            let step = turns::step(b, *state, *next)?;
            Some(Counter { state: *state, next: *next, begin: *begin, step })
        })
        .collect();
    let condition = match condition {
        Item::Tensor(v) => truth(b, *v)?,
        Item::Hole => go_on,
        Item::Resource(_) | Item::List(_) => {
            if runner.driver.findings() == 0 {
                runner.driver.report(no_condition(b));
            }
            go_on
        }
    };
    let limits = turns::limits(b, condition, &counters);
    let (mut carried, mut scans, mut holes) = (vec![], vec![], vec![]);
    let mut outputs = vec![if limits.is_some() { go_on } else { condition }];
    let mut scanned = vec![];
    for (at, (given, item)) in given.iter().zip(next).enumerate() {
        if !has_form(given, &begins[at], item) {
            runner.driver.report(formless(b));
        }
        match (given, item) {
            (Given::Fixed, _) if is_same(&begins[at], item) => {}
            (Given::Fixed, _) => holes.push(at),
            (_, Item::Tensor(v)) => {
                carried.push(at);
                outputs.push(*v);
            }
            (Given::List(input, list), Item::List(next)) => {
                match scans::scan(b, (*input, list), next, &counters) {
                    Some((item, scan)) => {
                        scanned.push(item);
                        scans.push((at, scan));
                    }
                    None => {
                        carried.push(at);
                        outputs.push(next.whole(b, None)?);
                    }
                }
            }
            (Given::Tensor(v), _) => {
                carried.push(at);
                holes.push(at);
                outputs.push(*v);
            }
            (Given::List(_, list), _) => {
                carried.push(at);
                holes.push(at);
                outputs.push(list.whole(b, None)?);
            }
        }
    }
    outputs.extend(scanned);
    let body = Graph::new("");
    let extents = vec![];
    Ok((outputs, given, Built { body, carried, scans, limits, holes, extents }))
}

/// Adds the loop, whose body is built; gives its values at the end.
fn finished(
    b: &GraphBuilder,
    begins: &[Item],
    slots: &[Slot],
    condition: Var,
    built: Built,
) -> Result<Vec<Item>> {
    let Built { body, carried, scans, limits, holes, extents } = built;
    let begin = |at: &usize| match &begins[*at] {
        Item::Tensor(v) => Ok(*v),
        Item::List(list) => {
            let element = match &slots[*at] {
                Slot::List(ValueType::Sequence(ty), _) => ty.shape().map(<[Dim]>::to_vec),
                Slot::List(ty, _) => ty.shape().map(|shape| shape[1.min(shape.len())..].to_vec()),
                _ => None,
            };
            list.whole(b, element)
        }
        _ => Err(b.diagnostic(Code::InvariantBroken, "A loop carries what is no tensor.")),
    };
    let states = carried.iter().map(begin).collect::<Result<Vec<Var>>>()?;
    let trips = limits.map(|limits| turns::trips(b, &limits)).transpose()?;
    // A loop that gives nothing changes nothing.
    let outputs = match (states.len() + scans.len(), trips) {
        (0, _) => vec![],
        (_, Some(trips)) => b.loop_graph(trips, None::<Var>, &states, body)?,
        (_, None) => b.loop_graph(None::<Var>, condition, &states, body)?,
    };
    let mut all = begins.to_vec();
    for (at, v) in carried.iter().zip(&outputs) {
        all[*at] = match (&begins[*at], &slots[*at]) {
            (Item::List(list), slot) => {
                // Inference forgets what elements are like, as an empty sequence has none.
                if let Slot::List(ty @ ValueType::Sequence(_), _) = slot {
                    b.declare(*v, ty.clone());
                }
                Item::List(Rc::new(list.with(*v)))
            }
            (_, Slot::Tensor(ty)) => {
                if b.rank_of(*v).is_none() && ty.shape().is_some() {
                    b.declare(*v, ty.clone());
                }
                Item::Tensor(*v)
            }
            _ => Item::Tensor(*v),
        };
    }
    for ((at, scan), v) in scans.into_iter().zip(&outputs[outputs.len().min(carried.len())..]) {
        if let Item::List(list) = &begins[at] {
            all[at] = Item::List(Rc::new(scan.list(b, list, *v, trips)?));
        }
    }
    for (at, extent) in extents {
        if let Item::List(list) = &all[at] {
            all[at] = Item::List(Rc::new(list.sized(extent)));
        }
    }
    holes.into_iter().for_each(|at| all[at] = Item::Hole);
    Ok(all)
}
