//! Places for connections: few for one user, so that no user shuts the others out, and a connection
//! that says nothing gives way to one that may have something to say.

use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Connections at the same time.
pub(crate) const PLACES_MAX: usize = 32;
/// Places of one user. Those whom the socket belongs to, the daemon's user and root, keep as many
/// free of others.
pub(crate) const PLACES_PER_USER: usize = 8;

/// The connections that are open.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConnectionPermits(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    next: u64,
    open: Vec<Open>,
}

#[derive(Debug)]
struct Open {
    number: u64,
    user: u32,
    /// Requests that were answered.
    answered: u64,
    /// A request is being answered.
    busy: bool,
    since: Instant,
    stream: UnixStream,
}

/// A connection's place, until it is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionPermit {
    places: ConnectionPermits,
    number: u64,
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.places.with(|all| all.open.retain(|open| open.number != self.number));
    }
}

impl ConnectionPermit {
    /// A request has come: the connection is not idle until [`ConnectionPermit::answered`].
    pub(crate) fn asks(&self) {
        self.change(|open| open.busy = true);
    }

    pub(crate) fn answered(&self) {
        self.change(|open| {
            (open.busy, open.since) = (false, Instant::now());
            open.answered += 1;
        });
    }

    fn change(&self, change: impl FnOnce(&mut Open)) {
        self.places.with(|all| {
            all.open.iter_mut().find(|open| open.number == self.number).map(change);
        });
    }
}

impl ConnectionPermits {
    /// A place for a connection of this user. If there is none, the idle one that matters least is
    /// closed for it: one that never asked before one that did, the longest idle first. `None` if
    /// all that could give way are busy.
    pub(crate) fn take(
        &self,
        stream: &UnixStream,
        user: u32,
        owner: u32,
    ) -> Option<ConnectionPermit> {
        let stream = stream.try_clone().ok()?;
        self.with(|all| {
            let trusted = |user: u32| user == owner || user == 0;
            let count = |of: &dyn Fn(u32) -> bool| all.open.iter().filter(|o| of(o.user)).count();
            let others_max = PLACES_MAX - PLACES_PER_USER;
            let full = count(&|_| true) >= PLACES_MAX;
            let crowded = !trusted(user) && count(&|u| !trusted(u)) >= others_max;
            if count(&|u| u == user) >= PLACES_PER_USER {
                all.close_idle(&|u| u == user)?;
            } else if crowded || full {
                all.close_idle(&|u| trusted(user) || !trusted(u))?;
            }
            let number = all.next;
            all.next += 1;
            let (answered, busy, since) = (0, false, Instant::now());
            all.open.push(Open { number, user, answered, busy, since, stream });
            Some(ConnectionPermit { places: self.clone(), number })
        })
    }

    fn with<T>(&self, f: impl FnOnce(&mut Inner) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Inner {
    fn close_idle(&mut self, of: &dyn Fn(u32) -> bool) -> Option<()> {
        let idle = self.open.iter().enumerate().filter(|(_, open)| !open.busy && of(open.user));
        let (at, _) = idle.min_by_key(|(_, open)| (open.answered > 0, open.since))?;
        let gone = self.open.swap_remove(at);
        // Its thread wakes up from reading and ends.
        let _ = gone.stream.shutdown(std::net::Shutdown::Both);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    const OWNER: u32 = 900;

    fn closed(stream: &mut UnixStream) -> bool {
        stream.set_nonblocking(true).unwrap();
        matches!(stream.read(&mut [0]), Ok(0))
    }

    #[test]
    fn idle_connections_give_way_and_busy_ones_stay() {
        let places = ConnectionPermits::default();
        let connect = |user: u32| {
            let (here, there) = UnixStream::pair().unwrap();
            (places.take(&here, user, OWNER), here, there)
        };
        let (operator, _here, mut its_end) = connect(7);
        let operator = operator.unwrap();
        operator.asks();
        operator.answered();
        // A thousand connections of the same user that say nothing.
        let flood: Vec<_> = (0..1_000).map(|_| connect(7)).collect();
        assert!(flood.iter().all(|(place, ..)| place.is_some()));
        assert!(!closed(&mut its_end), "who asked before stays longest");
        assert_eq!(places.with(|all| all.open.len()), PLACES_PER_USER);

        // Others are not touched by it, and cannot take the last places.
        let crowd: Vec<_> = (100..200).map(connect).collect();
        let (owner, _here, _there) = connect(OWNER);
        assert!(owner.is_some());
        crowd.iter().filter_map(|(place, ..)| place.as_ref()).for_each(ConnectionPermit::asks);
        flood.iter().filter_map(|(place, ..)| place.as_ref()).for_each(ConnectionPermit::asks);
        operator.asks();
        assert!(connect(300).0.is_none(), "all are busy");
        assert!(connect(OWNER).0.is_some() && connect(0).0.is_some());
        drop((flood, crowd, operator));
        assert!(connect(300).0.is_some());
    }
}
