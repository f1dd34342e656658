//! Functions that are said by the rows of other operators: those of TensorFlow in models of Keras 2, and those of
//! `keras.ops` that are an operator of TensorFlow.

use crate::keras::Runner;
use crate::keras::run::{Called, Given};
use crate::keras::values::Item;
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, Layer as Place};
use onnxd_plugin_sdk::ir::DataType;
use onnxd_plugin_sdk::lower::{Lowered, Lowering, Value};

/// A class, and the row that says it: its arguments in order, or by name. An argument is one of the call, of the
/// configuration, or a number.
const FUNCTIONS: &str = include_str!("functions.txt");

/// Rows that give integers another type than TensorFlow does.
const FLOATS: [&str; 7] =
    ["ops.Mean", "ops.Sum", "ops.Prod", "ops.Var", "ops.Std", "ops.Divide", "ops.TrueDivide"];

/// An argument of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Argument<'t> {
    /// Its name; those without are in order.
    name: Option<&'t str>,
    /// An argument of the function, or a number.
    source: &'t str,
    /// What it is where it is left out.
    default: Option<&'t str>,
}

/// What a line of the table says.
#[derive(Clone, Debug, PartialEq)]
struct Function<'t> {
    op: &'t str,
    arguments: Vec<Argument<'t>>,
}

fn parsed(line: &'static str) -> Option<(&'static str, Function<'static>)> {
    let (class, call) = line.split_once(" = ")?;
    let (op, list) = call.strip_suffix(')')?.split_once('(')?;
    let argument = |text: &'static str| {
        let (name, source) = match text.split_once('=') {
            Some((name, source)) => (Some(name.trim()), source.trim()),
            None => (None, text.trim()),
        };
        let (source, default) = match source.split_once(':') {
            Some((source, default)) => (source, Some(default)),
            None => (source, None),
        };
        Argument { name, source, default }
    };
    let arguments = list.split(',').map(argument).collect();
    Some((class.trim(), Function { op: op.trim(), arguments }))
}

/// The row of a class.
fn found(class: &str) -> Option<Function<'static>> {
    let lines = FUNCTIONS.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(parsed)
        .find(|(name, _)| name.split('|').any(|name| name == class))
        .map(|(_, f)| f)
}

/// A number or truth value of the table.
fn literal(text: &str) -> Option<Value> {
    match text {
        "true" => Some(Value::Bool(true)),
        "false" => Some(Value::Bool(false)),
        "none" => Some(Value::None),
        _ => text.parse::<i64>().ok().map(Value::Int),
    }
}

/// Runs functions of the table.
///
/// # Errors
/// As `Runner::call`.
pub(crate) fn said(
    runner: &Runner<'_, '_>,
    called: &Called<'_>,
    given: &Given,
) -> Lowered<Option<Vec<Item>>> {
    let layer = called.layer;
    if !layer.class.contains('.') {
        return Ok(None);
    }
    let Some(function) = found(&layer.class) else { return Ok(None) };
    let config = runner.config(layer);
    let named =
        |name: &str| config.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
    let sources: Vec<&str> = function
        .arguments
        .iter()
        .map(|a| a.source)
        .filter(|source| literal(source).is_none())
        .collect();
    let value = |a: &Argument<'_>| {
        let at = sources.iter().position(|source| *source == a.source);
        match (literal(a.source), at) {
            (Some(value), _) => value,
            (None, at) => {
                let item = at.and_then(|at| given.get(at, a.source)).map(Item::value);
                let default = || a.default.and_then(literal).unwrap_or(Value::None);
                item.or_else(|| named(a.source)).unwrap_or_else(default)
            }
        }
    };
    let (by_name, in_order): (Vec<_>, Vec<_>) =
        function.arguments.iter().partition(|a| a.name.is_some());
    let mut arguments: Vec<Value> = in_order.iter().copied().map(&value).collect();
    // What the end of the list leaves out has the row's own default.
    while arguments.last() == Some(&Value::None) {
        arguments.pop();
    }
    let names = by_name.iter().map(|a| (a.name.unwrap_or_default().to_owned(), value(a)));
    let place = Place::new(called.path, layer.class.clone());
    if layer.class.starts_with("tf.") && FLOATS.contains(&function.op) {
        let b = runner.builder();
        let is_float = |value: &Value| match value {
            Value::Var(v) => b.dtype_of(*v).is_some_and(DataType::is_float),
            _ => true,
        };
        if !arguments.iter().all(is_float) {
            let message = "The function is converted for floats alone.";
            runner.driver.report(Diagnostic::new(Code::LayerUnsupported, message).at(place));
            return Ok(Some(vec![Item::Hole]));
        }
    }
    let results = runner.driver.lower(Lowering {
        op: function.op.to_owned(),
        layer: place,
        arguments,
        named: names.filter(|(_, value)| *value != Value::None).collect(),
        results: vec![String::new()],
        ..Lowering::default()
    });
    Ok(Some(results.into_iter().map(Item::from).collect()))
}

#[cfg(test)]
mod tests {
    use super::{FUNCTIONS, parsed};

    /// Classes of Keras 3 that are called by wrappers.
    const WRAPPED: [&str; 11] = [
        "LSTM",
        "GRU",
        "SimpleRNN",
        "RNN",
        "ConvLSTM1D",
        "ConvLSTM2D",
        "ConvLSTM3D",
        "Bidirectional",
        "TimeDistributed",
        "SpectralNormalization",
        "Pipeline",
    ];
    /// Parts of recurrent layers.
    const CELLS: [&str; 4] = ["LSTMCell", "GRUCell", "SimpleRNNCell", "StackedRNNCells"];

    #[test]
    fn every_layer_and_function_is_converted_or_refused_with_a_reason() {
        use crate::keras::rows::{ops::fourier, preprocessing};
        let rows = crate::keras::rows::table().operators();
        let refused: Vec<&str> = fourier::REFUSED
            .iter()
            .chain(&preprocessing::REFUSED)
            .flat_map(|(names, _)| names.iter().copied())
            .collect();
        for name in include_str!("names.txt").lines() {
            let converted = rows.contains(&name) || super::found(name).is_some();
            let called = WRAPPED.contains(&name) || CELLS.contains(&name);
            assert!(converted || called || refused.contains(&name), "{name}");
            assert!(!(converted && refused.contains(&name)), "{name} has a row and is refused");
        }
    }

    #[test]
    fn every_line_is_a_function_of_a_row() {
        let rows = crate::keras::rows::table().operators();
        for line in FUNCTIONS.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
            let (_, function) = parsed(line).unwrap_or_else(|| panic!("{line}"));
            assert!(rows.contains(&function.op), "{line}");
        }
    }
}
