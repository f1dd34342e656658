//! The log on standard error: text for people, JSON for programs, bare lines for the journal.

use std::fmt;
use std::io::IsTerminal;
use std::os::linux::fs::MetadataExt;

use onnxd_config::settings::{Level, Log, LogFormat};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Registry};
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt;

/// Changes the level while the daemon runs.
pub(crate) struct Handle(reload::Handle<LevelFilter, Registry>);

impl Handle {
    pub(crate) fn set_level(&self, level: Level) {
        if let Err(e) = self.0.reload(filter(level)) {
            tracing::warn!(reason = %e, "the log level was not changed");
        }
    }
}

#[cfg(test)]
impl Handle {
    /// Of a log that nobody reads.
    pub(crate) fn quiet() -> Handle {
        Handle(reload::Layer::new(LevelFilter::ERROR).1)
    }
}

/// Starts the log. To be called once per process.
pub(crate) fn init(log: &Log) -> Handle {
    let (level, handle) = reload::Layer::new(filter(log.level));
    let terminal = std::io::stderr().is_terminal();
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(terminal);
    let lines = match log.format {
        LogFormat::Json => lines.json().flatten_event(true).with_target(false).boxed(),
        LogFormat::Auto if is_journal() => lines.event_format(Journal).boxed(),
        LogFormat::Auto | LogFormat::Text => lines.with_target(false).boxed(),
    };
    // A second start in one process happens in tests only; the first log stays.
    let _ = tracing_subscriber::registry().with(level).with(lines).try_init();
    Handle(handle)
}

fn filter(level: Level) -> LevelFilter {
    match level {
        Level::Error => LevelFilter::ERROR,
        Level::Warn => LevelFilter::WARN,
        Level::Info => LevelFilter::INFO,
        Level::Debug => LevelFilter::DEBUG,
        Level::Trace => LevelFilter::TRACE,
    }
}

/// Whether standard error is the stream that systemd connected to its journal.
fn is_journal() -> bool {
    let stream = std::env::var("JOURNAL_STREAM").unwrap_or_default();
    std::fs::metadata("/dev/fd/2")
        .is_ok_and(|found| stream == format!("{}:{}", found.st_dev(), found.st_ino()))
}

/// The journal has its own time and takes the level from a prefix.
struct Journal;

impl<S, N> FormatEvent<S, N> for Journal
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let priority = match *event.metadata().level() {
            tracing::Level::ERROR => 3,
            tracing::Level::WARN => 4,
            tracing::Level::INFO => 6,
            _ => 7,
        };
        write!(writer, "<{priority}>")?;
        context.format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}
