//! Integers that stand for numbers: what one step of a model's input or output is, so that quantized models are fed and
//! compared with references of the float ones.

use onnxd_arrays::Arrays;
use onnxd_ir::{DataType, Model, Reals, Tensor, ValueId};

/// Before the step in the metadata that quantizers write.
const STEP: &str = "one step is ";

/// What integers stand for: `(q - zero) * step`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Scale {
    step: f64,
    zero: f64,
}

/// The scale that metadata declare for an input or output.
fn declared(model: &Model, side: &str, name: &str) -> Option<Scale> {
    let key = format!("onnxd.quantization.{side}.{name}");
    let (_, text) = model.metadata.iter().find(|(k, _)| *k == key)?;
    let step = text.split_once(STEP)?.1.trim().parse::<f64>().ok()?;
    (step.is_finite() && step > 0.0).then_some(Scale { step, zero: 0.0 })
}

/// The scale of the `QuantizeLinear` that makes a value.
fn quantized(model: &Model, v: ValueId) -> Option<Scale> {
    let graph = &model.graph;
    let node = &graph[graph.producer(v)?];
    if !node.is("QuantizeLinear") {
        return None;
    }
    let only = |tensor: &Tensor| {
        let numbers = tensor.to_reals()?.values;
        <[f64; 1]>::try_from(numbers).ok().map(|[x]| x)
    };
    let step = only(graph.constant(node.input(1)?)?)?;
    let zero = match node.input(2) {
        Some(zero) => only(graph.constant(zero)?)?,
        None => 0.0,
    };
    Some(Scale { step, zero })
}

fn is_real(tensor: &Tensor) -> bool {
    use DataType::{Bfloat16, Double, Float, Float16};
    matches!(tensor.dtype(), Float | Double | Float16 | Bfloat16)
}

/// The output `name` in numbers, if it is of integers, its reference is of numbers, and its scale is known; with what
/// was done in words.
pub(crate) fn output(
    model: &Model,
    name: &str,
    found: &Tensor,
    reference: &Tensor,
) -> Option<(Tensor, String)> {
    if !found.dtype().is_integer() || !is_real(reference) {
        return None;
    }
    let graph = &model.graph;
    let v = graph.outputs().iter().copied().find(|v| graph[*v].name == name)?;
    let scale = declared(model, "output", name).or_else(|| quantized(model, v))?;
    let numbers = found.to_i64s()?;
    let values = numbers.iter().map(|q| (*q as f64 - scale.zero) * scale.step).collect();
    let reals = Reals { dims: found.dims().to_vec(), values };
    let text = format!("as numbers: one step is {}, {} is zero", scale.step, scale.zero);
    Some((reals.to_tensor(DataType::Double)?, text))
}

/// Gives inputs of integers whose scale is known the integers that stand for the numbers of `arrays`; names of these.
pub(crate) fn inputs(model: &Model, arrays: &mut Arrays) -> Vec<String> {
    let graph = &model.graph;
    let mut made = Vec::new();
    for v in graph.inputs() {
        let (name, ty) = (&graph[*v].name, graph[*v].ty.as_ref());
        let Some(dtype) = ty.and_then(onnxd_ir::ValueType::dtype).filter(|d| d.is_integer()) else {
            continue;
        };
        let given = arrays.iter_mut().find(|(given, _)| given == name);
        let (Some(scale), Some((_, array))) = (declared(model, "input", name), given) else {
            continue;
        };
        if let Some(integers) = integers(array, dtype, scale) {
            *array = integers;
            made.push(name.clone());
        }
    }
    made
}

fn integers(array: &Tensor, dtype: DataType, scale: Scale) -> Option<Tensor> {
    let values = array.to_reals().filter(|_| is_real(array))?.values;
    let steps = values.iter().map(|x| (x / scale.step + scale.zero).round_ties_even());
    let dims = array.dims().to_vec();
    // Numbers beyond the type's range become its ends.
    Some(match dtype {
        DataType::Int8 => Tensor::from_vec(dims, steps.map(|x| x as i8).collect()),
        DataType::Uint8 => Tensor::from_vec(dims, steps.map(|x| x as u8).collect()),
        DataType::Int16 => Tensor::from_vec(dims, steps.map(|x| x as i16).collect()),
        DataType::Uint16 => Tensor::from_vec(dims, steps.map(|x| x as u16).collect()),
        DataType::Int32 => Tensor::from_vec(dims, steps.map(|x| x as i32).collect()),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_ir::text::parse_model;

    #[test]
    fn integers_become_numbers_by_their_scale() {
        let text = r#"<ir_version: 8, opset_import: ["" : 17]>
            g (uint8[3] x) => (uint8[3] y, uint8[3] q) <float s = {0.5}, uint8 z = {2}, float[3] f = {1, 2, 3}> {
              y = Identity(x) q = QuantizeLinear(f, s, z) }"#;
        let mut model = parse_model(text).unwrap();
        let found = Tensor::vector(vec![2u8, 3, 6]);
        let reference = Tensor::vector(vec![0f32, 0.5, 2.0]);
        let (numbers, _) = output(&model, "q", &found, &reference).unwrap();
        assert_eq!(numbers.to_reals().unwrap().values, [0.0, 0.5, 2.0]);
        assert!(output(&model, "y", &found, &reference).is_none(), "no scale is known");
        assert!(output(&model, "q", &found, &found).is_none(), "the reference is of integers");
        model.set_metadata("onnxd.quantization.output.y", "uint8, one step is 0.25");
        let (numbers, text) = output(&model, "y", &found, &reference).unwrap();
        assert_eq!(numbers.to_reals().unwrap().values, [0.5, 0.75, 1.5]);
        assert!(text.contains("0.25"), "{text}");
        model.set_metadata("onnxd.quantization.input.x", "uint8, one step is 0.25");
        let mut arrays = vec![("x".to_owned(), Tensor::vector(vec![0.5f32, -1.0, 1e9]))];
        assert_eq!(inputs(&model, &mut arrays), ["x"]);
        assert_eq!(arrays[0].1, Tensor::vector(vec![2u8, 0, 255]));
        assert!(inputs(&model, &mut arrays).is_empty(), "they are integers already");
    }
}
