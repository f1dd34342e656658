//! The thread that owns an inbox: waits for a hint or for the next due time, looks, and reports.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender, bounded, never, select};

use crate::inbox::Inbox;
use crate::status::Status;
use crate::submission::{InboxNews, Prober};

/// What the daemon tells the thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// The submission of this id was moved, or is given up and may be offered again.
    Release(PathBuf),
    /// The submission of this id cannot be moved, and why.
    Block(PathBuf, String),
    /// Offer again what could not be moved.
    Unblock,
    /// The front-ends are others now: ask again.
    ForgetProbes,
    /// Hand nothing over, and why.
    Pause(String),
    /// Go on.
    Resume,
    /// Look now.
    Rescan,
    /// The prober has an answer.
    Answered,
    /// End the thread. Dropping the sender does the same.
    Stop,
}

/// The latest status, for other threads.
#[derive(Clone, Debug)]
pub struct StatusHandle(Arc<Mutex<Arc<Status>>>);

impl StatusHandle {
    /// The inbox after the latest look.
    pub fn get(&self) -> Arc<Status> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn set(&self, status: &Status) {
        let status = Arc::new(status.clone());
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }
}

/// A running thread.
#[derive(Debug)]
pub struct Intake {
    /// What lies in the inbox.
    pub status: StatusHandle,
    /// Ends after [`Control::Stop`], or when one of the channels is closed.
    pub thread: JoinHandle<()>,
}

/// Starts the thread. While nothing receives from `found`, the inbox itself is the buffer.
pub fn spawn<P: Prober + Send + 'static>(
    inbox: Inbox,
    prober: P,
    found: Sender<InboxNews>,
    control: Receiver<Control>,
) -> io::Result<Intake> {
    let status = StatusHandle(Arc::new(Mutex::new(Arc::new(inbox.status().clone()))));
    let mut worker = Loop { inbox, prober, found, control, status: status.clone() };
    let thread = std::thread::Builder::new()
        .name("intake".to_owned())
        .spawn(move || while worker.turn().is_some() {})?;
    Ok(Intake { status, thread })
}

struct Loop<P> {
    inbox: Inbox,
    prober: P,
    found: Sender<InboxNews>,
    control: Receiver<Control>,
    status: StatusHandle,
}

impl<P: Prober> Loop<P> {
    /// One look, or another judgement of the latest one, and the wait for the next; `None` at the
    /// end.
    fn turn(&mut self) -> Option<()> {
        self.inbox.turn(Instant::now(), &mut self.prober);
        self.status.set(self.inbox.status());
        self.wait()
    }

    /// Hands over what is complete, one drop at a time, and listens meanwhile.
    fn wait(&mut self) -> Option<()> {
        let (never, nowhere) = (never(), bounded(0));
        loop {
            let now = Instant::now();
            let (not_before, due) = (self.inbox.not_before(), self.inbox.next_wakeup());
            if now >= due {
                return Some(());
            }
            // Hints wait in their channel until the next look is allowed.
            let (hints, until) = match now < not_before {
                true => (&never, not_before.min(due)),
                false => (self.inbox.hints(), due),
            };
            let found = if self.inbox.has_offer() { &self.found } else { &nowhere.0 };
            select! {
                recv(hints) -> _ => self.inbox.hinted(),
                recv(self.control) -> said => self.obey(said.ok()?)?,
                send(found, self.inbox.hand_over()?) -> sent => sent.ok()?,
                default(until.saturating_duration_since(now)) => {}
            }
        }
    }

    fn obey(&mut self, said: Control) -> Option<()> {
        match said {
            Control::Release(id) => self.inbox.release(&id),
            Control::Block(id, reason) => self.inbox.block(&id, reason),
            Control::Unblock => self.inbox.unblock(),
            Control::ForgetProbes => self.inbox.forget_probes(),
            Control::Pause(reason) => self.inbox.pause(Some(reason)),
            Control::Resume => self.inbox.pause(None),
            Control::Rescan => self.inbox.hinted(),
            Control::Answered => self.inbox.answered(),
            Control::Stop => return None,
        }
        Some(())
    }
}
