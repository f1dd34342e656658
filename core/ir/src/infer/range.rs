//! Numbers of a range, and indices of a slice of known bounds.

use super::site::sized;
use crate::Dim;

/// Ends from here on mean "to the end".
pub(super) const END: i64 = i32::MAX as i64;
/// Ends up to here mean "to the beginning".
pub(super) const BEGIN: i64 = -END;

/// Start and stop of a slice of an axis of size `len`, clamped as the standard says. Backward to an
/// end that means "to the end" is nothing to the standard and everything to some runtimes.
pub(super) fn clamped(len: i64, start: i64, end: i64, step: i64) -> Option<(i64, i64)> {
    let from_front = |x: i64| if x < 0 { x.saturating_add(len) } else { x };
    let (start, stop) = (from_front(start), from_front(end));
    match step {
        0 => None,
        ..0 if end >= END => None,
        1.. => Some((start.clamp(0, len), stop.clamp(0, len))),
        _ if len == 0 => Some((0, 0)),
        _ => Some((start.clamp(0, len - 1), stop.clamp(-1, len - 1))),
    }
}

/// The indices that a slice takes.
pub(super) fn slice_indices(
    len: i64,
    start: i64,
    end: i64,
    step: i64,
) -> Option<impl Iterator<Item = usize>> {
    let (first, stop) = clamped(len, start, end, step)?;
    let count = range_len(first, stop, step).known()?;
    Some((0..count).map(move |i| (first + i * step) as usize))
}

/// `(stop - start) / step`, rounded up.
pub(super) fn range_len(start: i64, stop: i64, step: i64) -> Dim {
    let length = || {
        let distance = stop.checked_sub(start)?;
        let whole = distance.checked_div(step)?;
        let partial = distance.checked_rem(step)? != 0 && (distance < 0) == (step < 0);
        whole.max(0).checked_add(i64::from(partial))
    };
    sized(length())
}
