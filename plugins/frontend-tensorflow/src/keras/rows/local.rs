//! Convolutions whose filters differ from place to place. Keras 2 has three forms of their weights.

use super::{count, weights_and_bias};
use crate::ops::create::scalar;
use crate::ops::layout::Channels;
use crate::ops::shape::transposed;
use crate::ops::{Lower, RowContext, dtype_of};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::diagnostics::{Code, refuse};
use onnxd_plugin_sdk::ir::{Dim, Tensor};
use onnxd_plugin_sdk::lower::{Lowered, Table};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    crate::ops::rows! { table;
        "LocallyConnected1D" | "LocallyConnected2D" => local;
    }
}

arguments! {
    /// `LocallyConnected2D(filters, kernel_size, strides=(1, 1), padding="valid", data_format=None, use_bias=True,
    /// implementation=1)`
    struct Local {
        inputs: Var, filters: i64, kernel_size: Vec<i64>, strides: Vec<i64>, padding: String = "valid",
        data_format: String = "channels_last", use_bias: bool = true, implementation: i64 = 1, weights: Vec<Var>,
    }
}

/// Which cells of the input each place of the result sees.
struct LocalWindows {
    channels: Channels,
    /// How many channels the input has.
    depth: i64,
    /// Spatial sizes of the input and of the result.
    from: Vec<i64>,
    to: Vec<i64>,
    /// Cells of the input, in order, for each place.
    seen: Vec<Vec<i64>>,
}

fn product(sizes: &[i64]) -> i64 {
    sizes.iter().fold(1, |product, n| product.saturating_mul(*n))
}

impl LocalWindows {
    fn find(b: &GraphBuilder, a: &Local) -> Lowered<LocalWindows> {
        let channels = Channels::from_format(b, &a.data_format)?;
        let n = a.kernel_size.len();
        let Some(mut from) = b
            .shape_of(a.inputs)
            .filter(|shape| shape.len() == n + 2)
            .and_then(|shape| shape[1..].iter().map(Dim::known).collect::<Option<Vec<i64>>>())
        else {
            let message =
                format!("The input needs {n} axes of known size between batch and channels.");
            return Err(b.unsupported(message));
        };
        let depth = from.remove(if channels == Channels::Last { n } else { 0 });
        let is_same = a.padding == "same";
        let window = super::window(b, &a.kernel_size, &a.strides, None, &a.padding, channels)?;
        let size = |i: usize| {
            let reach = if is_same { 1 } else { window.kernel[i] };
            ((from[i] - reach).max(-1) + window.strides[i]) / window.strides[i]
        };
        let to: Vec<i64> = (0..n).map(size).collect();
        let cells = product(&to).saturating_mul(product(&window.kernel)).saturating_mul(depth);
        count(b, "weights of a filter", cells)?;
        refuse!(product(&from).saturating_mul(depth) == i64::MAX =>
            b.diagnostic(Code::SourceLimit, "The input has too many elements."));
        let ranges = |place: &[i64]| -> Vec<std::ops::Range<i64>> {
            let range = |i: usize| {
                let before = if is_same { window.kernel[i] / 2 } else { 0 };
                let begin = place[i] * window.strides[i] - before;
                begin.max(0)..(begin + window.kernel[i]).min(from[i])
            };
            (0..n).map(range).collect()
        };
        let all: Vec<std::ops::Range<i64>> = to.iter().map(|n| 0..*n).collect();
        let flat = |cell: &[i64]| cell.iter().zip(&from).fold(0, |at, (i, n)| at * n + i);
        let seen = each(&all)
            .iter()
            .map(|place| each(&ranges(place)).iter().map(|cell| flat(cell)).collect())
            .collect();
        Ok(LocalWindows { channels, depth, from, to, seen })
    }

    /// Elements of the flat input that each place sees, in order.
    fn elements(&self) -> Vec<Vec<i64>> {
        let cells = product(&self.from);
        let of_place = |seen: &Vec<i64>| match self.channels {
            Channels::Last => seen
                .iter()
                .flat_map(|cell| (0..self.depth).map(move |c| cell * self.depth + c))
                .collect(),
            Channels::First => (0..self.depth)
                .flat_map(|c| seen.iter().map(move |cell| c * cells + cell))
                .collect(),
        };
        self.seen.iter().map(of_place).collect()
    }

    /// The sizes of the result, or of what has an element for each of its elements.
    fn result(&self, first: i64, filters: i64) -> Vec<i64> {
        let mut sizes = self.to.clone();
        sizes.insert(if self.channels == Channels::Last { sizes.len() } else { 0 }, filters);
        sizes.insert(0, first);
        sizes
    }
}

/// All tuples of numbers of ranges, in order.
fn each(ranges: &[std::ops::Range<i64>]) -> Vec<Vec<i64>> {
    ranges.iter().fold(vec![vec![]], |all, range| {
        let longer = |start: &Vec<i64>| {
            let start = start.clone();
            range.clone().map(move |i| [start.as_slice(), &[i]].concat())
        };
        all.iter().flat_map(longer).collect()
    })
}

