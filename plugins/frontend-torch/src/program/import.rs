//! From an exported program to a model.

use super::declared::Symbols;
use super::run::ProgramRunner;
use super::states::{StateInputs, Tied, complete, kept};
use super::weights::ProgramWeights;
use super::{Argument, Input, InputKind, Meta, OutputKind, Program, run};
use crate::archive::pickle::{Object, Pickled};
use crate::archive::zip::Archive;
use crate::aten::complex::real;
use crate::aten::{RowContext, table};
use crate::diag::{Code, Diagnostic, Diagnostics, Layer, refuse, shown};
use crate::machine::{self, GraphNumber, Instance, Item, Machine, NumberKind, Result};
use crate::options::TorchOptions;
use crate::outputs::{self, INPUT};
use crate::params;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::ir::{self, Dim, Opsets, ValueId, ValueType};
use onnxd_plugin_sdk::lower::Driver;
use onnxd_plugin_sdk::states::{Written, depend_on};
use onnxd_plugin_sdk::{Imported, State, Submission};
use std::cell::RefCell;
use std::collections::{BTreeSet, HashSet};
use std::rc::Rc;

/// Tensors that stand for tensors that stand for others.
const PARTS_DEPTH_MAX: usize = 8;

/// Reads one of the exported programs of an archive, whose graphs are in the members `graphs`.
///
/// # Errors
/// Everything that is wrong with it or cannot be said in ONNX.
pub(crate) fn import(
    submission: &Submission,
    archive: &Archive,
    graphs: &[String],
    options: &TorchOptions,
) -> std::result::Result<Imported, Diagnostics> {
    let member = chosen(submission, graphs)?;
    let program = Program::open(archive, member)?;
    let weights = ProgramWeights::open(archive, member)?;
    let import = Import { program: &program, weights: &weights, options };
    let mut made = import.made(&BTreeSet::new())?;
    if !made.written.is_empty() {
        if submission.wants_states() {
            // What is written must be an input too, so that the next call goes on from it.
            let states = made.written.iter().filter(|written| written.what != INPUT);
            let states: BTreeSet<Rc<str>> = states.map(|w| w.name.as_str().into()).collect();
            if !states.is_empty() {
                made = import.made(&states)?;
                complete(&made.written, &made.states)?;
            }
        } else {
            made.without_written()?;
        }
    }
    if options.documented {
        outputs::documented(&mut made.graph);
    }
    made.notes.extend(crate::archive::zip::doubt(archive));
    Ok(Imported {
        model: outputs::model(made.graph, options.opset),
        notes: made.notes,
        metadata: made.ranges,
        states: made.states,
        ..Imported::default()
    })
}

/// The graph of an exported program alone.
///
/// # Errors
/// As [`import`].
pub(crate) fn graph(
    archive: &Archive,
    member: &str,
    options: &TorchOptions,
) -> std::result::Result<ir::Graph, Diagnostics> {
    let program = Program::open(archive, member)?;
    let weights = ProgramWeights::open(archive, member)?;
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
    weights: &'a ProgramWeights,
    options: &'a TorchOptions,
}

/// A graph, and what the program writes that outlives a call.
struct ImportedGraph {
    graph: ir::Graph,
    notes: Vec<Diagnostic>,
    ranges: Vec<(String, String)>,
    /// Buffers, parameters and inputs that have a new value at the end: the last outputs of the graph.
    written: Vec<Written>,
    states: Vec<State>,
}

impl ImportedGraph {
    /// Leaves out what is written, where nobody can miss it.
    ///
    /// # Errors
    /// `N0203` for what a later call could see, and for inputs that a result depends on.
    fn without_written(&mut self) -> std::result::Result<(), Diagnostics> {
        let outputs = self.graph.outputs().to_vec();
        let (results, new) = outputs.split_at(outputs.len() - self.written.len());
        let counts = |(written, new): &(&Written, &ValueId)| {
            written.what != INPUT || depend_on(&self.graph, results, **new)
        };
        let counting = self.written.iter().zip(new).filter(counts);
        let refused = counting.map(|(written, _)| written.refused()).collect();
        Diagnostics(refused).or_ok(())?;
        self.notes.extend(self.written.iter().map(Written::left_out));
        self.graph.set_outputs(results.to_vec());
        self.graph.drop_unread(new.to_vec());
        Ok(())
    }
}

