//! Settings and plugins that are read again while the daemon runs.

use crossbeam_channel::Sender;
use onnxd_config::{KeyEntry, Loaded};
use onnxd_diagnostics::{Code, Diagnostic};
use onnxd_intake::Control;
use serde_json::{Value, json};

use super::Daemon;
use crate::conversion::{Launcher, Plugins};
use crate::run::event::{Event, Reloaded};
use crate::run::protocol::{diagnostic, granted, refused};
use crate::run::tools::Tools;

/// Settings that hold threads, folders or sockets already in use.
const NEED_RESTART: [&str; 9] = [
    "paths.", "intake.", "output.outbox", "output.failed", "output.done", "output.unmatched",
    "state.", "control.", "log.format",
];

impl Daemon {
    /// Reads settings and plugins in a thread; what is in use stays until all of it is good.
    pub(crate) fn reload(&self, answer: Option<Sender<Value>>) {
        let (source, events) = (self.source.clone(), self.around.events.clone());
        let asker = answer.clone();
        let work = move || {
            let done = source.load().and_then(|loaded| {
                let launcher = Launcher::new(&loaded.settings);
                let plugins = Plugins::discover(&loaded.settings, &source.environment, &launcher)?;
                plugins.check_defaults()?;
                Ok((loaded, Tools { launcher, plugins: plugins.into() }))
            });
            let reloaded = Box::new(Reloaded { done, answer });
            // Without a receiver the daemon has ended.
            let _ = events.send(Event::Reloaded(reloaded));
        };
        let thread = std::thread::Builder::new().name("reload".into());
        if let (Err(e), Some(answer)) = (thread.spawn(work), asker) {
            let message = format!("A thread could not start: {e}");
            let _ = answer.try_send(refused(&Diagnostic::new(Code::WorkerStart, message)));
        }
    }

    pub(crate) fn on_reloaded(&mut self, reloaded: &Reloaded) {
        let said = match &reloaded.done {
            Err(found) => {
                tracing::error!(reason = %found, "the settings stay as they were");
                let all: Vec<Value> = found.0.iter().map(diagnostic).collect();
                let mut said = found.0.first().map_or(json!({"ok": false}), refused);
                said["diagnostics"] = all.into();
                said
            }
            Ok((loaded, tools)) => self.change_settings(loaded, tools),
        };
        if let Some(answer) = &reloaded.answer {
            // Whoever does not wait for the answer does not get it.
            let _ = answer.try_send(said);
        }
    }

    fn change_settings(&mut self, loaded: &Loaded, tools: &Tools) -> Value {
        let changed = changed(&self.source.entries, &loaded.entries);
        let (later, now): (Vec<&str>, Vec<&str>) = changed
            .into_iter()
            .partition(|key| NEED_RESTART.iter().any(|prefix| key.starts_with(prefix)));
        let mut settings = loaded.settings.clone();
        let old = &self.settings;
        // These stay until the next start.
        (settings.paths, settings.intake) = (old.paths.clone(), old.intake.clone());
        (settings.state, settings.control) = (old.state.clone(), old.control.clone());
        let output = &mut settings.output;
        (output.outbox, output.failed) = (old.output.outbox.clone(), old.output.failed.clone());
        (output.done, output.unmatched) = (old.output.done.clone(), old.output.unmatched.clone());
        self.log.set_level(settings.log.level);
        let used = |tools: &Tools| (tools.plugins.digest(), tools.plugins.defaults.clone());
        let plugins_changed = used(&self.tools.get()) != used(tools);
        self.tools.set(tools.clone());
        let asked_again = !self.around.set_aside.problems().is_empty();
        self.around.set_aside.clear();
        if plugins_changed || asked_again {
            self.around.intake.post(Control::ForgetProbes);
        }
        let kept = |e: &KeyEntry| later.contains(&e.key.as_str());
        let old_of = |e: &KeyEntry| self.source.entries.iter().find(|o| o.key == e.key).cloned();
        let entries = loaded.entries.iter();
        let entries = entries.map(|e| old_of(e).filter(|_| kept(e)).unwrap_or_else(|| e.clone()));
        self.source.entries = entries.collect();
        self.settings = settings.into();
        tracing::info!(applied = ?now, needs_restart = ?later, plugins_changed, "reloaded");
        granted(json!({
            "applied": now,
            "needs_restart": later,
            "plugins_changed": plugins_changed,
            "plugins": tools.plugins.used.len(),
        }))
    }
}

fn changed<'a>(old: &[KeyEntry], new: &'a [KeyEntry]) -> Vec<&'a str> {
    let same = |e: &KeyEntry| old.iter().any(|o| o.key == e.key && o.value == e.value);
    new.iter().filter(|e| !same(e)).map(|e| e.key.as_str()).collect()
}
