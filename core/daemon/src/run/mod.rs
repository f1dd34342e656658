//! The daemon: watches the inbox, keeps the queue, starts workers, publishes results.
//!
//! ```text
//! intake thread --+
//! worker threads -+--> one bounded channel --> event loop (owns the store) --> threads that move,
//! control socket -+                                                            hash and convert
//! signals --------+
//! ```

mod attempts;
pub(crate) mod control;
mod crash;
#[cfg(test)]
#[path = "crash_store_tests.rs"]
mod crash_store;
#[cfg(test)]
mod crash_tests;
#[cfg(test)]
#[path = "crash_world_tests.rs"]
mod crash_world;
mod drops;
mod event;
mod event_loop;
mod held;
mod housekeeping;
mod layout;
mod log;
mod mailbox;
mod moving;
mod order;
mod own_crash;
mod prober;
pub(crate) mod protocol;
mod queue;
mod results;
mod signals;
#[cfg(test)]
mod simulation_tests;
mod systemd;
mod tools;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::bounded;
use onnxd_config::{Environment, KeyEntry, Loaded, Settings, load};
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics};
use onnxd_intake::{Config, Inbox};
use onnxd_jobs::SledStore;
use onnxd_worker::confine::cgroup;
use rustix::process::{DumpableBehavior, set_dumpable_behavior};

use crate::conversion::submission::names;
use crate::conversion::{Launcher, Plugins};
use attempts::Attempts;
use drops::Drops;
pub(crate) use event_loop::left;
use event_loop::{Course, Daemon, Phase, Surroundings, Timers};
use layout::{Folders, make_dir};
use mailbox::Mailbox;
use prober::FrontendProber;
use prober::set_aside::SetAside;
use queue::Queue;
use results::Results;
pub(crate) use signals::Signals;
use systemd::Watchdog;
use tools::{SharedTools, Tools};

/// Events that wait for the loop; whoever sends more waits.
const EVENTS_MAX: usize = 256;
/// Messages to intake and housekeeping that wait for the thread; more wait in the mailbox.
const MESSAGES_MAX: usize = 64;

/// Where the settings come from, to read them again.
#[derive(Clone, Debug)]
pub(crate) struct SettingsSource {
    pub(crate) file: Option<PathBuf>,
    pub(crate) overrides: Vec<String>,
    pub(crate) environment: Environment,
    /// Those in use.
    pub(crate) entries: Vec<KeyEntry>,
}

impl SettingsSource {
    /// Reads the settings of this process.
    pub(crate) fn new(
        file: Option<PathBuf>,
        overrides: Vec<String>,
    ) -> Result<(SettingsSource, Settings), Diagnostics> {
        let environment = Environment::of_process();
        let loaded = load(file.as_deref(), &environment, &overrides)?;
        let source = SettingsSource { file, overrides, environment, entries: loaded.entries };
        Ok((source, loaded.settings))
    }

    fn load(&self) -> Result<Loaded, Diagnostics> {
        load(self.file.as_deref(), &self.environment, &self.overrides)
    }
}

/// Runs the daemon until it is told to stop, or with `once` until nothing is left to do. Asked to
/// end before it is ready, it leaves everything as it is.
pub(crate) fn run(
    source: SettingsSource,
    mut settings: Settings,
    once: bool,
    signals: Signals,
) -> Result<left::Ended, Diagnostics> {
    let log = log::init(&settings.log);
    keep_apart();
    systemd::still_starting("opening the store");
    let folders = make_folders(&mut settings)?;
    let (store, repairs) = SledStore::open(&settings.state.dir)?;
    repairs.iter().for_each(|repair| tracing::warn!(repair, "store"));
    if signals.ask_for_end() {
        return Ok(ended_early(&settings.intake.inbox));
    }
    if let Err(e) = own_crash::note_crashes(&settings.state.dir) {
        tracing::warn!(reason = %e, "crashes of the daemon are not counted for the jobs at fault");
    }
    let tools = tools(&settings, &source.environment, once)?;
    if signals.ask_for_end() {
        return Ok(ended_early(&settings.intake.inbox));
    }
    let (inbox_config, socket) = (inbox_config(&settings), settings.control.socket.clone());
    let inbox_folder = settings.intake.inbox.clone();
    // Before anything is moved: an inbox that cannot be used is a wrong configuration.
    let inbox = Inbox::open(inbox_config)?;

    let (events, received) = bounded(EVENTS_MAX);
    let (orders, ordered) = bounded(MESSAGES_MAX);
    let housekeeping = housekeeping::spawn(ordered, events.clone()).map_err(no_thread)?;
    let (to_intake, control) = bounded(MESSAGES_MAX);
    let (found_by_intake, found) = bounded(1);
    let (for_prober, set_aside) = (to_intake.clone(), SetAside::default());
    let around = Surroundings {
        events: events.clone(),
        received,
        found,
        intake: Mailbox::new(to_intake),
        watched: None,
        set_aside: set_aside.clone(),
        keeper: Mailbox::new(orders),
        housekeeping,
    };
    let queue = Queue::new(Box::new(store), repairs, Instant::now()).map_err(|e| e.diagnostic)?;
    let mut daemon = new_daemon(queue, source, settings, log, tools, folders, around, once);
    let recovered = daemon.restart();
    daemon.outlive(recovered, None)?;
    let prober = FrontendProber::new(daemon.tools.clone(), inbox_folder, for_prober, set_aside);
    let watched = onnxd_intake::spawn(inbox, prober, found_by_intake, control);
    daemon.around.watched = Some(watched.map_err(no_thread)?);
    let _server = control::listen(&socket, events.clone())?;
    signals.forward(events)?;
    systemd::ready(&daemon.status_line());
    let inbox = &daemon.settings.intake.inbox;
    tracing::info!(inbox = %inbox.display(), socket = %socket.display(), "ready");
    daemon.run()?;
    tracing::info!("ended");
    Ok(daemon.ended()?)
}

