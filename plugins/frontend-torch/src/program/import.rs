//! From an exported program to a model.

use super::declared::Symbols;
use super::run::Runner;
use super::weights::Weights;
use super::{Argument, Input, InputKind, Meta, OutputKind, Program, run};
use crate::archive::storage::Place;
use crate::archive::zip::Archive;
use crate::aten::complex::real;
use crate::aten::{Source, table};
use crate::diag::{Code, Diagnostic, Diagnostics, Layer, shown};
use crate::machine::{Item, Machine, Number, NumberKind, Result};
use crate::options::Options;
use crate::outputs;
use crate::params;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::ir::{self, Dim, Opsets, ValueType};
use onnxd_plugin_sdk::lower::Driver;
use onnxd_plugin_sdk::{Imported, Submission};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::rc::Rc;

/// Reads one of the exported programs of an archive, whose graphs are in the members `graphs`.
///
/// # Errors
/// Everything that is wrong with it or cannot be said in ONNX.
pub(crate) fn import(
    submission: &Submission,
    archive: &Archive,
    graphs: &[String],
    options: &Options,
) -> std::result::Result<Imported, Diagnostics> {
    let member = chosen(submission, graphs)?;
    let program = Program::open(archive, member)?;
    let weights = Weights::open(archive, member)?;
    let import = Import { program: &program, weights: &weights, options };
    let mut made = import.made(&BTreeSet::new())?;
    if !made.written.is_empty() {
        if submission.params().section::<params::Export>().mutations() != "outputs" {
            return Err(Diagnostics(made.written.iter().map(Written::refused).collect()));
        }
        // What is written must be an input too, so that the next run goes on from it.
        let states = made.written.iter().filter(|written| written.what != "input");
        let states: BTreeSet<Rc<str>> = states.map(|written| written.name.clone()).collect();
        if !states.is_empty() {
            made = import.made(&states)?;
        }
    }
    if options.documented {
        outputs::documented(&mut made.graph);
    }
    Ok(Imported {
        model: outputs::model(made.graph, options.opset),
        notes: made.notes,
        metadata: made.ranges,
    })
}

/// The graph of an exported program alone.
///
/// # Errors
/// As [`import`].
pub(crate) fn graph(
    archive: &Archive,
    member: &str,
    options: &Options,
) -> std::result::Result<ir::Graph, Diagnostics> {
    let program = Program::open(archive, member)?;
    let weights = Weights::open(archive, member)?;
    let import = Import { program: &program, weights: &weights, options };
    Ok(import.made(&BTreeSet::new())?.graph)
}

/// The member of the program that the params ask for, or of the only one.
fn chosen<'a>(submission: &Submission, graphs: &'a [String]) -> Result<&'a str> {
    if let [only] = graphs {
        return Ok(only);
    }
    let name = |member: &'a String| {
        let name = member.strip_prefix("models/").unwrap_or(member);
        name.strip_suffix(".json").unwrap_or(name)
    };
    let wanted = submission.params().section::<params::Source>().model();
    let found = graphs.iter().find(|member| wanted.as_deref() == Some(name(member)));
    found.map(String::as_str).ok_or_else(|| {
        let names: Vec<String> =
            graphs.iter().map(|member| format!("`{}`", shown(name(member)))).collect();
        let message = format!("The archive holds {} programs: {}.", names.len(), names.join(", "));
        Diagnostic::new(Code::ParamsBadValue, message).help("Name one with `source.model`.")
    })
}

struct Import<'a> {
    program: &'a Program,
    weights: &'a Weights,
    options: &'a Options,
}

/// A graph, and what the program writes that outlives a run.
struct Made {
    graph: ir::Graph,
    notes: Vec<Diagnostic>,
    ranges: Vec<(String, String)>,
    written: Vec<Written>,
}

/// A buffer, parameter or input that has a new value at the end.
struct Written {
    what: &'static str,
    name: Rc<str>,
}

impl Written {
    fn refused(&self) -> Diagnostic {
        let name = shown(&self.name);
        let message = format!(
            "The program writes the {} `{name}`, and an ONNX model keeps nothing between runs.",
            self.what
        );
        let help = "Set `export.mutations = \"outputs\"` to get the new value as an output, or export the \
            program in evaluation mode.";
        let layer = Layer::new(self.name.to_string(), self.what);
        Diagnostic::new(Code::LayerUnsupported, message).at(layer).help(help)
    }
}

impl Import<'_> {
    /// Runs the program. Buffers and parameters of `states` are inputs of the graph with their values as defaults.
    fn made(&self, states: &BTreeSet<Rc<str>>) -> std::result::Result<Made, Diagnostics> {
        let table = table();
        let source = Source::new(self.options.training);
        let opsets = Opsets::from([(String::new(), self.options.opset)]);
        let fallback = self.options.fallback.clone();
        let driver = Driver::new(&table, &source, ir::Graph::new("torch"), opsets, fallback);
        let machine = Machine::new(driver).without_weights(self.options.without_weights);
        machine.declares.set(true);
        let symbols = Symbols::default();
        let running = Running { import: self, machine: &machine, symbols: &symbols, states };
        let ran = running.run();
        let ranges = running.ranges();
        match (machine.finish(), ran) {
            (Ok((graph, notes)), Ok(written)) => Ok(Made { graph, notes, ranges, written }),
            // What kept operators from being converted may be why the program could not go on.
            (finished, ran) => {
                let mut all = finished.err().unwrap_or_default();
                all.0.extend(ran.err());
                Err(all)
            }
        }
    }
}

