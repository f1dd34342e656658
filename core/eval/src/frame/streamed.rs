//! Large weights that are computed while they are read, some columns at a time, where there is no room to keep them.

use super::{Frame, ModelRunner};
use crate::dims;
use crate::item::RunValue;
use onnxd_ir::{DataType, Node, Tensor};

/// Bytes of weights up to which they are computed as a whole.
const WHOLE_BYTES: usize = 16 << 20;

impl ModelRunner<'_, '_, '_> {
    /// Whether so many bytes are neither few nor kept for a later run.
    fn is_streamed(&self, bytes: usize) -> bool {
        bytes > WHOLE_BYTES.max(self.keeps())
    }

    /// Whether the node reads `x`, its input `slot`, some columns at a time.
    pub(super) fn reads_columns(&self, node: &Node, slot: usize, x: &Tensor) -> bool {
        let multiplies = node.is("MatMul") || node.is("Gemm");
        multiplies && slot == 1 && x.derivation().is_some() && self.is_streamed(x.byte_len())
    }

    /// The rows of a large table that `Gather` takes, without the others.
    pub(super) fn rows_alone(&self, frame: &Frame, node: &Node) -> Option<RunValue> {
        if !node.is("Gather") || node.int("axis", 0) != 0 {
            return None;
        }
        let [table, indices] = [0, 1].map(|slot| frame.value(node.input(slot)?));
        let (table, indices) = (table?.tensor()?.clone(), indices?.tensor()?.clone());
        let is_large = table.derivation().is_some() && self.is_streamed(table.byte_len());
        let is_whole = table.dtype().bits() >= 8;
        let (rows, row) = table.dims().split_first().filter(|_| is_large && is_whole)?;
        let width: usize = row.iter().product();
        let bytes = indices.len().checked_mul(width).and_then(|len| table.dtype().byte_len(len));
        bytes.filter(|bytes| *bytes <= self.room())?;
        let mut bytes = Vec::new();
        for index in indices.to_i64s()? {
            let at = if index < 0 { index + *rows as i64 } else { index };
            // What is beyond the table is the operator's to refuse.
            let at = usize::try_from(at).ok().filter(|at| at < rows)?;
            bytes.extend_from_slice(&table.part(at * width..(at + 1) * width));
        }
        let taken = Tensor::new(table.dtype(), [indices.dims(), row].concat(), bytes.into());
        taken.ok().map(RunValue::Tensor)
    }

    /// What `DequantizeLinear` or `Cast` makes of large constants, not computed yet.
    pub(super) fn made_later(&self, frame: &Frame, node: &Node) -> Option<RunValue> {
        let constant = |slot: usize| {
            let v = node.input(slot)?;
            frame.graph[v].initializer().filter(|_| frame.values[v.index()].is_none())
        };
        if node.is("Cast") {
            let to = i32::try_from(node.int("to", 0)).ok().and_then(DataType::from_number)?;
            let made = constant(0)?.cast(to).ok()?;
            return self.is_streamed(made.byte_len()).then_some(RunValue::Tensor(made));
        }
        if !node.is("DequantizeLinear") {
            return None;
        }
        let (x, scale, zero) = (constant(0)?, constant(1)?, constant(2));
        let block = usize::try_from(node.int("block_size", 0)).ok().filter(|block| *block > 0)?;
        let is_plain =
            node.input(2).is_some() == zero.is_some() && node.attr("output_dtype").is_none();
        if !is_plain || !self.is_streamed(x.len().saturating_mul(DataType::Float.bits() / 8)) {
            return None;
        }
        let axis = dims::axis(node.int("axis", 1), x.rank()).ok()?;
        x.dequantized(scale, zero, (axis, block)).ok().map(RunValue::Tensor)
    }
}

#[cfg(test)]
mod tests {
    use crate::executor::{Executor, RunOptions};
    use onnxd_ir::text::parse_model;
    use onnxd_ir::{DataType, Tensor};

    const MODEL: &str = r#"<ir_version: 10, opset_import: ["" : 21]>
    g (float[2,600] x) => (float[2,8000] y)
    <int64[3] i = {0, -1, 7}, bfloat16[8000,600] v, float[600,8000] w, int4[600,8000] q,
     float[600,250] s, uint8[600,8000] r, float[19,8000] t, uint8[19,8000] z>
    {
        f = Cast<to = 1>(v)
        e = Gemm<transB = 1>(x, f)
        m = MatMul(x, w)
        a = Add(e, m)
        b = DequantizeLinear<axis = 1, block_size = 32>(q, s)
        c = Gemm<transB = 1>(a, b)
        d = DequantizeLinear<axis = 0, block_size = 32>(r, t, z)
        j = Cast<to = 1>(v)
        k = Gather<axis = 0>(j, i)
        l = ReduceMean<keepdims = 0>(k)
        n = MatMul(c, d)
        y = Add(n, l)
    }"#;

    /// What is computed some columns at a time is what is computed as a whole.
    #[test]
    fn large_weights_give_the_same_in_parts() {
        let mut model = parse_model(MODEL).unwrap();
        let bytes = |len: usize| (0..len).map(|i| (i * i / 7 % 251) as u8).collect::<Vec<_>>();
        let reals = |dims: [usize; 2]| {
            let values = (0..dims[0] * dims[1]).map(|i| (i % 13) as f32 / 500.0 - 0.01);
            Tensor::from_vec(dims, values.collect::<Vec<f32>>())
        };
        let narrow = reals([8000, 600]).cast(DataType::Bfloat16).unwrap().held();
        let wide = narrow.permuted(&[1, 0]).unwrap().cast(DataType::Float).unwrap();
        let integers = |dtype, dims: [usize; 2]| {
            let bytes = bytes(DataType::byte_len(dtype, dims[0] * dims[1]).unwrap());
            Tensor::new(dtype, dims.to_vec(), bytes.into()).unwrap()
        };
        for (name, tensor) in [
            ("v", narrow),
            ("w", wide),
            ("q", integers(DataType::Int4, [600, 8000])),
            ("s", reals([600, 250])),
            ("r", integers(DataType::Uint8, [600, 8000])),
            ("t", reals([19, 8000])),
            ("z", integers(DataType::Uint8, [19, 8000])),
        ] {
            let v = model.graph.value_named(name).unwrap();
            model.graph.set_initializer(v, Some(tensor));
        }
        let executor = Executor::new(&model).unwrap();
        let x = ("x".to_owned(), reals([2, 600]));
        let [parts, whole] = [0, usize::MAX].map(|kept_max| {
            let options = RunOptions { kept_max, ..RunOptions::default() };
            executor.run(&[x.clone()].into(), options).unwrap().remove(0).1
        });
        let [parts, whole] = [&parts, &whole].map(|y| y.as_slice::<f32>().unwrap());
        assert!(whole.iter().any(|y| y.abs() > 1.0));
        for (part, whole) in parts.iter().zip(whole.iter()) {
            assert!((part - whole).abs() <= 1e-5 * whole.abs().max(1.0), "{part} {whole}");
        }
    }
}
