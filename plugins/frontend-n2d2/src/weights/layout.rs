//! The order of numbers in a weights file, and how to bring them into ONNX order.
//!
//! A file holds one record per output; `OutputsRemap` says which output each record belongs to.

use super::Kernels;

/// What varies slowest in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Order {
    /// `OCHW` and `OC`: record after record.
    #[default]
    OutputFirst,
    /// `HWCO` and `CO`: the outputs vary fastest.
    OutputLast,
}

/// How the file of a layer is laid out.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layout {
    pub(crate) order: Order,
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
            if record.replace(visited).is_some() {
                return Err(format!("output {at} is visited twice"));
            }
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

impl Layout {
    /// The output that record `record` of the file belongs to.
    fn output(&self, record: usize) -> usize {
        self.remap.as_ref().map_or(record, |remap| remap[record])
    }

    fn is_plain(&self) -> bool {
        self.order == Order::OutputFirst && self.remap.is_none()
    }

    /// How many numbers each record of a file of kernels has.
    pub(super) fn records_of(&self, kernels: Kernels) -> Vec<usize> {
        let outputs = 0..kernels.map.outputs();
        outputs.map(|record| kernels.map.fan_in(self.output(record)) * kernels.area()).collect()
    }

    /// Separates the biases of a file that holds everything: one after each record, or all at
    /// the end when the outputs vary fastest.
    pub(super) fn split(
        &self,
        mut numbers: Vec<f32>,
        records: &[usize],
    ) -> (Vec<f32>, Option<Vec<f32>>) {
        if !self.bias {
            return (numbers, None);
        }
        if self.order == Order::OutputLast {
            let bias = numbers.split_off(numbers.len() - records.len());
            return (numbers, Some(bias));
        }
        let mut weights = Vec::with_capacity(numbers.len() - records.len());
        let mut bias = Vec::with_capacity(records.len());
        let mut rest = numbers.as_slice();
        for length in records {
            let (record, tail) = rest.split_at(*length);
            weights.extend_from_slice(record);
            bias.push(tail[0]);
            rest = &tail[1..];
        }
        (weights, Some(bias))
    }

    pub(super) fn arrange_bias(&self, bias: Vec<f32>) -> Vec<f32> {
        if self.remap.is_none() {
            return bias;
        }
        let mut arranged = vec![0.0; bias.len()];
        for (record, value) in bias.into_iter().enumerate() {
            arranged[self.output(record)] = value;
        }
        arranged
    }

    pub(super) fn arrange_fc(&self, inputs: usize, weights: Vec<f32>) -> Vec<f32> {
        if self.is_plain() || inputs == 0 {
            return weights;
        }
        let outputs = weights.len() / inputs;
        let mut arranged = vec![0.0; weights.len()];
        for record in 0..outputs {
            let row = &mut arranged[self.output(record) * inputs..][..inputs];
            match self.order {
                Order::OutputFirst => row.copy_from_slice(&weights[record * inputs..][..inputs]),
                Order::OutputLast => {
                    let column = weights.iter().skip(record).step_by(outputs);
                    row.iter_mut().zip(column).for_each(|(to, from)| *to = *from);
                }
            }
        }
        arranged
    }

    /// Brings kernels into ONNX order; unconnected pairs of a partial map become zeros.
    pub(super) fn arrange(&self, kernels: Kernels, weights: Vec<f32>) -> Vec<f32> {
        let dims = kernels.dims();
        let numbers: usize = dims.iter().product();
        let complete = weights.len() == numbers;
        if self.is_plain() && complete && !kernels.transposed && !self.flip {
            return weights;
        }
        let mut arranged = vec![0.0; numbers];
        match self.order {
            Order::OutputFirst => self.records_first(kernels, &weights, &mut arranged),
            Order::OutputLast => self.outputs_last(kernels, &weights, &mut arranged),
        }
        arranged
    }

    fn records_first(&self, kernels: Kernels, mut weights: &[f32], arranged: &mut [f32]) {
        let area = kernels.area();
        for record in 0..kernels.map.outputs() {
            let output = self.output(record);
            for channel in kernels.map.channels_of(output) {
                let (kernel, rest) = weights.split_at(area);
                weights = rest;
                let target = &mut arranged[kernels.position(output, channel) * area..][..area];
                target.copy_from_slice(kernel);
                if self.flip {
                    target.reverse();
                }
            }
        }
    }

    fn outputs_last(&self, kernels: Kernels, weights: &[f32], arranged: &mut [f32]) {
        let Kernels { map, .. } = kernels;
        let area = kernels.area();
        let mut weights = weights.iter();
        for point in 0..area {
            let point = if self.flip { area - 1 - point } else { point };
            for channel in 0..map.channels() {
                for record in 0..map.outputs() {
                    let output = self.output(record);
                    if !map.connected(output, channel) {
                        continue;
                    }
                    if let Some(weight) = weights.next() {
                        arranged[kernels.position(output, channel) * area + point] = *weight;
                    }
                }
            }
        }
    }
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