fn local(b: &Lower, a: Local) -> Lowered<Var> {
    let ([kernel], bias) = weights_and_bias(b, &a.weights, a.use_bias)?;
    let places = LocalWindows::find(b, &a)?;
    let filters = count(b, "filters", a.filters)?;
    let inner = product(&places.from) * places.depth;
    let flat = b.reshape(a.inputs, [-1, inner]).one()?;
    let y = match a.implementation {
        1 => at_places(b, &places, flat, kernel)?,
        2 => b.mat_mul(flat, masked(b, &places, kernel, [inner, filters])?)?,
        3 => listed(b, &places, flat, kernel, filters)?,
        other => {
            return Err(b.wrong(format!("The implementation {other} of the layer is not known.")));
        }
    };
    let y = b.reshape(y, places.result(-1, filters)).one()?;
    // Keras does not turn the bias, whose filters come last.
    bias.map_or(Ok(y), |bias| b.add(y, b.reshape(bias, places.result(1, filters)).one()?))
}

/// What places see of the flat input, each times its own matrix: `[place, seen, filter]`.
fn at_places(b: &GraphBuilder, places: &LocalWindows, flat: Var, kernel: Var) -> Lowered<Var> {
    let elements = places.elements();
    let most = elements.iter().map(Vec::len).max().unwrap_or(0);
    // Places at the border see fewer elements; they get a zero behind the input.
    let is_ragged = elements.iter().any(|seen| seen.len() < most);
    let flat = if is_ragged { b.pad(flat, [0, 0, 0, 1]).one()? } else { flat };
    let zero = product(&places.from) * places.depth;
    let filled = |mut seen: Vec<i64>| {
        seen.resize(most, zero);
        seen
    };
    let dims = [elements.len(), most];
    let at = Tensor::from_vec(dims, elements.into_iter().flat_map(filled).collect::<Vec<i64>>());
    let seen = b.gather(flat, b.constant(at)).axis(1).one()?;
    let y = b.mat_mul(transposed(b, seen, &[1, 0, 2])?, kernel)?;
    let back = if places.channels == Channels::Last { [1, 0, 2] } else { [1, 2, 0] };
    transposed(b, y, &back)
}

/// A matrix from all of the input to all of the result, without what places do not see.
fn masked(
    b: &GraphBuilder,
    places: &LocalWindows,
    kernel: Var,
    [inner, filters]: [i64; 2],
) -> Lowered<Var> {
    let cells = product(&places.from);
    let n = places.seen.len();
    count(b, "weights of a mask", cells.saturating_mul(n as i64))?;
    let mut mask = vec![0f32; cells as usize * n];
    for (place, seen) in places.seen.iter().enumerate() {
        seen.iter().for_each(|cell| mask[*cell as usize * n + place] = 1.0);
    }
    let (from, to) = (&places.from[..], &places.to[..]);
    let dims = match places.channels {
        Channels::Last => [from, &[1], to, &[1]].concat(),
        Channels::First => [&[1], from, &[1], to].concat(),
    };
    let dims: Vec<usize> = dims.into_iter().map(|n| n as usize).collect();
    let mask = b.cast(b.constant(Tensor::from_vec(dims, mask)), dtype_of(b, kernel)?)?;
    b.reshape(b.mul(kernel, mask)?, [inner, n as i64 * filters]).one()
}

/// Weights one after the other, as they stand in a matrix from the result to the input.
fn listed(
    b: &GraphBuilder,
    places: &LocalWindows,
    flat: Var,
    kernel: Var,
    filters: i64,
) -> Lowered<Var> {
    let lengths: Vec<i64> =
        places.seen.iter().map(|seen| seen.len() as i64 * places.depth).collect();
    let (all, most) = (lengths.iter().sum::<i64>(), lengths.iter().copied().max().unwrap_or(0));
    count(b, "weights", most.saturating_mul(lengths.len() as i64).saturating_mul(filters))?;
    let total = all * filters;
    let mut at = vec![];
    let mut before = 0;
    for length in &lengths {
        for i in 0..most {
            let weight = |filter: i64| match places.channels {
                Channels::Last => before * filters + filter * length + i,
                Channels::First => filter * all + before + i,
            };
            at.extend((0..filters).map(|filter| if i < *length { weight(filter) } else { total }));
        }
        before += length;
    }
    let dims = [lengths.len(), most as usize, filters as usize];
    let zero = b.reshape(scalar(0, dtype_of(b, kernel)?), [1]).one()?;
    let kernel = b.concat([kernel, zero]).axis(0).one()?;
    let kernel = b.gather(kernel, b.constant(Tensor::from_vec(dims, at))).axis(0).one()?;
    at_places(b, places, flat, kernel)
}
