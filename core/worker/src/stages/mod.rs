//! One conversion inside the worker: import, optimize, quantize, export, check. Data flows one way; each stage takes
//! the graph as ONNX bytes whose weights are handles into one table, and leaves its part in the report. Of a network
//! that makes several models, each goes through all stages behind the import.

mod available;
mod check;
mod compared;
mod components;
mod export;
mod import;
mod listing;
mod looked;
mod lowered;
mod models;
mod opset;
mod optimize;
mod outputs;
mod plugin_log;
mod quality;
mod quantize;
mod quantizer;
mod runtime_notes;
mod session;
mod sources;
mod states;
mod unused_inputs;

use crate::params;
use onnxd_diagnostics::Diagnostics;
use onnxd_proto::onnxd::{ConvertRequest, ConvertResult, WorkerEvent};
pub(crate) use session::{Session, findings};
use std::sync::Arc;

/// Hears of every event of a conversion; may be called from any thread.
pub(crate) type Events = std::sync::Arc<dyn Fn(WorkerEvent) + Send + Sync>;

/// Runs one conversion. The result's report has the verdict; a failed conversion also gives a report, as far as it got.
pub(crate) fn convert(request: ConvertRequest, threads: u32, events: Events) -> ConvertResult {
    let (params, read) = match params::read(&request.params_json) {
        Ok(params) => (params, Ok(())),
        Err(why) => (Arc::default(), Err(why.into())),
    };
    let mut session = Session::new(request, params, threads, events);
    let outcome = read.and_then(|()| run(&mut session)).and(sources::take(&mut session));
    session.conclude(outcome)
}

fn run(session: &mut Session) -> Result<(), Diagnostics> {
    available::check(session)?;
    session.stage("import", import::import)?;
    loop {
        session.stage("optimize", optimize::optimize)?;
        session.stage("quantize", quantize::quantize)?;
        session.stage("export", export::export)?;
        session.stage("check", check::check)?;
        if !session.goes_on() {
            break;
        }
    }
    session.models.about("");
    unused_inputs::tell(session);
    Ok(())
}
