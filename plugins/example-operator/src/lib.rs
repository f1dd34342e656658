//! What a third-party author starts from to add operators to all front-ends: the functions, and one pass of them.

// A function takes its arguments by value, used up or not: all rows have one form.
#![allow(clippy::needless_pass_by_value)]

use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::lower::{Lower, Lowered};
use onnxd_plugin_sdk::{arguments, lowering};

arguments! {
    /// `my::gelu_tanh(Tensor x)`
    struct GeluTanh { x: Var }
    /// `my::hard_shrink(Tensor x, float lambda=0.5)`
    struct HardShrink { x: Var, lambda: f64 = 0.5 }
}

/// `x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))`
fn gelu_tanh(b: &Lower, a: GeluTanh) -> Lowered<Var> {
    if b.opset() >= 20 {
        return b.gelu(a.x).approximate("tanh").one();
    }
    let cube = b.mul(b.mul(a.x, a.x)?, a.x)?;
    let sum = b.add(a.x, b.mul(cube, 0.044715)?)?;
    let gate = b.tanh(b.mul(sum, std::f64::consts::FRAC_2_PI.sqrt())?)?;
    b.mul(b.mul(a.x, 0.5)?, b.add(gate, 1.0)?)
}

fn hard_shrink(b: &Lower, a: HardShrink) -> Lowered<Var> {
    b.shrink(a.x).lambd(a.lambda).one()
}

lowering! {
    /// Operators of `my`.
    struct My { "my::gelu_tanh" => gelu_tanh, "my::hard_shrink" => hard_shrink }
}

onnxd_plugin_sdk::export_plugin! {
    id: "org.onnxd.example-operator",
    summary: "An example: two operators for all front-ends",
    components: [
        pass("my-operators", "Lowers operators of my"; declares [My::ROWS] => |_| My::pass("my-operators")),
    ],
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_plugin_sdk::ir::{Model, Tensor, text};
    use onnxd_plugin_sdk::testing;

    fn lowered(node: &str, opset: i64) -> Model {
        let graph = format!("g (float[3] x) => (float[3] y) {{ y = {node} }}");
        let model = Model::new(text::parse_graph(&graph).unwrap(), 8, opset);
        testing::run_pass(My::pass("my-operators"), &model).unwrap().model
    }

    #[test]
    fn operators_compute_what_they_say() {
        let x = || Tensor::vector(vec![-1.0f32, 0.25, 2.0]);
        for opset in [17, 20] {
            let y = testing::run(&lowered("my.gelu_tanh(x)", opset), [("x", x())]).unwrap();
            let y = y[0].1.to_reals().unwrap().values;
            // Of `torch.nn.functional.gelu(x, approximate="tanh")`.
            let wanted = [-0.158_808, 0.149_671, 1.954_597_7];
            assert!(y.iter().zip(wanted).all(|(y, w)| (y - w).abs() < 1e-5), "{opset}: {y:?}");
        }
        let model = lowered("my.hard_shrink<argument_2 = 0.3>(x)", 17);
        let y = testing::run(&model, [("x", x())]).unwrap();
        assert_eq!(y[0].1, Tensor::vector(vec![-1.0f32, 0.0, 2.0]));
    }
}
