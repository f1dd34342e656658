//! What decoding a message really takes never exceeds what was computed before, for messages of every type.

use bytes::Bytes;
use onnxd_proto::footprint::{ALL, DECODED_BYTES_MAX, FieldKind, Measured, Refused, Shape};
use onnxd_proto::footprint::{decode_within, footprint};
use onnxd_proto::onnxd::*;
use proptest::prelude::*;
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};

mod counting;

/// Bytes of a random message.
const ROOM: usize = 1 << 13;

/// What is known of one message type.
struct Type {
    shape: Shape,
    /// What decoding takes, whether it succeeds or not, and whether it does.
    decode: fn(Bytes) -> (usize, bool),
    footprint: fn(&[u8], usize) -> Result<usize, Refused>,
}

fn decode<M: Measured>(bytes: Bytes) -> (usize, bool) {
    counting::peak(|| M::decode(bytes).is_ok())
}

macro_rules! types {
    ($($name:ident)*) => {
        [$(Type {
            shape: $name::SHAPE,
            decode: decode::<$name>,
            footprint: footprint::<$name>,
        }),*]
    };
}

fn types() -> Vec<Type> {
    let types = types!(
        Diagnostic Diagnostics FileDigest Declined Recognition Param Component ValueSummary OpCount
        ModelSummary State Stage Skip Pass PassComparison ModelReport QuantizedTensor Counts Attempt QuantizedLayer
        Accumulator Quality Remedy Quantization OutputNumerics Numerics PluginLine Versions Report
        SubmissionFile Submission Need Probe ParamsRead IdleParam PassLog QuantizeLog ImportLog NamedGraph
        PluginComponent PluginInfo Limits InputFile FrontendName ProbeCandidate ProbeRequest
        ProbeStarted ProbeAnswer ProbeAnswers ProbeResult
        InspectRequest InspectResult ConvertRequest Request StageStarted Progress LogLine
        ConvertResult WorkerEvent JobEvent Recognized Kept Job
    );
    types.into()
}

#[test]
fn every_type_is_measured_here() {
    let mut here: Vec<&str> = types().iter().map(|of| of.shape.name).collect();
    let mut all: Vec<&str> = ALL.iter().map(|shape| shape.name).collect();
    here.sort_unstable();
    all.sort_unstable();
    assert_eq!(here, all);
}

/// Numbers that look random, the same for one seed on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ (mixed >> 29)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    /// Mostly small, sometimes large, often around a power of two, where vectors grow.
    fn count(&mut self) -> u64 {
        match self.below(4) {
            0 => self.below(3),
            1 => (1 << self.below(11)) + self.below(3),
            2 => self.below(20),
            _ => self.below(200),
        }
    }
}

/// A message of this shape as a stranger may send it, of about so many bytes at most.
fn hostile(shape: &Shape, random: &mut Random, room: usize) -> Vec<u8> {
    let mut out = Vec::new();
    for _ in 0..random.below(6) {
        let (number, kind) = match shape.fields {
            [] => (1, FieldKind::Number),
            fields => fields[random.below(fields.len() as u64) as usize],
        };
        let number = if random.below(20) == 0 { 1000 } else { number };
        // All are alike, or each is new.
        let is_alike = random.below(2) == 0;
        let mut one = field(number, kind, random, room / 4);
        for _ in 0..random.count() {
            if out.len() + one.len() > room {
                break;
            }
            out.extend_from_slice(&one);
            if !is_alike {
                one = field(number, kind, random, room / 16);
            }
        }
    }
    out
}

fn field(number: u32, kind: FieldKind, random: &mut Random, room: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let wire = match (kind, random.below(100)) {
        (_, 0) => WireType::ThirtyTwoBit,
        (_, 1) => WireType::SixtyFourBit,
        (_, 2) => WireType::StartGroup,
        (FieldKind::Number, _) | (FieldKind::Numbers { encoded: None, .. }, 3..20) => {
            WireType::Varint
        }
        (FieldKind::Numbers { encoded: Some(8), .. }, 3..20) => WireType::SixtyFourBit,
        _ => WireType::LengthDelimited,
    };
    encode_key(number, wire, &mut out);
    match wire {
        WireType::Varint => encode_varint(random.next() >> random.below(64), &mut out),
        WireType::ThirtyTwoBit => out.extend_from_slice(&[7; 4]),
        WireType::SixtyFourBit => out.extend_from_slice(&[7; 8]),
        WireType::StartGroup | WireType::EndGroup => {}
        WireType::LengthDelimited => {
            let content = match kind {
                _ if random.below(3) == 0 => Vec::new(),
                FieldKind::Message(of) | FieldKind::Messages(of) | FieldKind::Map(of) => {
                    hostile(of, random, room)
                }
                // Texts, numbers in a row, and bytes that are neither.
                _ => vec![b'a' + random.below(3) as u8; (8 * random.count() as usize).min(room)],
            };
            // Sometimes it claims to be longer than it is.
            let longer = if random.below(500) == 0 { random.next() >> random.below(64) } else { 0 };
            encode_varint((content.len() as u64).saturating_add(longer), &mut out);
            out.extend_from_slice(&content);
        }
    }
    out
}

