//! Mean and central moments by updates that stay accurate, and that merge.

/// Count, mean, and sums of the second to fourth powers of differences from the mean.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moments {
    /// Values seen.
    pub count: u64,
    /// Their mean; 0 without values.
    pub mean: f64,
    m2: f64,
    m3: f64,
    m4: f64,
}

impl Moments {
    /// Takes in finite values: moments of the block around its own mean, then merged.
    pub fn see(&mut self, values: &[f64]) {
        if values.is_empty() {
            return;
        }
        let n = values.len() as f64;
        let mean = values.iter().map(|x| x / n).sum::<f64>();
        let mut block = Moments { count: values.len() as u64, mean, ..Moments::default() };
        for x in values {
            let d = x - mean;
            let square = d * d;
            block.m2 += square;
            block.m3 += square * d;
            block.m4 += square * square;
        }
        self.merge(&block);
    }

    /// Takes in what another one saw.
    pub fn merge(&mut self, other: &Moments) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            *self = *other;
            return;
        }
        let (a, b) = (self.count as f64, other.count as f64);
        let n = a + b;
        let d = other.mean - self.mean;
        let (d2, ab) = (d * d, a * b);
        let m4 = self.m4
            + other.m4
            + d2 * d2 * ab * (a * a - ab + b * b) / (n * n * n)
            + 6.0 * d2 * (a * a * other.m2 + b * b * self.m2) / (n * n)
            + 4.0 * d * (a * other.m3 - b * self.m3) / n;
        let m3 = self.m3
            + other.m3
            + d2 * d * ab * (a - b) / (n * n)
            + 3.0 * d * (a * other.m2 - b * self.m2) / n;
        let m2 = self.m2 + other.m2 + d2 * ab / n;
        let mean = self.mean + d * b / n;
        *self = Moments { count: self.count + other.count, mean, m2, m3, m4 };
    }

    fn per_value(&self, sum: f64) -> f64 {
        if self.count == 0 { 0.0 } else { sum / self.count as f64 }
    }

    /// Mean of the squared differences from the mean.
    #[must_use]
    pub fn variance(&self) -> f64 {
        self.per_value(self.m2)
    }

    /// Root of the variance.
    #[must_use]
    pub fn deviation(&self) -> f64 {
        self.variance().sqrt()
    }

    /// Mean of the third powers.
    #[must_use]
    pub fn third(&self) -> f64 {
        self.per_value(self.m3)
    }

    /// Mean of the fourth powers.
    #[must_use]
    pub fn fourth(&self) -> f64 {
        self.per_value(self.m4)
    }
}
