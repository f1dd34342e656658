//! A sender that never blocks: what the receiver cannot take yet waits here, in order.
//!
//! The event loop talks to threads that talk to it; if both blocked, neither would go on.

use std::collections::VecDeque;

use crossbeam_channel::{Sender, TrySendError};

#[derive(Debug)]
pub(crate) struct Mailbox<T> {
    sender: Option<Sender<T>>,
    waiting: VecDeque<T>,
}

impl<T> Mailbox<T> {
    pub(crate) fn new(sender: Sender<T>) -> Mailbox<T> {
        Mailbox { sender: Some(sender), waiting: VecDeque::new() }
    }

    pub(crate) fn post(&mut self, message: T) {
        self.waiting.push_back(message);
        self.flush();
    }

    /// Sends what waits, as far as the receiver takes it. Called once per turn of the loop.
    pub(crate) fn flush(&mut self) {
        let Some(sender) = &self.sender else { return self.waiting.clear() };
        while let Some(message) = self.waiting.pop_front() {
            match sender.try_send(message) {
                Ok(()) => {}
                Err(TrySendError::Full(message)) => return self.waiting.push_front(message),
                // The receiver ended with its thread; whoever watches the thread reports that.
                Err(TrySendError::Disconnected(_)) => return self.close(),
            }
        }
    }

    /// Whether something waits that the receiver has not taken.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(crate) fn close(&mut self) {
        self.sender = None;
        self.waiting.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_order_and_never_blocks() {
        let (sender, receiver) = crossbeam_channel::bounded(1);
        let mut mailbox = Mailbox::new(sender);
        (0..3).for_each(|n| mailbox.post(n));
        assert!(mailbox.is_waiting());
        let mut got = Vec::new();
        while let Ok(n) = receiver.try_recv() {
            got.push(n);
            mailbox.flush();
        }
        assert_eq!(got, [0, 1, 2]);
        drop(receiver);
        mailbox.post(3);
        assert!(!mailbox.is_waiting());
    }
}
