//! The layers of a network, their inputs, and the order in which they can be built.
//!
//! N2D2 goes over the file again and again and builds what has become ready; the order matters
//! because expressions see the layers that were built before.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use crate::diag::{Code, Diagnostic, Diagnostics, shown};
use crate::ini::{Ini, SectionRef, similar};

/// Most layers of a network.
const CELLS_MAX: usize = 20_000;
/// Most inputs of a layer.
const PARENTS_MAX: usize = 1000;
/// Names under which layers refer to the environment; the first section that exists is it.
pub(crate) const ENVIRONMENTS: [&str; 3] = ["cenv", "env", "sp"];

/// Where an input of a layer comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parent {
    Environment,
    /// Index of a layer in [`Network::cells`].
    Cell(usize),
    /// Nothing of that name exists, which has been reported.
    Missing,
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
    /// Indices of the layers that can be built, every layer after its parents.
    pub(crate) order: Vec<usize>,
}

/// The section of the environment.
pub(crate) fn environment(ini: &Ini) -> Option<SectionRef<'_>> {
    ENVIRONMENTS.iter().find_map(|name| ini.section(name))
}

/// All sections that are layers.
pub(crate) fn cell_sections(ini: &Ini) -> impl Iterator<Item = SectionRef<'_>> {
    ini.sections().filter(|section| section.has("Input") && !is_environment(section.name()))
}

fn is_environment(name: &str) -> bool {
    ENVIRONMENTS.contains(&name)
}

impl<'i> Network<'i> {
    /// The network of a file. What is wrong with single layers goes to `problems`.
    pub(crate) fn read(ini: &'i Ini, problems: &mut Diagnostics) -> Option<Network<'i>> {
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
        let mut reader = Reader::new(sections, problems);
        let cells = (0..reader.sections.len()).map(|index| reader.cell(index)).collect();
        let mut network = Network { environment, cells, order: Vec::new() };
        network.sort();
        network.report_cycles(problems);
        Some(network)
    }

    /// Orders the layers by the pass over the file in which they become ready, then as written.
    fn sort(&mut self) {
        let mut children = vec![Vec::new(); self.cells.len()];
        let mut waiting = vec![0_usize; self.cells.len()];
        for (index, cell) in self.cells.iter().enumerate() {
            for parent in &cell.parents {
                if let Parent::Cell(parent) = parent {
                    children[*parent].push(index);
                    waiting[index] += 1;
                }
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
                let mut parents = self.cells[at].parents.iter();
                let next = parents.find_map(|parent| match parent {
                    Parent::Cell(p) if seen[*p] != usize::MAX => Some(*p),
                    _ => None,
                });
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

struct Reader<'i, 'p> {
    sections: Vec<SectionRef<'i>>,
    by_name: HashMap<&'i str, usize>,
    /// Layers of an ONNX file have names that no section has.
    has_onnx: bool,
    problems: &'p mut Diagnostics,
}

impl<'i, 'p> Reader<'i, 'p> {
    fn new(sections: Vec<SectionRef<'i>>, problems: &'p mut Diagnostics) -> Reader<'i, 'p> {
        let by_name = sections.iter().enumerate().map(|(i, s)| (s.name(), i)).collect();
        let is_onnx = |s: &SectionRef| s.text("Type").ok().flatten().is_some_and(|t| t == "ONNX");
        let has_onnx = sections.iter().any(is_onnx);
        Reader { sections, by_name, has_onnx, problems }
    }

    fn cell(&mut self, index: usize) -> CellSection<'i> {
        let section = self.sections[index];
        let kind = section.required::<String>("Type").unwrap_or_else(|problem| {
            self.problems.push(problem);
            String::new()
        });
        let names = section.names("Input").unwrap_or_else(|problem| {
            self.problems.push(problem);
            Vec::new()
        });
        if names.len() > PARENTS_MAX {
            let message = format!("the layer has more than {PARENTS_MAX} inputs");
            self.problems.push(Diagnostic::new(Code::SourceLimit, message).at(section.layer()));
            return CellSection { section, kind, parents: vec![Parent::Missing] };
        }
        let mut parents: Vec<Parent> =
            names.iter().map(|name| self.parent(section, name)).collect();
        if parents.is_empty() {
            self.problems.push(section.problem("Input", "names no layer"));
            parents.push(Parent::Missing);
        }
        CellSection { section, kind, parents }
    }

    fn parent(&mut self, section: SectionRef, name: &str) -> Parent {
        if is_environment(name) {
            return Parent::Environment;
        }
        if let Some(index) = self.by_name.get(name) {
            return Parent::Cell(*index);
        }
        if !self.has_onnx {
            let message = format!("the input `{}` is no layer of the network", shown(name));
            let known = self.by_name.keys().copied().chain(ENVIRONMENTS);
            let problem = Diagnostic::new(Code::LayerInputMissing, message).at(section.layer());
            self.problems.push(match similar(name, known) {
                Some(near) => problem.help(format!("Did you mean `{near}`?")),
                None => problem,
            });
        }
        Parent::Missing
    }
}