fn holds(of: &Type, bytes: Vec<u8>) -> Result<bool, TestCaseError> {
    let bytes = Bytes::from(bytes);
    let computed = (of.footprint)(&bytes, usize::MAX);
    match computed {
        Ok(bound) => {
            let encoded = bytes.clone();
            let (taken, _) = (of.decode)(encoded);
            prop_assert!(taken <= bound, "{}: takes {taken}, bound {bound}", of.shape.name);
            if let Some(less) = taken.checked_sub(1) {
                let refused = (of.footprint)(&bytes, less);
                prop_assert_eq!(refused, Err(Refused::TooLarge(less)));
            }
            Ok(true)
        }
        Err(Refused::TooLarge(_)) => Err(TestCaseError::fail("no message takes all memory")),
        Err(Refused::Malformed(_)) => Ok(false),
    }
}

proptest! {
    #[test]
    fn decoding_takes_at_most_the_footprint(seed: u64) {
        let mut random = Random(seed);
        for of in types() {
            for _ in 0..4 {
                holds(&of, hostile(&of.shape, &mut random, ROOM))?;
            }
        }
    }

    #[test]
    fn any_bytes_are_refused_or_bounded(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        for of in types() {
            holds(&of, bytes.clone())?;
        }
    }
}

#[test]
fn random_messages_are_mostly_followed() {
    let mut random = Random(1);
    let (mut sound, mut all) = (0, 0);
    for of in types() {
        for _ in 0..20 {
            sound += usize::from(holds(&of, hostile(&of.shape, &mut random, ROOM)).unwrap());
            all += 1;
        }
    }
    assert!(sound * 2 > all, "{sound} of {all}: the property would see little");
}

/// 3 MiB of empty elements of this list.
fn bomb(number: u32) -> Vec<u8> {
    let mut element = Vec::new();
    encode_key(number, WireType::LengthDelimited, &mut element);
    element.push(0);
    element.repeat((3 << 20) / element.len())
}

fn within(parts: &[u32], content: Vec<u8>) -> Vec<u8> {
    parts.iter().rev().fold(content, |content, number| {
        let mut out = Vec::new();
        encode_key(*number, WireType::LengthDelimited, &mut out);
        encode_varint(content.len() as u64, &mut out);
        out.extend_from_slice(&content);
        out
    })
}

#[test]
fn empty_elements_are_refused_before_they_take_memory() {
    // `ConvertResult.report.quantization.tensors`, and failures.
    for (parts, number) in [(&[6, 1, 19][..], 5), (&[6, 1][..], 16), (&[7][..], 1)] {
        let bytes = Bytes::from(within(parts, bomb(number)));
        let encoded = bytes.clone();
        let (unbounded, _) = decode::<WorkerEvent>(encoded);
        assert!(unbounded > DECODED_BYTES_MAX, "{parts:?}: only {unbounded} bytes");
        let (taken, refused) =
            counting::peak(|| decode_within::<WorkerEvent>(bytes, DECODED_BYTES_MAX).is_err());
        assert!(refused);
        assert!(taken < 1024, "{parts:?}: {taken} bytes to refuse it, {unbounded} to decode it");
    }
}

#[test]
fn large_reports_are_far_from_the_bound() {
    let tensor = |n: usize| QuantizedTensor {
        name: format!("model.layers.{n}.mlp.down_proj.weight"),
        element_type: "int8".into(),
        scales: vec![0.25; 256],
        method: "mse".into(),
        ..QuantizedTensor::default()
    };
    let skip =
        |n: usize| Skip { at: format!("node_{n}"), reason: "its input is used twice".into() };
    let pass = |n: usize| Pass {
        name: format!("pass-{n}"),
        skipped: (0..1000).map(skip).collect(),
        ..Pass::default()
    };
    let report = Report {
        quantization: Some(Quantization {
            tensors: (0..2000).map(tensor).collect(),
            ..Quantization::default()
        }),
        passes: (0..40).map(pass).collect(),
        ..Report::default()
    };
    let bytes = report.encode_to_vec();
    let bound = footprint::<Report>(&bytes, DECODED_BYTES_MAX).unwrap();
    assert!(bound < DECODED_BYTES_MAX / 2, "{} bytes encoded: {bound}", bytes.len());
}
