//! Signals that end the daemon or have it read its settings again.
//!
//! They are caught from the beginning of the start: one that comes early ends the process in order,
//! with status 0, as soon as a step of the start is done.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crossbeam_channel::Sender;
use onnxd_diagnostics::Diagnostic;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use super::event::Event;
use super::no_thread;

/// Signals that have come and will come; none gets lost before [`Signals::forward`].
pub(crate) struct Signals {
    caught: signal_hook::iterator::Signals,
    asked_to_end: Arc<AtomicBool>,
}

impl Signals {
    /// Catches signals from now on.
    pub(crate) fn catch() -> Result<Signals, Diagnostic> {
        let asked_to_end = Arc::new(AtomicBool::new(false));
        for signal in [SIGTERM, SIGINT] {
            flag::register(signal, Arc::clone(&asked_to_end)).map_err(no_thread)?;
        }
        let caught = signal_hook::iterator::Signals::new([SIGTERM, SIGINT, SIGHUP]);
        Ok(Signals { caught: caught.map_err(no_thread)?, asked_to_end })
    }

    /// Whether the daemon was asked to end before it was ready.
    pub(crate) fn ask_for_end(&self) -> bool {
        self.asked_to_end.load(Ordering::SeqCst)
    }

    /// Passes them on to the loop, those that came already first.
    pub(crate) fn forward(mut self, events: Sender<Event>) -> Result<(), Diagnostic> {
        let listen = move || {
            for signal in self.caught.forever() {
                if events.send(Event::Signal(signal)).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("signals".into());
        thread.spawn(listen).map(drop).map_err(no_thread)
    }
}
