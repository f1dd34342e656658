use super::*;
use crate::tflite::operators;

/// The runner lowers these itself.
const RUNNER: [&str; 12] = [
    "CALL",
    "QUANTIZE",
    "DEQUANTIZE",
    "CALL_ONCE",
    "VAR_HANDLE",
    "READ_VARIABLE",
    "ASSIGN_VARIABLE",
    "IF",
    "WHILE",
    "STABLEHLO_WHILE",
    "STABLEHLO_CASE",
    "STABLEHLO_COMPOSITE",
];

#[test]
fn every_operator_is_one_of_tensorflow_or_has_a_row_or_is_refused() {
    let own = rows(Table::new()).operators();
    for operator in operators::all() {
        let name = operator.name;
        let ways = [
            operator.same_as.is_some(),
            own.contains(&name),
            operator.refused.is_some(),
            RUNNER.contains(&name),
        ];
        assert_eq!(ways.iter().filter(|way| **way).count(), 1, "{name}");
    }
    for code in 0..=209 {
        assert!(code == operators::CUSTOM || operators::find(code, "").is_some(), "{code}");
    }
}
