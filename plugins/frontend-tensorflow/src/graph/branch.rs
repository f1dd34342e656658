//! Conditions that are known only when the model runs.

use super::item::{Item, List, Sizes};
use super::list::merged;
use super::variables::Variable;
use crate::ops::Source;
use onnxd_plugin_sdk::build::{GraphBuilder, Result, Var};
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic};
use onnxd_plugin_sdk::ir::{DataType, Dim, Graph, ValueType};
use onnxd_plugin_sdk::lower::Driver;
use std::rc::Rc;

/// One arm of a condition.
pub(crate) type Arm<'f> = &'f dyn Fn() -> Result<Vec<Item>>;

/// What a tensor says as a condition: one number is compared with zero, several are true, none is false.
///
/// # Errors
/// Those of the builder.
pub(crate) fn truth(b: &GraphBuilder, x: Var) -> Result<Var> {
    match b.rank_of(x) {
        None | Some(0) if b.dtype_of(x) == Some(DataType::Bool) => Ok(x),
        None | Some(0) => match b.ints_of(x).as_deref() {
            Some([known]) => Ok(constant(b, *known != 0)),
            _ => b.cast(x, DataType::Bool),
        },
        Some(_) => b.greater(b.size(x)?, 0),
    }
}

fn constant(b: &GraphBuilder, value: bool) -> Var {
    b.constant(crate::ops::create::scalar(value.into(), DataType::Bool))
}

/// The value of a condition, if it is known.
pub(crate) fn known(b: &GraphBuilder, condition: Var) -> Option<bool> {
    let tensor = b.constant_of(condition).filter(|tensor| tensor.len() == 1);
    match tensor {
        Some(tensor) => tensor.bytes().first().map(|byte| *byte != 0),
        None => super::turns::known_bool(b, condition),
    }
}

/// What both arms give of one value.
enum Common {
    /// The same thing outside.
    Same(Item),
    Tensor([Var; 2]),
    /// Lists, and what is known of an element.
    List([Rc<List>; 2], Sizes),
    Hole,
}

