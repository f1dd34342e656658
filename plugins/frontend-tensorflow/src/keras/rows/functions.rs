//! Functions that are said by the rows of other operators: those of TensorFlow in models of Keras 2, and those of
//! `keras.ops` that are an operator of TensorFlow.

use crate::keras::runner::{CallArgs, Called};
use crate::keras::values::KerasItem;
use onnxd_plugin_sdk::diagnostics::{Code, shown};
use onnxd_plugin_sdk::ir::DataType;
use onnxd_plugin_sdk::lower::{Lowered, Lowering, Value};

/// A class, and the row that says it: its arguments in order, or by name. An argument is one of the call, of the
/// configuration, or a number. Behind a semicolon are arguments that only may be what is written there.
const FUNCTIONS: &str = include_str!("functions.txt");

/// Rows that give integers another type or another number than TensorFlow does.
const FLOATS: [&str; 8] = [
    "ops.Mean", "ops.Sum", "ops.Prod", "ops.Var", "ops.Std", "ops.Divide", "ops.TrueDivide",
    "ops.RGBToGrayscale",
];

/// An argument of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Argument<'t> {
    /// Its name; those without are in order.
    name: Option<&'t str>,
    /// Arguments of the function that mean the same, or a number.
    source: &'t str,
    /// What it is where it is left out.
    default: Option<&'t str>,
}

/// What a line of the table says.
#[derive(Clone, Debug, PartialEq)]
struct FunctionLine<'t> {
    op: &'t str,
    arguments: Vec<Argument<'t>>,
    /// Arguments that no row takes, and the words which they may be.
    fixed: Vec<(&'t str, &'t str)>,
}

impl FunctionLine<'_> {
    /// The arguments of the function that the row takes.
    fn sources(&self) -> impl Iterator<Item = &str> {
        let sources = self.arguments.iter().map(|a| a.source);
        sources.filter(|source| literal(source).is_none())
    }

    /// Whether an argument has an effect that the row does not have.
    fn is_left(&self, name: &str, value: &Value) -> bool {
        let is_taken = self.sources().any(|source| source.split('|').any(|taken| taken == name));
        let words = self.fixed.iter().find(|(fixed, _)| *fixed == name).map_or("", |(_, w)| *w);
        !is_taken && !words.split('|').any(|word| is_same(&constant(word), value))
    }
}

fn parsed(line: &'static str) -> Option<(&'static str, FunctionLine<'static>)> {
    let (class, call) = line.split_once(" = ")?;
    let (op, list) = call.strip_suffix(')')?.split_once('(')?;
    let (list, fixed) = list.split_once(';').unwrap_or((list, ""));
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
    let fixed = fixed.split(',').filter_map(|text| text.trim().split_once(':')).collect();
    Some((class.trim(), FunctionLine { op: op.trim(), arguments, fixed }))
}

/// The row of a class.
fn found(class: &str) -> Option<FunctionLine<'static>> {
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
        _ => {
            let float = || text.parse().ok().filter(|x: &f64| x.is_finite()).map(Value::Float);
            text.parse().ok().map(Value::Int).or_else(float)
        }
    }
}

/// A number, truth value or word of the table.
fn constant(text: &str) -> Value {
    literal(text).unwrap_or_else(|| text.into())
}

fn is_same(x: &Value, y: &Value) -> bool {
    match (x, y) {
        (Value::Int(x), Value::Float(y)) => *x as f64 == *y,
        _ => x == y,
    }
}

/// What a function is called with.
struct Said<'c> {
    function: &'c FunctionLine<'static>,
    given: &'c CallArgs,
    config: Vec<(String, Value)>,
}

