//! Activations that are evened out before they are quantized.

use super::{difference, model, samples};
use crate::accuracy::{Base, float_outputs, layers_db};
use crate::observe::{Limits, StatisticParts};
use crate::plan::QuantizeRequest;
use crate::range::method::Method;
use crate::search::{expected, magnitudes, sites, smoothed};
use onnxd_ir::Tensor;
use std::collections::BTreeSet;

/// A normalization by one operator, one by its parts, and a value that another node reads as well.
const NET: &str = "
net (float[2,3,8] x) => (float[2,3,4] y, float[2,3,4] z, float[2,3,8] p)
<float[8] g, float[8] b, float[8,4] w1, float[8,4] w2, float[8] h, float[8] c, float[8,4] w3,
 float[8,8] w4>
{
  n = LayerNormalization(x, g, b)
  y1 = MatMul(n, w1)
  y2 = MatMul(n, w2)
  y = Add(y1, y2)
  m = Mul(x, h)
  a = Add(m, c)
  z = MatMul(a, w3)
  o = Mul(x, h)
  q = MatMul(o, w4)
  p = Add(q, o)
}";

#[test]
fn smoothing_keeps_the_function_and_evens_the_channels() {
    let mut float = model(NET, 5);
    for (name, at) in [("g", 3), ("h", 6)] {
        let v = float.graph.value_named(name).unwrap();
        let mut gain = float.graph.constant(v).unwrap().to_reals().unwrap();
        gain.values[at] = 200.0;
        let gain = gain.values.iter().map(|x| *x as f32).collect();
        float.graph.set_initializer(v, Some(Tensor::vector(gain)));
    }
    let given = samples(&float, 4, 6);
    let none = BTreeSet::new();
    let base = Base::new(float.clone(), &QuantizeRequest::default(), &none);
    let sites = sites(&base);
    assert_eq!(sites.len(), 2, "what others read keeps its channels");
    let feeds = || given.iter().cloned().map(Ok);
    let found = magnitudes(&float, &sites, &mut feeds(), Limits::default()).unwrap();
    let smooth = smoothed(&float, &sites, &found, 0.5).expect("something changes");
    let (worst, largest) = difference(&float, &smooth, &given);
    assert!(worst < 1e-5 * largest, "{worst} of {largest}");
    let error = |model: &onnxd_ir::Model| {
        let mut base = Base::new(model.clone(), &QuantizeRequest::default(), &none);
        let parts = StatisticParts::default();
        base.observe(&mut feeds(), &parts, Limits::default()).unwrap();
        let (quantized, _) = base.quantize(Method::MinMax);
        difference(&float, &quantized, &given).0
    };
    assert!(error(&smooth) < 0.5 * error(&float), "{} {}", error(&smooth), error(&float));
}

/// One run for each of the first samples tells what runs for each purpose tell.
#[test]
fn first_samples_tell_everything_at_once() {
    let float = model(NET, 5);
    let given = samples(&float, 40, 6);
    let feeds = || given.iter().cloned().map(Ok);
    let none = BTreeSet::new();
    let parts = StatisticParts::default();
    let mut base = Base::new(float.clone(), &QuantizeRequest::default(), &none);
    let mut first = Base::new(float.clone(), &QuantizeRequest::default(), &none);
    let sites = sites(&base);
    let limits = Limits::default();
    base.observe(&mut feeds(), &parts, limits).unwrap();
    let found = first
        .first_pass(
            &mut feeds(),
            &parts,
            &sites.iter().map(|site| site.name(&first.model.graph)).collect(),
            limits,
        )
        .unwrap();
    assert_eq!(found.outputs, float_outputs(&float, &mut feeds(), limits).unwrap());
    assert_eq!(found.magnitudes, magnitudes(&float, &sites, &mut feeds(), limits).unwrap());
    let (quantized, done) = base.quantize(Method::MinMax);
    let print = onnxd_ir::text::print_model;
    assert_eq!(print(&first.quantize(Method::MinMax).0), print(&quantized));
    let layers = |base: &Base| layers_db(base, &quantized, &mut feeds(), limits).unwrap();
    assert_eq!(layers(&first).len(), 4);
    let known = layers(&first);
    assert!(done.layers.iter().all(|l| known.contains_key(&l.name)), "{:?} {known:?}", done.layers);
    assert_eq!(layers(&first), layers(&base));
}

/// What a normalization computes is known without samples; who reads the sizes of it alone is not
/// in the way, and what is behind an unknown value stays.
#[test]
fn normalized_channels_are_known_without_samples() {
    let text = "
    net (float[2,3,4] x) => (float[2,3,2] y, float[2,3,2] z, float[3] sizes)
    <float[4] g = {1, -2, 30, 0.5}, float[4] b = {0, 1, -5, 0}, float[4,2] w1, float[4] h,
     float[4,2] w2>
    {
      n = LayerNormalization(x, g, b)
      s = Shape(n)
      sizes = Cast<to = 1>(s)
      y = MatMul(n, w1)
      o = Mul(x, h)
      z = MatMul(o, w2)
    }";
    let float = model(text, 7);
    let base = Base::new(float.clone(), &QuantizeRequest::default(), &BTreeSet::new());
    let sites = sites(&base);
    assert_eq!(sites.len(), 2);
    let found = expected(&float, &sites);
    assert_eq!(found.into_values().collect::<Vec<_>>(), [[4.0, 9.0, 125.0, 2.0]]);
    let given = samples(&float, 4, 6);
    let found = expected(&float, &sites);
    let smooth = smoothed(&float, &sites, &found, 0.5).expect("something changes");
    let (worst, largest) = difference(&float, &smooth, &given);
    assert!(worst < 1e-5 * largest, "{worst} of {largest}");
}
