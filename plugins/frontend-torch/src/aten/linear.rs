//! Products of vectors and matrices.

use super::dtype::{dtype_of, float_of};
use super::sizes::{axis, known_size, product, rank, size, vector, wrapped};
use super::spectral::{self, Spectral};
use super::{Lower, RowContext, Several};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::formulas::matrix::{determinant, kron, log_determinant};
use onnxd_plugin_sdk::ir::DataType::{Int8, Int16, Int32, Uint8};
use onnxd_plugin_sdk::ir::{Attr, Origin};
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    let table = super::rows! { table;
        "aten::linear" | "aten::mkldnn_linear" => |b, input: Var, weight: Var, bias: Option<Var>| {
            linear(b, input, weight, bias)
        };
        "aten::matmul" | "aten::linalg_matmul" => |b, input: Var, other: Var| matmul(b, input, other);
        "aten::mm" | "aten::bmm" => |b, input: Var, mat2: Var| matmul(b, input, mat2);
        "aten::mm.dtype" | "aten::bmm.dtype" => |b, input: Var, mat2: Var, out_dtype: i64| {
            matmul_of(b, [input, mat2], out_dtype)
        };
        "aten::mv" => |b, input: Var, vec: Var| matmul(b, input, vec);
        "aten::dot" => |b, input: Var, tensor: Var| matmul(b, input, tensor);
        "aten::vdot" => |b, input: Var, other: Var| matmul(b, input, other);
        "aten::addmm" => addmm;
        "aten::_addmm_activation" => addmm_activation;
        "aten::addmv" => |b, a: Addmv| {
            let [alpha, beta] = [a.alpha, a.beta];
            sum_of(b, (a.input, beta), (matmul(b, a.mat, a.vec)?, alpha))
        };
        "aten::addr" => |b, a: Addr| {
            let [alpha, beta] = [a.alpha, a.beta];
            sum_of(b, (a.input, beta), (outer(b, a.vec1, a.vec2)?, alpha))
        };
        "aten::baddbmm" => |b, a: Addbmm| {
            let [alpha, beta] = [a.alpha, a.beta];
            sum_of(b, (a.input, beta), (matmul(b, a.batch1, a.batch2)?, alpha))
        };
        "aten::addbmm" => |b, a: Addbmm| {
            let all = b.reduce_sum(matmul(b, a.batch1, a.batch2)?).axes([0]).keepdims(0).one()?;
            sum_of(b, (a.input, a.beta), (all, a.alpha))
        };
        "aten::_weight_int8pack_mm" => |b, input: Var, mat2: Var, scales: Var| {
            let weight = b.cast(mat2, dtype_of(b, input)?)?;
            b.mul(linear(b, input, weight, None)?, scales)
        };
        "aten::outer" | "aten::ger" => |b, input: Var, vec2: Var| outer(b, input, vec2);
    };
    solvers(others(table))
}

/// Products of other kinds, and what is made of a matrix.
fn others(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "aten::inner" => inner(input, other);
        "aten::tensordot" => |b, input: Var, other: Var, dims_self: Vec<i64>, dims_other: Vec<i64>| {
            tensordot(b, [input, other], &dims_self, &dims_other)
        };
        "aten::einsum" => |b, equation: String, tensors: Vec<Var>, path: Value| einsum(b, &equation, &tensors);
        "aten::bilinear" => bilinear(input1, input2, weight, bias);
        "aten::_trilinear" => trilinear;
        "aten::chain_matmul" => |b, matrices: Vec<Var>| chain(b, matrices);
        "aten::linalg_multi_dot" => |b, tensors: Vec<Var>| chain(b, tensors);
        "aten::kron" => |b, input: Var, other: Var| kron(b, input, other);
        "aten::cross" | "aten::linalg_cross" => |b, input: Var, other: Var, dim: Option<i64>| {
            cross(b, input, other, dim)
        };
        "aten::linalg_vecdot" => |b, x: Var, y: Var, dim: i64| {
            b.reduce_sum(b.mul(x, y)?).axes([dim]).keepdims(0).one()
        };
        "aten::det" => |b, a: One| determinant(b, a.input);
        "aten::linalg_det" => |b, a: Matrix| determinant(b, a.A);
        "aten::_linalg_det" => |b, a: Matrix| {
            Ok(Several(vec![determinant(b, a.A)?.into(), Value::None, Value::None]))
        };
        "aten::_linalg_slogdet" => |b, a: Matrix| {
            let [sign, logarithm] = log_determinant(b, a.A)?.map(Value::Var);
            Ok(Several(vec![sign, logarithm, Value::None, Value::None]))
        };
        "aten::logdet" => |b, a: One| logdet(b, a.input);
        "aten::slogdet" => |b, a: One| log_determinant(b, a.input);
        "aten::linalg_slogdet" => |b, a: Matrix| log_determinant(b, a.A);
        "aten::matrix_power" | "aten::linalg_matrix_power" => |b, input: Var, n: i64| power(b, input, n);
        "aten::linalg_matrix_norm" => |b, a: MatrixNorm| matrix_norm(b, &a);
    }
}

