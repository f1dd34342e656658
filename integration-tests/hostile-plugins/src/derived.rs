//! A front-end whose every weight is transposed, sliced, concatenated and cast: it shows what derived tensors take.

use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, Diagnostics};
use onnxd_plugin_sdk::ir::ops::MatMul;
use onnxd_plugin_sdk::ir::{
    DataType, Derivation, Dim, Graph, Model, Tensor, TensorError, ValueType,
};
use onnxd_plugin_sdk::{Claim, Frontend, Imported, Need, Probe, Submission};

/// File with the weights: square matrices of floats, one after the other.
const WEIGHTS: &str = "weights.bin";

/// Of weights without end.
const ROWS: usize = 1 << 32;

/// Reads `SIDE LAYERS`. With the word `held` after it, weights are computed at once; with `endless`, they are of
/// terabytes.
pub(crate) struct Derived;

impl Frontend for Derived {
    fn probe(&self, submission: &Submission) -> Result<Probe, Diagnostics> {
        let found_as = submission.has(WEIGHTS).then(|| WEIGHTS.to_owned()).into_iter().collect();
        let (what, path) = ("weights".into(), WEIGHTS.into());
        let needs = vec![Need { what, path, found_as, optional: false }];
        Ok(Probe { needs, ..Probe::new(Claim::ByExtension, "its name ends in .derived") })
    }

    fn import(&self, submission: &Submission) -> Result<Imported, Diagnostics> {
        let text = submission.read(submission.network())?;
        let text = String::from_utf8_lossy(&text).into_owned();
        let mut words = text.split_whitespace();
        let mut number = || words.next().and_then(|word| word.parse::<usize>().ok()).unwrap_or(0);
        let (side, layers) = (number(), number());
        let (held, without_end) = (text.contains("held"), text.contains("endless"));
        let weights = submission.read(WEIGHTS)?;
        let bytes = side * side * 4;
        if side == 0 || weights.len() != layers * bytes {
            return Err(Diagnostic::new(Code::SourceSyntax, "sizes do not fit the weights").into());
        }
        let wrong = |e: TensorError| Diagnostic::new(Code::LayerParameter, e.to_string());
        let mut g = Graph::new("derived");
        let ty = |n| ValueType::tensor(DataType::Float16, [Dim::from("n"), Dim::from(n as i64)]);
        let mut x = g.add_input("x", Some(ty(if without_end { ROWS } else { side })));
        for layer in 0..layers {
            let data = weights.slice(layer * bytes..(layer + 1) * bytes);
            let weight = Tensor::new(DataType::Float, vec![side, side], data).map_err(wrong)?;
            let weight = rearranged(&weight).map_err(wrong)?;
            let weight = match (held, without_end) {
                (true, _) => weight.held(),
                (_, true) => endless(&weight).map_err(wrong)?,
                _ => weight,
            };
            let w = g.add_initializer(&format!("w{layer}"), weight);
            x = g.add(&format!("y{layer}"), MatMul::new(x, w));
        }
        g[x].ty = Some(ty(side));
        g.mark_output(x);
        Ok(Imported { model: Model::new(g, 8, 17), ..Imported::default() })
    }
}

/// One row over and over.
fn endless(weight: &Tensor) -> Result<Tensor, TensorError> {
    let side = weight.dims()[1];
    let (source, offset, strides) = (weight.clone(), 0, vec![0, 1]);
    let view = Derivation::Strided { source, offset, strides };
    Tensor::derived(weight.dtype(), [ROWS, side], view)
}

/// Transposed, first the even columns, then the odd ones from the last on, in 16 bits.
fn rearranged(weight: &Tensor) -> Result<Tensor, TensorError> {
    let turned = weight.permuted(&[1, 0])?;
    let (rows, columns) = (turned.dims()[0], turned.dims()[1]);
    let odd = columns / 2;
    let parts = [
        turned.sliced(&[(0, rows, 1), (0, columns - odd, 2)])?,
        turned.sliced(&[(0, rows, 1), ((2 * odd).saturating_sub(1), odd, -2)])?,
    ];
    Tensor::concat(&parts, 1)?.cast(DataType::Float16)
}
