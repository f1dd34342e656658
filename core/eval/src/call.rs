//! What a kernel sees of the node it computes, and the rows that say which kernel computes which
//! operator.

use crate::dims;
use crate::domain::standard;
use crate::fault::{Fault, Outcome};
use crate::item::{RunValue, items};
use crate::num::slice;
use crate::steps::ElementStep;
use half::{bf16, f16};
use onnxd_diagnostics::refuse;
use onnxd_ir::{Attr, DataType, Element, Graph, Node, Tensor, TensorError};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Tensors with more axes are refused: nothing real has them, and they would make recursion deep.
pub(crate) const RANK_MAX: usize = 64;

/// Attributes of the enclosing function application, for attributes that refer to them.
pub(crate) type FunctionAttributes<'a> = BTreeMap<&'a str, &'a Attr>;

/// One application of an operator to its inputs.
pub(crate) struct KernelCall<'a> {
    pub(crate) node: &'a Node,
    /// Version of the operator set of the node's domain.
    pub(crate) opset: i64,
    /// `None` also where the input is a sequence or an empty optional, see [`Kernel::Control`].
    pub(crate) inputs: &'a [Option<Tensor>],
    pub(crate) scope: &'a FunctionAttributes<'a>,
    /// Bytes the outputs may take.
    pub(crate) bytes_max: usize,
    /// What else is done to the output; only convolutions are asked to.
    pub(crate) steps: &'a [ElementStep],
    /// See [`crate::RunOptions::winograd`].
    pub(crate) winograd: bool,
    /// Whether large results of layout operators are derived from their operands instead of computed.
    pub(crate) derives: bool,
}

/// Bytes of a result from which on it is derived.
const DERIVED_BYTES_MIN: usize = 64 << 10;

/// Runs a sub-graph of the node on values for its inputs; gives its outputs.
pub(crate) type RunBody<'a> = dyn FnMut(&Graph, Vec<RunValue>) -> Outcome<Vec<RunValue>> + 'a;

/// A kernel that sees all kinds of values and may run sub-graphs.
pub(crate) type Control =
    fn(&KernelCall, &[Option<RunValue>], &mut RunBody) -> Outcome<Vec<RunValue>>;

/// The function that computes an operator.
#[derive(Clone, Copy)]
pub(crate) enum Kernel {
    /// A pure function of the inputs.
    Plain(fn(&KernelCall) -> Outcome<Vec<Tensor>>),
    /// An operator with sub-graphs, or on values that are not tensors, which it finds in the second
    /// argument.
    Control(Control),
}

/// One row of a family's table: an operator, the versions of its definition that the kernel
/// follows, the kernel.
#[derive(Clone, Copy)]
pub(crate) struct KernelRow {
    pub(crate) op: &'static str,
    /// Empty for the standard's own.
    pub(crate) domain: &'static str,
    pub(crate) since: i64,
    pub(crate) until: i64,
    pub(crate) kernel: Kernel,
    /// Whether 16-bit floats are computed in `float` and rounded back; the kernel sees them itself
    /// otherwise.
    widens: bool,
}

/// A row for all versions, computing 16-bit floats through `float`.
pub(crate) const fn row(
    op: &'static str,
    kernel: fn(&KernelCall) -> Outcome<Vec<Tensor>>,
) -> KernelRow {
    let kernel = Kernel::Plain(kernel);
    KernelRow { op, domain: "", since: 1, until: i64::MAX, kernel, widens: true }
}

/// A row whose kernel handles every element type as it is.
pub(crate) const fn raw(
    op: &'static str,
    kernel: fn(&KernelCall) -> Outcome<Vec<Tensor>>,
) -> KernelRow {
    KernelRow { widens: false, ..row(op, kernel) }
}

/// A row of an operator with sub-graphs or on values that are not tensors.
pub(crate) const fn control(op: &'static str, kernel: Control) -> KernelRow {
    let kernel = Kernel::Control(kernel);
    KernelRow { op, domain: "", since: 1, until: i64::MAX, kernel, widens: false }
}

