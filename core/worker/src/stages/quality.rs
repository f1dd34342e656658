//! The verdict on a quantization: whether its outputs are good for something, whether much of the network was
//! quantized, and whether the samples could tell. Quantizers measure; what that means is decided here, for all alike.
//! The worst output decides: others that are exact make up for nothing.

use super::quantizer;
use super::runtime_notes::{meant_for, saturating};
use super::session::Session;
use onnxd_diagnostics::{Code, Diagnostic, Severity, shown};
use onnxd_params::host::{self, SQNR_DB_GOOD};
use onnxd_proto::onnxd::{Quality, Quantization, QuantizeLog};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Share of the weights that must be integers unless params choose nodes.
const WEIGHTS_MIN: f64 = 0.5;

/// An output below it on random numbers has nothing to do with what it was.
const RANDOM_DB_MIN: f64 = 0.0;

/// Larger standard errors of a ratio, in dB, are told where the outputs may not be good.
const ERROR_DB_MAX: f64 = 2.0;

/// Differences of ratios below this are not told.
const SAME_DB: f64 = 0.05;

/// Adds what params demand to what was measured, and what is wrong to the findings. `apart` is what the host measured
/// instead, on random numbers: the worst output, and its ratio in dB.
pub(super) fn judge(
    session: &mut Session,
    log: &QuantizeLog,
    report: &Quantization,
    apart: Option<(String, f64)>,
) -> Quality {
    let params: host::Quantization = session.section();
    let mut quality = Quality {
        sqnr_db_floor: params.sqnr_db_floor(),
        sqnr_db_min: params.sqnr_db_min(),
        top1_loss_max: params.top1_loss_max(),
        meant_for: session.model().map(meant_for).unwrap_or_default(),
        ..report.quality.clone().unwrap_or_default()
    };
    let chosen = ["op_types", "include", "exclude"].iter().any(|key| {
        // Looked at past the record: that they choose is the quantizer's to say.
        session
            .params
            .peek(&format!("quantization.{key}"))
            .as_array()
            .is_some_and(|list| !list.is_empty())
    });
    let findings = samples(&quality).into_iter().chain(coverage(&quality, report, chosen));
    // Of statistics from a file it is not known whether the samples made them.
    let (advice, reloaded) = (help(session, report), !report.statistics.is_empty());
    let findings =
        findings.chain(outputs(&quality, &advice)).chain(own_samples(&quality, reloaded));
    let findings = findings.chain(saturation(session, log));
    for finding in &findings.collect::<Vec<Diagnostic>>() {
        session.note(finding, Severity::Error);
    }
    if quality.sqnr_db.is_some() && quality.worst_db < SQNR_DB_GOOD {
        quality.next = remedies(&quality, &advice);
    } else if let Some(next) = differing_samples(&quality) {
        quality.next = next;
    }
    if quality.sqnr_db.is_none() {
        let why = match quality.unmeasured.as_str() {
            "" => "the quantizer does not measure it",
            why => why,
        };
        let known = apart.is_some();
        let mut text = format!(
            "how near the outputs are to those of the float network was not measured: {}",
            shown(why)
        );
        if let Some((worst, db)) = apart {
            // Random numbers tell whether a graph is wrong, and little of what it is worth on data.
            text += &match db < f64::INFINITY {
                true => format!("; on random numbers output `{}` has {db:.1} dB", shown(&worst)),
                false => "; on random numbers they are the same".to_owned(),
            };
            if db < RANDOM_DB_MIN {
                let text = format!(
                    "on random numbers output `{}` has {db:.1} dB against the float network",
                    shown(&worst)
                );
                session.note(
                    &poor(text, "Report it to the author of the quantizer."),
                    Severity::Error,
                );
            }
        }
        let help = "Drop samples as `calib.npz`, or compare by `onnxd compare`.";
        // A result that was never compared is not known to be right.
        let (code, severity) = match known {
            true => (Code::QuantizationLoss, Severity::Warning),
            false => (Code::QuantizationPoor, Severity::Error),
        };
        session.note(&Diagnostic::new(code, text).help(help), severity);
    }
    quality
}

