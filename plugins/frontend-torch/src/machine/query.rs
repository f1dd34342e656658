//! What a program asks of a tensor: its sizes, type and device, and its value as a number.

use super::{GraphNumber, Item, Machine, NumberKind, Result};
use crate::aten::dtype;
use crate::diag::Code;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::ir::DataType;

impl Machine<'_> {
    /// The answer, if `name` is a question.
    pub(crate) fn queries(&self, name: &str, arguments: &[Item]) -> Result<Option<Item>> {
        if let Some(item) = constant(name) {
            return Ok(Some(item));
        }
        if let ("__is__" | "__isnot__", [a, b]) = (name, arguments) {
            return self.identity(name, a, b);
        }
        let Some(first) = arguments.first() else { return Ok(None) };
        if matches!(first, Item::Hole) && is_question(name) {
            return Ok(Some(Item::Hole));
        }
        if let Some(item) = unwrapped(name, first) {
            return Ok(Some(item));
        }
        if !first.is_tensor() {
            return Ok(None);
        }
        let x = self.var_of(first)?;
        let b = self.builder();
        Ok(Some(match (name, &arguments[1..]) {
            ("size" | "sym_size", [dim]) => self.size(x, dim)?,
            ("size" | "shape" | "sym_size", []) => Item::list(self.sizes_of(x)?),
            ("dim" | "ndimension", []) => Item::Int(self.rank(x)? as i64),
            ("len", []) => self.size(x, &Item::Int(0))?,
            ("numel" | "sym_numel", []) => self.count(x)?,
            ("dtype", []) => Item::Int(dtype::number(self.dtype(x)?)),
            ("is_quantized", []) => Item::Bool(b.source.quantized.borrow().contains_key(&x)),
            ("is_floating_point", []) => Item::Bool(self.dtype(x)?.is_float()),
            ("is_complex", []) => {
                Item::Bool(matches!(self.dtype(x)?, DataType::Complex64 | DataType::Complex128))
            }
            ("is_signed", []) => Item::Bool(!matches!(
                self.dtype(x)?,
                DataType::Uint8
                    | DataType::Uint16
                    | DataType::Uint32
                    | DataType::Uint64
                    | DataType::Bool
            )),
            ("stride" | "sym_stride", []) if is_contiguous(first) => self.strides(x)?,
            ("storage_offset" | "sym_storage_offset", []) if is_whole(first) => Item::Int(0),
            ("stride" | "sym_stride" | "storage_offset" | "sym_storage_offset", _) => {
                let message = "Where the elements of a view lie in memory is not known.";
                return Err(self.problem(Code::LayerUnsupported, message));
            }
            ("item" | "_local_scalar_dense" | "ScalarImplicit" | "ImplicitTensorToNum", []) => {
                let kind = match self.dtype(x)? {
                    DataType::Bool => NumberKind::Bool,
                    DataType::Complex64 | DataType::Complex128 => {
                        let message = "A tensor of complex numbers is taken for a number.";
                        return Err(self.problem(Code::LayerUnsupported, message));
                    }
                    dtype if dtype.is_float() => NumberKind::Float,
                    _ => NumberKind::Int,
                };
                self.number(self.number_var(first, kind)?, kind)
            }
            ("Int" | "IntImplicit", []) => self.as_number(first, NumberKind::Int)?,
            ("Float" | "FloatImplicit", []) => self.as_number(first, NumberKind::Float)?,
            ("Bool" | "is_nonzero", []) => self.as_number(first, NumberKind::Bool)?,
            ("is_contiguous", _) => Item::Bool(is_contiguous(first)),
            ("is_same_size", [other]) => {
                let other = self.var_of(other)?;
                let same = self.sizes_of(x)?;
                return self.numbers("eq", &[Item::list(same), Item::list(self.sizes_of(other)?)]);
            }
            ("requires_grad_" | "data" | "detach" | "cpu" | "cuda", _) => first.clone(),
            ("grad", []) => Item::None,
            _ => return Ok(None),
        }))
    }

    fn as_number(&self, item: &Item, kind: NumberKind) -> Result<Item> {
        Ok(self.number(self.number_var(item, kind)?, kind))
    }

    fn identity(&self, name: &str, a: &Item, b: &Item) -> Result<Option<Item>> {
        let is = name == "__is__";
        Ok(match (a, b) {
            (Item::Maybe(present, _), Item::None) | (Item::None, Item::Maybe(present, _)) => {
                if !is {
                    return Ok(Some(Item::Number(*present)));
                }
                let absent = self.numbers("__not__", &[Item::Number(*present)])?;
                if let Some(Item::Number(number)) = &absent {
                    self.absent.borrow_mut().insert(number.var, present.var);
                }
                absent
            }
            (Item::None, Item::None) => Some(Item::Bool(is)),
            (Item::Hole, _) | (_, Item::Hole) => Some(Item::Hole),
            (Item::None, _) | (_, Item::None) => Some(Item::Bool(!is)),
            (a, b) => Some(Item::Bool(a.same(b) == is)),
        })
    }

    pub(crate) fn rank(&self, x: Var) -> Result<usize> {
        self.builder().rank_of(x).ok_or_else(|| {
            let name = crate::diag::shown(&self.builder().name_of(x));
            let message = format!("The number of axes of `{name}` is not known.");
            let help = "Give the shapes of the inputs: `export.input_shapes`.";
            self.problem(Code::LayerParameter, message).help(help)
        })
    }

    fn dtype(&self, x: Var) -> Result<DataType> {
        self.builder().dtype_of(x).ok_or_else(|| {
            let name = crate::diag::shown(&self.builder().name_of(x));
            let message = format!("The element type of `{name}` is not known.");
            let help = "Give the types of the inputs: `export.input_dtypes`.";
            self.problem(Code::LayerParameter, message).help(help)
        })
    }

    /// The size of an axis: a number, if it is known.
    fn size(&self, x: Var, dim: &Item) -> Result<Item> {
        let b = self.builder();
        // Counted from the front, the number of axes does not matter.
        if let (Some(axis @ 0..), None) = (dim.as_int(), b.rank_of(x)) {
            return self.size_at(x, axis);
        }
        let rank = self.rank(x)? as i64;
        let Some(dim) = dim.as_int() else {
            let index = self.number_var(dim, NumberKind::Int)?;
            let var = b.gather(b.shape(x).one()?, index).one()?;
            self.sizes.borrow_mut().insert(var);
            return Ok(Item::Number(GraphNumber { var, kind: NumberKind::Int }));
        };
        let axis = if dim < 0 { dim + rank } else { dim };
        if !(0..rank).contains(&axis) {
            let message = format!("Axis {dim} of a tensor of {rank} axes.");
            return Err(self.problem(Code::LayerParameter, message));
        }
        self.size_at(x, axis)
    }

    fn size_at(&self, x: Var, axis: i64) -> Result<Item> {
        let b = self.builder();
        let known = b.shape_of(x).and_then(|shape| shape.get(axis as usize)?.known());
        if let Some(known) = known {
            return Ok(Item::Int(known));
        }
        let x = b.source.complex.shaped(b, x)?;
        let var = match b.opset() >= 15 {
            true => b.squeeze(b.shape(x).start(axis).end(axis + 1).one()?).axes([0]).one()?,
            false => b.gather(b.shape(x).one()?, axis).one()?,
        };
        self.sizes.borrow_mut().insert(var);
        Ok(Item::Number(GraphNumber { var, kind: NumberKind::Int }))
    }

    fn sizes_of(&self, x: Var) -> Result<Vec<Item>> {
        (0..self.rank(x)? as i64).map(|axis| self.size_at(x, axis)).collect()
    }

    fn count(&self, x: Var) -> Result<Item> {
        let b = self.builder();
        if let Some(dims) = b.dims_of(x) {
            return Ok(Item::Int(dims.iter().product()));
        }
        let var = b.size(x)?;
        self.sizes.borrow_mut().insert(var);
        Ok(Item::Number(GraphNumber { var, kind: NumberKind::Int }))
    }

    /// The strides that a tensor in row-major order has.
    fn strides(&self, x: Var) -> Result<Item> {
        let sizes = self.sizes_of(x)?;
        let mut strides = vec![];
        let mut stride = Item::Int(1);
        for size in sizes.iter().rev() {
            strides.push(stride.clone());
            let both = [stride, size.clone()];
            stride = self.arithmetic("mul", &both)?.unwrap_or_else(|| self.hole());
        }
        strides.reverse();
        Ok(Item::list(strides))
    }
}