impl KernelRow {
    /// The domain of the operator.
    pub(crate) const fn in_domain(self, domain: &'static str) -> KernelRow {
        KernelRow { domain, ..self }
    }

    /// The first opset whose definition the kernel follows.
    pub(crate) const fn since(self, since: i64) -> KernelRow {
        KernelRow { since, ..self }
    }

    /// The last opset whose definition the kernel follows.
    pub(crate) const fn until(self, until: i64) -> KernelRow {
        KernelRow { until, ..self }
    }

    /// Whether it is of the node's operator, in some version.
    pub(crate) fn is_of(&self, node: &Node) -> bool {
        self.op == node.op && self.domain == standard(&node.domain)
    }

    /// Whether it computes the node's operator as version `opset` of its domain defines it.
    pub(crate) fn computes(&self, node: &Node, opset: i64) -> bool {
        self.is_of(node) && (self.since..=self.until).contains(&opset)
    }

    /// Computes the node; `inputs` are all of them, of which `call` sees the tensors.
    pub(crate) fn run(
        &self,
        call: &KernelCall,
        inputs: &[Option<RunValue>],
        body: &mut RunBody,
    ) -> Outcome<Vec<RunValue>> {
        // A tensor without elements may name sizes beyond all bounds, which kernels walk along.
        for x in call.inputs.iter().flatten().filter(|x| x.is_empty()) {
            let sizes: Vec<usize> = x.dims().iter().copied().filter(|d| *d > 0).collect();
            call.room(DataType::Int64, &sizes)?;
        }
        if matches!(self.kernel, Kernel::Plain(_)) {
            let found = inputs.iter().flatten().find(|item| item.tensor().is_none());
            found.map_or(Ok(()), |item| item.clone().into_tensor().map(drop))?;
        }
        refuse!(let Some(x) = call.inputs.iter().flatten().find(|x| x.rank() > RANK_MAX) =>
            Fault::unsupported(format!("an input has {} axes, at most {RANK_MAX} are computed", x.rank())));
        let outputs = match self.kernel {
            Kernel::Plain(kernel) if self.widens => items(through_float(kernel, call)?),
            Kernel::Plain(kernel) => items(kernel(call)?),
            Kernel::Control(kernel) => kernel(call, inputs, body)?,
        };
        let wanted = call.node.outputs.iter().rposition(Option::is_some).map_or(0, |i| i + 1);
        refuse!(wanted > outputs.len() => Fault::unsupported(format!("output {} is not computed", outputs.len())));
        Ok(outputs)
    }
}

/// Widens 16-bit floats to `float`, computes, and rounds `float` results back to the type of the
/// first float input.
fn through_float(
    kernel: fn(&KernelCall) -> Outcome<Vec<Tensor>>,
    call: &KernelCall,
) -> Outcome<Vec<Tensor>> {
    let is_half = |x: &Tensor| matches!(x.dtype(), DataType::Float16 | DataType::Bfloat16);
    if !call.inputs.iter().flatten().any(is_half) {
        return kernel(call);
    }
    let wide: Vec<Option<Tensor>> =
        call.inputs.iter().map(|x| x.as_ref().map(widened).transpose()).collect::<Outcome<_>>()?;
    let first = call.inputs.iter().flatten().find(|x| x.dtype().is_float());
    let dtype = first.map_or(DataType::Float, Tensor::dtype);
    let outputs = kernel(&KernelCall { inputs: &wide, ..*call })?;
    outputs.iter().map(|y| rounded(y, dtype)).collect()
}

/// 16-bit floats as `float`, anything else as it is.
pub(crate) fn widened(x: &Tensor) -> Outcome<Tensor> {
    let values: Vec<f32> = match x.dtype() {
        DataType::Float16 => slice::<f16>(x)?.iter().map(|v| v.to_f32()).collect(),
        DataType::Bfloat16 => slice::<bf16>(x)?.iter().map(|v| v.to_f32()).collect(),
        _ => return Ok(x.clone()),
    };
    Ok(Tensor::from_vec(x.dims(), values))
}