fn solvers(table: Table<RowContext>) -> Table<RowContext> {
    table
        .refused("aten::linalg_lstsq", NO_SOLVER)
        .refused("aten::linalg_lu", NO_SOLVER)
        .refused("aten::linalg_eig", NO_SOLVER)
        .refused("aten::linalg_eigvals", NO_SOLVER)
        .refused("aten::linalg_matrix_exp", NO_SOLVER)
}

const NO_SOLVER: &str = "ONNX has no operator that solves or factors matrices";

arguments! {
    /// A tensor.
    pub(super) struct One { input: Var }
    /// `addmm`
    struct Addmm { input: Var, mat1: Var, mat2: Var, beta: Value, alpha: Value }
    /// `_addmm_activation`
    struct AddmmActivation { input: Var, mat1: Var, mat2: Var, beta: Value, alpha: Value, use_gelu: bool }
    /// `addmv`
    struct Addmv { input: Var, mat: Var, vec: Var, beta: Value, alpha: Value }
    /// `addr`
    struct Addr { input: Var, vec1: Var, vec2: Var, beta: Value, alpha: Value }
    /// `addbmm`
    struct Addbmm { input: Var, batch1: Var, batch2: Var, beta: Value, alpha: Value }
    /// `_trilinear`
    struct Trilinear {
        i1: Var, i2: Var, i3: Var,
        expand1: Vec<i64>, expand2: Vec<i64>, expand3: Vec<i64>, sumdim: Vec<i64>, unroll_dim: i64,
    }
    /// `linalg_matrix_norm`
    pub(crate) struct MatrixNorm { input: Var, ord: Value, dim: Vec<i64>, keepdim: bool, dtype: Option<i64> }
}

/// `linalg_det(Tensor A)`
#[allow(non_snake_case)]
mod matrix {
    use super::{Var, arguments};
    arguments! {
        pub(super) struct Matrix { A: Var }
    }
}
use matrix::Matrix;

/// The product of matrices. ONNX has none of small integers.
pub(super) fn matmul(b: &Lower, x: Var, y: Var) -> Lowered<Var> {
    let dtype = dtype_of(b, x)?;
    match dtype {
        Int8 | Uint8 | Int16 => b.cast(b.mat_mul(b.cast(x, Int32)?, b.cast(y, Int32)?)?, dtype),
        _ => b.mat_mul(x, y),
    }
}

fn matmul_of(b: &Lower, [x, y]: [Var; 2], dtype: i64) -> Lowered<Var> {
    let dtype = super::dtype::named(b, dtype)?;
    b.mat_mul(b.cast(x, dtype)?, b.cast(y, dtype)?)
}

/// `input @ weight.T + bias`
pub(super) fn linear(b: &Lower, x: Var, weight: Var, bias: Option<Var>) -> Lowered<Var> {
    if rank(b, weight)? == 1 {
        return plus(b, b.mat_mul(x, weight)?, bias);
    }
    let gemm = b.rank_of(x) == Some(2) && dtype_of(b, x)?.is_float();
    if gemm && (bias.is_some() || b.opset() >= 11) {
        return b.gemm(x, weight).c(bias).trans_b(1).one();
    }
    let weight = b.transpose(weight).perm([1, 0]).one()?;
    plus(b, matmul(b, x, weight)?, bias)
}