/// What helps where outputs are usable and not good: samples first, then what was tried, by its price.
fn remedies(quality: &Quality, advice: &str) -> String {
    let worst = format!("output `{}` has {:.1} dB", shown(&quality.worst), quality.worst_db);
    if quality.remedies.is_empty() {
        return format!("{worst}, which is usable and not good. {advice}");
    }
    let tried = quality.remedies.iter().map(|way| {
        let bytes = match way.bytes {
            0 => String::new(),
            more if more > 0 => format!(" and {more} bytes"),
            less => format!(" and takes {} bytes less", -less),
        };
        format!("`{}` gains {:.1} dB{bytes}", shown(&way.params), way.gain_db)
    });
    let tried: Vec<String> = tried.collect();
    format!("{worst}, which is usable and not good. More samples may help; {}.", tried.join("; "))
}

/// What was measured does not hold on processors without VNNI, unless params name the type of weights. A quantizer that
/// looks at the processor has made its choice: the receipt names the processors, behind the model.
fn saturation(session: &Session, log: &QuantizeLog) -> Option<Diagnostic> {
    let param = |key: &str| session.params.peek(&format!("quantization.{key}"));
    let mut read = log.params_read.iter().flat_map(|read| &read.keys);
    let chosen = read.any(|key| key == "quantization.processor");
    if chosen || param("weight_type").is_string() || param("reduce_range").is_boolean() {
        return None;
    }
    let nodes = saturating(session.model().ok()?)?;
    let text = format!(
        "the outputs were not measured as ONNX Runtime computes them without VNNI: there the \
         accumulators of {nodes} saturate"
    );
    let help = "If the model is to run there, take the format QDQ or QLinear, `quantization.reduce_range` \
                = true, or the option `session.x64quantprecision` = 1 of ONNX Runtime. Else accept it by \
                `quantization.weight_type` = \"int8\".";
    Some(poor(text, help))
}

/// A good figure of few samples that differ much may be a usable one on others: with one more standard error taken off,
/// as the first one was from `worst_db`, it is.
fn differing_samples(quality: &Quality) -> Option<String> {
    let held_out = matches!(quality.origin.as_str(), "apart" | "folds");
    let good = quality.worst_db >= SQNR_DB_GOOD;
    let doubtful = good && quality.worst_db - quality.error_db < SQNR_DB_GOOD;
    let uncertain = doubtful && quality.error_db > ERROR_DB_MAX;
    (uncertain && held_out && quality.sqnr_db.is_some()).then(|| {
        format!(
            "Drop more samples: the {} that were compared differ much, and the standard error of output `{}`, \
             which its {:.1} dB count already, is {:.1} dB.",
            quality.samples,
            shown(&quality.worst),
            quality.worst_db,
            quality.error_db
        )
    })
}

/// A figure that the result was fitted to is too high, by an amount that is not known.
fn own_samples(quality: &Quality, reloaded: bool) -> Option<Diagnostic> {
    let own = quality.sqnr_db.is_some() && quality.origin == "calibration" && !reloaded;
    own.then(|| {
        let text = format!(
            "the quantization was graded on its own samples: the ratio of {:.1} dB may be lower on others",
            quality.worst_db
        );
        poor(text, "Drop more samples: some are then held out.")
    })
}

fn poor(text: String, help: impl Into<Cow<'static, str>>) -> Diagnostic {
    Diagnostic::new(Code::QuantizationPoor, text).help(help)
}

/// Samples that say nothing of the values that a network has on data.
fn samples(quality: &Quality) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    if quality.not_finite > 0 {
        let text = format!(
            "{} calibration samples hold numbers that are not finite, which no range holds; the first \
             is {}",
            quality.not_finite,
            shown(&quality.not_finite_at)
        );
        found.push(poor(text, "Look for wrong samples: NaN or infinities in the arrays."));
    } else if quality.constant {
        let text =
            "all calibration samples hold one and the same number, which says nothing of data";
        found.push(poor(text.to_owned(), "Drop samples of the data that the network will see."));
    }
    found
}

/// Nothing or little that became integers, unless params have `chosen` what is to.
fn coverage(quality: &Quality, report: &Quantization, chosen: bool) -> Option<Diagnostic> {
    let products = quality.products?;
    let help = "See the report for what stays in floating point and why, and take another \
                `quantization.mode` or `format`.";
    if quality.quantized == 0 && report.layers.is_empty() {
        let why = most_frequent(report).unwrap_or_else(|| {
            match products {
                0 => "the model has no operator with constant weights in floating point",
                _ => "the mode has no form for its operators with weights",
            }
            .to_owned()
        });
        let text = format!("nothing was quantized: {why}");
        return Some(poor(text, help));
    }
    let little = products > 0 && quality.weights < WEIGHTS_MIN && !chosen;
    little.then(|| {
        let why = most_frequent(report).map(|why| format!(": {why}")).unwrap_or_default();
        let text = format!(
            "little was quantized: {} of {products} operators with weights, {:.1} % of the weights{why}",
            quality.quantized,
            quality.weights * 100.0
        );
        poor(text, help)
    })
}

