//! A quantizer: rounds weights to the levels that `quantization.weight_type` has, symmetric around zero, and leaves
//! them in floating point. On calibration data, if there is any, it measures what that costs.
//!
//! Its params are declared once: users see the rows in `onnxd explain --all`, and the code gets a struct.

use onnxd_plugin_sdk::diagnostics::Diagnostics;
use onnxd_plugin_sdk::eval::{Executor, RunOptions};
use onnxd_plugin_sdk::ir::{Model, Tensor};
use onnxd_plugin_sdk::words::IntegerType;
use onnxd_plugin_sdk::{QuantizeContext, QuantizedLayer, QuantizedTensor, Quantizer};

onnxd_plugin_sdk::params! {
    /// Params of the quantizer `round-weights`.
    pub(crate) struct Params in "quantization.round-weights" {
        /// Steps are powers of two.
        power_of_two: bool = "bool", false, option "power-of-two";
        /// Names of weights that stay as they are.
        keep: Vec<String> = "[text]", [];
        /// Wait for calibration data, to measure what the rounding costs.
        measure: bool = "bool", false;
    }
}

/// What a drop has to wait for.
pub(crate) const NEEDS: &str = "
[[components.needs]]
what = 'calibration data'
paths = ['calib.npz', 'calib']
param = 'calibration.data'
when = { 'quantization.round-weights.measure' = 'true' }
";

pub(crate) struct RoundWeights;

impl Quantizer for RoundWeights {
    fn quantize(&mut self, model: &mut Model, cx: &mut QuantizeContext) -> Result<(), Diagnostics> {
        let params: Params = cx.params().section();
        let (keep, power_of_two) = (params.keep(), params.power_of_two());
        // Whoever asks for it has dropped samples by now; they are measured on in any case.
        params.measure();
        let float = model.clone();
        let bits = bits(cx.quantization().weight_type());
        let graph = &mut model.graph;
        for id in graph.value_ids() {
            let name = graph[id].name.clone();
            let weight = graph[id].initializer().filter(|_| !keep.contains(&name));
            let rounded = weight.and_then(|w| round(w, &name, bits, power_of_two));
            let Some((rounded, row)) = rounded else { continue };
            graph.set_initializer(id, Some(rounded));
            cx.tensor(row);
        }
        measure(&float, model, cx)
    }
}

fn bits(weight_type: Option<IntegerType>) -> u32 {
    match weight_type {
        Some(IntegerType::Int4 | IntegerType::Uint4) => 4,
        Some(IntegerType::Int16 | IntegerType::Uint16) => 16,
        Some(IntegerType::Int8 | IntegerType::Uint8) | None => 8,
    }
}

/// A weight of levels, and its row in the report; `None` for what is no weight.
fn round(
    weight: &Tensor,
    name: &str,
    bits: u32,
    power_of_two: bool,
) -> Option<(Tensor, QuantizedTensor)> {
    if !weight.dtype().is_float() || weight.len() < 2 {
        return None;
    }
    let reals = weight.to_reals()?;
    let most = reals.values.iter().fold(0f64, |most, x| most.max(x.abs()));
    let scale = most / f64::from((1u32 << (bits - 1)) - 1);
    let scale = if power_of_two { scale.log2().ceil().exp2() } else { scale };
    if !(scale > 0.0 && scale.is_finite()) {
        return None;
    }
    let rounded = reals.map(|x| (x / scale).round() * scale).to_tensor(weight.dtype())?;
    let row = QuantizedTensor {
        name: name.to_owned(),
        element_type: format!("{bits} bits in {}", weight.dtype()),
        scales: vec![scale],
        zero_points: Vec::new(),
        min: Some(-most),
        max: Some(most),
        method: "max".into(),
        ..QuantizedTensor::default()
    };
    Some((rounded, row))
}

/// Runs both models on the calibration data, a batch at a time.
fn measure(float: &Model, rounded: &Model, cx: &mut QuantizeContext) -> Result<(), Diagnostics> {
    let (float, rounded) = (Executor::new(float)?, Executor::new(rounded)?);
    let (mut signal, mut noise) = (0f64, 0f64);
    let calibration = cx.calibration();
    let (size, mut seen) = (calibration.batch_size(), 0);
    let batches = calibration.samples().div_ceil(size as u64);
    for feeds in calibration.batches(size, u64::MAX) {
        // What is shown as `batch 3 of 8`.
        cx.count("batch", seen, batches)?;
        let feeds = feeds?;
        let wanted = float.run(&feeds, RunOptions::default())?;
        let rounded_outputs = rounded.run(&feeds, RunOptions::default())?;
        for ((_, wanted), (_, rounded_outputs)) in wanted.iter().zip(&rounded_outputs) {
            let Some((wanted, rounded_outputs)) = wanted.to_reals().zip(rounded_outputs.to_reals())
            else {
                continue;
            };
            for (x, y) in wanted.values.iter().zip(&rounded_outputs.values) {
                signal += x * x;
                noise += (x - y) * (x - y);
            }
        }
        seen += 1;
    }
    if seen > 0 {
        cx.layer(QuantizedLayer {
            name: "outputs".into(),
            sqnr_db: Some(10.0 * (signal / noise).log10()),
            ..QuantizedLayer::default()
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_plugin_sdk::ir::text;
    use onnxd_plugin_sdk::testing::{self, Dropped};

    #[test]
    fn a_graph_is_quantized_and_measured() {
        let text = "g (float[2] x) => (float[2] y)
                    <float[2] w = {0.3, 7.0}>
                    {
                      y = Mul(x, w)
                    }";
        let model = Model::new(text::parse_graph(text).unwrap(), 8, 17);
        let dropped = Dropped::default().param("quantization.weight_type", "int4");
        let done = testing::quantize(&mut RoundWeights, &model, &dropped).unwrap();
        let outputs = testing::run(&done.model, [("x", Tensor::vector(vec![1f32, 1.0]))]).unwrap();
        assert_eq!(outputs[0].1, Tensor::vector(vec![0f32, 7.0]));
        let (_, report) = done.log;
        assert_eq!((report.tensors[0].name.as_str(), report.samples), ("w", 0));
    }

    #[test]
    fn weights_become_multiples_of_one_step() {
        let w = Tensor::vector(vec![1.0f32, -2.0, 3.0, -7.0]);
        let (rounded, row) = round(&w, "w", 3, false).unwrap();
        assert_eq!((row.scales, row.min, row.max), (vec![7.0 / 3.0], Some(-7.0), Some(7.0)));
        let values = rounded.to_reals().unwrap().values;
        let steps: Vec<f64> = values.iter().map(|x| x * 3.0 / 7.0).map(f64::round).collect();
        assert_eq!(steps, [0.0, -1.0, 1.0, -3.0]);
        assert_eq!(round(&w, "w", 3, true).unwrap().1.scales, [4.0]);
        assert!(round(&Tensor::scalar(1f32), "s", 8, false).is_none(), "a scalar is no weight");
        assert!(round(&Tensor::vector(vec![0f32; 2]), "z", 8, false).is_none(), "nothing to scale");
    }
}
