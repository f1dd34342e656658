//! What channels are on average, as far as samples tell.

use onnxd_ir::{Tensor, axis_at};

/// Means of the channels of a value over samples, with what is needed to tell how sure they are.
#[derive(Clone, Debug, PartialEq)]
pub struct ChannelMeans {
    /// The axis; negative ones count from the end.
    axis: i64,
    /// Indices along the first axis seen, each of which counts as a sample.
    rows: u64,
    /// Of the means in a row, by channel.
    sums: Vec<f64>,
    /// Of their squares.
    squares: Vec<f64>,
    /// Tensors with other numbers of channels were seen, so that there are no means.
    mixed: bool,
}

onnxd_eval::vectorized! {
    fn sum(values: &[f32]) -> f32 {
        const LANES: usize = 16;
        let mut sums = [0f32; LANES];
        let (rows, rest) = values.as_chunks::<LANES>();
        for row in rows {
            sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
        }
        sums.iter().sum::<f32>() + rest.iter().sum::<f32>()
    }
}

onnxd_eval::vectorized! {
    fn add(sums: &mut [f64], values: &[f32]) {
        sums.iter_mut().zip(values).for_each(|(sum, x)| *sum += f64::from(*x));
    }
}

impl ChannelMeans {
    /// Without values.
    #[must_use]
    pub fn new(axis: i64) -> ChannelMeans {
        ChannelMeans { axis, rows: 0, sums: Vec::new(), squares: Vec::new(), mixed: false }
    }

    /// Ones whose [`ChannelMeans::known`] are these.
    #[must_use]
    pub(crate) fn from_means(known: &[f32]) -> ChannelMeans {
        // Two samples that agree.
        let sums = known.iter().map(|m| 2.0 * f64::from(*m)).collect();
        let squares = known.iter().map(|m| 2.0 * f64::from(*m).powi(2)).collect();
        ChannelMeans { rows: 2, sums, squares, ..ChannelMeans::new(0) }
    }

    /// Takes in a tensor of floats. One that has no such axis is passed over.
    pub fn see(&mut self, tensor: &Tensor) {
        let Some(values) = tensor.as_slice::<f32>() else { return };
        let dims = tensor.dims();
        let Some(axis) = axis_at(self.axis, dims.len()) else { return };
        if values.is_empty() || !self.fit(dims[axis]) {
            return;
        }
        let (channels, inner) = (dims[axis], dims[axis + 1..].iter().product::<usize>());
        let row = values.len() / if axis == 0 { 1 } else { dims[0] };
        let share = channels as f64 / row as f64;
        for row in values.chunks(row) {
            let mut means = vec![0f64; channels];
            for all in row.chunks(channels * inner) {
                match inner {
                    1 => add(&mut means, all),
                    _ => means.iter_mut().zip(all.chunks(inner)).for_each(|(m, run)| {
                        *m += f64::from(sum(run));
                    }),
                }
            }
            let both = self.sums.iter_mut().zip(&mut self.squares);
            for ((sum, square), mean) in both.zip(means) {
                let mean = mean * share;
                *sum += mean;
                *square += mean * mean;
            }
            self.rows += 1;
        }
    }

    /// Whether tensors have as many channels as those before.
    fn fit(&mut self, channels: usize) -> bool {
        if self.rows == 0 {
            self.sums.resize(channels, 0.0);
            self.squares.resize(channels, 0.0);
        }
        self.mixed |= self.sums.len() != channels;
        !self.mixed
    }

    /// Takes in what another one of the same axis saw.
    pub fn merge(&mut self, other: &ChannelMeans) {
        self.mixed |= other.mixed;
        if other.rows == 0 || !self.fit(other.sums.len()) {
            return;
        }
        self.rows += other.rows;
        let both = self.sums.iter_mut().zip(&mut self.squares);
        for ((sum, square), (s, q)) in both.zip(other.sums.iter().zip(&other.squares)) {
            *sum += s;
            *square += q;
        }
    }

    /// The means, drawn to zero by as much as they may be off (James and Stein's estimate with the
    /// variance of the mean from how much samples differ): one that is within its standard error is
    /// none. Empty without two samples, or if not all is finite.
    #[must_use]
    pub fn known(&self) -> Vec<f32> {
        let n = self.rows as f64;
        if self.mixed || self.rows < 2 || !self.squares.iter().all(|s| s.is_finite()) {
            return Vec::new();
        }
        let one = |(sum, square): (&f64, &f64)| {
            let mean = sum / n;
            let variance = ((square - sum * mean) / (n - 1.0)).max(0.0) / n;
            let kept = if mean == 0.0 { 0.0 } else { (1.0 - variance / (mean * mean)).max(0.0) };
            (mean * kept) as f32
        };
        self.sums.iter().zip(&self.squares).map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(axis: i64, tensors: &[(&[usize], &[f32])]) -> ChannelMeans {
        let mut means = ChannelMeans::new(axis);
        tensors.iter().for_each(|(d, x)| means.see(&Tensor::from_vec(d.to_vec(), x.to_vec())));
        means
    }

    #[test]
    fn means_are_drawn_to_zero_by_their_variance() {
        // Rows of means 1 and 3, then 4 and 4; of channels that cancel nothing is left.
        let means = of(1, &[(&[2, 3, 2], &[0., 2., 4., 4., 1., 1., 2., 4., 5., 3., -1., -1.])]);
        // Variance of the mean: ((1-2)^2 + (3-2)^2) / 1 / 2 = 1 of 2^2.
        assert_eq!(means.known(), [2.0 * (1.0 - 1.0 / 4.0), 4.0, 0.0]);
        let rows = of(-1, &[(&[1, 2, 3], &[0., 4., 1., 2., 4., 1.]), (&[1, 1, 3], &[3., 4., -1.])]);
        assert_eq!(rows.known(), means.known());
        assert!(of(1, &[(&[1, 2], &[1., 1.])]).known().is_empty(), "one sample tells no variance");
        let mixed = of(1, &[(&[2, 2], &[1.; 4]), (&[1, 1], &[1.])]);
        assert!(mixed.known().is_empty());
        assert!(of(1, &[(&[2, 1], &[1., f32::NAN])]).known().is_empty());
        assert!(of(3, &[(&[2, 2], &[1.; 4])]).known().is_empty());
    }

    #[test]
    fn parts_merge_and_what_is_known_is_restored() {
        let values: Vec<f32> = (0..40).map(|i| (i as f32 * 0.7).sin() + 0.3).collect();
        let whole = of(1, &[(&[4, 5, 2], &values)]);
        let mut first = of(1, &[(&[1, 5, 2], &values[..10])]);
        first.merge(&ChannelMeans::new(1));
        first.merge(&of(1, &[(&[3, 5, 2], &values[10..])]));
        let near = |(a, b): (&f32, &f32)| (a - b).abs() < 1e-6;
        let (a, b) = (whole.known(), first.known());
        assert!(a.len() == 5 && a.iter().zip(&b).all(near), "{a:?} {b:?}");
        assert_eq!(ChannelMeans::from_means(&a).known(), a);
        first.merge(&of(1, &[(&[1, 4, 1], &values[..4])]));
        assert!(first.known().is_empty());
    }
}
