//! Removes operators that return their input, as far as inference knows its sizes.
//!
//! ```onnx
//! before (float[N,4] x) => (float[N,4] y)
//! <int64[2] to = {-1, 4}, float[4] one = {1.0, 1.0, 1.0, 1.0}>
//! {
//!   a = Reshape(x, to)
//!   b = Mul(a, one)
//!   c = Relu(b)
//!   y = Identity(c)
//! }
//! ```
//!
//! becomes
//!
//! ```onnx
//! after (float[N,4] x) => (float[N,4] y)
//! {
//!   y = Relu(x)
//! }
//! ```

use onnxd_plugin_sdk::ir::{DataType, Dim, Facts, NodeId, Tensor, ValueId};
use onnxd_plugin_sdk::rewrite::{Rewrite, Rewriter, Skip};

/// Elements of a neutral operand that are compared.
const NEUTRAL_MAX: usize = 1 << 16;

/// The integers of 16 bits: as multiples of a float32 they keep their distances.
const INTEGERS_MAX: f64 = 65536.0;

pub(crate) fn remove_identity(cx: &mut Rewriter, id: NodeId, facts: &Facts) -> Rewrite {
    let place = NodeFacts { cx, id, facts };
    let returned = place.returned()?;
    let out = place.output()?;
    cx.bypass(out, returned)
}

/// A node, and what is known of its values.
struct NodeFacts<'a, 'g> {
    cx: &'a Rewriter<'g>,
    id: NodeId,
    facts: &'a Facts,
}

impl NodeFacts<'_, '_> {
    /// The input that the node returns.
    fn returned(&self) -> Result<ValueId, Skip> {
        let node = &self.cx.graph[self.id];
        if !node.is_standard() {
            return Skip::unlike();
        }
        let data = self.input(0)?;
        match node.op.as_str() {
            "Identity" => {}
            "Cast" => self.holds(i64::from(self.cx.dtype(data)?.number()) == node.int("to", 0))?,
            "CastLike" => self.holds(self.cx.dtype(data)? == self.cx.dtype(self.input(1)?)?)?,
            "Concat" | "Sum" | "Max" | "Min" | "Mean" => self.holds(node.inputs.len() == 1)?,
            "Reshape" | "Flatten" | "Squeeze" | "Unsqueeze" | "Expand" | "Tile" => {
                self.keeps(data)?;
            }
            "Split" => self.holds(node.outputs.len() == 1).and_then(|()| self.keeps(data))?,
            "Transpose" => self.transpose(data)?,
            "Pad" => self.pad()?,
            "Slice" => self.slice(data)?,
            "Gather" => self.gather(data)?,
            "AveragePool" | "MaxPool" => self.pool(data)?,
            "Mul" | "Div" | "Add" | "Sub" | "And" | "Or" | "Xor" => return self.arithmetic(),
            "QuantizeLinear" => return self.quantized(data),
            _ => return Skip::unlike(),
        }
        Ok(data)
    }

    fn input(&self, i: usize) -> Result<ValueId, Skip> {
        self.cx.graph[self.id].input(i).map_or_else(Skip::unlike, Ok)
    }

    fn output(&self) -> Result<ValueId, Skip> {
        self.cx.graph[self.id].output(0).map_or_else(Skip::unlike, Ok)
    }

    fn holds(&self, condition: bool) -> Rewrite {
        if condition { Ok(()) } else { Skip::unlike() }
    }

    fn shape(&self, v: ValueId) -> Result<&[Dim], Skip> {
        let shape = self.facts.shape(v);
        shape.ok_or_else(|| Skip(format!("the shape of {} is not known", self.cx.name(v))))
    }

    /// The output has the shape of `data`.
    fn keeps(&self, data: ValueId) -> Rewrite {
        let (from, to) = (self.shape(data)?, self.shape(self.output()?)?);
        self.holds(from.len() == to.len() && from.iter().zip(to).all(|(a, b)| a.same(b)))
    }

    /// Only axes of size 1 move, and sizes stay.
    fn transpose(&self, data: ValueId) -> Rewrite {
        let perm = self.cx.integers_of(self.id, "perm", usize::MAX)?;
        let Some(perm) = perm else { return Skip::unlike() };
        if perm.iter().enumerate().all(|(i, p)| *p == i as i64) {
            return Ok(());
        }
        self.keeps(data)?;
        let shape = self.shape(data)?;
        let long = |p: &&i64| shape.get(**p as usize) != Some(&Dim::Known(1));
        self.holds(perm.iter().filter(long).is_sorted())
    }

