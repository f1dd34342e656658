//! A signal from its spectra of short times: each spectrum gives a piece of the signal, weighted by the window, and
//! overlapping pieces are added up. Both is one transpose convolution, whose kernels are the waves of a transform.

use super::complex::parts;
use super::dtype::{dtype_of, operand};
use super::fft::{KERNELS_MAX, window};
use super::sizes::{known_size, rank, size, vector};
use super::{Lower, RowContext};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::formulas::fourier::waves;
use onnxd_plugin_sdk::ir::Tensor;
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "complex::istft" => istft;
    }
}

arguments! {
    /// `istft`
    struct Istft {
        input: Var, n_fft: i64, hop_length: Option<i64>, win_length: Option<i64>, window: Option<Var>,
        center: bool, normalized: bool, onesided: Option<bool>, length: Option<i64>, return_complex: bool,
    }
}

fn istft(b: &Lower, a: Istft) -> Lowered<Var> {
    let wrong = |message: &str| Err(b.diagnostic(Code::LayerUnsupported, message));
    if a.return_complex {
        return wrong("The inverse of spectra of short times is converted for real signals only.");
    }
    let [re, im] = parts(b, a.input)?;
    let single = rank(b, re)? == 2;
    let rows = known_size(b, re, usize::from(!single));
    let (n, hop) = (a.n_fft, a.hop_length.unwrap_or(a.n_fft / 4));
    let width = a.win_length.unwrap_or(n);
    if !(1..=KERNELS_MAX).contains(&n) || !(1..=n).contains(&width) || hop < 1 {
        return wrong("The sizes of the transform, its window and its steps do not fit.");
    }
    let onesided = a.onesided.unwrap_or(rows != Some(n));
    let count = if onesided { n / 2 + 1 } else { n };
    if rows.is_some_and(|rows| rows != count) {
        return wrong("The spectra do not have as many frequencies as the transform gives.");
    }
    if n.saturating_mul(2 * count) > KERNELS_MAX {
        return wrong("The spectra have too many frequencies.");
    }
    let dtype = dtype_of(b, re)?;
    let mut both = b.concat([re, im]).axis(i64::from(!single)).one()?;
    if single {
        both = b.unsqueeze(both, [0])?;
    }
    let window = window(b, a.window, (n, width), dtype)?;
    let unit = if a.normalized { (n as f64).sqrt() } else { n as f64 };
    let waves = waves(b, re, [count, n, n], |k, _| {
        // What is left out of one side is the mirror image of what is there.
        let twice = onesided && k != 0 && 2 * k != n;
        if twice { 2.0 / unit } else { 1.0 / unit }
    })?;
    let y = b.conv_transpose(both, b.mul(waves, window)?).strides([hop]).one()?;
    // What the windows weigh in all, at each place.
    let square = b.unsqueeze(b.mul(window, window)?, [0, 1])?;
    let pieces = [Value::Int(1), Value::Int(1), size(b, both, 2)?];
    let ones = b.expand(operand(b, &Value::Int(1), dtype)?, vector(b, &pieces)?)?;
    let weight = b.conv_transpose(ones, square).strides([hop]).one()?;
    let start = if a.center { n / 2 } else { 0 };
    let end = match (a.length, a.center) {
        (Some(length), _) => start.saturating_add(length),
        (None, true) if n > 1 => -(n / 2),
        (None, _) => i64::MAX,
    };
    let part = |x: Var| b.slice(x, [start], [end]).axes([2]).one();
    let sized = b.shape(y).start(2).end(3).one()?;
    let mut y = b.div(part(y)?, part(weight)?)?;
    if a.length.is_some() && b.ints_of(sized).is_none_or(|sizes| sizes[0] < end) {
        // A longer signal than the spectra tell of ends in zeros.
        let missing = b.max([b.sub(end, sized)?, b.constant(Tensor::vector(vec![0i64]))])?;
        let before = b.constant(Tensor::vector(vec![0i64; 5]));
        y = b.pad(y, b.concat([before, missing]).axis(0).one()?).one()?;
    }
    b.squeeze(y).axes(if single { vec![0, 1] } else { vec![1] }).one()
}