impl Import<'_> {
    /// Runs the program. Buffers and parameters of `states` are inputs of the graph with their values as defaults.
    fn made(&self, states: &BTreeSet<Rc<str>>) -> std::result::Result<ImportedGraph, Diagnostics> {
        let table = table();
        let source = RowContext::new(self.options.training);
        let opsets = Opsets::from([(String::new(), self.options.opset)]);
        let fallback = self.options.fallback.clone();
        let driver = Driver::new(&table, &source, ir::Graph::new("torch"), opsets, fallback);
        let machine = Machine::new(driver).without_weights(self.options.without_weights);
        machine.declares.set(true);
        let symbols = Symbols::default();
        let held = RefCell::default();
        let running =
            ProgramImport { import: self, machine: &machine, symbols: &symbols, states, held };
        let ran = running.run();
        let ranges = running.ranges();
        let ((graph, notes), (written, inputs)) = Diagnostics::both(machine.finish(), ran)?;
        let states = kept(&graph, &written, &inputs);
        Ok(ImportedGraph { graph, notes, ranges, written, states })
    }
}

/// A program that becomes a graph.
struct ProgramImport<'a, 's> {
    import: &'a Import<'a>,
    machine: &'a Machine<'s>,
    symbols: &'a Symbols,
    states: &'a BTreeSet<Rc<str>>,
    /// The inputs that became of states.
    held: RefCell<Vec<(Rc<str>, Var)>>,
}

impl ProgramImport<'_, '_> {
    /// What the program writes that outlives a call, and the names of the inputs that states became.
    fn run(&self) -> Result<(Vec<Written>, StateInputs)> {
        let program = self.import.program;
        self.machine.builder().reserve(output_names(program));
        let inputs = self.inputs()?;
        self.machine.sort_weights(|name| self.import.weights.place_of(name));
        let before = |item: &Item| match item {
            Item::Tensor(_) => self.machine.var_of(item).map(Some),
            _ => Ok(None),
        };
        let vars = inputs.iter().map(before).collect::<Result<Vec<_>>>()?;
        self.machine.watch();
        let runner = ProgramRunner::new(self.machine, self.symbols);
        let given = runner.graph(&program.graph, inputs.clone())?;
        let written = self.outputs(&inputs, &vars, given)?;
        let name =
            |(state, var): &(Rc<str>, Var)| (state.clone(), self.machine.builder().name_of(*var));
        Ok((written, self.held.borrow().iter().map(name).collect()))
    }

    // ---- inputs ----

