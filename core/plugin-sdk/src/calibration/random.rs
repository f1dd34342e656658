//! Random numbers in place of data, if params ask for them.

use super::input::Input;
use crate::diagnostics::{Code, Diagnostic, shown};
use crate::eval::RandomSource;
use crate::ir::ops::Gather;
use crate::ir::{At, DataType, Dim, Graph, Reals, Tensor, ValueId, element_count};
use onnxd_diagnostics::refuse;

/// Elements of a sample at most.
const ELEMENTS_MAX: usize = 1 << 26;
/// Size of axes that a model leaves open, where no one says one.
pub(crate) const OPEN_SIZE: usize = 32;
/// Integers stay below this where nothing tells more.
const INTEGERS: usize = 10;
/// Nodes that are looked at for the tables that an input indexes.
const NODES_MAX: usize = 1000;

/// What is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Drawing {
    pub(super) samples: u64,
    /// Where numbers lie.
    pub(super) range: Option<[f64; 2]>,
    /// Of axes that the model leaves open.
    pub(super) size: Option<usize>,
    pub(super) seed: u64,
}

/// The samples of one input.
#[derive(Clone, Debug)]
pub(super) struct Random {
    samples: u64,
    /// Without the axis of the samples.
    dims: Vec<usize>,
    /// The input is a scalar: each sample is all of it.
    scalar: bool,
    dtype: DataType,
    draw: Draw,
    seed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Draw {
    Normal,
    Reals(f64, f64),
    /// From zero to below.
    Integers(usize),
    /// A mask of tokens that all count. Other numbers would be padding and multiples of tokens, as no data have them.
    Ones,
}

/// What names of masks of tokens end with: 1 for a token, 0 for padding.
const MASKS: [&str; 2] = ["attention_mask", "input_mask"];

impl Random {
    /// Of the input number `index` of a graph, which is the value `v`.
    pub(super) fn for_input(
        (graph, v, index): (&Graph, ValueId, u64),
        input: &Input,
        drawing: Drawing,
    ) -> Result<Random, Diagnostic> {
        let refused = |why: String, help: &'static str| {
            let text = format!("no random samples of input `{}`: {why}", shown(input.name));
            Diagnostic::new(Code::EvalInputs, text).help(help)
        };
        let drop = "Drop samples, and leave `calibration.random` out.";
        let (sizes, scalar) = match input.shape {
            Some([_, sizes @ ..]) => (sizes, false),
            Some([]) => (&[][..], true),
            None => return Err(refused("its rank is not known".into(), drop)),
        };
        let size = |(at, dim): (usize, &Dim)| match dim {
            Dim::Known(n) => usize::try_from(*n).map_err(|e| refused(e.to_string(), drop)),
            _ => drawing.size.ok_or_else(|| {
                let why = format!("the model leaves the size of axis {} open", at + 1);
                refused(why, "Give a size by `calibration.random_size`.")
            }),
        };
        let dims = sizes.iter().enumerate().map(size).collect::<Result<Vec<_>, _>>()?;
        refuse!(element_count(&dims).is_none_or(|n| n > ELEMENTS_MAX) =>
            refused(format!("{dims:?} is more than is drawn"), drop));
        let draw = match (input.dtype, drawing.range) {
            (DataType::String, _) => return Err(refused("it takes texts".into(), drop)),
            (dtype, Some([low, high])) if dtype.is_float() => Draw::Reals(low, high),
            (dtype, None) if dtype.is_float() => Draw::Normal,
            _ if MASKS.iter().any(|mask| input.name.ends_with(mask)) => Draw::Ones,
            (DataType::Bool, _) => Draw::Integers(2),
            _ => Draw::Integers(indexed(graph, v).unwrap_or(INTEGERS)),
        };
        // Inputs differ from each other.
        let seed = drawing.seed ^ RandomSource::new(index).bits();
        Ok(Random { samples: drawing.samples, dims, scalar, dtype: input.dtype, draw, seed })
    }

    pub(super) fn is_scalar(&self) -> bool {
        self.scalar
    }

    pub(super) fn samples(&self) -> u64 {
        self.samples
    }

    /// From the first sample.
    pub(super) fn stream(&self) -> RandomSource {
        RandomSource::new(self.seed)
    }