/// Runs one of two arms, as `condition` says when the model runs. Gives what the arms give.
///
/// # Errors
/// Those of the arms; `N0201` if they give different numbers of values.
pub(crate) fn branch(
    driver: &Driver<'_, Source>,
    condition: Var,
    arms: [Arm<'_>; 2],
) -> Result<Vec<Item>> {
    let b: &GraphBuilder = driver.builder();
    match known(b, condition) {
        Some(true) => return arms[0](),
        Some(false) => return arms[1](),
        None => {}
    }
    b.begin("then");
    let first = arms[0]().inspect_err(|_| b.discard())?;
    let elements = elements(b, &first);
    let suspended = b.suspend();
    b.begin("else");
    let closed = arms[1]()
        .and_then(|second| common(driver, first, second, elements))
        .and_then(|all| Ok((outputs(b, &all, 1)?, all)));
    let (second, all) = match closed {
        Ok((outputs, all)) => {
            let graph = b.close(&outputs);
            b.resume(suspended);
            (graph.inspect_err(|_| b.discard())?, all)
        }
        Err(found) => {
            b.discard();
            b.resume(suspended);
            b.discard();
            return Err(found);
        }
    };
    let first = outputs(b, &all, 0).inspect_err(|_| b.discard())?;
    let first = b.close(&first)?;
    joined(b, condition, [first, second], all)
}

/// Runs one of `count` arms, as the number `index` says when the model runs; the last one stands for all numbers that
/// no arm has.
///
/// # Errors
/// As [`branch`].
pub(crate) fn chosen(
    driver: &Driver<'_, Source>,
    index: Var,
    count: usize,
    arm: &dyn Fn(usize) -> Result<Vec<Item>>,
) -> Result<Vec<Item>> {
    let (b, last) = (driver.builder(), count.saturating_sub(1));
    if let Some(known) = super::list::single(b, index) {
        return arm(usize::try_from(known).map_or(last, |known| known.min(last)));
    }
    let index = b.cast(index, DataType::Int64)?;
    let index = b.where_(b.less(index, 0)?, last as i64, index)?;
    among(driver, index, (0, count), arm)
}

/// As [`chosen`], for an index that is at least `first`.
fn among(
    driver: &Driver<'_, Source>,
    index: Var,
    (first, count): (usize, usize),
    arm: &dyn Fn(usize) -> Result<Vec<Item>>,
) -> Result<Vec<Item>> {
    if count <= 1 {
        return arm(first);
    }
    let half = count / 2;
    let is_low = driver.builder().less(index, (first + half) as i64)?;
    let low = || among(driver, index, (first, half), arm);
    let high = || among(driver, index, (first + half, count - half), arm);
    branch(driver, is_low, [&low, &high])
}

/// Adds the If and gives what it gives.
fn joined(
    b: &GraphBuilder,
    condition: Var,
    [first, second]: [Graph; 2],
    all: Vec<Common>,
) -> Result<Vec<Item>> {
    // A condition whose arms give nothing changes nothing.
    let outputs = match first.outputs().is_empty() {
        true => vec![],
        false => b.if_graphs(condition, first, second)?,
    };
    let mut outputs = outputs.into_iter();
    let item = |common| match common {
        Common::Same(item) => item,
        Common::Hole => Item::Hole,
        Common::Tensor(_) => outputs.next().map_or(Item::Hole, Item::Tensor),
        Common::List([list, other], element) => outputs.next().map_or(Item::Hole, |v| {
            let mut list = list.with(v);
            list.loose |= other.loose;
            list.extent = list.extent.and(other.extent.clone());
            list.element = merged(list.element, element);
            Item::List(Rc::new(list))
        }),
    };
    Ok(all.into_iter().map(item).collect())
}

/// Values of the graph that stand for what arm number `at` gives.
fn outputs(b: &GraphBuilder, all: &[Common], at: usize) -> Result<Vec<Var>> {
    let output = |common: &Common| match common {
        Common::Same(_) | Common::Hole => None,
        Common::Tensor(vars) => Some(Ok(vars[at])),
        Common::List(lists, element) => Some(lists[at].whole(b, element.clone())),
    };
    all.iter().filter_map(output).collect()
}

fn common(
    driver: &Driver<'_, Source>,
    first: Vec<Item>,
    second: Vec<Item>,
    known: Vec<Sizes>,
) -> Result<Vec<Common>> {
    let b: &GraphBuilder = driver.builder();
    if first.len() != second.len() {
        let (n, m) = (first.len(), second.len());
        let message = format!("The branches of a condition give {n} and {m} values.");
        return Err(b.diagnostic(Code::SourceSyntax, message));
    }
    let more = elements(b, &second);
    let known = known.into_iter().zip(more).map(|(x, y)| shared(x, y));
    let pair = |((first, second), known): ((Item, Item), Sizes)| match (first, second) {
        (Item::Hole, _) | (_, Item::Hole) => Common::Hole,
        // A value of one arm is of another graph than one of the other.
        (Item::Tensor(x), Item::Tensor(y)) if x == y => Common::Same(Item::Tensor(x)),
        (Item::Tensor(x), Item::Tensor(y)) => Common::Tensor([x, y]),
        (Item::List(x), Item::List(y)) if Rc::ptr_eq(&x, &y) => Common::Same(Item::List(x)),
        (Item::List(x), Item::List(y)) if x.is_sequence != y.is_sequence => {
            Common::List([x, y].map(|list| Rc::new(list.as_sequence())), known)
        }
        (Item::List(x), Item::List(y)) => Common::List([x, y], known),
        (Item::Resource(x), Item::Resource(y)) if same(&x, &y) => Common::Same(Item::Resource(x)),
        _ => {
            driver.report(different(b));
            Common::Hole
        }
    };
    Ok(first.into_iter().zip(second).zip(known).map(pair).collect())
}

/// What is known of the elements of lists.
fn elements(b: &GraphBuilder, items: &[Item]) -> Vec<Sizes> {
    let element = |item: &Item| match item {
        Item::List(list) => {
            // A size that an arm computes has no meaning outside of it.
            let size = |n: &Dim| n.known().map_or(Dim::Unknown, Dim::Known);
            match list.whole_type(b)? {
                ValueType::Sequence(ty) => ty.shape().map(|shape| shape.iter().map(size).collect()),
                ty => ty.shape().map(|shape| shape.iter().skip(1).map(size).collect()),
            }
        }
        _ => None,
    };
    items.iter().map(element).collect()
}

/// Sizes that two lists have in common.
fn shared(x: Sizes, y: Sizes) -> Sizes {
    match (x, y) {
        (Some(x), Some(y)) if x.len() == y.len() => {
            let both = x.into_iter().zip(y);
            Some(both.map(|(x, y)| if x.same(&y) { x } else { Dim::Unknown }).collect())
        }
        (Some(x), None) | (None, Some(x)) => Some(x),
        _ => None,
    }
}

fn different(b: &GraphBuilder) -> Diagnostic {
    let message = "The branches of a condition give different kinds of values or variables.";
    b.diagnostic(Code::LayerUnsupported, message)
}

/// Whether two handles are of the same variable.
pub(crate) fn same(x: &Variable, y: &Variable) -> bool {
    x.name == y.name
}
