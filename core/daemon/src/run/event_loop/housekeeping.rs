//! What the loop has the housekeeping thread do, and what it hears of that.

use std::sync::Arc;

use onnxd_intake::Control;
use onnxd_proto::onnxd::Job;

use super::{Daemon, Turn};
use crate::run::event::OrderResult;
use crate::run::order::DiskOrder;

impl Daemon {
    /// Gives the housekeeping thread orders.
    pub(crate) fn order(&mut self, orders: impl IntoIterator<Item = DiskOrder>) {
        for order in orders {
            self.around.keeper.post((order, Arc::clone(&self.settings)));
        }
    }

    /// The originals of a job that has ended leave its folder.
    pub(crate) fn settle(&mut self, job: Job) {
        let order = self.results.settle(job);
        self.order(order);
    }

    /// What is left of the folder of a packed job goes.
    pub(crate) fn tidy_packed(&mut self, id: &str) -> Turn {
        let order = self.queue.tidy_packed(id, &self.folders)?;
        self.order(order);
        Ok(())
    }

    pub(crate) fn on_kept(&mut self, kept: &OrderResult) -> Turn {
        match kept {
            OrderResult::PutAway { job, done } => {
                self.results.end_put_away(job);
                self.tidy_packed(job)?;
                if let Err(why) = done {
                    self.attempts.room.blocks(why);
                    let reason = &why.message;
                    tracing::error!(job, reason, "the originals stay in the job's folder for now");
                    self.results.note_unsettled(job, reason.clone());
                }
            }
            OrderResult::Fetched { job, done } => self.on_fetched(job, done)?,
            OrderResult::Unmatched { id, done } => match done {
                Ok(to) => {
                    tracing::info!(drop = %id.display(), to = %to.display(), "unmatched");
                    self.around.intake.post(Control::Release(id.clone()));
                }
                Err(e) => self.leave(id, &e.diagnostic()),
            },
            OrderResult::Removed => {}
        }
        Ok(())
    }

    /// Tries again what could not be moved.
    pub(crate) fn move_again(&mut self) -> Turn {
        if std::mem::take(&mut self.timers.blocked) {
            self.around.intake.post(Control::Unblock);
        }
        let again: Vec<String> = self.results.unsettled().keys().cloned().collect();
        for id in again {
            let job = self.queue.job(&id)?;
            self.results.forget_unsettled(&id);
            job.into_iter().for_each(|job| self.settle(job));
        }
        Ok(())
    }
}