/// The reason why most nodes stay in floating point.
fn most_frequent(report: &Quantization) -> Option<String> {
    let mut counts = BTreeMap::<&str, usize>::new();
    for left in &report.left_in_float {
        *counts.entry(&left.reason).or_default() += 1;
    }
    let (reason, count) = counts.into_iter().max_by_key(|(_, count)| *count)?;
    Some(format!("{} ({count} nodes)", shown(reason)))
}

/// What may make outputs better: what the quantizer says, else what the params of all quantizers have.
fn help(session: &Session, report: &Quantization) -> String {
    let mode = session.params.peek("quantization.mode").as_str().unwrap_or_default();
    let measured = report.layers.iter().filter_map(|l| Some((l.sqnr_db?, l.name.as_str())));
    let worst = measured.min_by(|a, b| a.0.total_cmp(&b.0));
    let worst = worst.map(|(db, name)| format!("; the worst one is `{}`, {db:.1} dB", shown(name)));
    let advice = quantizer::described(session).map(|quantizer| quantizer.advice.as_str());
    let ways = match (advice.filter(|advice| !advice.is_empty()), mode) {
        (Some(advice), _) => advice,
        (None, "weight_only") => {
            "Leave the worst layers in floating point (`quantization.exclude`), take smaller blocks \
             (`block_size`), weights of 8 bits, those of the costly operators alone (`accuracy = \"auto\"`), or \
             samples that help to round them"
        }
        (None, _) => {
            "Leave the worst layers in floating point (`quantization.exclude`, `sqnr_db_min`), take \
             more samples, or `accuracy = \"auto\"`"
        }
    };
    format!("Look at the layers' ratios in the report{}. {ways}.", worst.unwrap_or_default())
}

