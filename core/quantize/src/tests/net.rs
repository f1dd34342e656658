//! Random small networks of floats, as ONNX text of operator set 17 that is valid in 21, too.

use super::{Dice, model};
use onnxd_ir::Model;
use std::fmt::Write;

/// A network that is being written.
struct Net {
    dice: Dice,
    body: String,
    constants: Vec<String>,
    /// Values that may be read, and their sizes.
    values: Vec<(String, Vec<usize>)>,
    /// Weights that may be read once more.
    weights: Vec<(String, Vec<usize>)>,
    read: Vec<String>,
    count: usize,
}

/// A network of some operators: weighted operators, functions, moves, branches that meet, weights and values
/// with several readers, several outputs.
pub(crate) fn net(seed: u64, steps: usize) -> Model {
    let mut net = Net {
        dice: Dice(seed),
        body: String::new(),
        constants: vec![],
        values: vec![],
        weights: vec![],
        read: vec![],
        count: 0,
    };
    let dims = match net.below(3) {
        0 => vec![2, 1 + net.below(6)],
        1 => vec![1, 2 + net.below(3), 2 + net.below(4)],
        _ => vec![1, 1 + net.below(4), 3 + net.below(3), 3 + net.below(3)],
    };
    net.values.push(("x".into(), dims.clone()));
    for _ in 0..steps {
        let last = net.values.len() - 1;
        let at = if net.below(4) == 0 { net.below(last + 1) } else { last };
        let (v, dims) = net.values[at].clone();
        net.step(&v, &dims);
    }
    let unread = net.values[1..].iter().filter(|(v, _)| !net.read.contains(v));
    let outputs: Vec<String> = unread.map(|(v, dims)| format!("float{dims:?} {v}")).collect();
    let constants = net.constants.join(", ");
    let (outputs, body) = (outputs.join(", "), &net.body);
    let text = format!("g (float{dims:?} x) => ({outputs}) <{constants}> {{ {body} }}");
    model(&text, seed)
}

impl Net {
    fn below(&mut self, n: usize) -> usize {
        (self.dice.next() % n as u64) as usize
    }

    fn fresh(&mut self, base: &str) -> String {
        self.count += 1;
        format!("{base}{}", self.count)
    }

    /// A constant of random numbers, perhaps one that was read before.
    fn weight(&mut self, dims: &[usize]) -> String {
        let known = self.weights.iter().find(|(_, d)| d == dims).map(|(w, _)| w.clone());
        if let Some(known) = known.filter(|_| self.dice.next().is_multiple_of(3)) {
            return known;
        }
        let name = self.fresh("w");
        self.constants.push(format!("float{dims:?} {name}"));
        self.weights.push((name.clone(), dims.to_vec()));
        name
    }

    fn ints(&mut self, values: &[i64]) -> String {
        let name = self.fresh("i");
        let list = values.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
        self.constants.push(format!("int64[{}] {name} = {{{list}}}", values.len()));
        name
    }

    /// A node that reads `v` and others.
    fn add(&mut self, op: &str, inputs: &[&str], dims: Vec<usize>) -> String {
        let out = self.fresh("v");
        self.read.extend(inputs.iter().map(|v| (*v).to_owned()));
        writeln!(self.body, "{out} = {op}({})", inputs.join(", ")).unwrap();
        self.values.push((out.clone(), dims));
        out
    }

    fn step(&mut self, v: &str, dims: &[usize]) {
        let choices: &[fn(&mut Net, &str, &[usize])] = match dims.len() {
            4 => &[Net::conv, Net::conv, Net::pool, Net::any, Net::any, Net::moved],
            2 => &[Net::gemm, Net::gemm, Net::any, Net::any, Net::moved],
            _ => &[Net::matmul, Net::matmul, Net::any, Net::any, Net::moved],
        };
        choices[self.below(choices.len())](self, v, dims);
    }

    fn conv(&mut self, v: &str, dims: &[usize]) {
        let [_, channels, height, width] = *dims else { return };
        let (k, stride, pad) =
            (1 + self.below(3.min(height.min(width))), 1 + self.below(2), self.below(2));
        let group = if self.below(3) == 0 { channels } else { 1 };
        let out = group * (1 + self.below(3));
        let w = self.weight(&[out, channels / group, k, k]);
        let b = (self.below(2) == 0).then(|| self.weight(&[out]));
        let size = |d: usize| (d + 2 * pad - k) / stride + 1;
        let inputs: Vec<&str> = [v, &w].into_iter().chain(b.as_deref()).collect();
        let op = format!(
            "Conv<group = {group}, strides = [{stride}, {stride}],
                  pads = [{pad}, {pad}, {pad}, {pad}]>"
        );
        self.add(&op, &inputs, vec![dims[0], out, size(height), size(width)]);
    }

