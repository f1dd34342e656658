//! The thread that takes a drop: it moves the files and reads them. And what a job is made of: at
//! first what intake has found, then what the files say.

use std::sync::Arc;

use crossbeam_channel::Sender;
use onnxd_config::settings::Take;
use onnxd_intake::names::NameRules;
use onnxd_intake::{MovePlan, Submission};
use onnxd_params::host;
use onnxd_proto::onnxd::{self as message, InputFile, Job, JobState, Recognized};
use prost::Message;

use super::prepare::prepare;
use crate::conversion::Plugins;
use crate::conversion::attempt::{listed, warnings};
use crate::run::crash;
use crate::run::event::{Event, Prepared};
use crate::run::layout::JobDir;

/// What the thread needs.
pub(crate) struct Taking {
    pub(crate) job: Job,
    pub(crate) plan: MovePlan,
    pub(crate) dir: JobDir,
    /// The files are in the inbox, or some of them; else they are only read.
    pub(crate) claim: bool,
    pub(crate) take: Take,
    pub(crate) names: NameRules,
    pub(crate) plugins: Arc<Plugins>,
    pub(crate) events: Sender<Event>,
}

impl Taking {
    /// What the thread does. Its last event is [`Event::Prepared`], unless nothing was moved.
    pub(crate) fn into_thread(self) -> impl FnOnce() + Send + 'static {
        let Taking { job, plan, dir, claim, take, names, plugins, events } = self;
        move || {
            // Without a receiver the daemon has ended; the next one goes on from the plan.
            if claim {
                let done = plan.execute(&names);
                crash::point("files moved");
                let moved = done.is_ok();
                let _ = events.send(Event::Claimed { job: job.id.clone(), done });
                if !moved {
                    return;
                }
            }
            let done = prepare(&job, &plan, &dir, take, &plugins).map(Box::new);
            crash::point("files read");
            let _ = events.send(Event::Prepared { job: job.id, done });
        }
    }
}

/// The job of a drop that was found.
pub(crate) fn new_job(id: &str, submission: &Submission, created_ms: u64) -> Job {
    let root = submission.set.root_dir();
    let file = |f: &onnxd_intake::DropFile| InputFile {
        path: root.join(&f.name).to_string_lossy().into_owned(),
        name: f.name.to_string_lossy().into_owned(),
        bytes: f.stamp.size,
        sha256: String::new(),
    };
    let name = submission.name.to_string_lossy().into_owned();
    let is_text = submission.name.to_str().is_some();
    let raw_source = if is_text { Vec::new() } else { submission.name.as_encoded_bytes().to_vec() };
    let mut job = Job {
        schema: onnxd_jobs::SCHEMA.into(),
        id: id.to_owned(),
        name,
        folder: submission.folder.to_string_lossy().into_owned(),
        inbox: submission.set.inbox.to_string_lossy().into_owned(),
        network: submission.network.to_string_lossy().into_owned(),
        files: submission.set.files.iter().map(file).collect(),
        created_ms,
        diagnostics: submission.problem.iter().map(message::Diagnostic::from).collect(),
        raw_source: raw_source.into(),
        recognized: recognized(&submission.answer),
        ..Job::default()
    };
    job.set_state(JobState::Claiming);
    job
}

/// What the prober gave to intake.
fn recognized(answer: &[u8]) -> Option<Recognized> {
    Recognized::decode(answer).ok().filter(|known| known.recognition.is_some())
}

/// The job with what its files say.
pub(crate) fn prepared_job(job: &Job, prepared: &Prepared) -> Job {
    let Prepared { files, identity, params } = prepared;
    let own: host::Job = params.resolved().section();
    Job {
        files: files.clone(),
        identity: identity.clone(),
        params_json: params.resolved().text().to_owned(),
        params: listed(params),
        notes: warnings(params.notes()),
        name: own.name().unwrap_or_else(|| job.name.clone()),
        priority: i32::try_from(own.priority()).unwrap_or_default(),
        ..job.clone()
    }
}
