//! Sums before functions that integers do not compute.

use onnxd_plugin_sdk::ir::{Model, Tensor, infer, text};
use onnxd_quant_n2d2::options::{PlanOptions, Rescaling};
use onnxd_quant_n2d2::{Data, plan};
use onnxd_quantize::observe::Feeds;
use onnxd_quantize::session::Batches;

/// Whether the result of the fully connected layer is quantized, with `function` behind it.
fn is_rounded(function: &str, rescaling: Rescaling) -> bool {
    let net = format!(
        "net (float[1,4] env) => (float[1,2] y) <float[2,4] w = {{1.0, 2.0, -1.0, 0.5, 1.5, -2.0, 0.25, 1.0}}>
         {{ f = Gemm<transB = 1>(env, w) y = {function}(f) }}"
    );
    let graph = text::parse_graph(&net).unwrap_or_else(|d| panic!("{d}"));
    let mut model = Model::new(graph, 8, 17);
    assert!(infer(&mut model).0.is_empty());
    let x = Tensor::from_vec(vec![1, 4], vec![0.5f32, 1.0, -0.25, 0.125]);
    let samples =
        || -> Batches { Box::new([Ok(Feeds::from([("env".to_owned(), x.clone())]))].into_iter()) };
    let options = PlanOptions { rescaling, ..PlanOptions::default() };
    let (_, plan) = plan(&model, Data::same(&samples), &options).unwrap();
    assert!(plan.cells[0].integers.is_some() && plan.cells[0].rescale.is_some());
    plan.cells[0].output.is_some()
}

/// An error of half a step in front of an exponential is a large one behind it. N2D2 has integers
/// in front of Softmax, which stay.
#[test]
fn functions_read_sums_that_are_not_rounded() {
    for rescaling in [Rescaling::FloatingPoint, Rescaling::SingleShift] {
        assert!(!is_rounded("Sigmoid", rescaling));
        assert!(is_rounded("Softmax", rescaling));
    }
}
