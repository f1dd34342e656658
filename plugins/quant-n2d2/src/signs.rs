//! Which tensors have a sign.

use crate::plan::{Activation, Cell, CellInput, CellKind, CellNetwork};

/// Operators in float whose results are never negative.
const NEVER_NEGATIVE: &[&str] = &["Abs", "Exp", "HardSigmoid", "Sigmoid", "Softmax", "Softplus"];

/// The signs of a network's tensors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Signs {
    /// Whether the network's inputs can be negative.
    pub(crate) inputs: bool,
    /// Whether the cells' outputs can be.
    pub(crate) cells: Vec<bool>,
    /// Cells that have a sign only because the result of another one, beside which they are read,
    /// has one.
    pub(crate) forced: Vec<usize>,
}

impl Signs {
    /// The signs if the inputs can be negative or not; all are signed unless `unsigned` is allowed.
    pub(crate) fn find(network: &CellNetwork, inputs: bool, unsigned: bool) -> Signs {
        let count = network.cells.len();
        let mut signs = Signs { inputs: inputs || !unsigned, cells: vec![], forced: vec![] };
        let mut forced = vec![!unsigned; count];
        loop {
            signs.cells.clear();
            for (i, cell) in network.cells.iter().enumerate() {
                let signed = forced[i] || signs.by_nature(network, cell);
                signs.cells.push(signed);
            }
            if !signs.unify(network, &mut forced) {
                break;
            }
        }
        if unsigned {
            signs.forced = (0..count).filter(|i| forced[*i]).collect();
        }
        signs
    }

    pub(crate) fn source(&self, source: CellInput) -> bool {
        match source {
            CellInput::Input(_) => self.inputs,
            CellInput::Cell(i) => self.cells[i],
        }
    }

    /// Whether any input of a cell has a sign.
    pub(crate) fn reads_signed(&self, cell: &Cell) -> bool {
        cell.inputs.iter().any(|source| self.source(*source))
    }

    fn by_nature(&self, network: &CellNetwork, cell: &Cell) -> bool {
        match (cell.activation, cell.kind) {
            (Activation::Rectifier { .. }, _) => false,
            (Activation::Saturation { .. }, _) | (_, CellKind::Conv | CellKind::Fc) => true,
            (_, CellKind::Float) => {
                let op = network.model.graph[cell.node].op.as_str();
                !NEVER_NEGATIVE.contains(&op)
            }
            _ => self.reads_signed(cell),
        }
    }

    /// Branches that meet must agree; gives whether something had to change.
    fn unify(&mut self, network: &CellNetwork, forced: &mut [bool]) -> bool {
        let mut changed = false;
        let mut pending = Vec::new();
        for cell in network.cells.iter().filter(|c| c.kind != CellKind::Float) {
            if self.reads_signed(cell) {
                pending.extend(cell.inputs.iter().filter(|s| !self.source(**s)));
            }
        }
        while let Some(source) = pending.pop() {
            match source {
                CellInput::Input(_) => changed |= !std::mem::replace(&mut self.inputs, true),
                CellInput::Cell(i) if !forced[i] => {
                    (forced[i], changed) = (true, true);
                    let cell = &network.cells[i];
                    if cell.passes() || cell.is_plain_sum() {
                        pending.extend(&cell.inputs);
                    }
                }
                CellInput::Cell(_) => {}
            }
        }
        changed
    }
}
