//! Random graphs: both forms compute the same, and changing form and back gives the same graph.

mod common;

use common::{assert_same, distance, folded, model, outputs, unfolded};
use onnxd_ir::{Model, text};
use proptest::prelude::*;
use std::fmt::Write;

/// Writes a chain of operators between quantized values as ONNX text.
struct Net {
    state: u64,
    signed: bool,
    constants: Vec<String>,
    body: String,
    /// Names are numbered.
    count: usize,
    /// The last value in float, its integers, and their scale and zero point.
    float: String,
    integers: String,
    scale: String,
    zero: String,
    dims: Vec<usize>,
}

impl Net {
    fn new(seed: u64, signed: bool, dims: &[usize]) -> Net {
        let mut net = Net {
            state: seed.wrapping_mul(2).wrapping_add(1),
            signed,
            constants: vec![],
            body: String::new(),
            count: 0,
            float: String::new(),
            integers: String::new(),
            scale: String::new(),
            zero: String::new(),
            dims: dims.to_vec(),
        };
        net.quantized("x");
        net
    }

    fn below(&mut self, n: u64) -> u64 {
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) % n
    }

    fn real(&mut self) -> f64 {
        0.004 + self.below(1000) as f64 * 1e-4
    }

    fn fresh(&mut self, base: &str) -> String {
        self.count += 1;
        format!("{base}{}", self.count)
    }

    fn dtype(&self) -> &'static str {
        if self.signed { "int8" } else { "uint8" }
    }

    fn constant(&mut self, dtype: &str, dims: &[usize], values: &[f64]) -> String {
        let name = self.fresh("c");
        let values: Vec<String> = values.iter().map(|v| format!("{v}")).collect();
        let dims = if dims.is_empty() { String::new() } else { format!("{dims:?}") };
        self.constants.push(format!("{dtype}{dims} {name} = {{{}}}", values.join(", ")));
        name
    }

    /// Random integers of a type.
    fn integers(&mut self, dtype: &str, dims: &[usize]) -> String {
        let (low, span) = match dtype {
            "int8" => (-128.0, 256),
            "uint8" => (0.0, 256),
            _ => (-1000.0, 2000),
        };
        let count = dims.iter().product();
        let values: Vec<f64> = (0..count).map(|_| low + self.below(span) as f64).collect();
        self.constant(dtype, dims, &values)
    }

    fn line(&mut self, line: &str) {
        writeln!(self.body, "{line}").unwrap();
    }

    /// Quantizes the float value `v` with a new scale; goes on from there.
    fn quantized(&mut self, v: &str) {
        let step = self.real();
        (self.scale, self.zero) =
            (self.constant("float", &[], &[step]), self.integers(self.dtype(), &[]));
        self.again(v);
    }

    /// Quantizes `v` with the scale of the value before.
    fn again(&mut self, v: &str) {
        (self.integers, self.float) = (self.fresh("q"), self.fresh("f"));
        let (q, f, s, z) = (&self.integers, &self.float, &self.scale, &self.zero);
        let lines =
            format!("{q} = QuantizeLinear({v}, {s}, {z}) {f} = DequantizeLinear({q}, {s}, {z})");
        self.line(&lines);
    }

    /// A constant of integers, dequantized, perhaps with a scale for each element of an axis.
    fn weight(&mut self, dims: &[usize], axis: Option<usize>) -> (String, Vec<f64>) {
        let dtype = if self.signed || self.below(2) == 0 { "int8" } else { "uint8" };
        let q = self.integers(dtype, dims);
        let count = axis.map_or(1, |a| dims[a]);
        let steps: Vec<f64> = (0..count).map(|_| self.real()).collect();
        let of: Vec<usize> = axis.map(|a| dims[a]).into_iter().collect();
        let (s, z) = (self.constant("float", &of, &steps), self.integers(dtype, &of));
        let f = self.fresh("w");
        let axis =
            axis.map_or(1, |a| a as i64 - if self.below(2) == 0 { dims.len() as i64 } else { 0 });
        self.line(&format!("{f} = DequantizeLinear<axis = {axis}>({q}, {s}, {z})"));
        (f, steps)
    }

    fn bias(&mut self, count: usize) -> String {
        match self.below(2) {
            0 => String::new(),
            _ => {
                let values: Vec<f64> = (0..count).map(|_| self.real() * 10.0).collect();
                format!(", {}", self.constant("float", &[count], &values))
            }
        }
    }

    /// Adds an operator; what is exact gives equal integers in both forms.
    fn step(&mut self, op: &str) {
        let (f, out, dims) = (self.float.clone(), self.fresh("t"), self.dims.clone());
        let last = dims[3];
        match op {
            "Conv" => {
                let axis = (self.below(2) == 0).then_some(0);
                let (w, _) = self.weight(&[3, dims[1], 3, 3], axis);
                let b = self.bias(3);
                self.line(&format!("{out} = Conv<pads = [1, 1, 1, 1]>({f}, {w}{b})"));
                self.dims[1] = 3;
            }
            "MatMul" => {
                let axis = (self.below(2) == 0).then_some(1);
                let (w, _) = self.weight(&[last, 5], axis);
                self.line(&format!("{out} = MatMul({f}, {w})"));
                self.dims[3] = 5;
            }
            "Relu" => {
                let middle = self.fresh("t");
                self.line(&format!("{middle} = Sigmoid({f})"));
                self.quantized(&middle);
                self.line(&format!("{out} = Relu({})", self.float));
                return self.again(&out);
            }
            "Add" | "Mul" => {
                let q = self.integers(self.dtype(), &[last]);
                let step = self.real();
                let (s, z) =
                    (self.constant("float", &[], &[step]), self.integers(self.dtype(), &[]));
                let other = self.fresh("w");
                self.line(&format!("{other} = DequantizeLinear({q}, {s}, {z})"));
                self.line(&format!("{out} = {op}({f}, {other})"));
            }
            "Softmax" => {
                self.line(&format!("{out} = Softmax({f})"));
                let lowest = if self.signed { -128.0 } else { 0.0 };
                self.scale = self.constant("float", &[], &[1.0 / 256.0]);
                self.zero = self.constant(self.dtype(), &[], &[lowest]);
                return self.again(&out);
            }
            "AveragePool" => {
                self.line(&format!(
                    "{out} = AveragePool<kernel_shape = [1, 2], pads = [0, 1, 0, 0]>({f})"
                ));
            }
            "GlobalAveragePool" | "ReduceMean" => {
                let axes = if op == "ReduceMean" { "<axes = [-1, 2]>" } else { "" };
                self.line(&format!("{out} = {op}{axes}({f})"));
                (self.dims[2], self.dims[3]) = (1, 1);
            }
            "Concat" => {
                let middle = self.fresh("t");
                self.line(&format!("{middle} = LeakyRelu<alpha = 0.3>({f})"));
                self.quantized(&middle);
                self.line(&format!("{out} = Concat<axis = 1>({f}, {})", self.float));
                self.dims[1] *= 2;
            }
            "MaxPool" | "Pad" | "Transpose" => return self.moved(op),
            _ => self.line(&format!("{out} = {op}({f})")),
        }
        self.quantized(&out);
    }

    /// Adds an operator that only moves elements.
    fn moved(&mut self, op: &str) {
        let (f, out) = (self.float.clone(), self.fresh("t"));
        let pads = self.constant("int64", &[8], &[0., 0., 1., 0., 0., 0., 0., 1.]);
        let fill = self.constant("float", &[], &[0.7]);
        self.line(&match op {
            "MaxPool" => format!("{out} = MaxPool<kernel_shape = [1, 1]>({f})"),
            "Pad" => format!("{out} = Pad({f}, {pads}, {fill})"),
            _ => format!("{out} = Transpose<perm = [0, 1, 3, 2]>({f})"),
        });
        if op == "Pad" {
            (self.dims[2], self.dims[3]) = (self.dims[2] + 1, self.dims[3] + 1);
        }
        if op == "Transpose" {
            self.dims.swap(2, 3);
        }
        self.again(&out);
    }

    fn model(&self, dims: &[usize]) -> Model {
        let (q, dtype) = (&self.integers, self.dtype());
        let constants = self.constants.join(", ");
        model(&format!(
            "g (float{dims:?} x) => ({dtype}{:?} {q}) <{constants}> {{ {} }}",
            self.dims, self.body
        ))
    }
}

