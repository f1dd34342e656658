//! The spelling of N2D2: options of its command line and its two export parameters.

use onnxd_diagnostics::{nearest, shown};

use crate::source::Reader;
use crate::table::{DEFAULT, Given};

/// What an option of N2D2 means here.
#[derive(Clone, Copy)]
enum Meaning {
    /// The value belongs to this key.
    Key(&'static str),
    /// A switch: nothing, 0 or 1.
    Flag(&'static str),
    /// Bit width, or the float type if negative.
    NbBits,
    /// Weights folder, or `/dev/null` for random weights.
    Weights,
    /// The export format; only ONNX is meant.
    Export,
    /// Accepted, with the reason why it changes nothing.
    NoEffect(&'static str),
    /// Refused, with the reason.
    Refused(&'static str),
}
use Meaning::{Export, Flag, Key, NbBits, NoEffect, Refused, Weights};

/// The key of the integers' width.
const WIDTH: &str = "quantization.n2d2.nbbits";

const TRAINING: &str = "onnxd converts trained networks and does not train";
const NO_LOG: &str = "onnxd's report is always complete";

const OPTIONS: &[(&str, Meaning)] = &[
    ("nbbits", NbBits),
    ("calib", Key("quantization.n2d2.calib")),
    ("calib-reload", Flag("quantization.n2d2.calib_reload")),
    ("wt-clipping-mode", Key("quantization.n2d2.wt_clipping_mode")),
    ("act-clipping-mode", Key("quantization.n2d2.act_clipping_mode")),
    ("act-rescaling-mode", Key("quantization.n2d2.act_rescaling_mode")),
    ("act-rescale-per-output", Flag("quantization.n2d2.act_rescale_per_output")),
    ("act-quantile-value", Key("quantization.n2d2.act_quantile_value")),
    ("stimuli-range", Key("quantization.n2d2.stimuli_range")),
    ("no-unsigned", Flag("quantization.n2d2.no_unsigned")),
    ("no-cle", Flag("quantization.n2d2.no_cle")),
    ("db-export", Key("quantization.n2d2.db_export")),
    ("test", Flag("quantization.n2d2.test")),
    ("qat-sat", Flag("quantization.n2d2.qat_sat")),
    ("wt-round-mode", Key("quantization.n2d2.wt_round_mode")),
    ("b-round-mode", Key("quantization.n2d2.b_round_mode")),
    ("c-round-mode", Key("quantization.n2d2.c_round_mode")),
    ("ImplicitCasting", Flag("quantization.n2d2.implicit_casting")),
    ("FakeQuantization", Flag("quantization.n2d2.fake_quantization")),
    ("w", Weights),
    ("l", Weights),
    ("w-ignore", Flag("source.weights_ignore")),
    ("seed", Key("source.seed")),
    ("fuse", NoEffect("the default passes fuse BatchNorm")),
    ("export", Export),
    ("export-parameters", Refused("copy the lines of that file into the params")),
    ("calibOnly", Refused("onnxd always writes the model; leave the option out")),
    ("learn", Refused(TRAINING)),
    ("learn-epoch", Refused(TRAINING)),
    ("learn-stdp", Refused(TRAINING)),
    ("finetune", Refused(TRAINING)),
    ("dev", NoEffect("onnxd computes on the processor")),
    ("log", NoEffect(NO_LOG)),
    ("log-epoch", NoEffect(NO_LOG)),
    ("log-kernels", NoEffect(NO_LOG)),
    ("log-outputs", NoEffect(NO_LOG)),
    ("report", NoEffect(NO_LOG)),
];

/// True for an option in N2D2's spelling, leading dashes tolerated.
pub(super) fn is_option(key: &str) -> bool {
    meaning(key).is_some()
}

/// The option nearest to a mistyped one.
pub(super) fn nearest_option(key: &str) -> Option<&'static str> {
    const KEY_BYTES_MAX: usize = 100;
    let name = bare(key);
    if name.len() > KEY_BYTES_MAX {
        return None;
    }
    nearest(name, OPTIONS.iter().map(|(option, _)| *option))
}

/// The name under which an option is the same however many dashes lead it.
pub(super) fn bare(key: &str) -> &str {
    key.trim_start_matches('-')
}

fn meaning(key: &str) -> Option<Meaning> {
    OPTIONS.iter().find(|(option, _)| *option == bare(key)).map(|(_, meaning)| *meaning)
}

/// The values an option stands for; `value` is `None` where only its name was written.
/// Options without effect are noted.
pub(super) fn read_option(
    reader: &mut Reader,
    place: &str,
    key: &str,
    value: Option<&str>,
) -> Vec<Given> {
    let option = bare(key);
    let Some(meaning) = meaning(key) else {
        reader.unknown_key(place, key);
        return Vec::new();
    };
    let text = value.unwrap_or_default();
    if text.is_empty() && matches!(meaning, Key(_) | NbBits | Weights | Export) {
        reader.bad_value(place, &format!("`{option}` needs a value, written `{option}=VALUE`"));
        return Vec::new();
    }
    match meaning {
        Key(target) => named(reader, place, option, target, text),
        Flag(target) => flag(reader, place, option, text)
            .and_then(|on| reader.text(place, target, if on { "true" } else { "false" }))
            .into_iter()
            .collect(),
        NbBits => nbbits(reader, place, text),
        Weights => weights(reader, place, option, text),
        Export if text == "ONNX" => Vec::new(),
        Export => {
            reader.bad_value(place, &format!("`export` must be ONNX, not {}", shown(text)));
            Vec::new()
        }
        NoEffect(why) => {
            reader.note(format!("{place}: `{option}` has no effect: {why}."));
            Vec::new()
        }
        Refused(why) => {
            reader.bad_value(place, &format!("`{option}` is not supported: {why}"));
            Vec::new()
        }
    }
}

/// Messages about the value name the option as the user wrote it.
fn named(reader: &mut Reader, place: &str, option: &str, target: &str, text: &str) -> Vec<Given> {
    let row = reader.row(target).expect("options point to rows; a test checks each");
    match row.kind.read(text) {
        Ok(value) => vec![Given { row, value, origin: place.to_owned(), implied: false }],
        Err(why) => {
            reader.bad_value(place, &format!("`{option}` {why}"));
            Vec::new()
        }
    }
}

fn flag(reader: &mut Reader, place: &str, option: &str, text: &str) -> Option<bool> {
    match text {
        "" | "1" => Some(true),
        "0" => Some(false),
        other => {
            let what = format!("`{option}` must be 0 or 1, not \"{}\"", shown(other));
            reader.bad_value(place, &what);
            None
        }
    }
}

/// A positive width asks for integers, a negative one for floating point.
fn nbbits(reader: &mut Reader, place: &str, text: &str) -> Vec<Given> {
    let (format, detail, value) = match text.parse::<i64>() {
        Ok(1..=16 | 32 | 64) => ("N2D2", WIDTH, text),
        Ok(-16) => ("none", "export.float_type", "float16"),
        Ok(-32) => ("none", "export.float_type", "float32"),
        Ok(-64) => ("none", "export.float_type", "float64"),
        _ => {
            let wanted = "one of 1 to 16, 32, 64 for integers, -16, -32, -64 for floating point";
            reader.bad_value(place, &format!("`nbbits` must be {wanted}, not {}", shown(text)));
            return Vec::new();
        }
    };
    let mut given: Vec<Given> = reader.text(place, detail, value).into_iter().collect();
    if format == "none" {
        // Takes the place of a width that was asked for before.
        let row = reader.row(WIDTH).expect("the width is a row; a test checks each");
        let value = row.default_value().unwrap_or_default();
        given.push(Given { row, value, origin: DEFAULT.to_owned(), implied: false });
    }
    if let Some(format) = reader.text(place, "quantization.format", format) {
        given.push(Given { implied: true, origin: format!("nbbits in {place}"), ..format });
    }
    given
}

fn weights(reader: &mut Reader, place: &str, option: &str, text: &str) -> Vec<Given> {
    if text == "/dev/null" {
        return reader.text(place, "source.random", "true").into_iter().collect();
    }
    named(reader, place, option, "source.weights", text)
}

#[cfg(test)]
mod tests {
    use super::super::rows::ROWS;
    use super::*;

    #[test]
    fn every_option_points_to_a_row() {
        for (option, meaning) in OPTIONS {
            if let Key(target) | Flag(target) = meaning {
                assert!(ROWS.iter().any(|r| r.key == *target), "{option}");
            }
        }
    }
}