/// A program that becomes a graph.
struct Running<'a, 's> {
    import: &'a Import<'a>,
    machine: &'a Machine<'s>,
    symbols: &'a Symbols,
    states: &'a BTreeSet<Rc<str>>,
}

impl Running<'_, '_> {
    fn run(&self) -> Result<Vec<Written>> {
        let program = self.import.program;
        self.machine.builder().reserve(output_names(program));
        let inputs = self.inputs()?;
        self.machine.sort_weights(|name| self.import.weights.place_of(name));
        let before = |item: &Item| match item {
            Item::Tensor(_) => self.machine.var_of(item).map(Some),
            _ => Ok(None),
        };
        let vars = inputs.iter().map(before).collect::<Result<Vec<_>>>()?;
        let runner = Runner::new(self.machine, self.symbols);
        let given = runner.graph(&program.graph, inputs.clone())?;
        self.outputs(&inputs, &vars, given)
    }

    // ---- inputs ----

    /// A value for each input of the program's graph. What it never reads is None.
    fn inputs(&self) -> Result<Vec<Item>> {
        let program = self.import.program;
        self.take_shapes()?;
        let used = program.graph.used();
        let mut tied: HashMap<Place, Item> = HashMap::new();
        let both = || program.inputs.iter().zip(&program.graph.inputs);
        let mut at = 0;
        let user = |(input, named): (&Input, &Argument)| match (&input.kind, named) {
            (InputKind::User, Argument::Tensor(name)) => {
                at += 1;
                self.user_tensor(at - 1, name).map(Some)
            }
            (InputKind::User, Argument::Symbol(name)) => Ok(Some(self.user_number(name))),
            (InputKind::User, constant) => Ok(Some(run::constant(constant))),
            (InputKind::Fixed(_), _) => Ok(Some(run::constant(&input.value))),
            _ => Ok(None),
        };
        let user = both().map(user).collect::<Result<Vec<_>>>()?;
        let item = |((input, named), given): ((&Input, &Argument), Option<Item>)| match named {
            _ if given.is_some() => Ok(given.unwrap_or(Item::None)),
            Argument::Tensor(name) | Argument::Object(name) if used.contains(name) => {
                self.held(&input.kind, &mut tied)
            }
            _ => Ok(Item::None),
        };
        both().zip(user).map(item).collect()
    }

    /// The tensors that users give, with what is declared of them.
    fn user_tensors(&self) -> impl Iterator<Item = (&Rc<str>, &Meta)> {
        let program = self.import.program;
        let user = program.inputs.iter().zip(&program.graph.inputs);
        let user = user.filter(|(input, _)| input.kind == InputKind::User);
        user.filter_map(|(_, named)| match named {
            Argument::Tensor(name) => Some((name, program.graph.tensors.get(name)?)),
            _ => None,
        })
    }

    /// Notes what the params say of sizes.
    fn take_shapes(&self) -> Result<()> {
        for (at, (name, meta)) in self.user_tensors().enumerate() {
            let names = meta.sizes.iter().map(|size| self.symbols.named(size));
            let declared = names.collect::<Result<Vec<Dim>>>()?;
            let given = self.import.options.sizes(at, name, declared)?;
            meta.sizes
                .iter()
                .zip(&given)
                .try_for_each(|(size, dim)| self.symbols.bind(size, dim))?;
        }
        Ok(())
    }

    fn user_number(&self, name: &str) -> Item {
        let is_int = self.import.program.graph.ints.contains_key(name);
        let kind = if is_int { NumberKind::Int } else { NumberKind::Float };
        let ty = ValueType::tensor(kind.dtype(), Vec::<Dim>::new());
        Item::Number(Number { var: self.machine.builder().input(name, ty), kind })
    }

    fn user_tensor(&self, at: usize, name: &str) -> Result<Item> {
        let program = self.import.program;
        let Some(meta) = program.graph.tensors.get(name) else {
            let message = format!("The program does not say what its input `{}` is.", shown(name));
            return Err(Diagnostic::new(Code::SourceSyntax, message));
        };
        let Some(declared) = meta.dtype else {
            let message =
                format!("The input `{}` has elements that ONNX does not have.", shown(name));
            return Err(Diagnostic::new(Code::LayerUnsupported, message));
        };
        self.import.options.check_dtype(at, name, declared)?;
        let ty = self.symbols.type_of(meta, Symbols::named)?;
        Ok(self.machine.tensor(self.machine.builder().input(name, ty)))
    }