    fn gemm(&mut self, v: &str, dims: &[usize]) {
        let (n, turned) = (1 + self.below(5), self.below(2));
        let w = self.weight(&if turned == 1 { [n, dims[1]] } else { [dims[1], n] });
        let b = (self.below(2) == 0).then(|| self.weight(&[n]));
        let inputs: Vec<&str> = [v, &w].into_iter().chain(b.as_deref()).collect();
        self.add(&format!("Gemm<transB = {turned}>"), &inputs, vec![dims[0], n]);
    }

    fn matmul(&mut self, v: &str, dims: &[usize]) {
        let (last, n) = (dims.len() - 1, 1 + self.below(5));
        let w = self.weight(&[dims[last], n]);
        let out = [&dims[..last], &[n]].concat();
        let product = self.add("MatMul", &[v, &w], out.clone());
        if self.below(2) == 0 {
            let b = self.weight(&[n]);
            self.add("Add", &[&b, &product], out);
        }
    }

    fn pool(&mut self, v: &str, dims: &[usize]) {
        let [n, c, height, width] = *dims else { return };
        if height < 2 || width < 2 || self.below(4) == 0 {
            self.add("GlobalAveragePool", &[v], vec![n, c, 1, 1]);
            return;
        }
        let op = ["MaxPool", "AveragePool"][self.below(2)];
        let op = format!("{op}<kernel_shape = [2, 2], pads = [0, 0, 0, 1]>");
        self.add(&op, &[v], vec![n, c, height - 1, width]);
    }

    fn any(&mut self, v: &str, dims: &[usize]) {
        let (out, last) = (dims.to_vec(), dims[dims.len() - 1]);
        match self.below(9) {
            0 | 1 => self.add("Relu", &[v], out),
            2 => {
                let (low, high) = (self.fresh("b"), self.fresh("b"));
                self.constants.push(format!("float {low} = {{0.0}}, float {high} = {{0.7}}"));
                self.add("Clip", &[v, &low, &high], out)
            }
            3 => {
                let op = ["LeakyRelu", "Sigmoid"][self.below(2)];
                self.add(op, &[v], out)
            }
            4 => self.add("Softmax<axis = -1>", &[v], out),
            5 => {
                let (scale, bias) = (self.weight(&[last]), self.weight(&[last]));
                self.add("LayerNormalization", &[v, &scale, &bias], out)
            }
            6 => {
                let b = self.weight(&[last]);
                let op = ["Add", "Mul"][self.below(2)];
                self.add(op, &[v, &b], out)
            }
            _ => {
                let same = self.values.iter().filter(|(_, d)| d == dims);
                let same: Vec<String> = same.map(|(v, _)| v.clone()).collect();
                let other = same[self.below(same.len())].clone();
                let op = ["Add", "Add", "Mul", "Concat<axis = 1>"][self.below(4)];
                let more = if op.starts_with("Concat") { 2 } else { 1 };
                let mut out = out;
                out[1] *= more;
                self.add(op, &[v, &other], out)
            }
        };
    }

    fn moved(&mut self, v: &str, dims: &[usize]) {
        let (rank, mut out) = (dims.len(), dims.to_vec());
        match self.below(6) {
            0 => {
                out.swap(rank - 1, rank - 2);
                let order: Vec<usize> = (0..rank - 2).chain([rank - 1, rank - 2]).collect();
                self.add(&format!("Transpose<perm = {order:?}>"), &[v], out)
            }
            1 if rank > 2 => {
                let rest = dims[1..].iter().product();
                self.add("Flatten", &[v], vec![dims[0], rest])
            }
            2 if dims[rank - 1] > 1 => {
                let [first, end, axis] = [1, 99, -1].map(|n| self.ints(&[n]));
                out[rank - 1] -= 1;
                self.add("Slice", &[v, &first, &end, &axis], out)
            }
            3 => {
                let mut pads = vec![0; 2 * rank];
                (pads[rank - 1], pads[2 * rank - 2]) = (1, 1);
                let pads = self.ints(&pads);
                (out[rank - 1], out[rank - 2]) = (out[rank - 1] + 1, out[rank - 2] + 1);
                let mode = ["constant", "edge"][self.below(2)];
                self.add(&format!("Pad<mode = \"{mode}\">"), &[v, &pads], out)
            }
            4 if dims[1] > 1 => self.split(v, dims),
            _ => {
                let places = self.ints(&[0, -1, 0]);
                out[rank - 1] = 3;
                self.add(&format!("Gather<axis = {}>", rank - 1), &[v, &places], out)
            }
        };
    }

    fn split(&mut self, v: &str, dims: &[usize]) -> String {
        let (parts, mut out) = ([1, dims[1] - 1], dims.to_vec());
        let sizes = self.ints(&parts.map(|n| n as i64));
        let (a, b) = (self.fresh("v"), self.fresh("v"));
        writeln!(self.body, "{a}, {b} = Split<axis = 1>({v}, {sizes})").unwrap();
        self.read.push(v.to_owned());
        for (name, n) in [a, b.clone()].into_iter().zip(parts) {
            out[1] = n;
            self.values.push((name, out.clone()));
        }
        b
    }
}
