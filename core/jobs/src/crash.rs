//! Points at which tests end the process, so to speak: the store must be whole after each.

/// Does nothing outside of tests.
#[cfg(not(test))]
pub(crate) fn point(_name: &'static str) {}

#[cfg(test)]
pub(crate) use armed::{point, points, run_to};

#[cfg(test)]
mod armed {
    use std::cell::RefCell;
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

    thread_local! {
        /// Points passed, and how many more may be.
        static PASSED: RefCell<(Vec<&'static str>, usize)> =
            const { RefCell::new((Vec::new(), usize::MAX)) };
    }

    struct Crash;

    pub(crate) fn point(name: &'static str) {
        let crashes = PASSED.with_borrow_mut(|(passed, left)| {
            passed.push(name);
            let crashes = *left == 0;
            *left = left.saturating_sub(1);
            crashes
        });
        if crashes {
            PASSED.with_borrow_mut(|(_, left)| *left = usize::MAX);
            // Quiet: no message, and nothing is cleaned up on the way but what is dropped.
            resume_unwind(Box::new(Crash));
        }
    }

    /// The points that `work` passes.
    pub(crate) fn points(work: impl FnOnce()) -> Vec<&'static str> {
        PASSED.set((Vec::new(), usize::MAX));
        work();
        PASSED.replace((Vec::new(), usize::MAX)).0
    }

    /// Runs `work` up to its point number `at`; whether it came there.
    pub(crate) fn run_to(at: usize, work: impl FnOnce()) -> bool {
        PASSED.set((Vec::new(), at));
        let ended = catch_unwind(AssertUnwindSafe(work));
        PASSED.set((Vec::new(), usize::MAX));
        match ended {
            Ok(()) => false,
            Err(cause) if cause.is::<Crash>() => true,
            Err(cause) => resume_unwind(cause),
        }
    }
}
