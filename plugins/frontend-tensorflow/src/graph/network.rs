//! A network that is a graph of TensorFlow: what goes in, what comes out, and the run between.

use super::body::GraphBody;
use super::effects;
use super::item::GraphItem;
use super::scope::{GraphRunner, Scope};
use super::sequence::Sequences;
use super::states::States;
use super::variables::Variables;
use crate::model::{self, NetworkFormat, Ran};
use crate::ops::{RowContext, complex, table};
use crate::states::{self, Asked};
use crate::wire::dtype::dtype_of_number;
use crate::wire::proto::GraphDef;
use onnxd_plugin_sdk::build::{GraphBuilder, Result, Var};
use onnxd_plugin_sdk::diagnostics::Diagnostics;
use onnxd_plugin_sdk::formulas::complex::pair_of;
use onnxd_plugin_sdk::ir::{Dim, ValueType};
use onnxd_plugin_sdk::lower::Driver;
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

pub(crate) struct GraphNetwork<'a> {
    pub(crate) graph: &'a GraphDef,
    pub(crate) inputs: Vec<Port>,
    pub(crate) outputs: Vec<Port>,
    pub(crate) variables: Variables<'a>,
    /// Facts for the report.
    pub(crate) metadata: Vec<(String, String)>,
}

/// The type that TensorFlow's numbers say.
pub(crate) fn type_of(number: i32, shape: Option<Vec<Dim>>) -> ValueType {
    ValueType::Tensor { dtype: dtype_of_number(number), shape }
}

const READER: NetworkFormat = NetworkFormat { name: "tensorflow", table };

/// Runs a network.
///
/// # Errors
/// Everything that is wrong with it or cannot be said in ONNX.
pub(crate) fn import(
    network: &GraphNetwork<'_>,
    options: &ExportOptions,
) -> std::result::Result<Imported, Diagnostics> {
    let mut sequences = Sequences::default();
    loop {
        let imported = model::import(&READER, options, |driver, asked| {
            let ran = run(network, driver, options, (&sequences, asked))?;
            Ok(Ran { metadata: network.metadata.clone(), ..ran })
        });
        if !sequences.take() {
            return imported;
        }
    }
}

/// Builds the graph.
fn run(
    network: &GraphNetwork<'_>,
    driver: &Driver<'_, RowContext>,
    options: &ExportOptions,
    (sequences, asked): (&Sequences, &Asked),
) -> Result<Ran> {
    let b = driver.builder();
    b.reserve(network.outputs.iter().map(|port| port.name.clone()));
    states::reserve(b, asked);
    let functions = network.graph.library.iter().flat_map(|library| &library.function);
    let named = functions.filter_map(|f| Some((f.signature.as_ref()?.name.as_str(), f)));
    let weights = options.without_weights.then(Vec::new);
    let kept = (sequences, States::new(asked, &network.graph.node));
    let runner = GraphRunner::new(driver, named.collect(), &network.variables, weights, kept);
    let body = Rc::new(GraphBody::new(&network.graph.node));
    let places = network.outputs.iter().map(|port| port.place.as_str());
    body.needed.get_or_init(|| body.needed_by(places));
    let scope = Scope::new(body, HashMap::new(), String::new());
    runner.ordered(&scope)?;
    let inputs: Vec<_> =
        network.inputs.iter().map(|port| (port.name.as_str(), port.ty.dtype())).collect();
    let mut at = 0;
    for (port, fixed) in network.inputs.iter().zip(model::fixed(b, options, &inputs)?) {
        if let Some(var) = fixed {
            runner.feed(&scope, &port.place, GraphItem::Tensor(var))?;
            continue;
        }
        let declared = (port.ty.dtype(), port.ty.shape().map(<[Dim]>::to_vec));
        let ty = model::input_type(options, at, &port.name, declared)?;
        feed(&runner, &scope, port, ty)?;
        at += 1;
    }
    effects::run(&runner, &scope, scope.body.needed.get())?;
    let mut lost = vec![];
    for port in &network.outputs {
        let found = runner.value(&scope, &port.place)?;
        match found {
            GraphItem::Tensor(var) => {
                settle_rank(driver.builder(), var, &port.ty);
                model::output(driver, var, &port.name, port.ty.dtype())?;
            }
            GraphItem::Hole => lost.push(port.name.clone()),
            GraphItem::Resource(_) | GraphItem::List(_) => {
                model::no_tensor(driver, &port.name, "a variable, table or list");
            }
        }
    }
    let weights = runner.weights.take().unwrap_or_default().into_iter().map(|var| b.id(var));
    let (weights, kept) = (weights.collect::<Result<_>>()?, runner.states.kept(b)?);
    Ok(Ran { weights, lost, kept, ..Ran::default() })
}

/// Takes the sizes that the source declares for an output of which not even the number of axes is known.
fn settle_rank(b: &GraphBuilder, var: Var, declared: &ValueType) {
    if let (None, Some(shape)) = (b.rank_of(var), declared.shape()) {
        b.declare(var, ValueType::Tensor { dtype: b.dtype_of(var), shape: Some(shape.to_vec()) });
    }
}

/// Lets an input of the graph stand for a tensor.
fn feed<'a>(
    runner: &GraphRunner<'a, '_>,
    scope: &Scope<'a>,
    port: &'a Port,
    ty: ValueType,
) -> Result<()> {
    let b = runner.driver.builder();
    let item = match pair_of(&ty) {
        Some(pair) => {
            let pair = b.input(&port.name, pair);
            b.note(complex::as_pair("input", &port.name));
            GraphItem::Tensor(b.source.complex.of_pair(b, pair))
        }
        None => GraphItem::Tensor(b.input(&port.name, ty)),
    };
    runner.feed(scope, &port.place, item)
}
