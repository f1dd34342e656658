//! The layers of a network, their inputs, and the order in which they can be built.
//!
//! N2D2 goes over the file again and again and builds what has become ready; the order matters
//! because expressions see the layers that were built before.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

use onnxd_plugin_sdk::ir::ValueId;

use crate::diag::{Code, Diagnostic, Diagnostics, shown};
use crate::ini::{Files, Ini, SectionRef, similar};
use crate::onnx::{OnnxFile, is_onnx};
use crate::sections::{ENVIRONMENTS, cell_sections, environment, is_environment};

/// Most layers of a network.
const CELLS_MAX: usize = 20_000;
/// Most inputs of a layer.
const PARENTS_MAX: usize = 1000;
/// Where an input of a layer comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parent {
    Environment,
    /// Index of a layer in [`Network::cells`].
    Cell(usize),
    /// What the ONNX file of a layer computes, by its value in the file.
    Result(usize, ValueId),
    /// Nothing of that name exists, which has been reported.
    Missing,
}

impl Parent {
    /// The layer that has to be built before.
    fn cell(self) -> Option<usize> {
        match self {
            Parent::Cell(cell) | Parent::Result(cell, _) => Some(cell),
            Parent::Environment | Parent::Missing => None,
        }
    }
}

/// A layer as the file describes it.
pub(crate) struct CellSection<'i> {
    pub(crate) section: SectionRef<'i>,
    /// `Type`; empty if it is missing.
    pub(crate) kind: String,
    pub(crate) parents: Vec<Parent>,
}

/// All layers of a network, in the order of the file.
pub(crate) struct Network<'i> {
    pub(crate) environment: SectionRef<'i>,
    pub(crate) cells: Vec<CellSection<'i>>,
    pub(crate) names: CallableNames<'i>,
    /// Indices of the layers that can be built, every layer after its parents.
    pub(crate) order: Vec<usize>,
}

impl<'i> Network<'i> {
    /// The network of a file. What is wrong with single layers goes to `problems`.
    pub(crate) fn read(
        ini: &'i Ini,
        path: &str,
        files: &dyn Files,
        problems: &mut Diagnostics,
    ) -> Option<Network<'i>> {
        let Some(environment) = environment(ini) else {
            let message = "the network has no section `[sp]`, `[env]` or `[cenv]`";
            let help = "Add a section `[env]` with `SizeX`, `SizeY` and `NbChannels`.";
            problems.push(Diagnostic::new(Code::LayerInputMissing, message).help(help));
            return None;
        };
        let sections: Vec<SectionRef> = cell_sections(ini).take(CELLS_MAX + 1).collect();
        if sections.len() > CELLS_MAX {
            let message = format!("the network has more than {CELLS_MAX} layers");
            problems.push(Diagnostic::new(Code::SourceLimit, message));
            return None;
        }
        if sections.is_empty() {
            let message = "the network has no layer: no section has an `Input`";
            problems.push(Diagnostic::new(Code::LayerInputMissing, message));
            return None;
        }
        let names = CallableNames::read(&sections, path, files, problems);
        let mut reader = NetworkReader { sections, names, problems };
        let cells = (0..reader.sections.len()).map(|index| reader.cell(index)).collect();
        let names = reader.names;
        let mut network = Network { environment, cells, names, order: Vec::new() };
        network.sort();
        network.report_cycles(problems);
        Some(network)
    }

    /// Orders the layers by the pass over the file in which they become ready, then as written.
    fn sort(&mut self) {
        let mut children = vec![Vec::new(); self.cells.len()];
        let mut waiting = vec![0_usize; self.cells.len()];
        for (index, cell) in self.cells.iter().enumerate() {
            for parent in cell.parents.iter().filter_map(|parent| parent.cell()) {
                children[parent].push(index);
                waiting[index] += 1;
            }
        }
        let mut pass = vec![0_usize; self.cells.len()];
        let roots = (0..self.cells.len()).filter(|index| waiting[*index] == 0);
        let mut ready: BinaryHeap<_> = roots.map(|index| Reverse((0, index))).collect();
        while let Some(Reverse((at, index))) = ready.pop() {
            self.order.push(index);
            for child in &children[index] {
                pass[*child] = pass[*child].max(at + usize::from(index > *child));
                waiting[*child] -= 1;
                if waiting[*child] == 0 {
                    ready.push(Reverse((pass[*child], *child)));
                }
            }
        }
    }

    /// Of the layers that never become ready, those on a loop are at fault.
    fn report_cycles(&self, problems: &mut Diagnostics) {
        let mut seen = vec![0_usize; self.cells.len()];
        self.order.iter().for_each(|index| seen[*index] = usize::MAX);
        for start in 0..self.cells.len() {
            let mut path = Vec::new();
            let mut at = start;
            while seen[at] == 0 {
                seen[at] = start + 1;
                path.push(at);
                let mut parents = self.cells[at].parents.iter().filter_map(|p| p.cell());
                let next = parents.find(|parent| seen[*parent] != usize::MAX);
                at = next.expect("a layer that never becomes ready waits for another one");
            }
            if seen[at] == start + 1 && !path.is_empty() {
                let first = path.iter().position(|index| *index == at).unwrap_or(0);
                problems.push(self.cycle(&path[first..]));
            }
        }
    }

    fn cycle(&self, path: &[usize]) -> Diagnostic {
        const SHOWN_MAX: usize = 12;
        let name = |index: &usize| self.cells[*index].section.name();
        let mut names: Vec<&str> = path.iter().take(SHOWN_MAX).map(name).collect();
        if path.len() > SHOWN_MAX {
            names.push("...");
        }
        names.push(name(&path[0]));
        let message = format!("layers are inputs of each other: {}", names.join(" <- "));
        Diagnostic::new(Code::LayerCycle, message).at(self.cells[path[0]].section.layer())
    }
}

