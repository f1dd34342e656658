//! Loops. The body is built again until what goes into it has the form of what comes out.

use super::forms::{Forms, formless, is_given};
use super::item::GraphItem;
use super::truth::{known, no_condition, truth};
use super::turns;
use crate::ops::RowContext;
use onnxd_plugin_sdk::build::{GraphBuilder, Operand, Result, Var};
use onnxd_plugin_sdk::ir::Dim;
use onnxd_plugin_sdk::lower::Driver;
use onnxd_plugin_sdk::lower::flow::{Body, Carried, Repeat, Turn};
use std::cell::Cell;
use std::rc::Rc;

/// A loop of the source.
pub(crate) struct Repetition<'f> {
    /// What the sub-graph is called.
    pub(crate) name: &'f str,
    /// One turn: gives what goes into the next one.
    pub(crate) turn: &'f dyn Fn(&[GraphItem]) -> Result<Vec<GraphItem>>,
    /// Whether there is a turn with these values; asked before each.
    pub(crate) condition: &'f dyn Fn(&[GraphItem]) -> Result<GraphItem>,
    /// The shapes that the source declares for the values.
    pub(crate) declared: Vec<Option<Vec<Dim>>>,
    /// Whether a turn gives a value as it gets it.
    pub(crate) constant: Vec<bool>,
}

/// Runs a loop; gives its values at the end.
///
/// # Errors
/// Those of the body; `N0203` if its values do not find a form.
pub(crate) fn repeat(
    driver: &Driver<'_, RowContext>,
    begins: &[GraphItem],
    r: &Repetition<'_>,
) -> Result<Vec<GraphItem>> {
    let b: &GraphBuilder = driver.builder();
    let first = (r.condition)(begins)?;
    let condition = match &first {
        GraphItem::Tensor(v) => Some(truth(b, *v)?),
        GraphItem::Hole => None,
        GraphItem::Resource(_) | GraphItem::List(_) => {
            driver.report(no_condition(b));
            None
        }
    };
    if condition.and_then(|v| known(b, v)) == Some(false) {
        return Ok(begins.to_vec());
    }
    let forms = Forms::new(driver).with_declared(&r.declared);
    let turn = |_, carried: &[Carried<Forms<'_, '_>>]| {
        let items: Vec<GraphItem> = carried.iter().map(|carried| carried.item.clone()).collect();
        let next = (r.turn)(&items)?;
        let condition = Some((r.condition)(&next)?);
        Ok(Turn { condition, values: next.into_iter().enumerate().collect(), stacked: vec![] })
    };
    let begin = |(at, item): (usize, &GraphItem)| {
        Carried::new(at, item.clone(), forms.begin(item, r.constant.get(at) == Some(&true)))
    };
    let carried = begins.iter().enumerate().map(begin).collect();
    let repeated = Repeat { name: r.name, begins: carried, turn: &turn, before: &|_| None };
    match (repeated.body(&forms)?, condition) {
        (Some(body), Some(condition)) => finished(&forms, b, condition, body),
        (Some(_), None) => Ok(vec![GraphItem::Hole; begins.len()]),
        (None, _) => {
            driver.report(formless(b));
            Ok(vec![GraphItem::Hole; begins.len()])
        }
    }
}

/// Adds the loop, whose body is built; gives its values at the end.
fn finished<'d, 's>(
    forms: &Forms<'d, 's>,
    b: &GraphBuilder,
    condition: Var,
    mut body: Body<Forms<'d, 's>>,
) -> Result<Vec<GraphItem>> {
    let found = forms.found();
    let trips = Cell::new(None);
    body.add(forms, &|| {
        trips.set(found.limits.as_ref().map(|limits| turns::trips(b, limits)).transpose()?);
        Ok(match trips.get() {
            Some(trips) => [Operand::Var(trips), Operand::Absent],
            None => [Operand::Absent, Operand::Var(condition)],
        })
    })?;
    for (at, scan) in found.scans {
        let carried = &mut body.carried[at];
        if let (GraphItem::List(list), Some(stacked)) = (&carried.begin, carried.stacked) {
            carried.item = GraphItem::List(Rc::new(scan.list(b, list, stacked, trips.get())?));
        }
    }
    for (at, extent) in found.extents {
        if let GraphItem::List(list) = &body.carried[at].item {
            body.carried[at].item = GraphItem::List(Rc::new(list.sized(extent)));
        }
    }
    let end = |carried: Carried<_>| match is_given(&carried.form, &carried.begin, &carried.next) {
        true => carried.item,
        false => GraphItem::Hole,
    };
    Ok(body.carried.into_iter().map(end).collect())
}
