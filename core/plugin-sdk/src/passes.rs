//! Passes at work: those that a conversion asks for, in its order.

use crate::Params;
use crate::component::{Begun, Component, Instance, Make, made};
use crate::contract::contract;
use crate::diagnostics::{Diagnostics, Severity};
use crate::host::JobHandle;
use crate::rewrite::{Fuel, Pass, PassReport, Skip, run_passes};
use crate::tensors::{HostTensors, hand_over};
use onnxd_plugin_abi as abi;
use onnxd_proto::onnxd as message;
use prost::Message;
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::Instant;

impl Component {
    /// The pass that `make` makes of the params; for [`crate::export_plugin!`].
    pub fn pass(id: &'static str, make: fn(&Params) -> Box<dyn Pass>) -> Component {
        Component { id, make: Make::Pass(make), begin }
    }
}

fn begin(components: &[Component], _: &str, asked: &[u8]) -> Begun {
    let mut given: Value =
        serde_json::from_slice(asked).map_err(|e| contract(format!("params: {e}")))?;
    let params = Params::of(given["params"].take());
    let listed = given["passes"].as_array().ok_or_else(|| contract("no list of passes"))?;
    let rewrites_max = given["rewrites_max"].as_u64().unwrap_or(0);
    let passes = listed.iter().map(|entry| {
        let wanted = entry["id"].as_str().unwrap_or_default();
        made(components, wanted, "pass", |make| match make {
            Make::Pass(make) => Some(make(&params)),
            _ => None,
        })
    });
    Ok(Box::new(Passes { passes: passes.collect::<Result<_, _>>()?, rewrites_max, params }))
}

struct Passes {
    passes: Vec<Box<dyn Pass>>,
    rewrites_max: u64,
    params: Params,
}

impl Instance for Passes {
    fn run(&mut self, job: JobHandle) -> Result<(), Diagnostics> {
        rewrite(&self.passes, self.rewrites_max, &self.params, &job)
    }
}

pub(crate) fn rewrite(
    passes: &[Box<dyn Pass>],
    rewrites_max: u64,
    params: &Params,
    job: &JobHandle,
) -> Result<(), Diagnostics> {
    let mut model = onnxd_onnx::decode(job.graph()?, &mut HostTensors(job))?.model;
    let passes: Vec<&dyn Pass> = passes.iter().map(AsRef::as_ref).collect();
    let mut log = message::PassLog::default();
    let mut started = Instant::now();
    let works_on = |at: usize| job.progress(0, 0, passes.get(at).map_or("", |pass| pass.name()));
    works_on(0)?;
    run_passes(&mut model, &passes, Fuel::limited(rewrites_max), &mut |report, _| {
        log.passes.push(reported(report, started.elapsed().as_secs_f64()));
        log.notes
            .extend(report.warnings.iter().map(|d| message::Diagnostic::of(d, Severity::Warning)));
        started = Instant::now();
        works_on(log.passes.len())
    })?;
    if log.passes.iter().any(|p| p.rewrites > 0) {
        hand_over(&mut model, job)?;
        job.put_graph(&onnxd_onnx::encode_to_bytes(&model, &mut HostTensors(job))?)?;
    }
    log.params_read = Some(params.read(&BTreeSet::new()));
    Ok(job.artifact(abi::ARTIFACT_PASS_LOG, &log.encode_to_vec())?)
}

fn reported(report: &PassReport, seconds: f64) -> message::Pass {
    let skip =
        |(at, reason): &(String, Skip)| message::Skip { at: at.clone(), reason: reason.0.clone() };
    message::Pass {
        name: report.name.clone(),
        rewrites: report.rewrites,
        seconds,
        skipped: report.skipped.iter().map(skip).collect(),
        notes: report.notes.clone(),
    }
}
