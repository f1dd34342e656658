//! A quantizer at work: the call, and what goes into the report.

use crate::component::{Begun, Component, Instance, Make, made};
use crate::diagnostics::{Diagnostics, Severity};
use crate::host::JobHandle;
use crate::tensors::{HostTensors, hand_over};
use crate::{Calibration, Origin, Quality, QuantizeContext, Quantizer, Submission};
use onnxd_ir::Model;
use onnxd_plugin_abi as abi;
use onnxd_proto::onnxd::{self as message, Quantization, QuantizeLog};
use prost::Message;
use std::sync::PoisonError;

impl Component {
    /// The quantizer that `make` makes; for [`crate::export_plugin!`].
    pub fn quantizer(id: &'static str, make: fn() -> Box<dyn Quantizer>) -> Component {
        Component { id, make: Make::Quantizer(make), begin }
    }
}

fn begin(components: &[Component], id: &str, _: &[u8]) -> Begun {
    let quantizer = made(components, id, "quantizer", |make| match make {
        Make::Quantizer(make) => Some(make()),
        _ => None,
    })?;
    Ok(Box::new(Quantizes(quantizer)))
}

struct Quantizes(Box<dyn Quantizer>);

impl Instance for Quantizes {
    fn run(&mut self, job: JobHandle) -> Result<(), Diagnostics> {
        quantize(self.0.as_mut(), job)
    }
}

pub(crate) fn quantize(quantizer: &mut dyn Quantizer, job: JobHandle) -> Result<(), Diagnostics> {
    let submission = Submission::of(job)?;
    let graph = submission.job().graph()?;
    let mut model = onnxd_onnx::decode(graph, &mut HostTensors(submission.job()))?.model;
    // Contradictions are the host's to report.
    let _ = onnxd_ir::infer::infer(&mut model);
    let mut cx = QuantizeContext::new(submission, &model)?;
    // Weights alone are read once and in parts, unless samples tell what they are worth.
    let is_weight_only = cx.params().peek("quantization.mode") == "weight_only";
    if !is_weight_only || !cx.calibration().is_empty() {
        hold(&mut model, cx.submission().job());
    }
    keep_freed_memory();
    quantizer.quantize(&mut model, &mut cx)?;
    if let Some(found) = cx.no_room.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
        return Err(found.into());
    }
    give_back_freed_memory();
    let job = cx.submission().job();
    hand_over(&mut model, job)?;
    job.put_graph(&onnxd_onnx::encode_to_bytes(&model, &mut HostTensors(job))?)?;
    Ok(job.artifact(abi::ARTIFACT_QUANTIZE_LOG, &reported(&cx))?)
}

/// Computes derived constants, for who reads them many times. Those that stay are derived for the host all the same.
fn hold(model: &mut Model, job: &JobHandle) {
    model.for_each_graph_mut(&mut |graph, _| {
        for v in graph.value_ids().collect::<Vec<_>>() {
            let derived = graph[v].initializer().filter(|tensor| tensor.derivation().is_some());
            let Some(derived) = derived.cloned() else { continue };
            let held = derived.held();
            if let Some(id) = job.noted(&derived) {
                job.note(&held, id);
            }
            graph.set_initializer(v, Some(held));
        }
    });
}

/// Lets the allocator keep what is freed, up to some: running a model on samples frees and takes
/// tensors all the time, and new pages from the kernel took an eighth of a transformer's time.
fn keep_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: `mallopt` takes numbers alone, and changes only when the allocator asks the system for memory and gives
    // it back.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 32 << 20);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 32 << 20);
    }
}

/// Running a model on samples leaves freed memory behind, beside which the result is copied.
fn give_back_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: `malloc_trim` gives back pages in which the allocator has nothing allocated.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// What goes into the report, as one message with the fields of two.
fn reported(cx: &QuantizeContext) -> Vec<u8> {
    let (said, samples) = (&cx.said, cx.calibration());
    let notes = samples.notes().iter().chain(&said.notes);
    let log = QuantizeLog {
        notes: notes.map(|d| message::Diagnostic::of(d, Severity::Warning)).collect(),
        metadata: said.metadata.iter().cloned().collect(),
        params_read: Some(cx.params_read()),
    };
    let shown = Quantization {
        samples: samples.used(),
        random_samples: if samples.is_random() { samples.used() } else { 0 },
        quality: Some(quality(said.quality.clone(), samples)),
        ..said.shown()
    };
    [log.encode_to_vec(), shown.encode_to_vec()].concat()
}

/// What was measured of the whole network, with what is to be known of the samples.
fn quality(measured: Quality, samples: &Calibration) -> Quality {
    let mut quality = Quality {
        not_finite: samples.not_finite(),
        not_finite_at: samples.not_finite_at().unwrap_or_default(),
        constant: samples.is_constant(),
        ..measured
    };
    if quality.sqnr_db.is_some() && samples.is_random() {
        quality.origin = Origin::Random.word().to_owned();
    } else if !quality.unmeasured.is_empty() && quality.not_finite > 0 {
        quality.unmeasured = "samples hold numbers that are not finite".into();
    }
    quality
}