fn plus(b: &Lower, x: Var, bias: Option<Var>) -> Lowered<Var> {
    bias.map_or(Ok(x), |bias| b.add(x, bias))
}

/// `beta * self + alpha * (mat1 @ mat2)`
fn addmm(b: &Lower, a: Addmm) -> Lowered<Var> {
    let numbers = (number(&a.alpha), number(&a.beta));
    let (Some(alpha), Some(beta), true) = (numbers.0, numbers.1, dtype_of(b, a.input)?.is_float())
    else {
        return sum_of(b, (a.input, a.beta), (matmul(b, a.mat1, a.mat2)?, a.alpha));
    };
    // What is multiplied by 0 may be NaN, and does not count.
    let c = (beta != 0.0).then_some(a.input);
    if c.is_none() && b.opset() < 11 {
        return scaled(b, b.mat_mul(a.mat1, a.mat2)?, &a.alpha);
    }
    let gemm = match untransposed(b, a.mat2) {
        Some(weight) => b.gemm(a.mat1, weight).trans_b(1),
        None => b.gemm(a.mat1, a.mat2),
    };
    gemm.c(c).alpha(alpha).beta(if c.is_some() { beta } else { 1.0 }).one()
}

fn addmm_activation(b: &Lower, a: AddmmActivation) -> Lowered<Var> {
    let AddmmActivation { input, mat1, mat2, beta, alpha, use_gelu } = a;
    let sum = addmm(b, Addmm { input, mat1, mat2, beta, alpha })?;
    if use_gelu { gelu(b, sum) } else { b.relu(sum) }
}

/// The Gaussian error linear unit, by the error function.
pub(super) fn gelu(b: &Lower, x: Var) -> Lowered<Var> {
    if b.opset() >= 20 {
        return b.gelu(x).one();
    }
    let erf = b.erf(b.div(x, std::f64::consts::SQRT_2)?)?;
    b.mul(b.mul(x, b.add(erf, 1.0)?)?, 0.5)
}

/// The matrix whose transposition `v` is.
fn untransposed(b: &Lower, v: Var) -> Option<Var> {
    if !b.is_own(v) {
        return None;
    }
    let id = b.id(v).ok()?;
    let source = {
        let graph = b.graph();
        let Origin::Node(node, _) = graph[id].origin() else { return None };
        let swaps = matches!(graph[node].attr("perm"), Some(Attr::Ints(p)) if p == &[1, 0]);
        graph[node].input(0).filter(|_| graph[node].is("Transpose") && swaps)?
    };
    Some(b.var(source))
}

pub(super) fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Int(x) => Some(*x as f64),
        Value::Float(x) => Some(*x),
        Value::Bool(x) => Some(f64::from(u8::from(*x))),
        _ => None,
    }
}

/// `x` times a number, in the type of `x`.
pub(super) fn scaled(b: &Lower, x: Var, factor: &Value) -> Lowered<Var> {
    if number(factor) == Some(1.0) {
        return Ok(x);
    }
    let dtype = dtype_of(b, x)?;
    b.mul(x, super::dtype::operand(b, factor, dtype)?)
}

/// `beta * x + alpha * y`; `x` does not count where `beta` is 0.
fn sum_of(b: &Lower, (x, beta): (Var, Value), (y, alpha): (Var, Value)) -> Lowered<Var> {
    let y = scaled(b, y, &alpha)?;
    match number(&beta) {
        Some(0.0) => Ok(y),
        _ => b.add(scaled(b, x, &beta)?, y),
    }
}

fn outer(b: &Lower, x: Var, y: Var) -> Lowered<Var> {
    let [x, y] = super::dtype::operands(b, [&Value::Var(x), &Value::Var(y)])?;
    b.mul(b.unsqueeze(x, [1])?, y)
}

fn inner(b: &Lower, input: Var, other: Var) -> Lowered<Var> {
    match (rank(b, input)?, rank(b, other)?) {
        (0, _) | (_, 0) => b.mul(input, other),
        (_, 1) => matmul(b, input, other),
        (_, 2) => linear(b, input, other, None),
        _ => tensordot(b, [input, other], &[-1], &[-1]),
    }
}

