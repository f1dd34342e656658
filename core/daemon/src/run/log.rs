//! The log on standard error: text for people, JSON for programs, bare lines for the journal.

use std::fmt;
use std::io::{IsTerminal, Write};
use std::os::linux::fs::MetadataExt;

use onnxd_config::settings::{Log, LogFormat, LogLevel};
use onnxd_diagnostics::{escaped, escaped_json};
use tracing::field::Field;
use tracing::{Event, Subscriber};
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::{Writer, debug_fn};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Registry};
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt;

/// Changes the level while the daemon runs.
pub(crate) struct Handle(reload::Handle<LevelFilter, Registry>);

impl Handle {
    pub(crate) fn set_level(&self, level: LogLevel) {
        if let Err(e) = self.0.reload(filter(level)) {
            tracing::warn!(reason = %e, "the log level was not changed");
        }
    }
}

#[cfg(test)]
impl Handle {
    /// Of a log without reader.
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
        LogFormat::Json => {
            let lines = lines.with_writer(|| EscapedJson(std::io::stderr()));
            lines.json().flatten_event(true).with_target(false).boxed()
        }
        LogFormat::Auto if is_journal() => {
            lines.fmt_fields(debug_fn(field).delimited(" ")).event_format(Journal).boxed()
        }
        LogFormat::Auto | LogFormat::Text => {
            lines.fmt_fields(debug_fn(field).delimited(" ")).with_target(false).boxed()
        }
    };
    // A second start in one process happens in tests only; the first log stays.
    let _ = tracing_subscriber::registry().with(level).with(lines).try_init();
    Handle(handle)
}

/// One field of a line; names in it come from outside.
fn field(writer: &mut Writer<'_>, field: &Field, value: &dyn fmt::Debug) -> fmt::Result {
    let text = format!("{value:?}");
    match field.name() {
        "message" => write!(writer, "{}", escaped(&text)),
        name => write!(writer, "{name}={}", escaped(&text)),
    }
}

/// Escapes what JSON itself leaves as it is and a terminal would obey.
struct EscapedJson<W>(W);

impl<W: Write> Write for EscapedJson<W> {
    /// The log writes one whole event at a time.
    fn write(&mut self, event: &[u8]) -> std::io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        self.0.write_all(escaped_json(&text).as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
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
