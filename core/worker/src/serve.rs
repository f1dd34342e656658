//! The worker process: takes one request, confines itself, answers, ends.

use crate::confine;
use crate::described::Described;
use crate::link::Link;
use crate::params;
use crate::recognition::{Question, leave_out};
use crate::stages::{self, Events};
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics};
use onnxd_plugin_host::call;
use onnxd_plugin_host::{JobContext, Library, Submission, TensorTable, inspect};
use onnxd_proto::onnxd as message;
use onnxd_proto::onnxd::worker_event::What as Event;
use onnxd_proto::onnxd::{ProbeCandidate, ProbeRequest, WorkerEvent, request::What};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

/// Serves the request that comes over the link which the parent passed; `fd` and `mode` are the arguments of the hidden
/// subcommand. The exit status is 0 if an answer was sent, be it a failure.
pub fn worker_main(fd: &str, mode: &str) -> ExitCode {
    let Ok((link, request, _)) = confine::start(fd, mode) else {
        return ExitCode::from(Code::WorkerStart.class().exit_code());
    };
    let threads = request.limits.unwrap_or_default().threads.max(1);
    let link = Arc::new(Mutex::new(link));
    let answer = match request.what {
        Some(What::Inspect(request)) => Event::Inspected(inspected(&request.path)),
        Some(What::Probe(request)) => match probed(&request, &link) {
            Ok(done) => Event::Probed(done),
            Err(_) => return ExitCode::from(Code::WorkerNoResult.class().exit_code()),
        },
        Some(What::Convert(request)) => {
            Event::Converted(stages::convert(request, threads, events(&link)))
        }
        None => {
            let nothing = Diagnostic::new(Code::WorkerStart, "the request asks for nothing");
            Event::Failed(message::Diagnostics { items: vec![message::Diagnostic::from(&nothing)] })
        }
    };
    match send(&link, answer) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(Code::WorkerNoResult.class().exit_code()),
    }
}

fn send(link: &Mutex<Link>, what: Event) -> std::io::Result<()> {
    let mut link = link.lock().unwrap_or_else(PoisonError::into_inner);
    link.send(&WorkerEvent { what: Some(what) })
}

/// News go out as they happen; a parent that does not listen any more ends this process by itself.
fn events(link: &Arc<Mutex<Link>>) -> Events {
    let link = link.clone();
    Arc::new(move |event: WorkerEvent| {
        if let Some(what) = event.what {
            let _ = send(&link, what);
        }
    })
}

fn inspected(path: &str) -> message::InspectResult {
    match inspect(Path::new(path)) {
        Ok(plugin) => message::InspectResult { plugin: Some(plugin), refused: None },
        Err(why) => {
            message::InspectResult { plugin: None, refused: Some(message::Diagnostic::from(&why)) }
        }
    }
}

/// Asks about one candidate after the other. Each answer goes out as soon as it is there, so that a later candidate
/// cannot take it away.
fn probed(
    request: &ProbeRequest,
    link: &Arc<Mutex<Link>>,
) -> std::io::Result<message::ProbeResult> {
    // A plugin's entry is called once per process.
    let mut libraries: Libraries = BTreeMap::new();
    let described = Described::from_plugins(&request.plugins);
    for (number, candidate) in (0u32..).zip(&request.candidates) {
        send(link, Event::Probing(message::ProbeStarted { candidate: number }))?;
        let answers = answers((request, candidate), &described, &mut libraries, link);
        send(link, Event::Answers(message::ProbeAnswers { candidate: number, answers }))?;
    }
    Ok(message::ProbeResult {})
}

type Libraries = BTreeMap<String, Result<Library, Diagnostic>>;

fn answers(
    (request, candidate): (&ProbeRequest, &ProbeCandidate),
    described: &Described,
    libraries: &mut Libraries,
    link: &Arc<Mutex<Link>>,
) -> Vec<message::ProbeAnswer> {
    let read = params::read(&candidate.params_json);
    let params = read.clone().unwrap_or_default();
    let file = |at: &u32| request.files.get(usize::try_from(*at).ok()?).cloned();
    let files: Vec<message::InputFile> = candidate.files.iter().filter_map(file).collect();
    let mut plugins = Cow::Borrowed(&request.plugins);
    for name in &candidate.unasked {
        leave_out(plugins.to_mut(), &name.plugin, &name.component);
    }
    let network = &candidate.network;
    let about = Submission { files: &files, network, params: &params, lowered: &[] };
    Question { plugins: &plugins, about }.ask(described, |plugin, component| {
        let started = message::StageStarted {
            stage: confine::parent::PROBE.into(),
            plugin: plugin.id.clone(),
            component: component.id.clone(),
        };
        let _ = send(link, Event::Stage(started));
        let library = libraries
            .entry(plugin.id.clone())
            .or_insert_with(|| Library::open_inspected(plugin))
            .as_ref();
        let library = library.map_err(|refused| Diagnostics::from(refused.clone()))?;
        read.as_ref().map_err(|why| Diagnostics::from(why.clone()))?;
        let cancel = Arc::new(AtomicBool::new(false));
        let mut context = JobContext::new(about, TensorTable::new(), 1, cancel, |_| {});
        call::probe(library, &component.id, &mut context).map_err(stages::findings)
    })
}