fn is_contiguous(item: &Item) -> bool {
    matches!(item, Item::Tensor(view) if view.is_contiguous())
}

/// Whether a tensor is no view of another one.
fn is_whole(item: &Item) -> bool {
    matches!(item, Item::Tensor(view) if view.is_whole())
}

/// The value itself, of operators that only change what it is called.
fn unwrapped(name: &str, first: &Item) -> Option<Item> {
    match (name, first) {
        ("NumToTensor" | "ImplicitTensorToNum", _) if first.is_tensor() => None,
        (
            "NumToTensor"
            | "ImplicitTensorToNum"
            | "_unwrap_optional"
            | "unchecked_unwrap_optional",
            Item::Maybe(_, item),
        ) => Some((**item).clone()),
        (
            "NumToTensor"
            | "ImplicitTensorToNum"
            | "_unwrap_optional"
            | "unchecked_unwrap_optional",
            other,
        ) => Some(other.clone()),
        ("str", Item::Device(device)) => Some(Item::text(device)),
        ("type", Item::Device(device)) => {
            Some(Item::text(device.split(':').next().unwrap_or_default()))
        }
        _ => None,
    }
}

/// What is the same for all tensors, and for the machine on which the model runs.
fn constant(name: &str) -> Option<Item> {
    Some(match name {
        "device" => Item::Device("cpu".into()),
        "is_cpu" => Item::Bool(true),
        "layout" => Item::Int(0),
        "is_cuda"
        | "is_xpu"
        | "is_hpu"
        | "is_mps"
        | "is_mkldnn"
        | "is_sparse"
        | "is_sparse_csr"
        | "is_nested"
        | "is_meta"
        | "is_vulkan"
        | "is_ipu"
        | "is_maia"
        | "is_xla"
        | "is_mtia"
        | "requires_grad"
        | "is_autocast_enabled"
        | "is_autocast_cpu_enabled"
        | "is_grad_enabled"
        | "is_inference_mode_enabled"
        | "is_tracing"
        | "is_neg"
        | "is_conj" => Item::Bool(false),
        "is_scripting" | "is_leaf" => Item::Bool(true),
        "set_grad_enabled"
        | "Print"
        | "warn"
        | "_assert"
        | "_assert_async"
        | "manual_seed"
        | "sym_constrain_range"
        | "sym_constrain_range_for_size"
        | "_assert_scalar"
        | "_assert_tensor_metadata"
        | "is_autocast_cache_enabled" => Item::None,
        _ => return None,
    })
}

fn is_question(name: &str) -> bool {
    matches!(
        name,
        "size"
            | "shape"
            | "dim"
            | "len"
            | "numel"
            | "dtype"
            | "item"
            | "Int"
            | "Float"
            | "Bool"
            | "is_floating_point"
            | "is_contiguous"
            | "stride"
            | "is_complex"
    )
}
