//! Conditions that are known only when the model runs.

use super::forms::Forms;
use super::item::GraphItem;
use super::truth::known;
use crate::ops::RowContext;
use onnxd_plugin_sdk::build::{Result, Var};
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::ir::DataType;
use onnxd_plugin_sdk::lower::Driver;
use onnxd_plugin_sdk::lower::flow::{Branches, Taken};
use std::cell::Cell;

/// One arm of a condition.
pub(crate) type Arm<'f> = &'f dyn Fn() -> Result<Vec<GraphItem>>;

/// Runs one of two arms, as `condition` says when the model runs. Gives what the arms give.
///
/// # Errors
/// Those of the arms; `N0201` if they give different numbers of values.
pub(crate) fn branch(
    driver: &Driver<'_, RowContext>,
    condition: Var,
    arms: [Arm<'_>; 2],
) -> Result<Vec<GraphItem>> {
    branch_named(driver, condition, ["then", "else"], arms)
}

/// As [`branch`], with names for the sub-graphs.
pub(crate) fn branch_named(
    driver: &Driver<'_, RowContext>,
    condition: Var,
    names: [&str; 2],
    arms: [Arm<'_>; 2],
) -> Result<Vec<GraphItem>> {
    let b = driver.builder();
    match known(b, condition) {
        Some(true) => return arms[0](),
        Some(false) => return arms[1](),
        None => {}
    }
    let count = Cell::new(None);
    let run = |at: usize| {
        let given = arms[at]()?;
        let (first, second) = (count.replace(Some(given.len())), given.len());
        if let Some(first) = first.filter(|first| *first != second) {
            let message = format!("The branches of a condition give {first} and {second} values.");
            return Err(b.diagnostic(Code::SourceSyntax, message));
        }
        Ok(given.into_iter().enumerate().collect())
    };
    let branches = Branches { condition, names, arms: [&|| run(0), &|| run(1)], before: &|_| None };
    match branches.run(&Forms::new(driver))? {
        Taken::Either { values, .. } => Ok(values.into_iter().map(|(_, item)| item).collect()),
        Taken::Only(at) => arms[at](),
    }
}

/// Runs one of `count` arms, as the number `index` says when the model runs; the last one stands for all numbers that
/// no arm has.
///
/// # Errors
/// As [`branch`].
pub(crate) fn chosen(
    driver: &Driver<'_, RowContext>,
    index: Var,
    count: usize,
    arm: &dyn Fn(usize) -> Result<Vec<GraphItem>>,
) -> Result<Vec<GraphItem>> {
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
    driver: &Driver<'_, RowContext>,
    index: Var,
    (first, count): (usize, usize),
    arm: &dyn Fn(usize) -> Result<Vec<GraphItem>>,
) -> Result<Vec<GraphItem>> {
    if count <= 1 {
        return arm(first);
    }
    let half = count / 2;
    let is_low = driver.builder().less(index, (first + half) as i64)?;
    let low = || among(driver, index, (first, half), arm);
    let high = || among(driver, index, (first + half, count - half), arm);
    branch(driver, is_low, [&low, &high])
}