    /// The next samples of a stream.
    pub(super) fn take(&self, stream: &mut RandomSource, count: usize) -> Result<Tensor, String> {
        let dims = if self.scalar { Vec::new() } else { [&[count], &self.dims[..]].concat() };
        let total = element_count(&dims).filter(|n| *n <= ELEMENTS_MAX.max(self.of_one()));
        let total = total.ok_or("a batch is larger than is drawn")?;
        let mut number = || match self.draw {
            Draw::Normal => stream.normal(),
            Draw::Reals(low, high) => low + (high - low) * stream.fraction(),
            Draw::Integers(below) => (stream.fraction() * below as f64).floor(),
            Draw::Ones => 1.0,
        };
        let values = (0..total).map(|_| number()).collect();
        numbers(self.dtype, dims, values)
            .ok_or_else(|| format!("no numbers of type {}", self.dtype))
    }

    fn of_one(&self) -> usize {
        self.dims.iter().product()
    }

    /// What is drawn, in words.
    pub(super) fn described(&self) -> String {
        match self.draw {
            Draw::Normal => "normal with mean 0 and standard deviation 1".into(),
            Draw::Reals(low, high) => format!("even from {low} to {high}"),
            Draw::Integers(below) => format!("integers below {below}"),
            Draw::Ones => "1 everywhere".into(),
        }
    }
}

/// A tensor of any type of real numbers; integers are cut off and saturate.
pub(super) fn numbers(dtype: DataType, dims: Vec<usize>, values: Vec<f64>) -> Option<Tensor> {
    macro_rules! whole {
        ($rust:ty) => {
            Some(Tensor::from_vec(dims, values.into_iter().map(|x| x as $rust).collect()))
        };
    }
    match dtype {
        DataType::Bool => {
            let bytes: Vec<u8> = values.into_iter().map(|x| u8::from(x != 0.0)).collect();
            Tensor::new(dtype, dims, bytes.into()).ok()
        }
        DataType::Int8 => whole!(i8),
        DataType::Int16 => whole!(i16),
        DataType::Int32 => whole!(i32),
        DataType::Int64 => whole!(i64),
        DataType::Uint8 => whole!(u8),
        DataType::Uint16 => whole!(u16),
        DataType::Uint32 => whole!(u32),
        DataType::Uint64 => whole!(u64),
        _ => Reals { dims, values }.to_tensor(dtype),
    }
}

/// The entries of the smallest table that a value indexes, itself or moved.
fn indexed(graph: &Graph, v: ValueId) -> Option<usize> {
    const MOVES: [&str; 8] =
        ["Cast", "Identity", "Unsqueeze", "Squeeze", "Reshape", "Flatten", "Transpose", "Expand"];
    let mut least: Option<usize> = None;
    let mut open = vec![v];
    let mut looked = 0;
    while let Some(v) = open.pop() {
        for id in graph.readers(v) {
            looked += 1;
            let node = &graph[*id];
            let gather = At::<Gather>::find(graph, *id).filter(|gather| gather.indices == v);
            if let Some(gather) = gather {
                let size = graph.constant(gather.data).and_then(|table| {
                    let rank = if gather.axis < 0 { table.rank() as i64 } else { 0 };
                    let axis = usize::try_from(gather.axis + rank).ok()?;
                    table.dims().get(axis).copied().filter(|n| *n > 0)
                });
                least = [least, size].into_iter().flatten().min();
            } else if MOVES.iter().any(|op| node.is(op)) && node.input(0) == Some(v) {
                open.extend(node.output(0));
            }
            if looked > NODES_MAX {
                return least;
            }
        }
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Inputs of a model by their names, as they are drawn.
    fn drawn(name: &str, dtype: DataType) -> (Vec<f64>, String) {
        let mut graph = Graph::new("g");
        let v = graph.add_input(name, None);
        let shape = [Dim::Symbol("B".into()), Dim::Symbol("S".into())];
        let input = Input { name, dtype, shape: Some(&shape) };
        let drawing = Drawing { samples: 2, range: None, size: Some(50), seed: 3 };
        let random = Random::for_input((&graph, v, 0), &input, drawing).unwrap();
        let values = random.take(&mut random.stream(), 2).unwrap();
        (values.to_reals().unwrap().values, random.described())
    }

    #[test]
    fn masks_of_tokens_are_ones() {
        for name in ["attention_mask", "encoder_attention_mask", "bert/input_mask"] {
            for dtype in [DataType::Int64, DataType::Int32, DataType::Bool] {
                let (values, told) = drawn(name, dtype);
                assert!(values.len() == 100 && values.iter().all(|x| *x == 1.0), "{name} {dtype}");
                assert_eq!(told, "1 everywhere");
            }
        }
        // What is added to scores has no meaning that is known, and other masks are the other way round.
        for (name, dtype) in [
            ("attention_mask", DataType::Float),
            ("padding_mask", DataType::Bool),
            ("token_ids", DataType::Int64),
        ] {
            let (values, _) = drawn(name, dtype);
            assert!(values.iter().any(|x| *x != values[0]), "{name} {dtype}");
        }
    }
}
