//! The order of numbers in a weights file, and how to bring them into ONNX order.
//!
//! A file holds one record per output; `OutputsRemap` says which output each record belongs to.

use super::Kernels;
use crate::diag::refuse;

/// What varies slowest in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum WeightOrder {
    /// `OCHW` and `OC`: record after record.
    #[default]
    OutputFirst,
    /// `HWCO` and `CO`: the outputs vary fastest.
    OutputLast,
}

/// How the file of a layer is laid out.
#[derive(Clone, Debug, Default)]
pub(crate) struct WeightLayout {
    pub(crate) order: WeightOrder,
    /// Kernels are rotated by 180 degrees in the file.
    pub(crate) flip: bool,
    /// The output that each record of the file belongs to; in order if not given.
    pub(crate) remap: Option<Vec<usize>>,
    /// Whether the layer has biases.
    pub(crate) bias: bool,
}

/// Reads `OutputsRemap`: pairs `offset:step` separated by commas. The n-th index that the walks
/// visit is the record of output n.
pub(crate) fn remap(text: &str, outputs: usize) -> Result<Option<Vec<usize>>, String> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    let mut output_of = vec![None; outputs];
    let mut visited = 0;
    for pair in text.split(',') {
        let parse = |t: &str| t.trim().parse::<i64>().ok();
        let numbers = pair.split_once(':').and_then(|(a, b)| Some((parse(a)?, parse(b)?)));
        let Some((offset, step)) = numbers.filter(|(_, step)| *step != 0) else {
            return Err(format!("`{pair}` is not a pair `offset:step` with a step other than 0"));
        };
        let mut at = offset;
        while let Some(record) = usize::try_from(at).ok().and_then(|at| output_of.get_mut(at)) {
            refuse!(record.replace(visited).is_some() => "output {at} is visited twice");
            visited += 1;
            at = at.saturating_add(step);
        }
    }
    let missed = output_of.iter().position(Option::is_none);
    missed.map_or_else(
        || Ok(output_of.into_iter().collect()),
        |missed| Err(format!("output {missed} is never visited")),
    )
}

impl WeightLayout {
    /// The output that record `record` of the file belongs to.
    fn output(&self, record: usize) -> usize {
        self.remap.as_ref().map_or(record, |remap| remap[record])
    }

    /// How many numbers a file of kernels has.
    pub(super) fn count_of(&self, kernels: Kernels) -> usize {
        let outputs = 0..kernels.map.outputs();
        outputs.map(|output| kernels.map.fan_in(output) * kernels.area()).sum()
    }

    /// Puts the numbers of a file of kernels where ONNX has them; what no pair of a partial map
    /// connects stays as it is. `bias` is empty if the file holds no biases: else there is one
    /// after each record, or all are at the end when the outputs vary fastest. Numbers may end
    /// early.
    pub(super) fn place(
        &self,
        kernels: Kernels,
        numbers: &mut impl Iterator<Item = f32>,
        weights: &mut [f32],
        bias: &mut [f32],
    ) {
        match self.order {
            WeightOrder::OutputFirst => self.records_first(kernels, numbers, weights, bias),
            WeightOrder::OutputLast => {
                self.outputs_last(kernels, numbers, weights);
                self.place_bias(numbers, bias);
            }
        }
    }

    /// The same for a fully connected layer.
    pub(super) fn place_fc(
        &self,
        [outputs, inputs]: [usize; 2],
        numbers: &mut impl Iterator<Item = f32>,
        weights: &mut [f32],
        bias: &mut [f32],
    ) {
        match self.order {
            WeightOrder::OutputFirst => {
                for output in (0..outputs).map(|record| self.output(record)) {
                    fill(&mut weights[output * inputs..][..inputs], numbers);
                    fill(bias.get_mut(output), numbers);
                }
            }
            WeightOrder::OutputLast => {
                for input in 0..inputs {
                    let column = (0..outputs).map(|record| self.output(record) * inputs + input);
                    column.zip(numbers.by_ref()).for_each(|(at, number)| weights[at] = number);
                }
                self.place_bias(numbers, bias);
            }
        }
    }

    /// Biases in the order of the records.
    pub(super) fn place_bias(&self, numbers: &mut impl Iterator<Item = f32>, bias: &mut [f32]) {
        let places = (0..bias.len()).map(|record| self.output(record));
        places.zip(numbers).for_each(|(at, number)| bias[at] = number);
    }

    fn records_first(
        &self,
        kernels: Kernels,
        numbers: &mut impl Iterator<Item = f32>,
        weights: &mut [f32],
        bias: &mut [f32],
    ) {
        let area = kernels.area();
        for output in (0..kernels.map.outputs()).map(|record| self.output(record)) {
            for channel in kernels.map.channels_of(output) {
                let kernel = &mut weights[kernels.position(output, channel) * area..][..area];
                fill(&mut *kernel, numbers);
                if self.flip {
                    kernel.reverse();
                }
            }
            fill(bias.get_mut(output), numbers);
        }
    }

    fn outputs_last(
        &self,
        kernels: Kernels,
        numbers: &mut impl Iterator<Item = f32>,
        weights: &mut [f32],
    ) {
        let Kernels { map, .. } = kernels;
        let area = kernels.area();
        for point in 0..area {
            let point = if self.flip { area - 1 - point } else { point };
            for channel in 0..map.channels() {
                let outputs = (0..map.outputs()).map(|record| self.output(record));
                for output in outputs.filter(|output| map.connected(*output, channel)) {
                    let at = kernels.position(output, channel) * area + point;
                    fill(weights.get_mut(at), numbers);
                }
            }
        }
    }
}

/// Puts the next numbers into `places`, as far as there are some.
fn fill<'p>(
    places: impl IntoIterator<Item = &'p mut f32>,
    numbers: &mut impl Iterator<Item = f32>,
) {
    places.into_iter().zip(numbers).for_each(|(place, number)| *place = number);
}

impl Kernels<'_> {
    /// Index of the kernel of a connected pair among the kernels of the ONNX tensor.
    pub(super) fn position(&self, output: usize, channel: usize) -> usize {
        let [channels, outputs] = self.per_group();
        let group = output / outputs;
        match self.transposed {
            false => output * channels + (channel - group * channels),
            true => channel * outputs + (output - group * outputs),
        }
    }
}
