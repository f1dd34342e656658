//! The steps of branches that meet.

use onnxd_plugin_sdk::ir::{Model, Tensor, infer, text};
use onnxd_quant_n2d2::options::{Branches, Clipping, PlanOptions};
use onnxd_quant_n2d2::{Data, plan};
use onnxd_quantize::observe::Feeds;
use onnxd_quantize::session::Batches;

/// Two branches, one of which has weights four times as large.
const NET: &str = "
net (float[1,1,1,2] env) => (float[1,1,1,2] s)
<float[1,1,1,1] a_w, float[1,1,1,1] b_w>
{
  a = Conv<kernel_shape = [1, 1]>(env, a_w)
  b = Conv<kernel_shape = [1, 1]>(env, b_w)
  s = Add(a, b)
}";

/// A branch that two layers read.
const SHARED: &str = "
net (float[1,1,1,2] env) => (float[1,1,1,2] s, float[1,1,1,1] p)
<float[1,1,1,1] a_w, float[1,1,1,1] b_w>
{
  a_sum = Conv<kernel_shape = [1, 1]>(env, a_w)
  a = Relu(a_sum)
  b_sum = Conv<kernel_shape = [1, 1]>(env, b_w)
  b = Relu(b_sum)
  joined = Add(a, b)
  s = Relu(joined)
  p = MaxPool<kernel_shape = [1, 2]>(a)
}";

/// Two branches of which N2D2 can write the concatenation.
const POOLED: &str = "
net (float[1,1,1,2] env) => (float[1,2,1,1] s)
<float[1,1,1,1] a_w, float[1,1,1,1] b_w>
{
  a_sum = Conv<kernel_shape = [1, 1]>(env, a_w)
  a = Relu(a_sum)
  b_sum = Conv<kernel_shape = [1, 1]>(env, b_w)
  b = Relu(b_sum)
  joined = Concat<axis = 1>(a, b)
  s = MaxPool<kernel_shape = [1, 2]>(joined)
}";

/// As before, with a branch of which the bias leaves little.
const CUT: &str = "
net (float[1,1,1,2] env) => (float[1,2,1,1] s)
<float[1,1,1,1] a_w, float[1,1,1,1] b_w, float[1] a_b = {-1.75}>
{
  a_sum = Conv<kernel_shape = [1, 1]>(env, a_w, a_b)
  a = Relu(a_sum)
  b_sum = Conv<kernel_shape = [1, 1]>(env, b_w)
  b = Relu(b_sum)
  joined = Concat<axis = 1>(a, b)
  s = MaxPool<kernel_shape = [1, 2]>(joined)
}";

/// What the steps of all cells are.
fn steps(text: &str, weights: [f32; 2], branches: Branches, per_output: bool) -> Vec<f64> {
    let mut graph = text::parse_graph(text).unwrap_or_else(|d| panic!("{d}"));
    for (name, weight) in ["a_w", "b_w"].into_iter().zip(weights) {
        let id = graph.value_named(name).unwrap();
        graph.set_initializer(id, Some(Tensor::from_vec(vec![1; 4], vec![weight])));
    }
    let mut model = Model::new(graph, 8, 17);
    assert!(infer(&mut model).0.is_empty());
    let image = Tensor::from_vec(vec![1, 1, 1, 2], vec![-1.0f32, 0.5]);
    let samples = || -> Batches {
        Box::new([Ok(Feeds::from([("env".to_owned(), image.clone())]))].into_iter())
    };
    let options =
        PlanOptions { activations: Clipping::None, per_output, branches, ..PlanOptions::default() };
    let (_, plan) = plan(&model, Data::same(&samples), &options).unwrap();
    plan.cells.iter().map(|cell| cell.output.unwrap().scale).collect()
}

#[test]
fn branches_of_a_sum_have_the_step_of_the_sum() {
    for per_output in [false, true] {
        for step in steps(NET, [0.5, 2.0], Branches::Auto, per_output) {
            assert!((step - 2.5 / 127.0).abs() < 1e-6, "{step} is not {}", 2.5 / 127.0);
        }
    }
}

/// Integers are N2D2's where N2D2 makes a model of them that loses little; others lose nothing.
#[test]
fn only_networks_that_n2d2_can_export_have_its_common_scale() {
    let weights = [-0.25, 2.0];
    for (text, weights, like) in [
        (SHARED, weights, Branches::Tight),
        (POOLED, weights, Branches::AsN2d2),
        // The widest branch has an eighth of the common scale.
        (CUT, [-2.0, 0.25], Branches::Tight),
    ] {
        let of = |branches| steps(text, weights, branches, false);
        assert_ne!(of(Branches::Tight), of(Branches::AsN2d2), "{text}");
        assert_eq!(of(Branches::Auto), of(like), "{text}");
    }
}
