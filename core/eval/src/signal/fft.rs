//! The discrete Fourier transform of any length in `n log n` steps: lengths that are no power of
//! two are a convolution (Bluestein), so that no length is slow.

use std::f64::consts::PI;

/// A complex number.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Complex {
    pub(super) re: f64,
    pub(super) im: f64,
}

impl Complex {
    /// `exp(-2 pi i k / n)`.
    fn root(k: u128, n: usize) -> Complex {
        let angle = -2.0 * PI * (k % n as u128) as f64 / n as f64;
        Complex { re: angle.cos(), im: angle.sin() }
    }

    pub(super) fn conjugate(self) -> Complex {
        Complex { im: -self.im, ..self }
    }

    fn times(self, o: Complex) -> Complex {
        Complex { re: self.re * o.re - self.im * o.im, im: self.re * o.im + self.im * o.re }
    }
}

/// What transforms of one length share.
pub(super) struct FftPlan {
    n: usize,
    /// Roots of unity of the inner length.
    roots: Vec<Complex>,
    /// `exp(-pi i k^2 / n)`, and the transform of its conjugate; none for powers of two.
    chirp: Option<(Vec<Complex>, Vec<Complex>)>,
}

impl FftPlan {
    /// Transforms of length `n`, which is not 0.
    pub(super) fn new(n: usize) -> FftPlan {
        let inner = if n.is_power_of_two() { n } else { (2 * n).next_power_of_two() };
        let roots: Vec<Complex> = (0..inner as u128 / 2).map(|k| Complex::root(k, inner)).collect();
        if inner == n {
            return FftPlan { n, roots, chirp: None };
        }
        let chirp: Vec<Complex> = (0..n as u128).map(|k| Complex::root(k * k, 2 * n)).collect();
        let mut kernel = vec![Complex::default(); inner];
        for (k, c) in chirp.iter().enumerate() {
            kernel[k] = c.conjugate();
            kernel[(inner - k) % inner] = c.conjugate();
        }
        power_of_two(&mut kernel, &roots);
        FftPlan { n, roots, chirp: Some((chirp, kernel)) }
    }

    pub(super) fn length(&self) -> usize {
        self.n
    }

    /// Transforms a line of that length in place.
    pub(super) fn run(&self, line: &mut [Complex]) {
        let Some((chirp, kernel)) = &self.chirp else {
            return power_of_two(line, &self.roots);
        };
        let mut work = vec![Complex::default(); kernel.len()];
        for (w, (v, c)) in work.iter_mut().zip(line.iter().zip(chirp)) {
            *w = v.times(*c);
        }
        power_of_two(&mut work, &self.roots);
        // The inverse transform of the product is the conjugate of a transform of conjugates.
        for (w, k) in work.iter_mut().zip(kernel) {
            *w = w.times(*k).conjugate();
        }
        power_of_two(&mut work, &self.roots);
        let by = (kernel.len() as f64).recip();
        for (v, (w, c)) in line.iter_mut().zip(work.iter().zip(chirp)) {
            let w = w.conjugate().times(*c);
            *v = Complex { re: w.re * by, im: w.im * by };
        }
    }
}

/// Radix two, in place.
fn power_of_two(x: &mut [Complex], roots: &[Complex]) {
    let n = x.len();
    if n < 2 {
        return;
    }
    let shift = usize::BITS - n.trailing_zeros();
    for i in 0..n {
        let j = i.reverse_bits() >> shift;
        if i < j {
            x.swap(i, j);
        }
    }
    let mut half = 1;
    while half < n {
        let stride = n / (2 * half);
        for start in (0..n).step_by(2 * half) {
            for k in 0..half {
                let (a, b) = (x[start + k], x[start + k + half].times(roots[k * stride]));
                x[start + k] = Complex { re: a.re + b.re, im: a.im + b.im };
                x[start + k + half] = Complex { re: a.re - b.re, im: a.im - b.im };
            }
        }
        half *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_equals_the_definition() {
        for n in 1..40usize {
            let signal: Vec<Complex> = (0..n)
                .map(|t| Complex { re: (t * 7 % 5) as f64, im: (t * 3 % 4) as f64 - 1.0 })
                .collect();
            let mut found = signal.clone();
            FftPlan::new(n).run(&mut found);
            for (k, found) in found.iter().enumerate() {
                let mut sum = Complex::default();
                for (t, v) in signal.iter().enumerate() {
                    let term = v.times(Complex::root((k * t) as u128, n));
                    sum = Complex { re: sum.re + term.re, im: sum.im + term.im };
                }
                assert!((sum.re - found.re).abs() + (sum.im - found.im).abs() < 1e-9, "{n}");
            }
        }
    }
}
