//! How much a value holds. Values share what they hold, so a short program could make one of any extent, or one that
//! holds itself.

use super::{Elements, Item, Machine, Result};
use crate::diag::Code;

/// Containers inside each other.
const DEPTH_MAX: usize = 64;
/// Values that one holds, counted as often as they are held.
const HELD_MAX: usize = 1 << 20;
/// The same of an item that is appended to a list.
const ITEM_HELD_MAX: usize = 1 << 16;

impl Machine<'_> {
    /// A value that holds others, if it does not hold too many.
    ///
    /// # Errors
    /// `N0213` if it does.
    pub(crate) fn bounded(&self, item: Item) -> Result<Item> {
        self.check_extent(&item, HELD_MAX)?;
        Ok(item)
    }

    /// Checks the items that a container gets. A list that grows by one item is looked at whole only now and then.
    ///
    /// # Errors
    /// `N0213` if they hold too many values, or the container.
    pub(super) fn check_held(&self, name: &str, container: &Item, items: &[Item]) -> Result<()> {
        const HOLD: [&str; 7] =
            ["append", "insert", "extend", "add_", "_set_item", "setdefault", "update"];
        if !HOLD.contains(&name) || !items.iter().any(holds_others) {
            return Ok(());
        }
        let most = if name == "append" { ITEM_HELD_MAX } else { HELD_MAX };
        items.iter().try_for_each(|item| self.check_extent(item, most))?;
        let within = items.iter().any(|item| is_within(container, item));
        let whole = match container {
            Item::List(cell) if name == "append" => match &*cell.borrow() {
                Elements::Known(all) => all.len().is_power_of_two(),
                Elements::Sequence(_) | Elements::Numbers(..) => false,
            },
            _ => true,
        };
        match whole || within {
            true => self.check_extent(container, HELD_MAX),
            false => Ok(()),
        }
    }

    fn check_extent(&self, item: &Item, most: usize) -> Result<()> {
        let mut left = most;
        match fits(item, DEPTH_MAX, &mut left) {
            true => self.work((most - left) / 16),
            false => Err(self.problem(
                Code::SourceLimit,
                format!("A value holds more than {most} values, or itself."),
            )),
        }
    }
}

fn holds_others(item: &Item) -> bool {
    matches!(
        item,
        Item::List(_) | Item::Tuple(_) | Item::Record(..) | Item::Dict(_) | Item::Maybe(..)
    )
}

/// Whether `item` and what it holds are at most `left` values, at most `depth` inside each other.
fn fits(item: &Item, depth: usize, left: &mut usize) -> bool {
    if *left == 0 || depth == 0 {
        return false;
    }
    *left -= 1;
    !item.any_part(&mut |part| !fits(part, depth - 1, left))
}

/// Whether `item`, which is of bounded extent, is or holds `container`.
fn is_within(container: &Item, item: &Item) -> bool {
    container.same(item) || item.any_part(&mut |part| is_within(container, part))
}