/// Nobody knows what lies in the inbox then, so that `onnxd once` must not say that nothing is left.
fn ended_early(inbox: &Path) -> left::Ended {
    tracing::info!("ended before the start was done, as asked");
    let why = "onnxd was asked to end before it looked".to_owned();
    let unseen = left::Left { what: inbox.display().to_string(), state: "unseen", why };
    left::Ended { left: vec![unseen], ..left::Ended::default() }
}

/// Draws the line between this process and its workers, which have the same user. Before there are any.
fn keep_apart() {
    // No other process of the user can read its memory, or what it has open.
    if let Err(e) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        tracing::warn!(reason = %e, "processes of the same user can read the daemon's memory");
    }
    match cgroup::divide() {
        Ok(()) => tracing::info!("each worker gets a cgroup, which holds memory and threads"),
        Err(why) => tracing::info!(reason = why, "workers get no cgroups"),
    }
}

#[allow(clippy::too_many_arguments)] // the parts of the daemon, each made by another part
fn new_daemon(
    queue: Queue,
    source: SettingsSource,
    settings: Settings,
    log: log::Handle,
    tools: Tools,
    folders: Folders,
    around: Surroundings,
    once: bool,
) -> Daemon {
    let now = Instant::now();
    Daemon {
        queue,
        drops: Drops::new(&folders),
        attempts: Attempts::new(now),
        results: Results::default(),
        course: Course {
            phase: Phase::Working,
            paused_by: None,
            once,
            any_failed: false,
            told_systemd: String::new(),
        },
        timers: Timers::new(now),
        settings: Arc::new(settings),
        source,
        log,
        tools: SharedTools::new(tools),
        folders,
        around,
        watchdog: Watchdog::new(now),
    }
}

/// Makes the folders, and resolves links in the paths that the settings give: below them, links are
/// others' work and are not followed.
fn make_folders(settings: &mut Settings) -> Result<Folders, Diagnostic> {
    let folders = Folders::of(settings);
    let jobs = folders.jobs();
    let all = [&jobs, &folders.outbox, &folders.failed, &folders.done, &folders.unmatched];
    for folder in all {
        make_dir(folder).map_err(|e| {
            Diagnostic::new(Code::ConfigBadValue, format!("{}: {e}", folder.display()))
                .help("onnxd must be allowed to write its folders.")
        })?;
    }
    let output = &mut settings.output;
    let all = [&mut output.outbox, &mut output.failed, &mut output.done, &mut output.unmatched];
    for folder in all {
        *folder = folder.canonicalize().map_err(|e| {
            Diagnostic::new(Code::ConfigBadValue, format!("{}: {e}", folder.display()))
        })?;
    }
    Ok(Folders::of(settings))
}

fn tools(settings: &Settings, environment: &Environment, once: bool) -> Result<Tools, Diagnostic> {
    let launcher = Launcher::new(settings);
    let plugins = Plugins::discover(settings, environment, &launcher)?;
    plugins.check_defaults()?;
    for problem in plugins.problems() {
        tracing::warn!(reason = %problem, "a problem of plugins");
    }
    for plugin in &plugins.used {
        tracing::info!(id = plugin.id, version = plugin.version, path = plugin.path, "plugin");
    }
    match plugins.has_frontend() {
        // What it was to convert would only be left lying.
        Err(why) if once => return Err(why),
        // A reload can bring plugins, and until then `health` says so.
        Err(why) => tracing::error!(reason = %why, "nothing can be converted"),
        Ok(()) => {}
    }
    Ok(Tools { launcher, plugins: Arc::new(plugins) })
}

fn inbox_config(settings: &Settings) -> Config {
    let (intake, output) = (&settings.intake, &settings.output);
    let own = [&output.outbox, &output.failed, &output.done, &output.unmatched];
    let unmatched = Duration::from_secs(intake.unmatched_after_s);
    Config {
        own_folders: own.into_iter().chain([&settings.state.dir]).cloned().collect(),
        settle: Duration::from_millis(intake.settle_ms),
        rescan: Duration::from_secs(intake.rescan_s),
        names: names(settings),
        poll_only: intake.poll,
        ready_required: intake.ready_markers,
        memory: Some(settings.state.dir.join("inbox")),
        recall: Some(settings.state.dir.join("inbox.quiet")),
        unmatched_after: (!unmatched.is_zero()).then_some(unmatched),
        ..Config::new(&intake.inbox)
    }
}

/// The daemon cannot begin without its threads; another start may be luckier.
#[allow(clippy::needless_pass_by_value)] // as `map_err` gives it
pub(crate) fn no_thread(e: std::io::Error) -> Diagnostic {
    Diagnostic::new(Code::WorkerStart, format!("A thread could not start: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_ends_before_it_looks_leaves_the_inbox() {
        let ended = ended_early(Path::new("/inbox"));
        assert_eq!((ended.left[0].what.as_str(), ended.any_failed), ("/inbox", false));
    }
}