    fn pad(&self) -> Rewrite {
        let known = self.input(1).ok().and_then(|pads| self.facts.elements(pads));
        let zero = match known {
            Some((_, pads)) => pads.iter().all(|p| *p == Dim::Known(0)),
            None => {
                let pads = self.cx.integers_of(self.id, "pads", 1)?;
                pads.is_some_and(|pads| pads.iter().all(|p| *p == 0))
            }
        };
        self.holds(zero)
    }

    /// As many elements in ascending order as there are: all of them.
    fn slice(&self, data: ValueId) -> Rewrite {
        self.keeps(data)?;
        let steps = self.cx.integers_of(self.id, "steps", 4)?.unwrap_or_default();
        self.holds(steps.iter().all(|step| *step > 0))
    }

    /// All indices in their order.
    fn gather(&self, data: ValueId) -> Rewrite {
        let indices = self.input(1)?;
        let Some(all) = self.cx.graph.constant(indices).filter(|all| all.rank() == 1) else {
            return Skip::unlike();
        };
        let all = all.to_i64s().unwrap_or_default();
        let ascending = all.iter().enumerate().all(|(i, at)| *at == i as i64);
        self.holds(ascending).and_then(|()| self.keeps(data))
    }

    /// Windows of one element. Were strides to leave any out, there would be fewer.
    fn pool(&self, data: ValueId) -> Rewrite {
        let list = |name| self.cx.integers_of(self.id, name, usize::MAX);
        let kernel = list("kernel_shape")?.unwrap_or_default();
        let pads = list("pads")?.unwrap_or_default();
        self.holds(!kernel.is_empty() && kernel.iter().all(|k| *k == 1))?;
        self.holds(pads.iter().all(|p| *p == 0)).and_then(|()| self.keeps(data))
    }

    /// What was dequantized by the same scale. Its steps lie far enough apart for the reals between to give each back.
    fn quantized(&self, data: ValueId) -> Result<ValueId, Skip> {
        let graph = &self.cx.graph;
        let Some(from) = graph.producer(data).map(|id| &graph[id]) else { return Skip::unlike() };
        self.holds(from.is("DequantizeLinear"))?;
        let (scale, zero) = (self.input(1)?, self.input(2)?);
        let is_float = |number: i64| [0, i64::from(DataType::Float.number())].contains(&number);
        let precision = graph[self.id].int("precision", 0);
        self.holds(is_float(from.int("output_dtype", 0)) && is_float(precision))?;
        let is_plain = |v: ValueId| {
            let scale = graph.constant(v).filter(|c| c.len() == 1 && c.dtype() == DataType::Float);
            let scale = scale.and_then(Tensor::to_reals).map_or(0.0, |c| c.values[0]);
            (f64::from(f32::MIN_POSITIVE)..=f64::from(f32::MAX) / INTEGERS_MAX).contains(&scale)
        };
        let alike = |i: usize, v: ValueId| {
            let Some(other) = from.input(i) else { return false };
            let tensors = || graph.constant(v).zip(graph.constant(other));
            other == v || tensors().is_some_and(|(a, b)| a == b)
        };
        self.holds(is_plain(scale) && alike(1, scale) && alike(2, zero))?;
        let Some(integers) = from.input(0) else { return Skip::unlike() };
        let dtype = self.cx.dtype(integers)?;
        self.holds(is_narrow_integer(dtype) && dtype == self.cx.dtype(self.output()?)?)?;
        Ok(integers)
    }

    /// One operand is neutral.
    fn arithmetic(&self) -> Result<ValueId, Skip> {
        let (a, b) = (self.input(0)?, self.input(1)?);
        let neutral = match self.cx.graph[self.id].op.as_str() {
            "Mul" | "Div" | "And" => 1.0,
            // In float, 0 is no neutral addend: -0 + 0 is 0.
            "Add" => -0.0,
            _ => 0.0,
        };
        let commutes = !matches!(self.cx.graph[self.id].op.as_str(), "Div" | "Sub");
        for (data, constant) in [(a, b), (b, a)].into_iter().take(1 + usize::from(commutes)) {
            if self.cx.graph.constant(constant).is_some_and(|c| is_all(c, neutral)) {
                self.keeps(data)?;
                return Ok(data);
            }
        }
        Skip::unlike()
    }
}

/// Whether the type has at most [`INTEGERS_MAX`] integers.
fn is_narrow_integer(dtype: DataType) -> bool {
    use DataType::{Int2, Int4, Int8, Int16, Uint2, Uint4, Uint8, Uint16};
    matches!(dtype, Int2 | Uint2 | Int4 | Uint4 | Int8 | Uint8 | Int16 | Uint16)
}

