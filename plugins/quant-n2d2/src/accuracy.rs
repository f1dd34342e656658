//! How often the float network and the one in integers name the right class.

use crate::measure::quantized;
use crate::plan::IntegerPlan;
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, Diagnostics, shown};
use onnxd_plugin_sdk::eval::{Executor, RunOptions};
use onnxd_plugin_sdk::ir::{Model, Tensor};
use onnxd_plugin_sdk::{Calibration, QuantizeContext};
use onnxd_quantize::accuracy::top1;

/// Of one output.
#[derive(Debug, Default)]
pub(crate) struct Score {
    output: String,
    data: String,
    /// Labels that were compared: of samples, or of all pixels of all samples.
    labels: u64,
    float: u64,
    integer: u64,
    same: u64,
}

impl Score {
    /// For the report; `several` outputs are told apart.
    pub(crate) fn facts(&self, several: bool) -> Vec<(String, String)> {
        let share = |n: u64| 100.0 * n as f64 / self.labels.max(1) as f64;
        let percent = |n: u64| format!("{:.2}%", share(n));
        let score = format!(
            "recognition rate: {} (error rate: {:.2}%)",
            percent(self.integer),
            100.0 - share(self.integer)
        );
        let key = |fact: &str| match several {
            true => format!("quantization.test.{}.{fact}", self.output),
            false => format!("quantization.test.{fact}"),
        };
        [
            ("data", self.data.clone()),
            ("samples", self.labels.to_string()),
            ("float_top1", percent(self.float)),
            ("integer_top1", percent(self.integer)),
            ("agreement", percent(self.same)),
            ("score", score),
        ]
        .map(|(fact, value)| (key(fact), value))
        .to_vec()
    }

    fn see(&mut self, labels: &[i64], float: &[usize], integer: &[usize]) {
        for ((label, float), integer) in labels.iter().zip(float).zip(integer) {
            // A negative label is unknown.
            let Ok(label) = usize::try_from(*label) else { continue };
            self.labels += 1;
            self.float += u64::from(*float == label);
            self.integer += u64::from(*integer == label);
            self.same += u64::from(float == integer);
        }
    }
}

/// Runs both networks on all samples.
pub(crate) fn measure(
    cx: &QuantizeContext,
    (data, name): (&Calibration, &str),
    (float, integer): (&Model, &Model),
    plan: &IntegerPlan,
) -> Result<Vec<Score>, Diagnostics> {
    let (floats, integers) = (Executor::new(float)?, Executor::new(integer)?);
    let mut scores: Vec<Score> = Vec::new();
    let mut done = 0u64;
    for batch in data.labelled(data.batch_size(), u64::MAX) {
        cx.count("accuracy, sample", done, data.samples())?;
        let batch = batch?;
        done += batch.samples as u64;
        let labels = batch.labels.as_ref().and_then(Tensor::to_reals).ok_or_else(|| {
            let text = format!("`test` takes labels, and {} has none", shown(name));
            let help = "Add an array `labels` with the class of each sample.";
            Diagnostic::new(Code::EvalInputs, text).help(help)
        })?;
        let labels: Vec<i64> = labels.values.iter().map(|x| *x as i64).collect();
        let quantized = quantized(&batch.feeds, integer, plan)?;
        let exact = floats.run(&batch.feeds, RunOptions::default())?;
        let rounded = integers.run(&quantized, RunOptions::default())?;
        for ((output, exact), (_, rounded)) in exact.iter().zip(&rounded) {
            let Some((exact, rounded)) = top1(exact, 1).zip(top1(rounded, 1)) else { continue };
            if exact.len() != labels.len() || rounded.len() != labels.len() {
                let text = format!(
                    "output `{}` names {} classes where there are {} labels",
                    shown(output),
                    exact.len(),
                    labels.len()
                );
                return Err(Diagnostic::new(Code::EvalInputs, text).into());
            }
            let at = scores.iter().position(|s| s.output == *output).unwrap_or_else(|| {
                let (output, data) = (output.clone(), name.to_owned());
                scores.push(Score { output, data, ..Score::default() });
                scores.len() - 1
            });
            scores[at].see(&labels, &exact, &rounded);
        }
    }
    if scores.iter().all(|s| s.labels == 0) {
        let text = format!("`test` found no labelled sample in {name}, or no output with classes");
        return Err(Diagnostic::new(Code::EvalInputs, text).into());
    }
    Ok(scores)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_the_labels_that_are_known() {
        let mut score = Score { data: "test.npz".into(), ..Score::default() };
        score.see(&[0, 1, -1, 2, 0], &[0, 1, 0, 2, 1], &[0, 0, 1, 2, 1]);
        let facts = score.facts(false);
        let of = |name: &str| facts.iter().find(|(k, _)| k.ends_with(name)).unwrap().1.as_str();
        assert_eq!(
            (of("samples"), of("float_top1"), of("integer_top1")),
            ("4", "75.00%", "50.00%")
        );
        assert_eq!(of("agreement"), "75.00%");
        assert_eq!(of("score"), "recognition rate: 50.00% (error rate: 50.00%)");
    }
}