const DIMS: [usize; 4] = [1, 2, 4, 3];

/// Operators that round, and those that only move or compare integers.
const ROUNDING: [&str; 11] = [
    "Conv", "MatMul", "Add", "Mul", "LeakyRelu", "Sigmoid", "Softmax", "AveragePool",
    "GlobalAveragePool", "ReduceMean", "Concat",
];
const EXACT: [&str; 4] = ["MaxPool", "Pad", "Transpose", "Relu"];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Where both forms round differently, results are one step apart at most.
    #[test]
    fn one_operator_is_the_same_to_a_step(
        seed: u64, signed: bool, op in prop::sample::select(&ROUNDING[..])
    ) {
        let mut net = Net::new(seed, signed, &DIMS);
        net.step(op);
        let before = net.model(&DIMS);
        let (after, told) = folded(&before);
        prop_assert_eq!(&told.left, &[]);
        let far = distance(&outputs(&before, seed), &outputs(&after, seed));
        prop_assert!(far <= 1.0, "{} {}", far, text::print_model(&before));
    }

    #[test]
    fn what_moves_integers_is_the_same(
        seed: u64, signed: bool, op in prop::sample::select(&EXACT[..3])
    ) {
        let mut net = Net::new(seed, signed, &DIMS);
        net.step(op);
        let before = net.model(&DIMS);
        let (after, told) = folded(&before);
        prop_assert_eq!(&told.left, &[]);
        prop_assert_eq!(distance(&outputs(&before, seed), &outputs(&after, seed)), 0.0);
    }

    /// Scales, zero points and integers survive.
    #[test]
    fn there_and_back_loses_nothing(
        seed: u64,
        signed: bool,
        ops in prop::collection::vec(
            prop_oneof![prop::sample::select(&ROUNDING[..]), prop::sample::select(&EXACT[..])],
            1..6,
        ),
    ) {
        let mut net = Net::new(seed, signed, &DIMS);
        ops.iter().for_each(|op| net.step(op));
        let (once, _) = folded(&net.model(&DIMS));
        let rest = once.graph.nodes().filter(|(_, n)| n.is("QuantizeLinear"));
        prop_assert_eq!(rest.count(), 1, "{}", text::print_model(&once));
        let (back, told) = unfolded(&once);
        prop_assert_eq!(&told.left, &[]);
        let integers = back.graph.nodes().filter(|(_, n)| n.op.starts_with("QLinear"));
        prop_assert_eq!(integers.count(), 0);
        let (again, _) = folded(&back);
        assert_same(&again, &once);
    }
}
