//! The steps of branches that meet.

use onnxd_plugin_sdk::ir::{Model, Tensor, infer, text};
use onnxd_quant_n2d2::options::{Clipping, Options};
use onnxd_quant_n2d2::{Feeds, Pass, plan};

/// Two branches, one of which has weights four times as large.
const NET: &str = "
net (float[1,1,1,2] env) => (float[1,1,1,2] s)
<float[1,1,1,1] a_w, float[1,1,1,1] b_w>
{
  a = Conv<kernel_shape = [1, 1]>(env, a_w)
  b = Conv<kernel_shape = [1, 1]>(env, b_w)
  s = Add(a, b)
}";

#[test]
fn branches_of_a_sum_have_the_step_of_the_sum() {
    let mut graph = text::parse_graph(NET).unwrap_or_else(|d| panic!("{d}"));
    for (name, weight) in [("a_w", 0.5f32), ("b_w", 2.0)] {
        let id = graph.value_named(name).unwrap();
        graph.set_initializer(id, Some(Tensor::from_vec(vec![1; 4], vec![weight])));
    }
    let mut model = Model::new(graph, 8, 17);
    assert!(infer(&mut model).0.is_empty());
    let image = Tensor::from_vec(vec![1, 1, 1, 2], vec![-1.0f32, 0.5]);
    let samples =
        || -> Pass { Box::new([Ok(Feeds::from([("env".to_owned(), image.clone())]))].into_iter()) };
    for per_output in [false, true] {
        let options = Options { activations: Clipping::None, per_output, ..Options::default() };
        let (_, plan) = plan(&model, &samples, &options).unwrap();
        for cell in &plan.cells {
            let step = cell.output.unwrap().scale;
            assert!((step - 2.5 / 127.0).abs() < 1e-6, "{step} is not {}", 2.5 / 127.0);
        }
    }
}
