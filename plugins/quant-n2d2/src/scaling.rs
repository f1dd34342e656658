//! Follows the scales through the network.
//!
//! Every tensor has a scale of weights, the product of the largest weights on the way to it, and a
//! scale of activations, its threshold divided by that. A cell's factor brings its accumulator from
//! the scales of its inputs to those of its output. Where branches with different scales meet, the
//! smaller ones get a factor on the edge; it goes into the producer's own factor if nothing else
//! reads that, and above a sum to all of its branches.

use crate::options::{Branches, PlanOptions, Rescaling};
use crate::plan::{Activation, Cell, CellInput, CellKind, CellNetwork, bounds};
use crate::signs::Signs;
use crate::weights::{Gains, abs_max};

/// Channels with smaller weights share one scale, see [`Scales::parameters`].
const CHANNEL_MAX: f32 = 0.1;
/// Bits that branches may lose without a word.
pub(crate) const LOST_MIN: f64 = 1.5;

impl Cell {
    /// Whether integers pass through it.
    pub(crate) fn passes(&self) -> bool {
        matches!(
            self.kind,
            CellKind::MaxPool | CellKind::AveragePool | CellKind::Concat | CellKind::Layout
        )
    }

    /// Whether it is a sum without activation, which needs no factor of its own.
    pub(crate) fn is_plain_sum(&self) -> bool {
        self.kind == CellKind::Sum && self.activation == Activation::Linear
    }

    /// Whether it has a factor of its own.
    fn rescales(&self) -> bool {
        !self.passes() && !self.is_plain_sum() && self.kind != CellKind::Float
    }
}

impl CellNetwork {
    /// How often the result of a cell is read by cells.
    pub(crate) fn readers(&self, cell: usize) -> usize {
        let inputs = self.cells.iter().flat_map(|c| &c.inputs);
        inputs.filter(|source| **source == CellInput::Cell(cell)).count()
    }
}

/// Factors: none, one for all outputs, or one per output.
type Factors = Option<Vec<f64>>;

fn multiply(factors: &mut Factors, by: &[f64]) {
    match factors {
        None => *factors = Some(by.to_vec()),
        Some(old) if old.len() < by.len() => {
            *old = by.iter().map(|f| f * old[0]).collect();
        }
        Some(old) => {
            let wide = by.iter().cycle();
            old.iter_mut().zip(wide).for_each(|(old, f)| *old *= f);
        }
    }
}

/// What scaling decides.
pub(crate) struct Scales<'a> {
    network: &'a CellNetwork,
    signs: &'a Signs,
    options: &'a PlanOptions,
    /// Whether branches that meet take the scale of the widest.
    tight: bool,
    readers: Vec<usize>,
    /// Scale of weights and scale of activations of each cell's result.
    weights: Vec<f64>,
    activations: Vec<f64>,
    /// Real value of a step, in units of the inputs' range.
    pub(crate) steps: Vec<f64>,
    /// Per cell, its own factors.
    pub(crate) factors: Vec<Factors>,
    /// Per cell and input, those of the edge.
    pub(crate) edges: Vec<Vec<Factors>>,
    /// Per cell with parameters, how they become integers.
    pub(crate) gains: Vec<Option<Gains>>,
    /// Cells whose branches have a common scale so many bits wider than the widest of them.
    pub(crate) wide: Vec<(usize, f64)>,
}

