//! The arithmetic of a plan, cell by cell, with loops over indices.

use crate::plan::{
    Activation, Cell, CellInput, CellKind, CellNetwork, CellPlan, IntegerPlan, Rescale,
};
use std::collections::BTreeMap;

/// `[n, c, h, w]`, or `[n, c, 1, 1]`.
#[derive(Clone)]
struct Array {
    dims: [usize; 4],
    values: Vec<i64>,
}

impl Array {
    fn make(dims: [usize; 4], f: impl Fn([usize; 4]) -> i64) -> Array {
        let mut values = Vec::new();
        for n in 0..dims[0] {
            for c in 0..dims[1] {
                for h in 0..dims[2] {
                    for w in 0..dims[3] {
                        values.push(f([n, c, h, w]));
                    }
                }
            }
        }
        Array { dims, values }
    }

    fn at(&self, [n, c, h, w]: [usize; 4]) -> i64 {
        self.values[((n * self.dims[1] + c) * self.dims[2] + h) * self.dims[3] + w]
    }

    fn map(&self, f: impl Fn(i64, usize) -> i64) -> Array {
        Array::make(self.dims, |i| f(self.at(i), i[1]))
    }
}

fn rescaled(array: &Array, how: Option<&Rescale>, (lo, hi): (i64, i64)) -> Array {
    array.map(|x, c| how.map_or(x, |how| how.apply(x, c)).clamp(lo, hi))
}

fn conv(x: &Array, cell: &Cell, plan: &CellPlan) -> Array {
    let dims = &cell.parameters.as_ref().unwrap().dims;
    let integers = plan.integers.as_ref().unwrap();
    let bias = |o: usize| integers.bias.as_ref().map_or(0, |b| b[o]);
    let pad = dims[2] / 2;
    let groups = x.dims[1] / dims[1];
    Array::make([x.dims[0], dims[0], x.dims[2], x.dims[3]], |[n, o, h, w]| {
        let mut sum = bias(o);
        for i in 0..dims[1] {
            let c = o / (dims[0] / groups) * dims[1] + i;
            for y in 0..dims[2] {
                for z in 0..dims[3] {
                    let (row, column) = (h + y, w + z);
                    let inside = (pad..pad + x.dims[2]).contains(&row)
                        && (pad..pad + x.dims[3]).contains(&column);
                    if inside {
                        let weight = ((o * dims[1] + i) * dims[2] + y) * dims[3] + z;
                        sum += i64::from(integers.weights[weight])
                            * x.at([n, c, row - pad, column - pad]);
                    }
                }
            }
        }
        sum
    })
}

fn fc(x: &Array, cell: &Cell, plan: &CellPlan) -> Array {
    let dims = &cell.parameters.as_ref().unwrap().dims;
    let integers = plan.integers.as_ref().unwrap();
    Array::make([x.dims[0], dims[0], 1, 1], |[n, o, _, _]| {
        let products =
            (0..dims[1]).map(|i| i64::from(integers.weights[o * dims[1] + i]) * x.at([n, i, 0, 0]));
        products.sum::<i64>() + integers.bias.as_ref().unwrap()[o]
    })
}

fn pool(x: &Array, join: impl Fn([i64; 4]) -> i64) -> Array {
    let [n, c, h, w] = x.dims;
    Array::make([n, c, h / 2, w / 2], |[n, c, h, w]| {
        let at = |y, z| x.at([n, c, 2 * h + y, 2 * w + z]);
        join([at(0, 0), at(0, 1), at(1, 0), at(1, 1)])
    })
}

/// The integers of every cell, by name.
pub(crate) fn run(
    network: &CellNetwork,
    plan: &IntegerPlan,
    input: &[i64],
) -> BTreeMap<String, Vec<i64>> {
    let input = Array { dims: [2, 2, 4, 4], values: input.to_vec() };
    let mut done: Vec<Array> = Vec::new();
    for (cell, decided) in network.cells.iter().zip(&plan.cells) {
        let operands: Vec<Array> = (cell.inputs.iter().enumerate())
            .map(|(slot, source)| {
                let (array, output) = match source {
                    CellInput::Input(i) => (&input, plan.inputs[*i]),
                    CellInput::Cell(i) => (&done[*i], plan.cells[*i].output.unwrap()),
                };
                let branch = decided.branches.get(slot).and_then(Option::as_ref);
                rescaled(array, branch, output.bounds())
            })
            .collect();
        let x = &operands[0];
        let acc = match cell.kind {
            CellKind::Conv => conv(x, cell, decided),
            CellKind::Fc => fc(x, cell, decided),
            CellKind::Sum => Array::make(x.dims, |i| operands.iter().map(|x| x.at(i)).sum()),
            CellKind::Max => {
                Array::make(x.dims, |i| operands.iter().map(|x| x.at(i)).max().unwrap())
            }
            CellKind::MaxPool => pool(x, |q| q.into_iter().max().unwrap()),
            CellKind::AveragePool => pool(x, |q| q.iter().sum::<i64>() / 4),
            CellKind::Concat => {
                let channels = x.dims[1];
                let dims = [x.dims[0], channels * operands.len(), x.dims[2], x.dims[3]];
                Array::make(dims, |[n, c, h, w]| operands[c / channels].at([n, c % channels, h, w]))
            }
            _ => Array {
                dims: [x.dims[0], x.values.len() / x.dims[0], 1, 1],
                values: x.values.clone(),
            },
        };
        let (lo, hi) = decided.output.unwrap().bounds();
        let lo = if cell.activation == Activation::Linear { lo } else { lo.max(0) };
        done.push(rescaled(&acc, decided.rescale.as_ref(), (lo, hi)));
    }
    network.cells.iter().zip(done).map(|(cell, array)| (cell.name.clone(), array.values)).collect()
}
