//! Job ids: ULIDs that grow within the process, also when the clock does not.
//!
//! The order of ids is the order of arrival; the store and the queue rely on it.

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
    fn other_spellings_are_no_ids() {
        for wrong in ["", "x", "01arz3ndektsv4rrffq69g5fav", "../../../../etc/passwd/aaaa"] {
            assert!(!is_id(wrong), "{wrong}");
        }
        assert!(is_id("01ARZ3NDEKTSV4RRFFQ69G5FAV"));
    }
}