/// `float` rounded to a 16-bit float type; anything else as it is.
pub(crate) fn rounded(x: &Tensor, dtype: DataType) -> Outcome<Tensor> {
    if x.dtype() != DataType::Float {
        return Ok(x.clone());
    }
    let values = slice::<f32>(x)?;
    Ok(match dtype {
        DataType::Float16 => {
            Tensor::from_vec(x.dims(), values.iter().map(|v| f16::from_f32(*v)).collect())
        }
        DataType::Bfloat16 => {
            Tensor::from_vec(x.dims(), values.iter().map(|v| bf16::from_f32(*v)).collect())
        }
        _ => x.clone(),
    })
}

impl<'a> KernelCall<'a> {
    /// Input `i`, which the standard demands.
    pub(crate) fn x(&self, i: usize) -> Outcome<&'a Tensor> {
        self.opt(i).ok_or_else(|| Fault::invalid(format!("input {i} is missing")))
    }

    /// Input `i`, if given.
    pub(crate) fn opt(&self, i: usize) -> Option<&'a Tensor> {
        self.inputs.get(i).and_then(Option::as_ref)
    }

    /// All inputs of a variadic operator.
    /// Elements that are only moved or cast: derived, where that is wanted and can be, else made now.
    pub(crate) fn moved(
        &self,
        derived: impl FnOnce() -> Result<Tensor, TensorError>,
        made: impl FnOnce() -> Outcome<Tensor>,
    ) -> Outcome<Tensor> {
        let derived = if self.derives { derived().ok() } else { None };
        match derived.filter(|tensor| tensor.byte_len() >= DERIVED_BYTES_MIN) {
            Some(tensor) => Ok(tensor),
            None => made(),
        }
    }

    pub(crate) fn all(&self) -> Outcome<Vec<&'a Tensor>> {
        let all: Vec<&Tensor> = self.inputs.iter().flatten().collect();
        match all.len() {
            0 => Err(Fault::invalid("it has no input")),
            n if n < self.inputs.len() => Err(Fault::invalid("an input in between is missing")),
            _ => Ok(all),
        }
    }

    /// The elements of input `i` as `T`.
    pub(crate) fn slice<T: Element>(&self, i: usize) -> Outcome<Cow<'a, [T]>> {
        slice(self.x(i)?)
    }

    /// Whether output `i` is read by anyone.
    pub(crate) fn wants(&self, i: usize) -> bool {
        self.node.output(i).is_some()
    }

    /// The attribute, looked up in the enclosing function where it refers to it.
    pub(crate) fn attr(&self, name: &str) -> Option<&'a Attr> {
        match self.node.attr(name) {
            Some(Attr::Ref { name, .. }) => self.scope.get(name.as_str()).copied(),
            found => found,
        }
    }

    fn typed<T>(&self, name: &str, read: impl Fn(&'a Attr) -> Option<T>) -> Outcome<Option<T>> {
        let wrong = || Fault::invalid(format!("attribute `{name}` has the wrong type"));
        self.attr(name).map(|a| read(a).ok_or_else(wrong)).transpose()
    }

    /// An integer attribute.
    pub(crate) fn int_opt(&self, name: &str) -> Outcome<Option<i64>> {
        self.typed(name, |a| if let Attr::Int(x) = a { Some(*x) } else { None })
    }

    /// An integer attribute with a default.
    pub(crate) fn int(&self, name: &str, default: i64) -> Outcome<i64> {
        Ok(self.int_opt(name)?.unwrap_or(default))
    }

    /// An integer attribute that is a switch.
    pub(crate) fn flag(&self, name: &str, default: bool) -> Outcome<bool> {
        Ok(self.int(name, i64::from(default))? != 0)
    }

    /// A float attribute.
    pub(crate) fn float_opt(&self, name: &str) -> Outcome<Option<f32>> {
        self.typed(name, |a| if let Attr::Float(x) = a { Some(*x) } else { None })
    }

    /// A float attribute with a default.
    pub(crate) fn float(&self, name: &str, default: f32) -> Outcome<f32> {
        Ok(self.float_opt(name)?.unwrap_or(default))
    }

    /// A string attribute with a default.
    pub(crate) fn string(&self, name: &str, default: &'a str) -> Outcome<&'a str> {
        let read = |a: &'a Attr| match a {
            Attr::Str(x) => std::str::from_utf8(x).ok(),
            _ => None,
        };
        Ok(self.typed(name, read)?.unwrap_or(default))
    }

    /// A list of integers.
    pub(crate) fn ints(&self, name: &str) -> Outcome<Option<&'a [i64]>> {
        self.typed(name, |a| if let Attr::Ints(x) = a { Some(x.as_slice()) } else { None })
    }

    /// A list of floats.
    pub(crate) fn floats(&self, name: &str) -> Outcome<Option<&'a [f32]>> {
        self.typed(name, |a| if let Attr::Floats(x) = a { Some(x.as_slice()) } else { None })
    }

    /// A tensor.
    pub(crate) fn tensor(&self, name: &str) -> Outcome<Option<&'a Tensor>> {
        self.typed(name, |a| if let Attr::Tensor(x) = a { Some(x) } else { None })
    }

    /// A sub-graph, which the standard demands.
    pub(crate) fn graph(&self, name: &str) -> Outcome<&'a Graph> {
        self.typed(name, |a| if let Attr::Graph(x) = a { Some(x.as_ref()) } else { None })?
            .ok_or_else(|| Fault::invalid(format!("attribute `{name}` is missing")))
    }

    /// Integers that later versions take from input `i` and earlier ones from an attribute.
    pub(crate) fn ints_moved(&self, name: &str, i: usize) -> Outcome<Option<Vec<i64>>> {
        if let Some(list) = self.ints(name)? {
            return Ok(Some(list.to_vec()));
        }
        self.opt(i).map(integers).transpose()
    }

    /// The only element of input `i`, if given, as `f64`.
    pub(crate) fn scalar_opt(&self, i: usize) -> Outcome<Option<f64>> {
        self.opt(i).map(scalar).transpose()
    }

    /// Number of elements of an output of these sizes, if the limit leaves room for it.
    pub(crate) fn room(&self, dtype: DataType, dims: &[usize]) -> Outcome<usize> {
        refuse!(dims.len() > RANK_MAX => Fault::unsupported(format!("the output has {} axes", dims.len())));
        let elements = dims::count(dims);
        let bytes = elements.and_then(|n| match dtype {
            DataType::String => n.checked_mul(size_of::<bytes::Bytes>()),
            _ => dtype.byte_len(n),
        });
        match (elements, bytes) {
            (Some(n), Some(bytes)) if bytes <= self.bytes_max => Ok(n),
            _ => Err(Fault::memory(format!(
                "an output of type {dtype} and shape {dims:?} exceeds the {} bytes allowed",
                self.bytes_max
            ))),
        }
    }

    /// [`KernelCall::room`] for a tensor like input 0 with other sizes.
    pub(crate) fn room_like(&self, x: &Tensor, dims: &[usize]) -> Outcome<usize> {
        self.room(x.dtype(), dims)
    }
}

/// The elements of an integer tensor.
pub(crate) fn integers(x: &Tensor) -> Outcome<Vec<i64>> {
    x.to_i64s().ok_or_else(|| Fault::invalid(format!("{x:?} where integers are needed")))
}

/// The only element of a tensor.
pub(crate) fn scalar(x: &Tensor) -> Outcome<f64> {
    match x.to_reals() {
        Some(reals) if reals.values.len() == 1 => Ok(reals.values[0]),
        _ => Err(Fault::invalid(format!("{x:?} where a single number is needed"))),
    }
}

/// One output.
pub(crate) fn one(y: Tensor) -> Outcome<Vec<Tensor>> {
    Ok(vec![y])
}
