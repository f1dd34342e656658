//! Reads the written model again, verifies it, and compares it with reference outputs where they were dropped.

use super::export::own_fault;
use super::session::Session;
use super::{components, states};
use crate::integers;
use onnxd_arrays::{self as arrays, Arrays};
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics, Severity, shown};
use onnxd_eval::compare::{Comparison, compare as difference, passed_over, within};
use onnxd_eval::{Executor, RunOptions};
use onnxd_ir::{Model, Tensor, examine};
use onnxd_params::host::Check;
use onnxd_proto::onnxd as message;
use std::path::PathBuf;

/// Inputs that the report names.
const SHOWN_MAX: usize = 8;

pub(crate) fn check(session: &mut Session) -> Result<(), Diagnostics> {
    let path = session.out_dir().join(session.models.file());
    let own_faults = |found: Diagnostics| Diagnostics(found.0.into_iter().map(own_fault).collect());
    let mut model = onnxd_onnx::load(&path).map_err(own_faults)?.model;
    own_faults(examine(&mut model.clone(), components::level(session))).or_ok(())?;
    states::restore(session, &mut model);
    compare(session, &model)
}

/// Runs the model on the reference inputs. What cannot be run is a note, what differs is a finding.
fn compare(session: &mut Session, model: &Model) -> Result<(), Diagnostics> {
    let params: Check = session.section();
    let (inputs, outputs) = (params.inputs(), params.outputs());
    let usual = ["inputs.npz", "outputs.npz"].map(|usual| session.models.beside(usual));
    let inputs = reference(session, ("inputs", inputs), &usual[0])?;
    let outputs = reference(session, ("outputs", outputs), &usual[1])?;
    let (Some(inputs), Some(outputs)) = (inputs, outputs) else { return Ok(()) };
    let (mut inputs, wanted) = (arrays::read(&inputs)?, arrays::read(&outputs)?);
    let made = integers::inputs(model, &mut inputs);
    let got = match run(model, &inputs) {
        Ok(got) => got,
        Err(found) => {
            for diagnostic in &found.0 {
                session.note(diagnostic, Severity::Warning);
            }
            return Ok(());
        }
    };
    let (atol, rtol) = (params.tolerance_abs(), params.tolerance_rel());
    let sqnr_db_min = params.sqnr_db_min();
    let mut numerics = message::Numerics {
        engine: "builtin".into(),
        tolerance_abs: atol,
        tolerance_rel: rtol,
        ..message::Numerics::default()
    };
    let names: Vec<&str> = got.iter().map(|(name, _)| name.as_str()).collect();
    for ((name, got), wanted) in got.iter().zip(arrays::belonging(&wanted, &names)) {
        let is_state = session.states.iter().any(|state| state.output == *name);
        let Some(wanted) = wanted else {
            if is_state {
                continue;
            }
            let text = format!("output `{name}` has no reference and was not compared");
            let help = "Name an array of the reference after it.";
            session.note(&Diagnostic::new(Code::EvalInputs, text).help(help), Severity::Warning);
            continue;
        };
        let numbers = integers::output(model, name, got, wanted);
        let said = numbers.as_ref().map(|(_, text)| text.clone());
        let got = numbers.as_ref().map_or(got, |(numbers, _)| numbers);
        for text in said.into_iter().chain(passed_over(got, wanted)) {
            session.note(&remark(&format!("output `{name}`: {text}")), Severity::Note);
        }
        match difference(got, wanted).and_then(|d| Ok((d, within(got, wanted, atol, rtol)?))) {
            Ok((d, near)) => {
                let within = near && sqnr_db_min.is_none_or(|min| d.sqnr_db >= min);
                numerics.outputs.push(row(name, &d, within));
                if !within {
                    session.note(&mismatch(name, &d), Severity::Error);
                }
            }
            Err(why) => {
                let text = format!("output `{name}`: {why}");
                session.note(&Diagnostic::new(Code::NumericsMismatch, text), Severity::Error);
            }
        }
    }
    numerics.inputs = in_words(&inputs);
    let text = compared_on(&numerics.inputs, numerics.outputs.len(), &made);
    session.note(&remark(&text), Severity::Note);
    session.report.numerics = Some(numerics);
    Ok(())
}

/// Nothing to be done about.
fn remark(text: &str) -> Diagnostic {
    Diagnostic::new(Code::EvalInputs, text).help("")
}

/// Names and shapes of the first of them.
fn in_words(inputs: &Arrays) -> String {
    let shapes = inputs.iter().map(|(name, x)| format!("`{}` {:?}", shown(name), x.dims()));
    let shapes: Vec<String> = shapes.take(SHOWN_MAX).collect();
    shapes.join(", ")
}

/// On what the outputs were compared.
fn compared_on(inputs: &str, outputs: usize, made: &[String]) -> String {
    let noun = if outputs == 1 { "output was" } else { "outputs were" };
    let text = format!("{outputs} {noun} compared with the reference on its inputs {inputs}");
    match made {
        [] => text,
        made => format!("{text}; of {} integers were made by the declared step", made.join(", ")),
    }
}

fn run(model: &Model, inputs: &Arrays) -> Result<Vec<(String, Tensor)>, Diagnostics> {
    let executor = Executor::new(model)?;
    executor.run(&arrays::feeds(model, inputs), RunOptions::default())
}

fn row(name: &str, d: &Comparison, within: bool) -> message::OutputNumerics {
    message::OutputNumerics {
        output: name.into(),
        max_abs: d.max_abs,
        mean_abs: d.mean_abs,
        cosine: d.cosine,
        sqnr_db: d.sqnr_db,
        within,
    }
}

fn mismatch(name: &str, d: &Comparison) -> Diagnostic {
    let text = format!(
        "output `{name}` differs from the reference by up to {:.3e} (SQNR {:.1} dB)",
        d.max_abs, d.sqnr_db
    );
    Diagnostic::new(Code::NumericsMismatch, text)
}

/// The file that the params name, or that was dropped under its usual name.
fn reference(
    session: &Session,
    (key, named): (&str, Option<String>),
    usual: &str,
) -> Result<Option<PathBuf>, Diagnostic> {
    let folder = session.request.network.rsplit_once('/').map_or("", |(folder, _)| folder);
    let beside = |name: &str| match folder {
        "" => name.to_owned(),
        folder => format!("{folder}/{name}"),
    };
    let find = |name: &str| session.request.files.iter().find(|f| f.name == name);
    match named {
        Some(name) => match find(&name).or_else(|| find(&beside(&name))) {
            Some(file) => Ok(Some(PathBuf::from(&file.path))),
            None => {
                let text = format!("check.{key} names `{name}`, which was not dropped");
                Err(Diagnostic::new(Code::FileMissing, text))
            }
        },
        None => Ok(find(&beside(usual)).map(|f| PathBuf::from(&f.path))),
    }
}