    /// A value for each input of the program's graph. What it never reads is None.
    fn inputs(&self) -> Result<Vec<Item>> {
        let program = self.import.program;
        self.take_shapes()?;
        let used = program.graph.used();
        let mut tied = Tied::new(program, self.import.weights, self.states)?;
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
            // A state that is written and never read is an input all the same: callers pass on all states alike.
            Argument::Tensor(name) | Argument::Object(name)
                if used.contains(name) || self.states.contains(input.kind.weight_name()) =>
            {
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
        Item::Number(GraphNumber { var: self.machine.builder().input(name, ty), kind })
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
    fn held(&self, kind: &InputKind, tied: &mut Tied) -> Result<Item> {
        if let InputKind::Object(object) = kind {
            let message = format!("The program uses the object `{}`.", shown(object));
            return Err(self.machine.problem(Code::LayerUnsupported, message));
        }
        if let Some(Pickled::Object(object)) = self.import.weights.get(kind)? {
            return self.parts(kind.weight_name(), object, 0);
        }
        let Some(stored) = self.import.weights.tensor(kind)? else { return Ok(Item::None) };
        if let Some(known) = tied.items.get(&stored.place) {
            return Ok(known.clone());
        }
        let b = self.machine.builder();
        let state = tied.states.get(&stored.place);
        let name = state.map_or(kind.weight_name(), |state| state);
        let var = match state.is_some() {
            true => {
                let dims = stored.tensor.dims().iter().map(|d| Dim::Known(*d as i64)).collect();
                let ty =
                    ValueType::Tensor { dtype: Some(stored.tensor.dtype()), shape: Some(dims) };
                let var = b.input(name, ty);
                let id = b.id(var)?;
                b.graph_mut().set_initializer(id, Some(stored.tensor.clone()));
                self.held.borrow_mut().push((name.into(), var));
                var
            }
            false if matches!(kind, InputKind::Parameter(_) | InputKind::Buffer { .. }) => {
                self.machine.weight(name, stored.tensor.clone())
            }
            false => b.parameter(name, stored.tensor.clone()),
        };
        let item = self.machine.tensor(var);
        tied.items.insert(stored.place.clone(), item.clone());
        Ok(item)
    }

    /// A tensor that stands for others, with these as attributes.
    fn parts(&self, path: &str, object: &Object, depth: usize) -> Result<Item> {
        refuse!(depth > PARTS_DEPTH_MAX =>
            Diagnostic::new(Code::SourceLimit, format!("`{}` has too many tensors inside each other.", shown(path))));
        let instance = Instance::new(&object.class, path);
        let state = object.state.borrow().clone();
        // A class with slots has two dicts.
        let state = match state {
            Some(Pickled::Tuple(both)) => both.first().cloned(),
            state => state,
        };
        let Some(Pickled::Dict(items)) = state else { return Ok(Item::Object(Rc::new(instance))) };
        for (key, value) in items.borrow().iter() {
            let Some(key) = key.text() else { continue };
            let path = format!("{path}.{key}");
            let item = match value {
                Pickled::Tensor(stored) => {
                    self.machine.tensor(self.machine.weight(&path, stored.tensor.clone()))
                }
                Pickled::Object(inner) => self.parts(&path, inner, depth + 1)?,
                Pickled::Int(x) => Item::Int(*x),
                Pickled::Float(x) => Item::Float(*x),
                Pickled::Bool(x) => Item::Bool(*x),
                Pickled::Text(x) => Item::Text(x.clone()),
                _ => Item::None,
            };
            instance.attributes.borrow_mut().insert(key.into(), item);
        }
        Ok(Item::Object(Rc::new(instance)))
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
        let mut told: HashSet<Rc<str>> = HashSet::new();
        let mut note = |what, name: &Rc<str>, place, item: &Item| {
            if told.insert(name.clone()) {
                let layer = Layer { name: name.to_string(), kind: String::from(what), place };
                written.push((Written { what, name: name.to_string(), layer }, item.clone()));
            }
        };
        let names = output_names(program);
        let outputs = program.outputs.iter().zip(given).zip(names).zip(&program.graph.outputs);
        for (((kind, item), name), output) in outputs {
            let place = || run::place_of(&program.graph, output);
            match kind {
                OutputKind::BufferMutation(of) => note("buffer", of, place(), &item),
                OutputKind::ParameterMutation(of) => note("parameter", of, place(), &item),
                OutputKind::InputMutation(of) => note(INPUT, of, place(), &item),
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
        // One tensor of two names is written once.
        let mut seen = HashSet::new();
        for ((input, named), (item, before)) in all {
            let Some(before) = before else { continue };
            if machine::MutableObject::from_item(item)
                .is_some_and(|place| !seen.insert(place.address()))
            {
                continue;
            }
            if machine.var_of(item)? != *before {
                let place = machine.layer_of_write_into(item).place;
                match (&input.kind, named) {
                    (InputKind::User, Argument::Tensor(name)) => note(INPUT, name, place, item),
                    (InputKind::Parameter(name), _) => note("parameter", name, place, item),
                    (InputKind::Buffer { name, .. }, _) => note("buffer", name, place, item),
                    (kind, _) => note("constant", &kind.weight_name().into(), place, item),
                }
            }
        }
        for (written, item) in &written {
            let name = State::new(&written.name).output;
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

/// Names of the outputs: keys of dicts, else those of the program's graph, each once.
fn output_names(program: &Program) -> Vec<String> {
    let mut taken = HashSet::new();
    let users = program.outputs.iter().filter(|kind| **kind == OutputKind::User).count();
    let mut keys = program.keys.iter().filter(|_| program.keys.len() == users);
    let name = |(i, (kind, output)): (usize, (&OutputKind, &Argument))| {
        let key = if *kind == OutputKind::User { keys.next() } else { None };
        let name = match (key.filter(|key| !key.is_empty()), output) {
            (Some(key), _) => key.clone(),
            (None, Argument::Tensor(name) | Argument::Symbol(name)) => name.to_string(),
            (None, _) => format!("output_{i}"),
        };
        if taken.insert(name.clone()) { name } else { format!("{name}_{i}") }
    };
    program.outputs.iter().zip(&program.graph.outputs).enumerate().map(name).collect()
}

#[cfg(test)]
mod tests;