/// What layers and targets may call by name: layers, and results of ONNX files.
pub(crate) struct CallableNames<'i> {
    cells: HashMap<&'i str, usize>,
    /// By layer; nothing for files that cannot be read, which has been reported.
    files: BTreeMap<usize, Option<OnnxFile>>,
}

impl<'i> CallableNames<'i> {
    fn read(
        sections: &[SectionRef<'i>],
        path: &str,
        files: &dyn Files,
        problems: &mut Diagnostics,
    ) -> CallableNames<'i> {
        let cells = sections.iter().enumerate().map(|(i, s)| (s.name(), i)).collect();
        let onnx = sections.iter().enumerate().filter(|(_, s)| is_onnx(s));
        let mut file = |(index, section): (usize, &SectionRef<'i>)| {
            let read = OnnxFile::read(*section, path, files);
            (index, read.map_err(|found| problems.0.extend(found.0)).ok())
        };
        CallableNames { cells, files: onnx.map(&mut file).collect() }
    }

    pub(crate) fn file(&self, cell: usize) -> Option<&OnnxFile> {
        self.files.get(&cell)?.as_ref()
    }

    /// Files that can be read, by layer.
    pub(crate) fn files(&self) -> impl Iterator<Item = (usize, &OnnxFile)> {
        self.files.iter().filter_map(|(cell, file)| Some((*cell, file.as_ref()?)))
    }

    pub(crate) fn has_files(&self) -> bool {
        !self.files.is_empty()
    }

    /// Whether a section of this name has an ONNX file.
    pub(crate) fn is_file(&self, name: &str) -> bool {
        self.cells.get(name).is_some_and(|cell| self.files.contains_key(cell))
    }

    /// Whether an ONNX file computes something of this name.
    pub(crate) fn is_result(&self, name: &str) -> bool {
        self.files().any(|(_, file)| file.result(name).is_some())
    }

