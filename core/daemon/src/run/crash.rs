//! Named places at which a simulation ends the daemon as a kill would. In the built program there is
//! nothing here.
//!
//! Every transition of a job is one before and one after it is recorded; every effect on the disk
//! has one of its own.

#[cfg(not(test))]
mod nothing {
    use onnxd_jobs::What;
    use std::io;

    pub(crate) fn point(_: &str) {}
    pub(crate) fn transition(_: &str, _: &What) {}
    pub(crate) fn far() -> io::Result<()> {
        Ok(())
    }
    pub(crate) fn inherited<T>(work: impl FnOnce() -> T) -> impl FnOnce() -> T {
        work
    }
}

#[cfg(not(test))]
pub(crate) use nothing::{far, inherited, point, transition};
#[cfg(test)]
pub(crate) use simulated::{CrashPlan, Killed, enter, far, inherited, plan, point, transition};

#[cfg(test)]
mod simulated {
    use std::cell::RefCell;
    use std::collections::BTreeMap;
    use std::io;
    use std::panic::resume_unwind;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex, PoisonError};

    use onnxd_jobs::What;

    /// What a thread of a killed daemon ends with.
    pub(crate) struct Killed;

    /// When one life of a daemon ends.
    #[derive(Default)]
    pub(crate) struct CrashPlan {
        /// At this place, when it is reached so many times.
        pub(crate) at: Option<(String, usize)>,
        /// At the place that is reached after so many others.
        pub(crate) after: Option<usize>,
        /// The outbox is another file system than the state folder.
        pub(crate) far: bool,
        pub(crate) seen: Mutex<BTreeMap<String, usize>>,
        pub(crate) passed: AtomicUsize,
        pub(crate) dead: AtomicBool,
        pub(crate) threads: AtomicUsize,
    }

    impl CrashPlan {
        pub(crate) fn is_dead(&self) -> bool {
            self.dead.load(Ordering::SeqCst)
        }

        /// Threads of the daemon that have not ended.
        pub(crate) fn threads(&self) -> usize {
            self.threads.load(Ordering::SeqCst)
        }

        /// Places by how often they were reached.
        pub(crate) fn seen(&self) -> BTreeMap<String, usize> {
            self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
        }

        fn reach(&self, name: &str) {
            if self.is_dead() {
                resume_unwind(Box::new(Killed));
            }
            let times = {
                let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
                let times = seen.entry(name.to_owned()).or_default();
                *times += 1;
                *times
            };
            let passed = self.passed.fetch_add(1, Ordering::SeqCst);
            let named = self.at.as_ref().is_some_and(|(at, n)| at == name && times == *n);
            if named || self.after == Some(passed) {
                self.dead.store(true, Ordering::SeqCst);
                resume_unwind(Box::new(Killed));
            }
        }
    }

    thread_local! {
        static PLAN: RefCell<Option<Arc<CrashPlan>>> = const { RefCell::new(None) };
    }

    pub(crate) fn plan() -> Option<Arc<CrashPlan>> {
        PLAN.with(|plan| plan.borrow().clone())
    }

    /// The plan of this thread, and of those that it starts from now on.
    pub(crate) fn enter(plan: Option<Arc<CrashPlan>>) {
        PLAN.with(|here| *here.borrow_mut() = plan);
    }

    pub(crate) fn point(name: &str) {
        if let Some(plan) = plan() {
            plan.reach(name);
        }
    }

    pub(crate) fn transition(moment: &str, what: &What) {
        let text = format!("{what:?}");
        let name = text.split([' ', '{', '(']).next().unwrap_or_default();
        point(&format!("{moment} {name}"));
    }

    /// Whether a rename to the outbox would cross file systems.
    pub(crate) fn far() -> io::Result<()> {
        match plan() {
            Some(plan) if plan.far => Err(io::ErrorKind::CrossesDevices.into()),
            _ => Ok(()),
        }
    }

    /// The same work, in a thread of the daemon whose plan this is.
    pub(crate) fn inherited<T>(work: impl FnOnce() -> T) -> impl FnOnce() -> T {
        struct Counted(Arc<CrashPlan>);
        impl Drop for Counted {
            fn drop(&mut self) {
                self.0.threads.fetch_sub(1, Ordering::SeqCst);
            }
        }
        let plan = plan();
        let counted = plan.clone().inspect(|plan| {
            plan.threads.fetch_add(1, Ordering::SeqCst);
        });
        let counted = counted.map(Counted);
        move || {
            enter(plan);
            let done = work();
            drop(counted);
            done
        }
    }
}