/// Outputs that keep less than the params demand.
fn outputs(quality: &Quality, help: &str) -> Vec<Diagnostic> {
    let mut findings = Vec::new();
    let on = match quality.origin.as_str() {
        "apart" => "held-out samples",
        "folds" => "samples, each held out in turn",
        "random" => "samples of random numbers",
        "prompts" => "prompts and continuations of random tokens",
        _ => "of the samples that it was made of",
    };
    let on = format!("on {} {on}", quality.samples);
    let (worst, db, floor) = (shown(&quality.worst), quality.worst_db, quality.sqnr_db_floor);
    let text = match (quality.sqnr_db_min, quality.nearest_db) {
        _ if quality.sqnr_db.is_none() => None,
        (Some(least), _) => (db < least - SAME_DB)
            .then(|| format!("output `{worst}` reaches {db:.1} dB of the {least:.1} demanded, {on}")),
        // Few bits cost much in any case: what counts is whether they were chosen well.
        (None, Some(nearest)) => (db < nearest - SAME_DB).then(|| {
            format!(
                "output `{worst}` has {db:.1} dB against the float network, {on}; weights that are \
                 rounded to the nearest have {nearest:.1} dB"
            )
        }),
        (None, None) => (db < floor - SAME_DB).then(|| {
            format!(
                "output `{worst}` has {db:.1} dB against the float network, {on}: below {floor:.1} it \
                 is good for little"
            )
        }),
    };
    findings.extend(text.map(|text| poor(text, help.to_owned())));
    if let (Some(loss), Some(most)) = (quality.top1_loss, quality.top1_loss_max)
        && loss > most
    {
        let text = format!("{loss:.2} % of the samples lose their class, of {most:.2} % that may");
        findings.push(poor(text, help.to_owned()));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_proto::onnxd::{Remedy, Skip};

    fn good() -> Quality {
        Quality {
            sqnr_db: Some(30.0),
            worst_db: 29.0,
            worst: "y".into(),
            samples: 4,
            origin: "apart".into(),
            products: Some(4),
            quantized: 4,
            weights: 1.0,
            sqnr_db_floor: 15.0,
            ..Quality::default()
        }
    }

    fn found(quality: &Quality, chosen: bool) -> String {
        let skip = Skip { at: "fc".into(), reason: "its weights are computed".into() };
        let report = Quantization { left_in_float: vec![skip], ..Quantization::default() };
        let all = samples(quality).into_iter().chain(coverage(quality, &report, chosen));
        all.chain(outputs(quality, "")).map(|d| d.into_finding().message + "; ").collect()
    }

    #[test]
    fn more_samples_are_asked_for_where_few_differ() {
        let of = |origin: &str, worst_db, error_db| {
            differing_samples(&Quality { origin: origin.into(), worst_db, error_db, ..good() })
        };
        let text = of("folds", 22.6, 3.0).unwrap();
        assert!(text.contains("standard error of output `y`, which its 22.6 dB count"), "{text}");
        assert!(text.ends_with("is 3.0 dB."), "{text}");
        assert_eq!(of("folds", 22.6, 1.9), None);
        assert_eq!(of("apart", 23.1, 3.0), None);
        assert_eq!(of("random", 22.6, 3.0), None);
        assert_eq!(of("folds", 19.9, 3.0), None, "it is told what helps in any case");
    }

    #[test]
    fn a_figure_of_its_own_samples_is_a_finding() {
        let own = Quality { origin: "calibration".into(), ..good() };
        let text = own_samples(&own, false).unwrap().into_finding().message;
        assert!(text.contains("graded on its own samples"), "{text}");
        assert!(own_samples(&own, true).is_none());
        assert!(own_samples(&good(), false).is_none());
        assert!(own_samples(&Quality { origin: "folds".into(), ..good() }, false).is_none());
    }

    #[test]
    fn usable_outputs_are_told_what_helps() {
        let remedy =
            |params: &str, gain_db, bytes| Remedy { params: params.into(), gain_db, bytes };
        let ways =
            vec![remedy("a = 1", 6.25, 0), remedy("b = 2", 3.0, -12), remedy("c = 3", 9.0, 40)];
        let text = remedies(&Quality { worst_db: 16.0, remedies: ways, ..good() }, "");
        assert!(
            text.ends_with(
                "`a = 1` gains 6.2 dB; `b = 2` gains 3.0 dB and takes 12 bytes less; `c = 3` gains \
                 9.0 dB and 40 bytes."
            ),
            "{text}"
        );
        assert!(remedies(&good(), "Look.").ends_with("not good. Look."));
    }

    #[test]
    fn what_is_poor_is_a_finding() {
        assert_eq!(found(&good(), false), "");
        let text = found(&Quality { worst_db: -1.4, ..good() }, false);
        assert!(text.contains("`y` has -1.4 dB") && text.contains("4 held-out samples"), "{text}");
        let text = found(&Quality { sqnr_db_min: Some(40.0), ..good() }, false);
        assert!(text.contains("`y` reaches 29.0 dB of the 40.0 demanded"), "{text}");
        // The mean of an output that is lost and one that is exact says nothing.
        let mean =
            Quality { sqnr_db: Some(150.0), worst_db: 0.0, sqnr_db_min: Some(20.0), ..good() };
        assert!(found(&mean, false).contains("0.0 dB of the 20.0"));
        // What is demanded may be below the floor.
        let low = Quality { sqnr_db: Some(7.0), worst_db: 6.0, sqnr_db_min: Some(5.5), ..good() };
        assert_eq!(found(&low, false), "");
        // Weights of few bits are compared with what is simplest.
        let few = Quality { worst_db: 8.0, nearest_db: Some(7.0), ..good() };
        assert_eq!(found(&few, false), "");
        let text = found(&Quality { nearest_db: Some(9.0), ..few }, false);
        assert!(text.contains("rounded to the nearest have 9.0 dB"), "{text}");
        let lost = Quality { top1_loss: Some(3.0), top1_loss_max: Some(1.0), ..good() };
        assert!(found(&lost, false).contains("3.00 % of the samples"));
        let text = found(&Quality { quantized: 0, weights: 0.0, ..good() }, true);
        assert!(text.contains("nothing was quantized") && text.contains("computed"), "{text}");
        let little = Quality { quantized: 1, weights: 0.125, ..good() };
        assert!(found(&little, false).contains("1 of 4 operators with weights, 12.5 %"));
        assert_eq!(found(&little, true), "");
        let text = found(
            &Quality {
                not_finite: 8,
                not_finite_at: "number 2 of `c.npz`".into(),
                constant: true,
                ..good()
            },
            false,
        );
        assert!(
            text.contains("8 calibration samples")
                && text.contains("number 2 of `c.npz`")
                && !text.contains("same number"),
            "{text}"
        );
        assert!(found(&Quality { constant: true, ..good() }, false).contains("same number"));
    }
}
