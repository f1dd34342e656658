//! What a third-party author starts from to add operators to all front-ends: the functions, and one pass of them.

// A function takes its arguments by value, used up or not: all rows have one form.
#![allow(clippy::needless_pass_by_value)]

use onnxd_plugin_sdk::build::{Operand, Var};
use onnxd_plugin_sdk::ir::Attr;
use onnxd_plugin_sdk::lower::{Lower, Lowered};
use onnxd_plugin_sdk::lowering;

/// `my::gelu_tanh(Tensor x)`: `x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))`
fn gelu_tanh(b: &Lower, x: Var) -> Lowered<Var> {
    if b.opset() >= 20 {
        return b.gelu(x).approximate("tanh").one();
    }
    let cube = b.mul(b.mul(x, x)?, x)?;
    let sum = b.add(x, b.mul(cube, 0.044715)?)?;
    let gate = b.tanh(b.mul(sum, std::f64::consts::FRAC_2_PI.sqrt())?)?;
    b.mul(b.mul(x, 0.5)?, b.add(gate, 1.0)?)
}

/// `my::hard_shrink(Tensor x, float lambda=0.5)`
fn hard_shrink(b: &Lower, x: Var, lambda: Option<f64>) -> Lowered<Var> {
    b.shrink(x).lambd(lambda.unwrap_or(0.5)).one()
}

/// `my::split_sign(Tensor x)`: what is above zero, and what is below.
fn split_sign(b: &Lower, x: Var) -> Lowered<[Var; 2]> {
    Ok([b.max([Operand::from(x), 0.0.into()])?, b.min([Operand::from(x), 0.0.into()])?])
}

/// `my::gated(Tensor x)`: `x * sigmoid(x)`, as a function of the model, which is there once for all places.
fn gated(b: &Lower, x: Var) -> Lowered<Var> {
    let results = b.function("com.example", "Gated", &[x], |b, inputs| {
        let x = inputs[0];
        Ok(vec![b.mul(x, b.sigmoid(x)?)?])
    })?;
    Ok(results[0])
}

/// `my::warp(Tensor x, float[] by)`: an operator that a runtime of your own has: it stays, in a domain of yours.
fn warp(b: &Lower, x: Var, by: Vec<f64>) -> Lowered<Var> {
    b.import_domain("com.example");
    let by = by.iter().map(|x| *x as f32).collect();
    let y = b.op("com.example", "Warp", [Operand::from(x)]).set("by", Attr::Floats(by)).one()?;
    // Nothing else says what it gives.
    if let Some(ty) = b.type_of(x) {
        b.declare(y, ty);
    }
    Ok(y)
}

lowering! {
    /// Operators of `my`.
    struct My {
        "my::gelu_tanh" => gelu_tanh(x),
        "my::hard_shrink" => hard_shrink(x, lambda),
        "my::split_sign" => split_sign(x),
        "my::gated" => gated(x),
        "my::warp" => warp(x, by),
    }
}

onnxd_plugin_sdk::export_plugin! {
    id: "org.onnxd.example-operator",
    summary: "An example: operators for all front-ends",
    components: [
        pass("my-operators", "Lowers operators of my"; declares [My::ROWS] => |_| My::pass("my-operators")),
    ],
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_plugin_sdk::ir::{Model, Tensor, text};
    use onnxd_plugin_sdk::testing;

    #[test]
    fn an_operator_may_stay_in_a_domain_of_its_own() {
        let model = lowered("my.warp<by = [2.0, 0.5]>(x)", 17);
        assert_eq!(model.opsets.keys().collect::<Vec<_>>(), ["", "com.example"]);
        let (_, node) = model.graph.nodes().next().unwrap();
        assert_eq!((node.domain.as_str(), node.op.as_str()), ("com.example", "Warp"));
    }

    #[test]
    fn an_operator_may_become_a_function_of_the_model() {
        let graph = "g (float[3] x, float[2,2] z) => (float[3] y, float[2,2] w) {
            a = my.gated(x) y = my.gated(a) w = my.gated(z)
        }";
        let model = Model::new(text::parse_graph(graph).unwrap(), 7, 17);
        let model = testing::run_pass(My::pass("my-operators"), &model).unwrap().model;
        let names: Vec<&str> = model.functions.iter().map(|f| f.name.as_str()).collect();
        assert_eq!((names, model.ir_version), (vec!["Gated"], 8));
        assert!(
            model
                .graph
                .nodes()
                .all(|(_, n)| (n.domain.as_str(), n.op.as_str()) == ("com.example", "Gated"))
        );
        let (x, z) = (Tensor::vector(vec![0.0f32; 3]), Tensor::from_vec([2, 2], vec![1.0f32; 4]));
        let found = testing::run(&model, [("x", x), ("z", z)]).unwrap();
        assert_eq!(found[0].1, Tensor::vector(vec![0.0f32; 3]));
        assert_eq!(found[1].1.to_reals().unwrap().values[0] as f32, 0.731_058_6);
    }

    #[test]
    fn an_operator_may_have_several_results() {
        let graph = "g (float[3] x) => (float[3] y, float[3] z) { y, z = my.split_sign(x) }";
        let model = Model::new(text::parse_graph(graph).unwrap(), 8, 17);
        let model = testing::run_pass(My::pass("my-operators"), &model).unwrap().model;
        let x = Tensor::vector(vec![-1.0f32, 0.25, 2.0]);
        let found = testing::run(&model, [("x", x)]).unwrap();
        assert_eq!(found[0].1, Tensor::vector(vec![0.0f32, 0.25, 2.0]));
        assert_eq!(found[1].1, Tensor::vector(vec![-1.0f32, 0.0, 0.0]));
    }

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