    /// What a name stands for; nothing if it is unknown.
    ///
    /// # Errors
    /// Why several things are meant.
    pub(crate) fn find(&self, name: &str) -> Result<Option<Parent>, String> {
        if let Some(cell) = self.cells.get(name) {
            return match self.files.get(cell) {
                None => Ok(Some(Parent::Cell(*cell))),
                Some(None) => Ok(Some(Parent::Missing)),
                Some(Some(file)) => match file.outputs() {
                    [only] => Ok(Some(Parent::Result(*cell, *only))),
                    outputs => {
                        Err(format!("has {} results; name the one that is meant", outputs.len()))
                    }
                },
            };
        }
        let found = self.files().filter_map(|(cell, file)| Some((cell, file.result(name)?)));
        match found.collect::<Vec<_>>()[..] {
            [(cell, value)] => Ok(Some(Parent::Result(cell, value))),
            // What a file would have had is not known if it cannot be read.
            [] if self.files.values().any(Option::is_none) => Ok(Some(Parent::Missing)),
            [] => Ok(None),
            [..] => Err("is a result of several ONNX files".into()),
        }
    }

    /// A finding about a name that stands for nothing.
    pub(crate) fn unknown(&self, name: &str, message: String) -> Diagnostic {
        let results = self.files().flat_map(|(_, file)| file.names());
        let known = self.cells.keys().copied().chain(ENVIRONMENTS).chain(results);
        let problem = Diagnostic::new(Code::LayerInputMissing, message);
        match similar(name, known) {
            Some(near) => problem.help(format!("Did you mean `{near}`?")),
            None => problem,
        }
    }
}

struct NetworkReader<'i, 'p> {
    sections: Vec<SectionRef<'i>>,
    names: CallableNames<'i>,
    problems: &'p mut Diagnostics,
}

impl<'i> NetworkReader<'i, '_> {
    fn cell(&mut self, index: usize) -> CellSection<'i> {
        let section = self.sections[index];
        let kind = section.required::<String>("Type").unwrap_or_else(|problem| {
            self.problems.push(problem);
            String::new()
        });
        let mut names = section.names("Input").unwrap_or_else(|problem| {
            self.problems.push(problem);
            Vec::new()
        });
        if names.len() > PARENTS_MAX {
            let message = format!("the layer has more than {PARENTS_MAX} inputs");
            self.problems.push(Diagnostic::new(Code::SourceLimit, message).at(section.layer()));
            return CellSection { section, kind, parents: vec![Parent::Missing] };
        }
        self.leave_out_files(&mut names);
        let mut parents: Vec<Parent> =
            names.iter().map(|name| self.parent(section, name)).collect();
        if parents.is_empty() {
            self.problems.push(section.problem("Input", "names no layer"));
            parents.push(Parent::Missing);
        }
        CellSection { section, kind, parents }
    }

    /// Beside one of its results, the name of a file only says that it is to be read before.
    fn leave_out_files(&self, names: &mut Vec<String>) {
        let of_file = |name: &String| match self.names.cells.get(name.as_str()) {
            Some(_) => None,
            None => self.names.find(name).ok().flatten()?.cell(),
        };
        let used: Vec<usize> = match self.names.has_files() {
            true => names.iter().filter_map(of_file).collect(),
            false => return,
        };
        names.retain(|name| {
            self.names.cells.get(name.as_str()).is_none_or(|cell| !used.contains(cell))
        });
    }

    fn parent(&mut self, section: SectionRef, name: &str) -> Parent {
        if is_environment(name) {
            return Parent::Environment;
        }
        let message = match self.names.find(name) {
            Ok(Some(parent)) => return parent,
            Ok(None) => format!("the input `{}` is no layer of the network", shown(name)),
            Err(why) => format!("the input `{}` {why}", shown(name)),
        };
        self.problems.push(self.names.unknown(name, message).at(section.layer()));
        Parent::Missing
    }
}