/// Whether all elements are `x`, and there are some. Signs of zeros count in float.
fn is_all(tensor: &Tensor, x: f64) -> bool {
    if tensor.is_empty() || tensor.len() > NEUTRAL_MAX {
        return false;
    }
    match tensor.to_i64s() {
        Some(all) => all.iter().all(|i| *i == x as i64),
        None => tensor
            .to_reals()
            .is_some_and(|all| all.values.iter().all(|y| y.to_bits() == x.to_bits())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_plugin_sdk::rewrite::check::{
        check_doc_example_of, check_pass_same, check_pass_skip,
    };
    use onnxd_plugin_sdk::rewrite::{Pass, rule_on_facts};

    fn pass() -> Box<dyn Pass> {
        rule_on_facts("remove-identity", remove_identity)
    }

    #[test]
    fn doc_example() {
        check_doc_example_of(include_str!("remove_identity.rs"), pass().as_ref());
    }

    /// The operator that gives `y` from `x` goes.
    fn goes(dims: &str, constants: &str, node: &str) {
        let graph = format!(
            "g (float[{dims}] x, float[{dims}] z) => (float[{dims}] y)
             {constants} {{ {node} y = Add(r, z) }}"
        );
        let model = check_pass_same(pass().as_ref(), &graph);
        assert_eq!(model.graph.node_count(), 1, "{node}");
    }

    /// The operator that gives `y` from `x` stays.
    fn stays(dims: &str, constants: &str, node: &str) {
        let graph = format!(
            "g (float[{dims}] x) => (float[{dims}] y) {constants} {{ {node} y = Relu(r) }}"
        );
        check_pass_skip(pass().as_ref(), "", &graph);
    }

    #[test]
    fn all_kinds_go() {
        goes("2,3", "", "r = Identity(x)");
        goes("2,3", "", "r = Cast<to = 1>(x)");
        goes("2,3", "", "r = CastLike(x, z)");
        goes("2,3", "", "r = Transpose<perm = [0, 1]>(x)");
        goes("1,1,3", "", "r = Transpose<perm = [1, 0, 2]>(x)");
        goes("2,3", "<int64[4] none = {0, 0, 0, 0}>", "r = Pad(x, none)");
        goes("2,3", "", "r = Concat<axis = 1>(x)");
        goes("2,3", "", "r = Sum(x)");
        goes("2,3", "", "r = Mean(x)");
        goes("N,3", "", "s = Shape(x) r = Reshape(x, s)");
        goes("N,3", "<int64[2] to = {0, -1}>", "r = Reshape(x, to)");
        goes("N,3", "", "r = Flatten(x)");
        goes("N,3", "", "s = Shape(x) r = Expand(x, s)");
        goes("N,3", "<int64[2] one = {1, 1}>", "r = Expand(x, one)");
        goes("N,3", "<int64[2] one = {1, 1}>", "r = Tile(x, one)");
        goes("N,3", "<int64[1] a = {0}, int64[1] b = {9223372036854775807}>", "r = Slice(x, a, b)");
        goes("N,3", "<int64[1] n = {3}>", "r = Split<axis = 1>(x, n)");
        goes("N,3", "<int64[3] all = {0, 1, 2}>", "r = Gather<axis = 1>(x, all)");
        goes("1,2,3,3", "", "r = MaxPool<kernel_shape = [1, 1]>(x)");
        goes("1,2,3,3", "", "r = AveragePool<kernel_shape = [1, 1]>(x)");
        goes("N,3", "<float[1] one = {1.0}>", "r = Mul(x, one)");
        goes("N,3", "<float one = {1.0}>", "r = Mul(one, x)");
        goes("N,3", "<float[3] one = {1.0, 1.0, 1.0}>", "r = Div(x, one)");
        goes("N,3", "<float zero = {0.0}>", "r = Sub(x, zero)");
        goes("N,3", "<float zero = {-0.0}>", "r = Add(x, zero)");
    }

    #[test]
    fn what_changes_anything_stays() {
        stays("3,3", "", "r = Transpose<perm = [1, 0]>(x)");
        stays("N,3", "<int64[4] p = {0, 1, 0, -1}>", "r = Pad(x, p)");
        stays(
            "3",
            "<int64[1] a = {-1}, int64[1] b = {-4}, int64[1] c = {-1}, int64[1] i = {0}>",
            "r = Slice(x, a, b, i, c)",
        );
        stays("3", "<int64[3] i = {0, 2, 1}>", "r = Gather(x, i)");
        stays("1,1,3,3", "", "r = MaxPool<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(x)");
        stays("N,3", "<float one = {1.0}>", "r = Div(one, x)");
        stays("N,3", "<float zero = {0.0}>", "r = Sub(zero, x)");
        // 1 / (-0 + 0) is not 1 / -0.
        stays("N,3", "<float zero = {0.0}>", "r = Add(x, zero)");
        stays("N,3", "<float[3] c = {1.0, 1.0, 2.0}>", "r = Mul(x, c)");
    }

    #[test]
    fn sizes_that_are_not_known_to_be_equal() {
        check_pass_skip(
            pass().as_ref(),
            "",
            "g (float[N,M] x, int64[2] s) => (float[A,B] y) { r = Reshape(x, s) y = Relu(r) }",
        );
        check_pass_skip(
            pass().as_ref(),
            "",
            "g (float[N] x) => (float[1,N] y) <float[1,1] c = {1.0}> { r = Mul(x, c) y = Relu(r) }",
        );
        check_pass_skip(
            pass().as_ref(),
            "the shape of `r` is not known",
            "g (float[N,M] x, int64[K] s) => (float[A,B] y) { r = Reshape(x, s) y = Relu(r) }",
        );
    }

    #[test]
    fn an_output_keeps_its_name_and_an_input_its_place() {
        let graph = "g (float[2] x) => (float[2] y) { r = Relu(x) y = Identity(r) }";
        let model = check_pass_same(pass().as_ref(), graph);
        let y = model.graph.outputs()[0];
        assert_eq!((model.graph[y].name.as_str(), model.graph.node_count()), ("y", 1));
        check_pass_skip(
            pass().as_ref(),
            "the graph output `y` would be `x` itself",
            "g (float[2] x) => (float[2] y) { y = Identity(x) }",
        );
    }

    /// Integers of `dtype` as reals and back, by the scales `s` and `t`, with more attributes.
    fn dequantized(dtype: &str, s: f32, t: f32, [from, to]: [&str; 2]) -> String {
        format!(
            "<ir_version: 12, opset_import: [\"\" : 23]>
             g (float[2,3] x) => (float[2,3] y)
             <float s = {{{s:e}}}, float t = {{{t:e}}}, {dtype} z = {{3}}, {dtype} u = {{3}}>
             {{
               i = QuantizeLinear(x, s, z)
               d = DequantizeLinear{from}(i, s, z)
               q = QuantizeLinear{to}(d, t, u)
               y = DequantizeLinear(q, t, u)
             }}"
        )
    }

    #[test]
    fn integers_that_were_real_for_a_moment() {
        for dtype in ["int4", "uint4", "int8", "uint8", "int16", "uint16"] {
            for attributes in [["", ""], ["<output_dtype = 1>", "<precision = 1>"]] {
                let graph = dequantized(dtype, 0.1, 0.1, attributes);
                let model = check_pass_same(pass().as_ref(), &graph);
                assert_eq!(model.graph.node_count(), 2, "{dtype}");
            }
        }
    }

    /// By another scale, if large ones become infinite, and if the reals between are rounded.
    #[test]
    fn integers_that_do_not_come_back() {
        let stays = |graph: &str| check_pass_skip(pass().as_ref(), "", graph);
        stays(&dequantized("int8", 0.1, 0.2, ["", ""]));
        stays(&dequantized("int16", 1e34, 1e34, ["", ""]));
        stays(&dequantized("float8e4m3fn", 0.1, 0.1, ["", ""]));
        stays(&dequantized("int16", 0.1, 0.1, ["<output_dtype = 10>", ""]));
        stays(&dequantized("int16", 0.1, 0.1, ["", "<precision = 10>"]));
        stays(&dequantized("int16", 0.1, 0.1, ["", "<precision = 16>"]));
    }

    #[test]
    fn inside_a_branch() {
        let model = check_pass_same(
            pass().as_ref(),
            "g (bool b, float[N,4] x) => (float[N,4] y)
             {
               s = Shape(x)
               y = If (b) <
                 then_branch = t () => (float[N,4] p) { h = Reshape(x, s) p = Relu(h) },
                 else_branch = e () => (float[N,4] q) { q = Neg(x) }
               >
             }",
        );
        let inner = model.graph.nodes().flat_map(|(_, n)| n.subgraphs());
        assert_eq!(inner.map(onnxd_plugin_sdk::ir::Graph::node_count).sum::<usize>(), 2);
    }
}