impl Said<'_> {
    /// An argument of the function; `None` where it is left out.
    fn found(&self, at: usize, name: &str) -> Option<Value> {
        let config = || self.config.iter().find(|(key, _)| key == name);
        let given = self.given.get(at, name).map(KerasItem::value);
        given.or_else(|| config().map(|(_, value)| value.clone())).filter(|v| *v != Value::None)
    }

    /// An argument of the row. Python's `None` is the default.
    fn value(&self, a: &Argument<'_>) -> Value {
        if let Some(value) = literal(a.source) {
            return value;
        }
        let default = a.default.map_or(Value::None, constant);
        let at = self.function.sources().position(|source| source == a.source);
        let found =
            a.source.split('|').filter_map(|name| self.found(at.unwrap_or(usize::MAX), name));
        found.into_iter().find(|value| !is_same(&default, value)).unwrap_or(default)
    }

    /// Arguments whose effect would be lost.
    fn left(&self) -> Vec<String> {
        let given = self.given.named.iter().map(|(name, item)| (name, item.value()));
        let config = self.config.iter().map(|(name, value)| (name, value.clone()));
        let named = given.chain(config).filter(|(name, value)| {
            let is_other = matches!(name.as_str(), "name" | "function") || *value == Value::None;
            !is_other && self.function.is_left(name, value)
        });
        let more = self.function.sources().count()..self.given.positional.len();
        let named = named.map(|(name, _)| format!("`{}`", shown(name)));
        named.chain(more.map(|i| format!("argument {}", i + 1))).collect()
    }
}

/// Runs functions of the table.
///
/// # Errors
/// As `KerasRunner::call`.
pub(crate) fn said(
    called: &Called<'_, '_, '_>,
    given: &CallArgs,
) -> Lowered<Option<Vec<KerasItem>>> {
    let Called { runner, layer, .. } = *called;
    if !layer.class.contains('.') {
        return Ok(None);
    }
    let Some(function) = found(&layer.class) else { return Ok(None) };
    let said = Said { function: &function, given, config: runner.config(layer) };
    let refused = |message: String| {
        runner.driver.report(called.problem(Code::LayerUnsupported, message));
        Ok(Some(vec![KerasItem::Hole]))
    };
    let left = said.left();
    if !left.is_empty() {
        let message =
            format!("The function is not converted with this value of {}.", left.join(", "));
        return refused(message);
    }
    let (by_name, in_order): (Vec<_>, Vec<_>) =
        function.arguments.iter().partition(|a| a.name.is_some());
    let mut arguments: Vec<Value> = in_order.into_iter().map(|a| said.value(a)).collect();
    // What the end of the list leaves out has the row's own default.
    while arguments.last() == Some(&Value::None) {
        arguments.pop();
    }
    let named = by_name.into_iter().map(|a| (a.name.unwrap_or_default().to_owned(), said.value(a)));
    if layer.class.starts_with("tf.") && FLOATS.contains(&function.op) {
        let b = runner.builder();
        let is_float = |value: &Value| match value {
            Value::Var(v) => b.dtype_of(*v).is_some_and(DataType::is_float),
            _ => true,
        };
        if !arguments.iter().all(is_float) {
            return refused("The function is converted for floats alone.".to_owned());
        }
    }
    let results = runner.driver.lower(Lowering {
        op: function.op.to_owned(),
        layer: called.place(),
        arguments,
        named: named.filter(|(_, value)| *value != Value::None).collect(),
        results: vec![String::new()],
        ..Lowering::default()
    });
    Ok(Some(results.into_iter().map(KerasItem::from).collect()))
}

#[cfg(test)]
mod tests {
    use super::{FUNCTIONS, parsed};

    /// Classes of Keras 3 that are called by wrappers.
    const WRAPPED: [&str; 11] = [
        "LSTM", "GRU", "SimpleRNN", "RNN", "ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D",
        "Bidirectional", "TimeDistributed", "SpectralNormalization", "Pipeline",
    ];
    /// Parts of recurrent layers.
    const CELLS: [&str; 4] = ["LSTMCell", "GRUCell", "SimpleRNNCell", "StackedRNNCells"];

    #[test]
    fn every_layer_and_function_is_converted_or_refused_with_a_reason() {
        let rows = crate::keras::rows::table().operators();
        let refused = crate::keras::rows::REFUSED.lines().filter(|line| line.starts_with(' '));
        let refused: Vec<&str> = refused.flat_map(str::split_whitespace).collect();
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