/// The sum over pairs of axes of the product.
fn tensordot(b: &Lower, [x, y]: [Var; 2], dims: &[i64], other: &[i64]) -> Lowered<Var> {
    let (n, m) = (rank(b, x)?, rank(b, y)?);
    if dims.len() != other.len() {
        let message = format!("{} axes are summed with {}.", dims.len(), other.len());
        return Err(b.diagnostic(Code::LayerParameter, message));
    }
    let dims = dims.iter().map(|d| wrapped(b, *d, n)).collect::<Lowered<Vec<_>>>()?;
    let other = other.iter().map(|d| wrapped(b, *d, m)).collect::<Lowered<Vec<_>>>()?;
    if dims == [n - 1] && other == [m.saturating_sub(2)] && m <= 2 {
        return matmul(b, x, y);
    }
    let free = |rank: usize, dims: &[usize]| -> Vec<usize> {
        (0..rank).filter(|axis| !dims.contains(axis)).collect()
    };
    let (rows, columns) = (free(n, &dims), free(m, &other));
    let matrix = |x: Var, [first, last]: [&[usize]; 2]| {
        let order: Vec<i64> = first.iter().chain(last).map(|axis| *axis as i64).collect();
        let sizes_of = |axes: &[usize]| {
            let all = axes.iter().map(|axis| size(b, x, *axis)).collect::<Lowered<Vec<_>>>()?;
            product(b, &all)
        };
        let shape = vector(b, &[sizes_of(first)?, sizes_of(last)?])?;
        let plain = order.windows(2).all(|pair| pair[0] < pair[1]);
        let moved = if plain { x } else { b.transpose(x).perm(order).one()? };
        b.reshape(moved, shape).one()
    };
    let product = matmul(b, matrix(x, [&rows, &dims])?, matrix(y, [&other, &columns])?)?;
    let rows = rows.into_iter().map(|axis| size(b, x, axis));
    let columns = columns.into_iter().map(|axis| size(b, y, axis));
    let shape = rows.chain(columns).collect::<Lowered<Vec<_>>>()?;
    b.reshape(product, vector(b, &shape)?).one()
}

fn einsum(b: &Lower, equation: &str, tensors: &[Var]) -> Lowered<Var> {
    let equation: String = equation.chars().filter(|c| !c.is_whitespace()).collect();
    let mut tensors = tensors.to_vec();
    let dtype = dtype_of(b, *tensors.first().ok_or_else(|| no_operands(b))?)?;
    let wide = match dtype {
        Int8 | Uint8 | Int16 => Int32,
        other => other,
    };
    for tensor in &mut tensors {
        *tensor = b.cast(*tensor, wide)?;
    }
    b.cast(b.einsum(tensors).equation(equation).one()?, dtype)
}

fn no_operands(b: &Lower) -> onnxd_plugin_sdk::diagnostics::Diagnostic {
    b.diagnostic(Code::LayerParameter, "A product of no tensors.")
}

fn bilinear(b: &Lower, input1: Var, input2: Var, weight: Var, bias: Option<Var>) -> Lowered<Var> {
    let batch: String = ('a'..='h').take(rank(b, input1)?.saturating_sub(1)).collect();
    let equation = format!("{batch}i,oij,{batch}j->{batch}o");
    plus(b, einsum(b, &equation, &[input1, weight, input2])?, bias)
}

fn trilinear(b: &Lower, a: Trilinear) -> Lowered<Var> {
    let expanded = |x, axes: &[i64]| match axes {
        [] => Ok(x),
        axes => b.unsqueeze(x, axes),
    };
    let two = b.mul(expanded(a.i1, &a.expand1)?, expanded(a.i2, &a.expand2)?)?;
    let all = b.mul(two, expanded(a.i3, &a.expand3)?)?;
    match a.sumdim.as_slice() {
        [] => Ok(all),
        axes => b.reduce_sum(all).axes(axes).keepdims(0).one(),
    }
}

