//! A quantizer at work: the call, and what goes into the report.

use crate::component::{Begun, Component, Instance, Make, made};
use crate::diagnostics::{Diagnostics, Severity};
use crate::host::JobHandle;
use crate::tensors::{HostTensors, hand_over};
use crate::{Attempt, QuantizeContext, QuantizedLayer, QuantizedTensor, Quantizer, Submission};
use onnxd_ir::Model;
use onnxd_plugin_abi as abi;
use onnxd_proto::onnxd as message;
use onnxd_quantize::report::{LeftInFloat, Origin, Remedy};
use prost::Message;

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
    hold(&mut model, submission.job());
    // Contradictions are the host's to report.
    let _ = onnxd_ir::infer::infer(&mut model);
    let mut cx = QuantizeContext::new(submission, &model)?;
    keep_freed_memory();
    quantizer.quantize(&mut model, &mut cx)?;
    give_back_freed_memory();
    let job = cx.submission().job();
    hand_over(&mut model, job)?;
    job.put_graph(&onnxd_onnx::encode_to_bytes(&model, &mut HostTensors(job))?)?;
    Ok(job.artifact(abi::ARTIFACT_QUANTIZE_LOG, &quantized(&cx).encode_to_vec())?)
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

fn quantized(cx: &QuantizeContext) -> message::QuantizeLog {
    let said = &cx.said;
    let tensor = |t: &QuantizedTensor| message::QuantizedTensor {
        name: t.name.clone(),
        r#type: t.element_type.clone(),
        scales: t.scales.clone(),
        zero_points: t.zero_points.clone(),
        min: t.range.map(|r| r.0),
        max: t.range.map(|r| r.1),
        method: t.method.clone(),
        seen_min: t.seen.map(|r| r.0),
        seen_max: t.seen.map(|r| r.1),
        clipped: t.clipped,
        counts: t.counts.as_ref().map(|c| message::Counts {
            low: c.low,
            high: c.high,
            counts: c.counts.clone(),
        }),
    };
    let layer = |l: &QuantizedLayer| message::QuantizedLayer {
        name: l.name.clone(),
        op: l.op.clone(),
        rescaling: l.rescaling.clone(),
        sqnr_db: l.sqnr_db,
        output: l.output.clone(),
        accumulator: l.accumulator.map(|a| message::Accumulator {
            max: a.max,
            bits: a.bits(),
            bits_held: a.bits_held,
        }),
    };
    let left =
        |left: &LeftInFloat| message::Skip { at: left.name.clone(), reason: left.reason.clone() };
    let attempt = |a: &Attempt| message::Attempt {
        what: a.what.clone(),
        sqnr_db: a.sqnr_db,
        chosen: a.chosen,
    };
    let notes = cx.calibration().notes().iter().chain(&said.notes);
    message::QuantizeLog {
        notes: notes.map(|d| message::Diagnostic::of(d, Severity::Warning)).collect(),
        metadata: said.metadata.iter().cloned().collect(),
        tensors: said.tensors.iter().map(tensor).collect(),
        layers: said.layers.iter().map(layer).collect(),
        left_in_float: said.left_in_float.iter().map(left).collect(),
        samples: cx.calibration().used(),
        compared: said.compared,
        statistics: said.statistics.clone(),
        random_samples: if cx.calibration().is_random() { cx.calibration().used() } else { 0 },
        tried: said.tried.iter().map(attempt).collect(),
        params_read: Some(cx.params_read()),
        quality: Some(quality(cx)),
    }
}

fn remedy(of: &Remedy) -> message::Remedy {
    message::Remedy { params: of.params.clone(), gain_db: of.gain_db, bytes: of.bytes }
}

/// What was measured of the whole network, and what is to be known of the samples.
fn quality(cx: &QuantizeContext) -> message::Quality {
    const DB_MAX: f64 = 300.0;
    let (said, samples) = (&cx.said, cx.calibration());
    let mut all = message::Quality {
        top1_loss: said.top1_loss,
        not_finite: samples.not_finite(),
        not_finite_at: samples.not_finite_at().unwrap_or_default(),
        constant: samples.is_constant(),
        remedies: said.remedies.iter().map(remedy).collect(),
        nearest_db: said.nearest_db,
        ..message::Quality::default()
    };
    match &said.quality {
        None => {}
        Some(Err(_)) if all.not_finite > 0 => {
            all.unmeasured = "samples hold numbers that are not finite".into();
        }
        Some(Err(why)) => all.unmeasured.clone_from(why),
        Some(Ok(found)) => {
            let dbs: Vec<f64> =
                found.outputs.iter().map(|(_, db)| db.clamp(-DB_MAX, DB_MAX)).collect();
            let outputs = found.outputs.iter().zip(&dbs);
            let worst = outputs.min_by(|a, b| a.1.total_cmp(b.1));
            if let Some(((name, _), db)) = worst {
                (all.worst, all.worst_db) = (name.clone(), *db);
                all.sqnr_db = Some(dbs.iter().sum::<f64>() / dbs.len() as f64);
            }
            all.error_db = found.error_db;
            (all.outputs, all.samples) = (dbs.len() as u64, found.samples);
            let random = samples.is_random() || found.origin == Origin::Random;
            all.origin = match found.origin {
                _ if random => "random",
                Origin::Apart => "apart",
                Origin::Folds => "folds",
                _ => "calibration",
            }
            .into();
        }
    }
    if let Some(coverage) = said.coverage {
        all.products = Some(coverage.weighted);
        (all.quantized, all.weights) = (coverage.quantized, coverage.weights);
    }
    all
}
