//! Lists that each turn of a loop writes one element of, in their order: what the loop stacks.

use super::item::{ListForm, TensorList};
use super::list::{first_size, padded, single};
use super::turns::{self, Counter};
use onnxd_plugin_sdk::build::{GraphBuilder, Result, Var};
use onnxd_plugin_sdk::ir::{DataType, ValueId};
use std::rc::Rc;

/// How the elements that a loop stacks become a list.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scan {
    /// They come behind what was there.
    Behind,
    /// The first one has the index `begin`, the others follow it, or come before it if the loop counts down.
    At { begin: Var, down: bool, grows: bool },
}

/// The element that a turn adds to a list, and how; `None` if the turn does anything else with it.
pub(crate) fn scan(
    b: &GraphBuilder,
    (input, list): (ValueId, &Rc<TensorList>),
    next: &Rc<TensorList>,
    counters: &[Counter],
) -> Option<(Var, Scan)> {
    if list.is_sequence || b.graph().uses(input) > 0 {
        return None;
    }
    match &next.form {
        ListForm::Pushed { base, item } if Rc::ptr_eq(base, list) => Some((*item, Scan::Behind)),
        ListForm::Written { base, index, item, grows } if Rc::ptr_eq(base, list) => {
            let counter = turns::counter_of(b, *index, counters)?;
            let down = match counter.step {
                1 => false,
                -1 if !grows => true,
                _ => return None,
            };
            Some((*item, Scan::At { begin: counter.begin, down, grows: *grows }))
        }
        _ => None,
    }
}

impl Scan {
    /// The list after the loop, of the one before it and of the elements that the loop stacked.
    ///
    /// # Errors
    /// Those of the builder.
    pub(crate) fn list(
        self,
        b: &GraphBuilder,
        before: &Rc<TensorList>,
        scanned: Var,
        trips: Option<Var>,
    ) -> Result<TensorList> {
        let (begin, down, grows) = match self {
            Scan::Behind => return behind(b, before, scanned),
            Scan::At { begin, down, grows } => (begin, down, grows),
        };
        let length = before.length(b)?;
        let begin = b.cast(begin, DataType::Int64)?;
        let n = match trips.filter(|trips| turns::same(b, length, *trips)) {
            Some(trips) => trips,
            None => first_size(b, scanned)?,
        };
        // Where the elements begin.
        let first = if down { b.add(b.sub(begin, n)?, 1)? } else { begin };
        let scanned = if down { reversed(b, scanned)? } else { scanned };
        if turns::same(b, length, n)
            || grows && single(b, length) == Some(0) && single(b, begin) == Some(0)
        {
            return Ok(before.set_all(scanned));
        }
        let end = b.add(first, n)?;
        let [first, end, length] =
            [b.unsqueeze(first, [0])?, b.unsqueeze(end, [0])?, b.unsqueeze(length, [0])?];
        if let ListForm::Unset(_) = before.form {
            let rest = b.sub(length, end)?;
            let rest = b.max([rest, b.sub(rest, rest)?])?;
            return Ok(before.set_all(padded(b, scanned, Some(first), rest)?));
        }
        let element = b.shape_of(scanned).map(|shape| shape[1.min(shape.len())..].to_vec());
        let list = before.stacked(b, element)?;
        let head = b.slice(list, [0], first).axes([0]).one()?;
        let tail = b.slice(list, end, [i64::MAX]).axes([0]).one()?;
        Ok(before.set_all(b.concat([head, scanned, tail]).axis(0).one()?))
    }
}

fn behind(b: &GraphBuilder, before: &Rc<TensorList>, scanned: Var) -> Result<TensorList> {
    if single(b, before.length(b)?) == Some(0) {
        return Ok(before.set_all(scanned));
    }
    let element = b.shape_of(scanned).map(|shape| shape[1.min(shape.len())..].to_vec());
    let list = before.stacked(b, element)?;
    Ok(before.set_all(b.concat([list, scanned]).axis(0).one()?))
}

fn reversed(b: &GraphBuilder, x: Var) -> Result<Var> {
    b.slice(x, [-1], [i64::MIN]).axes([0]).steps([-1]).one()
}
