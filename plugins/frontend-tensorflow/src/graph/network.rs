//! A network that is a graph of TensorFlow: what goes in, what comes out, and the run between.

use super::resources::Variables;
use super::run::{Body, Item, Runner, Scope};
use crate::ops::{Source, complex, table};
use crate::wire::dtype;
use crate::wire::proto::GraphDef;
use onnxd_plugin_sdk::build::{Result, Var};
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, Diagnostics, shown};
use onnxd_plugin_sdk::ir::{Dim, Graph, Opsets, ValueId, ValueType};
use onnxd_plugin_sdk::lower::{self, Driver};
use onnxd_plugin_sdk::{ExportOptions, Imported};
use std::collections::HashMap;
use std::rc::Rc;

/// A tensor that goes in or comes out.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Port {
    /// What the model calls it.
    pub(crate) name: String,
    /// Where it is in the graph: `node` or `node:1`.
    pub(crate) place: String,
    /// As the source declares it.
    pub(crate) ty: ValueType,
}

pub(crate) struct Network<'a> {
    pub(crate) graph: &'a GraphDef,
    pub(crate) inputs: Vec<Port>,
    pub(crate) outputs: Vec<Port>,
    pub(crate) variables: Variables<'a>,
    /// Facts for the report.
    pub(crate) metadata: Vec<(String, String)>,
}

/// The type that TensorFlow's numbers say.
pub(crate) fn type_of(number: i32, shape: Option<Vec<Dim>>) -> ValueType {
    ValueType::Tensor { dtype: dtype::of(number), shape }
}

/// Runs a network.
///
/// # Errors
/// Everything that is wrong with it or cannot be said in ONNX.
pub(crate) fn import(
    network: Network<'_>,
    options: &ExportOptions,
) -> std::result::Result<Imported, Diagnostics> {
    let (table, source) = (table(), Source::default());
    let opsets = Opsets::from([(String::new(), options.opset)]);
    let fallback = options.fallback.clone();
    let driver = Driver::new(&table, &source, Graph::new("tensorflow"), opsets, fallback);
    let ran = run(&network, &driver, options);
    let (mut graph, notes) = match (driver.finish(), ran) {
        (Ok(finished), Ok(weights)) => {
            let (mut graph, notes) = finished;
            weights_last(&mut graph, weights);
            let constants = graph.value_ids().filter(|id| graph.constant(*id).is_some());
            let unread: Vec<ValueId> = constants.filter(|id| graph.uses(*id) == 0).collect();
            graph.drop_unread(unread);
            (graph, notes)
        }
        (finished, ran) => {
            let mut all = finished.err().unwrap_or_default();
            all.0.extend(ran.err());
            return Err(all);
        }
    };
    if options.documented {
        lower::documented(&mut graph);
    }
    let model = lower::model(graph, options.opset);
    Ok(Imported { model, notes, metadata: network.metadata })
}

/// Builds the graph; gives the weights that became inputs.
fn run(
    network: &Network<'_>,
    driver: &Driver<'_, Source>,
    options: &ExportOptions,
) -> Result<Vec<ValueId>> {
    let b = driver.builder();
    b.reserve(network.outputs.iter().map(|port| port.name.clone()));
    let functions = network.graph.library.iter().flat_map(|library| &library.function);
    let named = functions.filter_map(|f| Some((f.signature.as_ref()?.name.as_str(), f)));
    let weights = options.without_weights.then(Vec::new);
    let runner = Runner::new(driver, named.collect(), &network.variables, weights);
    let body = Rc::new(Body::new(&network.graph.node));
    let scope = Scope::new(body, HashMap::new(), String::new());
    for (at, port) in network.inputs.iter().enumerate() {
        feed(&runner, &scope, port, input_type(options, at, port)?)?;
    }
    for port in &network.outputs {
        let found = runner.value(&scope, &port.place)?;
        match found {
            Item::Tensor(var) => {
                let var = match complex::is(b, var) {
                    true => {
                        b.note(complex::as_pair("output", &port.name));
                        complex::pair(b, var)?
                    }
                    false => cast_to_declared(driver, var, &port.ty)?,
                };
                b.output(var, &port.name)?;
            }
            Item::Hole => {}
            Item::Resource(_) | Item::List(_) => {
                let name = shown(&port.name);
                let message = format!("The output `{name}` is a variable, table or list.");
                driver.report(Diagnostic::new(Code::LayerUnsupported, message));
            }
        }
    }
    runner.weights.take().unwrap_or_default().into_iter().map(|var| b.id(var)).collect()
}

/// The type of an input as the source declares it, and sizes as the params say them.
fn input_type(options: &ExportOptions, at: usize, port: &Port) -> Result<ValueType> {
    let ValueType::Tensor { dtype, shape } = &port.ty else { return Ok(port.ty.clone()) };
    let Some(dtype) = *dtype else {
        let name = shown(&port.name);
        let message = format!("The input `{name}` is of a type that ONNX does not have.");
        return Err(Diagnostic::new(Code::LayerUnsupported, message));
    };
    options.check_dtype(at, &port.name, dtype)?;
    Ok(match shape {
        Some(shape) => {
            let shape = options.sizes(at, &port.name, shape.clone())?;
            ValueType::Tensor { dtype: Some(dtype), shape: Some(shape) }
        }
        None => match options.input(at, &port.name, dtype) {
            ValueType::Tensor { shape, .. } => ValueType::Tensor { dtype: Some(dtype), shape },
            other => other,
        },
    })
}

/// Lets an input of the graph stand for a tensor.
fn feed<'a>(
    runner: &Runner<'a, '_>,
    scope: &Scope<'a>,
    port: &'a Port,
    ty: ValueType,
) -> Result<()> {
    if ty.shape().is_none() {
        let name = shown(&port.name);
        let message = format!("Nothing says how many axes the input `{name}` has.");
        let help = "Say its sizes with `export.input_shapes`.";
        return Err(Diagnostic::new(Code::LayerParameter, message).help(help));
    }
    let b = runner.driver.builder();
    let item = match complex::pair_of(&ty) {
        Some(pair) => {
            let pair = b.input(&port.name, pair);
            b.note(complex::as_pair("input", &port.name));
            Item::Tensor(complex::of_pair(b, pair)?)
        }
        None => Item::Tensor(b.input(&port.name, ty)),
    };
    runner.feed(scope, &port.place, item)
}

/// TensorFlow's outputs have the types that the signature says; nodes of ONNX may have given others.
fn cast_to_declared(driver: &Driver<'_, Source>, var: Var, ty: &ValueType) -> Result<Var> {
    let b = driver.builder();
    match (ty.dtype(), b.dtype_of(var)) {
        (Some(declared), Some(found)) if declared != found => b.cast(var, declared),
        _ => Ok(var),
    }
}

/// Weights that are inputs come after those of the network, as far as something reads them.
pub(crate) fn weights_last(graph: &mut Graph, weights: Vec<ValueId>) {
    weights.iter().for_each(|id| graph.unmark_input(*id));
    for id in weights {
        if graph.uses(id) > 0 {
            graph.mark_input(id);
        }
    }
}
