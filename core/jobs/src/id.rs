//! Job ids: ULIDs that grow within the process, also when the clock does not.
//!
//! The order of ids is the order of arrival; the store and the queue rely on it.

use onnxd_diagnostics::{Code, Diagnostic, shown};
use ulid::{Generator, Ulid};

/// Makes ids, each greater than the one before.
#[derive(Debug, Default)]
pub struct Ids {
    generator: Generator,
    last: Option<Ulid>,
}

impl Ids {
    /// A source whose ids are also greater than `newest`, the newest id in the store.
    pub fn after(newest: Option<&str>) -> Ids {
        let last = newest.and_then(|id| Ulid::from_string(id).ok());
        Ids { generator: Generator::new(), last }
    }

    /// The next id.
    pub fn next_id(&mut self) -> String {
        let fresh = self.generator.generate().ok();
        let id = match (fresh, self.last) {
            (Some(fresh), Some(last)) if fresh <= last => successor(last),
            (Some(fresh), _) => fresh,
            // 2^80 ids within a millisecond are used up.
            (None, last) => successor(last.unwrap_or_default()),
        };
        self.last = Some(id);
        id.to_string()
    }
}

fn successor(id: Ulid) -> Ulid {
    Ulid(id.0.wrapping_add(1))
}

/// Whether `id` has the form that [`Ids`] gives out.
pub(crate) fn is_id(id: &str) -> bool {
    Ulid::from_string(id).is_ok_and(|parsed| parsed.to_string() == id)
}

/// The numbers of the ids that begin with these letters, if any can.
pub(crate) fn beginning_with(letters: &str) -> Option<std::ops::Range<u128>> {
    let padded = |with: char| {
        let missing = ulid::ULID_LEN.checked_sub(letters.len())?;
        let id: String = letters.chars().chain(std::iter::repeat_n(with, missing)).collect();
        Ulid::from_string(&id).ok()
    };
    Some(padded('0')?.0..padded('Z')?.0.checked_add(1)?)
}

/// Fewer first letters of an id name no job.
const PREFIX_MIN: usize = 4;
/// Ids that are named where several begin alike.
const NAMED_MAX: usize = 5;

/// The only one of `ids` that is `given` or begins with it, letter case aside.
///
/// # Errors
/// `N0704` with those that begin so, if there are several.
pub fn one_id<'a>(
    given: &str,
    ids: impl IntoIterator<Item = &'a str>,
) -> Result<Option<&'a str>, Diagnostic> {
    let prefix = given.to_ascii_uppercase();
    if prefix.len() < PREFIX_MIN {
        return Ok(None);
    }
    let mut found: Vec<&str> = ids.into_iter().filter(|id| id.starts_with(&prefix)).collect();
    found.sort_unstable();
    found.dedup();
    match found.as_slice() {
        [] => Ok(None),
        [one] => Ok(Some(one)),
        [first, ..] if *first == prefix => Ok(Some(first)),
        several => {
            let names = several[..several.len().min(NAMED_MAX)].join(", ");
            let more = if several.len() > NAMED_MAX { ", ..." } else { "" };
            let text =
                format!("{} jobs begin with `{}`: {names}{more}", several.len(), shown(given));
            Err(Diagnostic::new(Code::Usage, text).help("Give more letters of the id."))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, SystemTime};

    #[test]
    fn ids_grow() {
        let mut ids = Ids::default();
        let made: Vec<String> = (0..10_000).map(|_| ids.next_id()).collect();
        assert!(made.windows(2).all(|w| w[0] < w[1]));
        assert!(made.iter().all(|id| is_id(id)));
    }

    #[test]
    fn ids_grow_past_a_clock_set_back() {
        let future = SystemTime::now() + Duration::from_secs(3600);
        let newest = Ulid::from_datetime(future).to_string();
        let mut ids = Ids::after(Some(&newest));
        let (a, b) = (ids.next_id(), ids.next_id());
        assert!(newest < a && a < b);
    }

    #[test]
    fn first_letters_that_only_one_id_has_are_enough() {
        let ids = ["01ARZ3NDEK", "01ARZ3NDXX", "01BXX"];
        let of = |given: &str| one_id(given, ids).map_err(|d| d.into_finding().message);
        assert_eq!(of("01bx").unwrap(), Some("01BXX"));
        assert_eq!(of("01ARZ3NDX").unwrap(), Some("01ARZ3NDXX"));
        assert_eq!((of("01B").unwrap(), of("").unwrap(), of("02AA").unwrap()), (None, None, None));
        assert!(
            of("01ARZ").unwrap_err().contains("2 jobs begin with `01ARZ`: 01ARZ3NDEK, 01ARZ3NDXX")
        );
    }

    #[test]
    fn other_spellings_are_no_ids() {
        for wrong in ["", "x", "01arz3ndektsv4rrffq69g5fav", "../../../../etc/passwd/aaaa"] {
            assert!(!is_id(wrong), "{wrong}");
        }
        assert!(is_id("01ARZ3NDEKTSV4RRFFQ69G5FAV"));
    }
}