fn chain(b: &Lower, matrices: Vec<Var>) -> Lowered<Var> {
    let mut matrices = matrices.into_iter();
    let first = matrices.next().ok_or_else(|| no_operands(b))?;
    matrices.try_fold(first, |product, matrix| matmul(b, product, matrix))
}

fn cross(b: &Lower, x: Var, y: Var, dim: Option<i64>) -> Lowered<Var> {
    let (n, m) = (rank(b, x)?, rank(b, y)?);
    let dim = match dim {
        // Axes are counted from the end, as operands broadcast.
        Some(dim) => wrapped(b, dim, n.max(m))? as i64 - n.max(m) as i64,
        None => {
            let found = (0..n).find(|axis| known_size(b, x, *axis) == Some(3));
            let message = "No axis is known to have the size 3.";
            let axis = found.ok_or_else(|| b.diagnostic(Code::LayerParameter, message))?;
            axis as i64 - n as i64
        }
    };
    let turned = |x: Var, order: [i64; 3]| {
        let axis = dim + rank(b, x)? as i64;
        b.gather(x, order).axis(axis).one()
    };
    let (one, two) = ([1, 2, 0], [2, 0, 1]);
    b.sub(b.mul(turned(x, one)?, turned(y, two)?)?, b.mul(turned(x, two)?, turned(y, one)?)?)
}

fn power(b: &Lower, x: Var, n: i64) -> Lowered<Var> {
    const FACTORS_MAX: i64 = 64;
    match n {
        0 if b.rank_of(x) == Some(2) => b.eye_like(x).one(),
        1..=FACTORS_MAX => (1..n).try_fold(x, |product, _| matmul(b, product, x)),
        _ => {
            let message = format!("The power {n} of a matrix cannot be said in ONNX.");
            Err(b.diagnostic(Code::LayerUnsupported, message))
        }
    }
}

pub(crate) fn matrix_norm(b: &Lower, a: &MatrixNorm) -> Lowered<Var> {
    let x = match a.dtype {
        Some(dtype) => b.cast(a.input, super::dtype::named(b, dtype)?)?,
        None => b.cast(a.input, float_of(dtype_of(b, a.input)?))?,
    };
    let [row, column] = a.dim[..] else {
        return Err(b.diagnostic(Code::LayerParameter, "The norm of a matrix has two axes."));
    };
    let (row, column) = (axis(b, x, row)? as i64, axis(b, x, column)? as i64);
    let by_sum = |axis: i64, other: i64, largest: bool| {
        let sums = b.reduce_l1(x).axes([axis]).one()?;
        let singular_norm = match largest {
            true => b.reduce_max(sums).axes([other]).one()?,
            false => b.reduce_min(sums).axes([other]).one()?,
        };
        match a.keepdim {
            true => Ok(singular_norm),
            false => b.squeeze(singular_norm).axes([row, column]).one(),
        }
    };
    match (&a.ord, number(&a.ord)) {
        (Value::Text(name), _) if name == "fro" => {
            b.reduce_l2(x).axes([row, column]).keepdims(a.keepdim).one()
        }
        (_, Some(1.0)) => by_sum(row, column, true),
        (_, Some(-1.0)) => by_sum(row, column, false),
        (_, Some(f64::INFINITY)) => by_sum(column, row, true),
        (_, Some(f64::NEG_INFINITY)) => by_sum(column, row, false),
        (Value::Text(name), _) if name == "nuc" => {
            spectral::norm(b, x, [row, column], a.keepdim, Spectral::Nuclear)
        }
        (_, Some(2.0)) => spectral::norm(b, x, [row, column], a.keepdim, Spectral::Largest),
        (_, Some(-2.0)) => spectral::norm(b, x, [row, column], a.keepdim, Spectral::Least),
        (ord, _) => {
            let message = format!("Torch has no norm {ord} of a matrix.");
            Err(b.diagnostic(Code::LayerUnsupported, message))
        }
    }
}

/// The logarithm of determinants; none of negative ones.
fn logdet(b: &Lower, x: Var) -> Lowered<Var> {
    let [sign, logarithm] = log_determinant(b, x)?;
    b.where_(b.less(sign, 0.0)?, f64::NAN, logarithm)
}
