//! Every kernel against a slow reference on random shapes, attributes, element types and versions.
//! A reference is written from the standard's definition, element by element, and shares nothing
//! with the kernels.
//!
//! To cover an operator: one function that makes a random case with its expected outputs, and one
//! row in the family's `properties!`.

#![allow(unreachable_pub, clippy::needless_range_loop)]

/// The rows of a family: the function that makes cases, and the operators it makes them for. Gives
/// the list of all and a test for each function.
macro_rules! properties {
    ($($property:ident: $($op:literal),+;)*) => {
        pub const COVERED: &[&str] = &[$($($op),+),*];

        mod agrees {
            $(#[test]
            fn $property() {
                crate::agree(super::$property, &[$($op),+]);
            })*
        }
    };
}

mod case;
mod detection;
mod dice;
mod nd;

mod activation;
mod attention;
mod cast;
mod control;
mod conv;
mod index;
mod linear;
mod logic;
mod loss;
mod math;
mod ml;
mod norm;
mod pool;
mod quant;
mod recurrent;
mod reduce;
mod resize;
mod shape;
mod signal;
mod slice;
mod tree;

use case::Case;
use dice::Dice;
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};

/// Cases of each operator, unless `PROPTEST_CASES` says otherwise.
const CASES: u32 = 64;

/// Makes a case of an operator; `None` where the choices make no sense together.
type Property = fn(&str, &mut Dice) -> Option<Case>;

/// Demands of many cases of every operator that kernel and reference agree. The cases are the same
/// every time; `PROPTEST_RNG_SEED` gives others.
fn agree(property: Property, ops: &[&'static str]) {
    let default = ProptestConfig::default();
    let given = std::env::var_os("PROPTEST_CASES").is_some();
    let cases = if given { default.cases } else { CASES };
    let rng_seed = match default.rng_seed {
        RngSeed::Random => RngSeed::Fixed(1),
        seed @ RngSeed::Fixed(_) => seed,
    };
    let config = ProptestConfig {
        cases,
        rng_seed,
        failure_persistence: None,
        max_shrink_iters: 3000,
        max_global_rejects: 100 * cases,
        ..default
    };
    for op in ops {
        let choices = (prop::collection::vec(any::<u16>(), 60), any::<u32>());
        let cases = choices.prop_filter_map("no case", |(choices, seed)| {
            property(op, &mut Dice::new(choices, seed))
        });
        let outcome = TestRunner::new(config.clone()).run(&cases, |case| {
            assert_eq!(case.op, *op, "the property makes cases of another operator");
            case.check().map_err(TestCaseError::fail)
        });
        outcome.unwrap_or_else(|e| panic!("{e}"));
    }
}

/// The families.
const FAMILIES: &[&[&str]] = &[
    activation::COVERED,
    attention::COVERED,
    cast::COVERED,
    control::COVERED,
    conv::COVERED,
    detection::COVERED,
    index::COVERED,
    linear::COVERED,
    logic::COVERED,
    loss::COVERED,
    math::COVERED,
    ml::COVERED,
    norm::COVERED,
    pool::COVERED,
    quant::COVERED,
    recurrent::COVERED,
    reduce::COVERED,
    resize::COVERED,
    shape::COVERED,
    signal::COVERED,
    slice::COVERED,
    tree::COVERED,
];

/// Operators without a property, and why.
const WITHOUT: &[(&str, &[&str])] = &[
    (
        "on sequences and optionals, which cases do not have; tested in `sequence`",
        &[
            "ConcatFromSequence", "Optional", "OptionalGetElement", "OptionalHasElement",
            "SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert",
            "SequenceLength", "SequenceMap", "SplitToSequence",
        ],
    ),
    (
        "on text, without arithmetic; tested in `text`",
        &["RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit"],
    ),
    (
        "on maps, which cases do not have; tested in `ml`",
        &["ai.onnx.ml.CastMap", "ai.onnx.ml.DictVectorizer", "ai.onnx.ml.ZipMap"],
    ),
    ("not of the standard, although in its domain", &["SimplifiedLayerNormalization"]),
    ("decodes files of pictures; tested in `image`", &["ImageDecoder"]),
    (
        "draw random numbers; moments tested in `random`",
        &[
            "Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
            "RandomUniformLike",
        ],
    ),
    ("counts of n-grams; tested in `text`", &["TfIdfVectorizer"]),
];

#[test]
fn every_kernel_has_a_property_or_a_reason() {
    let covered: Vec<&str> = FAMILIES.concat();
    let without: Vec<&str> = WITHOUT.iter().flat_map(|(_, ops)| *ops).copied().collect();
    let own = onnxd_eval::operators("").map(str::to_owned);
    let ml = onnxd_eval::operators("ai.onnx.ml").map(|op| format!("ai.onnx.ml.{op}"));
    let kernels: Vec<String> = own.chain(ml).collect();
    let kernels: Vec<&str> = kernels.iter().map(String::as_str).collect();
    let is_new = |op: &&&str| !covered.contains(*op) && !without.contains(*op);
    let new: Vec<&&str> = kernels.iter().filter(is_new).collect();
    assert!(new.is_empty(), "no property compares {new:?} with a reference");
    let is_stale = |op: &&&str| covered.contains(*op) || !kernels.contains(*op);
    let stale: Vec<&&str> = without.iter().filter(is_stale).collect();
    assert!(stale.is_empty(), "{stale:?} need no reason");
}