impl<'a> Scales<'a> {
    /// The scales of a network whose results have `thresholds` (in units of the inputs' range;
    /// those of cells that pass integers on are not looked at).
    pub(crate) fn from_thresholds(
        network: &'a CellNetwork,
        signs: &'a Signs,
        thresholds: &[f64],
        options: &'a PlanOptions,
    ) -> Scales<'a> {
        let with = |tight| Scales::with(network, signs, thresholds, options, tight);
        match options.branches {
            Branches::Tight => with(true),
            Branches::AsN2d2 => with(false),
            Branches::Auto => {
                Some(with(false)).filter(Scales::is_fine_in_n2d2).unwrap_or_else(|| with(true))
            }
        }
    }

    fn with(
        network: &'a CellNetwork,
        signs: &'a Signs,
        thresholds: &[f64],
        options: &'a PlanOptions,
        tight: bool,
    ) -> Scales<'a> {
        let count = network.cells.len();
        let mut scales = Scales {
            network,
            signs,
            options,
            tight,
            readers: (0..count).map(|i| network.readers(i)).collect(),
            weights: vec![1.0; count],
            activations: vec![1.0; count],
            steps: vec![1.0; count],
            factors: vec![None; count],
            edges: network.cells.iter().map(|c| vec![None; c.inputs.len()]).collect(),
            gains: vec![None; count],
            wide: vec![],
        };
        for (i, cell) in network.cells.iter().enumerate() {
            scales.parameters(i, cell);
        }
        for (i, cell) in network.cells.iter().enumerate() {
            scales.activation(i, cell, thresholds[i]);
        }
        scales.pass_on();
        scales
    }

    /// Whether N2D2 can export such a network, and its common scales lose little: it has no form for
    /// a branch that is rescaled by itself, refuses branches of which some have a sign, writes the
    /// weights of one parent only for a convolution of several, and knows no function but Softmax.
    fn is_fine_in_n2d2(&self) -> bool {
        let cells = &self.network.cells;
        let joined = |source: &CellInput| match source {
            CellInput::Cell(i) => cells[*i].kind == CellKind::Concat,
            CellInput::Input(_) => false,
        };
        let written = |cell: &Cell| match cell.kind {
            CellKind::Conv => !cell.inputs.iter().any(joined),
            CellKind::Float => self.network.model.graph[cell.node].is("Softmax"),
            _ => true,
        };
        let whole = self.edges.iter().flatten().all(Option::is_none);
        let narrow = self.wide.iter().all(|(_, lost)| *lost < LOST_MIN);
        whole && narrow && self.signs.forced.is_empty() && cells.iter().all(written)
    }

    fn levels(&self, signed: bool) -> f64 {
        bounds(self.options.bits, signed).1 as f64
    }

    /// Levels of the signed range, which weights use.
    fn weight_levels(&self) -> f64 {
        self.levels(true)
    }

    fn of_source(list: &[f64], source: CellInput) -> f64 {
        match source {
            CellInput::Input(_) => 1.0,
            CellInput::Cell(i) => list[i],
        }
    }

    /// Brings the inputs of a cell to the common scale `to` of a list.
    fn unite(&mut self, at: usize, of: &[f64], to: f64) {
        for (slot, own) in of.iter().enumerate().filter(|(_, own)| **own != to) {
            self.push(at, slot, &[own / to]);
        }
    }

    /// Puts a factor on an edge, or as far above as it can go.
    fn push(&mut self, at: usize, slot: usize, by: &[f64]) {
        let network = self.network;
        if let CellInput::Cell(before) = network.cells[at].inputs[slot]
            && self.readers[before] == 1
        {
            let cell = &network.cells[before];
            if cell.rescales() {
                multiply(&mut self.factors[before], by);
                self.steps[before] /= by[0];
                return;
            }
            if cell.is_plain_sum() || cell.kind == CellKind::Layout {
                (0..cell.inputs.len()).for_each(|slot| self.push(before, slot, by));
                return;
            }
        }
        multiply(&mut self.edges[at][slot], by);
    }

    /// Scales of weights.
    fn parameters(&mut self, at: usize, cell: &Cell) {
        if cell.kind == CellKind::Float {
            return;
        }
        let of: Vec<f64> = cell.inputs.iter().map(|s| Self::of_source(&self.weights, *s)).collect();
        let common = of.iter().copied().fold(0.0, f64::max);
        self.unite(at, &of, common);
        self.weights[at] = common;
        let Some(parameters) = &cell.parameters else { return };
        let largest = abs_max(&parameters.weights);
        let mut ranges = vec![f64::from(largest)];
        if largest == 0.0 {
            ranges = vec![1.0];
        } else if self.options.per_output {
            // Else the bias of a channel with tiny weights would be huge.
            let floor = largest.min(CHANNEL_MAX);
            let channels = parameters.weights.chunks(parameters.per_output().max(1));
            let own: Vec<f64> = channels.map(|w| f64::from(abs_max(w).max(floor))).collect();
            multiply(
                &mut self.factors[at],
                &own.iter().map(|m| m / f64::from(largest)).collect::<Vec<_>>(),
            );
            ranges = own;
        }
        let levels = self.weight_levels();
        let input = self.levels(self.signs.reads_signed(cell));
        self.gains[at] = Some(Gains {
            weights: ranges.iter().map(|m| levels / m).collect(),
            bias: ranges.iter().map(|m| levels * input / (common * m)).collect(),
        });
        if largest != 0.0 {
            self.weights[at] *= f64::from(largest);
        }
    }

    /// Scales of activations.
    fn activation(&mut self, at: usize, cell: &Cell, threshold: f64) {
        let signed = self.signs.cells[at];
        if cell.kind == CellKind::Float {
            self.activations[at] = if threshold > 0.0 { threshold } else { 1.0 };
            self.steps[at] = self.activations[at] / self.levels(signed);
            return;
        }
        let of: Vec<f64> =
            cell.inputs.iter().map(|s| Self::of_source(&self.activations, *s)).collect();
        let mut common = of.iter().copied().fold(0.0, f64::max);
        if of.len() > 1 {
            let widest = self.widest(cell);
            if self.tight {
                common = widest;
            } else if !cell.is_plain_sum() {
                // Above a plain sum the factors join those of the branches, and nothing is lost.
                self.wide.push((at, (common / widest).log2()));
            }
        }
        self.unite(at, &of, common);
        self.activations[at] = common;
        if cell.passes() {
            return;
        }
        let scale = threshold / self.weights[at];
        let scale = if scale > 0.0 { scale } else { 1.0 };
        self.activations[at] = scale;
        let (input, output) = (self.levels(self.signs.reads_signed(cell)), self.levels(signed));
        let mut accumulated = input;
        if let Some(gains) = &mut self.gains[at] {
            gains.bias.iter_mut().for_each(|g| *g /= common);
            accumulated *= bounds(self.options.bits, true).1 as f64;
        }
        let factor = common / scale * output / accumulated;
        // Branches of different weights have moved a factor here already.
        self.steps[at] *= self.weights[at] * scale / output;
        if cell.is_plain_sum() {
            (0..cell.inputs.len()).for_each(|slot| self.push(at, slot, &[factor]));
        } else {
            multiply(&mut self.factors[at], &[factor]);
        }
    }

    /// The scale of activations with which no branch is wider than the widest.
    fn widest(&self, cell: &Cell) -> f64 {
        let both = cell
            .inputs
            .iter()
            .map(|s| Self::of_source(&self.weights, *s) * Self::of_source(&self.activations, *s));
        let weights = cell.inputs.iter().map(|s| Self::of_source(&self.weights, *s));
        both.fold(0.0, f64::max) / weights.fold(0.0, f64::max)
    }

    /// The step of what a cell reads.
    pub(crate) fn step(&self, at: usize, slot: usize) -> f64 {
        let step = match self.network.cells[at].inputs[slot] {
            CellInput::Input(_) => 1.0 / self.levels(self.signs.inputs),
            CellInput::Cell(i) => self.steps[i],
        };
        self.edges[at][slot].as_ref().map_or(step, |f| step / f[0])
    }

    /// The steps of cells that have no factor.
    fn pass_on(&mut self) {
        for (at, cell) in self.network.cells.iter().enumerate() {
            if (cell.passes() || cell.is_plain_sum()) && !cell.inputs.is_empty() {
                self.steps[at] = self.step(at, 0);
            }
        }
    }

    /// Mode of rescaling on edges: a shift would have to be made up for in weights.
    pub(crate) fn edge_mode(&self) -> Rescaling {
        edge_mode(self.options.rescaling)
    }
}

fn edge_mode(mode: Rescaling) -> Rescaling {
    match mode {
        Rescaling::SingleShift | Rescaling::DoubleShift => Rescaling::FixedPoint16,
        other => other,
    }
}