    /// A parameter, buffer or constant, under its name in the module. Those that are one tensor are one initializer.
    fn held(&self, kind: &InputKind, tied: &mut HashMap<Place, Item>) -> Result<Item> {
        if let InputKind::Object(object) = kind {
            let message = format!("The program uses the object `{}`.", shown(object));
            return Err(self.machine.problem(Code::LayerUnsupported, message));
        }
        let Some(stored) = self.import.weights.tensor(kind)? else { return Ok(Item::None) };
        if let Some(known) = tied.get(&stored.place) {
            return Ok(known.clone());
        }
        let b = self.machine.builder();
        let name = weight_name(kind);
        let var = match self.states.contains(name) {
            true => {
                let dims = stored.tensor.dims().iter().map(|d| Dim::Known(*d as i64)).collect();
                let ty =
                    ValueType::Tensor { dtype: Some(stored.tensor.dtype()), shape: Some(dims) };
                let var = b.input(name, ty);
                let id = b.id(var)?;
                b.graph_mut().set_initializer(id, Some(stored.tensor.clone()));
                var
            }
            false if matches!(kind, InputKind::Parameter(_) | InputKind::Buffer { .. }) => {
                self.machine.weight(name, stored.tensor.clone())
            }
            false => b.parameter(name, stored.tensor.clone()),
        };
        let item = self.machine.tensor(var);
        tied.insert(stored.place.clone(), item.clone());
        Ok(item)
    }

    // ---- outputs ----

    /// Lists what the program gives; says what it writes.
    fn outputs(
        &self,
        inputs: &[Item],
        before: &[Option<Var>],
        given: Vec<Item>,
    ) -> Result<Vec<Written>> {
        let machine = self.machine;
        let program = self.import.program;
        let mut written: Vec<(Written, Item)> = vec![];
        let mut note = |what, name: &Rc<str>, item: &Item| {
            if !written.iter().any(|(w, _)| w.name == *name) {
                written.push((Written { what, name: name.clone() }, item.clone()));
            }
        };
        let names = output_names(program);
        let outputs = program.outputs.iter().zip(given).zip(names);
        for ((kind, item), name) in outputs {
            match kind {
                OutputKind::BufferMutation(of) => note("buffer", of, &item),
                OutputKind::ParameterMutation(of) => note("parameter", of, &item),
                OutputKind::InputMutation(of) => note("input", of, &item),
                OutputKind::Token => {}
                OutputKind::User | OutputKind::Loss | OutputKind::Gradient(_) => {
                    if !matches!(item, Item::None) {
                        let var = real(machine.builder(), machine.var_of(&item)?)?;
                        machine.builder().output(var, &name)?;
                    }
                }
            }
        }
        // Programs that are not functional write in place.
        let all = program.inputs.iter().zip(&program.graph.inputs).zip(inputs.iter().zip(before));
        for ((input, named), (item, before)) in all {
            let Some(before) = before else { continue };
            if machine.var_of(item)? != *before {
                match (&input.kind, named) {
                    (InputKind::User, Argument::Tensor(name)) => note("input", name, item),
                    (InputKind::Parameter(name), _) => note("parameter", name, item),
                    (InputKind::Buffer { name, .. }, _) => note("buffer", name, item),
                    (kind, _) => note("constant", &weight_name(kind).into(), item),
                }
            }
        }
        for (written, item) in &written {
            let name = format!("{}_next", written.name);
            machine.builder().output(machine.var_of(item)?, &name)?;
        }
        Ok(written.into_iter().map(|(written, _)| written).collect())
    }

    /// The sizes that the symbols of inputs were exported for, where they are limited.
    fn ranges(&self) -> Vec<(String, String)> {
        let mut symbols = HashSet::new();
        for (_, meta) in self.user_tensors() {
            let names = meta.sizes.iter().filter_map(|size| self.symbols.symbols_of(size).ok());
            symbols.extend(names.flatten());
        }
        let ranges = self.import.program.ranges.iter();
        let limited = ranges.filter(|(symbol, ..)| symbols.contains(symbol));
        let said = limited.filter_map(|(symbol, low, high)| {
            let text = match (low.filter(|low| *low > 2), high) {
                (None, None) => return None,
                (Some(low), None) => format!("at least {low}"),
                (None, Some(high)) => format!("at most {high}"),
                (Some(low), Some(high)) => format!("{low} to {high}"),
            };
            Some((format!("source.size.{symbol}"), text))
        });
        said.collect()
    }
}

fn weight_name(kind: &InputKind) -> &str {
    match kind {
        InputKind::Parameter(name)
        | InputKind::Buffer { name, .. }
        | InputKind::Constant(name)
        | InputKind::Object(name)
        | InputKind::Fixed(name) => name,
        InputKind::Token | InputKind::User => "",
    }
}

/// Names of the outputs: those of the program's graph, each once.
fn output_names(program: &Program) -> Vec<String> {
    let mut taken = HashSet::new();
    let name = |(i, output): (usize, &Argument)| {
        let name = match output {
            Argument::Tensor(name) | Argument::Symbol(name) => name.to_string(),
            _ => format!("output_{i}"),
        };
        if taken.insert(name.clone()) { name } else { format!("{name}_{i}") }
    };
    program.graph.outputs.iter().enumerate().map(name).collect()
}

#[cfg(test)]
mod tests;
