//! Layers that prepare numbers: categories, tables of integers, normalization; and augmentation, which rests when a
//! model is used.

use super::ops::nn::hot;
use super::ops::promote::tensor;
use super::ops::select::places;
use super::real;
use crate::keras::dtype::dtype_of_word;
use crate::ops::create::scalar;
use crate::ops::{Lower, RowContext, dtype_of, rank};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Operand, Var};
use onnxd_plugin_sdk::diagnostics::{refuse, shown};
use onnxd_plugin_sdk::ir::DataType::{self, Double, Float, Int32, Int64};
use onnxd_plugin_sdk::ir::Tensor;
use onnxd_plugin_sdk::lower::{ArgumentReader, Lowered, Parameter, Table, Value, WrongArgument};

/// Indices for what is not in a table.
const UNKNOWN_MAX: i64 = 1 << 20;

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    crate::ops::rows! { table;
        "Normalization" => normalization;
        "Discretization" => |b, a: Discretization| {
            let x = a.inputs;
            let wide = if dtype_of(b, x)? == Double { Double } else { Float };
            let Some(bins) = a.bin_boundaries else {
                return Err(b.unsupported("The boundaries of the bins are not in the file."));
            };
            let count = list_len(&bins) + 1;
            let line = if count == 1 { None } else { Some(tensor(b, &bins, wide)?) };
            let index = match line {
                Some(line) => places(b, line, b.cast(x, wide)?, true)?,
                None => b.cast(b.mul(x, 0)?, Int32)?,
            };
            encoded(b, index, &a.output_mode, count, &a.dtype, a.sparse)
        };
        "CategoryEncoding" => |b, a: Category| {
            if let Some(weights) = a.count_weights {
                return weighted(b, a.inputs, weights, a.num_tokens);
            }
            encoded(b, a.inputs, &a.output_mode, a.num_tokens, &a.dtype, a.sparse)
        };
        "IntegerLookup" => integer_lookup;
        // Augmentation gives pictures as they are, or as floats.
        "RandomBrightness" | "RandomColorDegeneration" | "RandomColorJitter" | "RandomContrast" | "RandomCrop"
            | "RandomGrayscale" | "RandomHue" | "RandomInvert" | "RandomPosterization" | "RandomSaturation" | "CutMix"
            | "MixUp" | "Equalization" | "MaxNumBoundingBoxes" => |_, a: Idle| Ok(a.inputs);
        "RandomFlip" | "RandomRotation" | "RandomTranslation" | "RandomZoom" | "RandomShear" | "RandomPerspective"
            | "RandomElasticTransform" | "RandomGaussianBlur" | "RandomSharpness" | "Solarization" | "RandomErasing"
            | "AugMix" | "RandAugment" => |b, a: Idle| b.cast(a.inputs, a.to);
    }
}

/// `RandomFlip(...)`: all settings matter only to training.
struct Idle {
    inputs: Var,
    to: DataType,
}

impl Parameter for Idle {
    fn take(reader: &mut ArgumentReader<'_>, _: &str) -> Result<Idle, WrongArgument> {
        let inputs = reader.take("inputs", None)?;
        let mut word = "float32".to_owned();
        loop {
            // What is left is told by its names.
            let left = reader.unread();
            let Some(name) = left.first().map(|name| name.trim_matches('`').to_owned()) else {
                break;
            };
            if name.starts_with("argument ") {
                reader.rest();
                continue;
            }
            let value: Value = reader.take(&name, None)?;
            if let ("dtype", Value::Text(text)) = (name.as_str(), value) {
                word = text;
            }
        }
        Ok(Idle { inputs, to: dtype_of_word(&word).unwrap_or(Float) })
    }
}

arguments! {
    /// `Normalization(axis=-1, mean=None, variance=None, invert=False)`
    struct Normalization {
        inputs: Var, axis: Operand, mean: Option<Value>, variance: Option<Value>, invert: bool = false,
        dtype: String = "float32", weights: Option<Vec<Var>>,
    }
    /// `Discretization(bin_boundaries=None, num_bins=None, epsilon=0.01, output_mode="int", sparse=False)`
    struct Discretization {
        inputs: Var, bin_boundaries: Option<Value>, num_bins: Option<i64>, epsilon: Option<f64>,
        output_mode: String = "int", sparse: bool = false, dtype: String = "float32", weights: Option<Value>,
    }
    /// `CategoryEncoding(num_tokens=None, output_mode="multi_hot", sparse=False)`
    struct Category {
        inputs: Var, count_weights: Option<Var>, num_tokens: i64, output_mode: String = "multi_hot",
        sparse: bool = false, dtype: String = "float32",
    }
    /// `IntegerLookup(max_tokens=None, num_oov_indices=1, mask_token=None, oov_token=-1, vocabulary=None,
    /// vocabulary_dtype="int64", idf_weights=None, invert=False, output_mode="int", sparse=False,
    /// pad_to_max_tokens=False)`
    struct Lookup {
        inputs: Var, max_tokens: Option<i64>, num_oov_indices: i64 = 1, mask_token: Option<i64>, oov_token: i64 = -1,
        vocabulary: Option<Vec<i64>>, vocabulary_dtype: Option<String>, vocabulary_size: Option<i64>,
        idf_weights: Option<Value>, invert: bool = false, output_mode: String = "int", sparse: bool = false,
        pad_to_max_tokens: bool = false, oov_method: Option<String>, salt: Option<Value>, dtype: Option<String>,
        encoding: Option<Value>, has_input_vocabulary: Option<bool>,
    }
}

fn list_len(x: &Value) -> i64 {
    if let Value::List(items) = x { items.len() as i64 } else { 1 }
}

/// `(x - mean) / deviation`, or back.
fn normalization(b: &Lower, a: Normalization) -> Lowered<Var> {
    let to = dtype_of_word(&a.dtype).filter(|d| d.is_float()).unwrap_or(Float);
    let to = crate::keras::dtype::kernel(to);
    let x = b.cast(a.inputs, to)?;
    let weights = a.weights.unwrap_or_default();
    let n = rank(b, x)? as i64;
    let mut axes: Vec<i64> = match &a.axis {
        Operand::Int(axis) => vec![*axis],
        Operand::Ints(axes) => axes.clone(),
        _ => vec![],
    };
    axes.iter_mut().filter(|axis| **axis < 0).for_each(|axis| *axis += n);
    axes.sort_unstable();
    let along = |given: &Option<Value>, at: usize| -> Lowered<Var> {
        let v = match (given, weights.get(at)) {
            (Some(value), _) => tensor(b, value, to)?,
            (None, Some(weight)) => b.cast(*weight, to)?,
            (None, None) => {
                let message = "The file has neither mean nor variance: the layer was not adapted.";
                return Err(b.unsupported(message));
            }
        };
        // Sizes of one stand for the other axes.
        if b.rank_of(v) == Some(axes.len()) && !axes.is_empty() {
            let first = axes[0];
            let others: Vec<i64> =
                (first..n).filter(|axis| !axes.contains(axis)).map(|axis| axis - first).collect();
            return crate::ops::shape::unsqueezed(b, v, &others);
        }
        Ok(v)
    };
    let (mean, variance) = (along(&a.mean, 0)?, along(&a.variance, 1)?);
    let least = b.constant(crate::ops::create::number(1e-7, to));
    let deviation = b.max([b.sqrt(variance)?, least])?;
    match a.invert {
        true => b.add(mean, b.mul(x, deviation)?),
        false => b.div(b.sub(x, mean)?, deviation),
    }
}

/// Numbers of categories as they are, as ones at their places, or counted.
fn encoded(
    b: &GraphBuilder,
    x: Var,
    mode: &str,
    count: i64,
    word: &str,
    sparse: bool,
) -> Lowered<Var> {
    refuse!(sparse =>
        b.unsupported("The layer gives a sparse tensor, which ONNX does not have.").help("Set `sparse` to False."));
    let to = dtype_of_word(word).unwrap_or(Float);
    if mode == "int" {
        return b.cast(x, if to.is_float() { Int32 } else { to });
    }
    let x = b.cast(x, Int64)?;
    let x = if rank(b, x)? == 0 { b.unsqueeze(x, [0])? } else { x };
    let n = rank(b, x)?;
    let axis = if n > 1 { 1i64 } else { 0 };
    match mode {
        "one_hot" => {
            let one = b.shape_of(x).and_then(|shape| shape.last()?.known()) == Some(1) && n > 1;
            let x = if one { b.squeeze(x).axes([-1]).one()? } else { x };
            hot(b, x, count, -1, to)
        }
        "multi_hot" => {
            let all = hot(b, x, count, -1, Float)?;
            b.cast(b.reduce_max(all).axes([axis]).keepdims(0).one()?, to)
        }
        "count" | "tf_idf" => {
            let all = hot(b, x, count, -1, Float)?;
            b.cast(b.reduce_sum(all).axes([axis]).keepdims(0).one()?, to)
        }
        other => Err(b.unsupported(format!("The output mode `{}` is not known.", shown(other)))),
    }
}

/// Sums of the weights of each category.
fn weighted(b: &GraphBuilder, x: Var, weights: Var, count: i64) -> Lowered<Var> {
    let axis = if rank(b, x)? > 1 { 1i64 } else { 0 };
    let all = hot(b, b.cast(x, Int64)?, count, -1, dtype_of(b, weights)?)?;
    let all = b.mul(all, b.unsqueeze(weights, [-1])?)?;
    b.reduce_sum(all).axes([axis]).keepdims(0).one()
}

fn integer_lookup(b: &Lower, a: Lookup) -> Lowered<Var> {
    let refuse = |message: &str| Err(b.unsupported(message));
    let Some(words) = a.vocabulary.filter(|words| !words.is_empty()) else {
        return refuse("The vocabulary is not in the description of the model.");
    };
    if a.num_oov_indices > 1 && a.oov_method.as_deref() == Some("farmhash") {
        return refuse("ONNX has no operator for the hash function of TensorFlow.");
    }
    if !(0..=UNKNOWN_MAX).contains(&a.num_oov_indices) {
        return refuse("The number of indices for what is unknown is negative or too large.");
    }
    // Only numbers have one for what is masked; it is left out elsewhere.
    let start = i64::from(a.mask_token.is_some() && a.output_mode == "int");
    let first = start + a.num_oov_indices.max(0);
    // A vocabulary may begin with the tokens for what is masked and what is unknown.
    let mut words = words;
    if let Some(mask) = a.mask_token.filter(|mask| words.first() == Some(mask)) {
        words.retain(|word| *word != mask);
    }
    if a.num_oov_indices > 0 && words.first() == Some(&a.oov_token) {
        words.remove(0);
    }
    let x = b.cast(a.inputs, Int64)?;
    let count = words.len() as i64;
    if a.invert {
        let mask = a.mask_token.unwrap_or(a.oov_token);
        let mut line = vec![mask; start as usize];
        line.extend(vec![a.oov_token; a.num_oov_indices.max(0) as usize]);
        line.extend(&words);
        let in_vocabulary = b.and(b.greater_or_equal(x, 0)?, b.less(x, line.len() as i64)?)?;
        let at = b.where_(in_vocabulary, x, scalar(0, Int64))?;
        let looked_up = b.gather(b.constant(Tensor::vector(line)), at).axis(0).one()?;
        return b.where_(in_vocabulary, looked_up, scalar(a.oov_token, Int64));
    }
    let hits = b.equal(b.unsqueeze(x, [-1])?, b.constant(Tensor::vector(words)))?;
    let hits = b.cast(hits, Int64)?;
    let numbers = b.constant(Tensor::vector((first + 1..=first + count).collect::<Vec<i64>>()));
    // Zero where the number is not in the table.
    let looked_up = b.reduce_sum(b.mul(hits, numbers)?).axes([-1]).keepdims(0).one()?;
    let unknown = match a.num_oov_indices {
        0 => b.constant(scalar(-1, Int64)),
        1 => b.constant(scalar(start, Int64)),
        n => b.add(b.mod_(x, n).one()?, start)?,
    };
    let mut y = b.where_(b.greater(looked_up, 0)?, b.sub(looked_up, 1)?, unknown)?;
    if let Some(mask) = a.mask_token {
        let masked = if start == 1 { 0 } else { i64::MAX };
        y = b.where_(b.equal(x, mask)?, scalar(masked, Int64), y)?;
    }
    if a.output_mode == "int" {
        return Ok(y);
    }
    let depth = a.max_tokens.filter(|_| a.pad_to_max_tokens).unwrap_or(first + count);
    let to = if a.output_mode == "tf_idf" { "float32" } else { "int64" };
    let y = encoded(b, y, &a.output_mode, depth, to, a.sparse)?;
    if a.output_mode != "tf_idf" {
        return Ok(y);
    }
    let line = terms(a.idf_weights.as_ref(), start, count);
    match line.filter(|_| first == start + 1 && depth == first + count) {
        Some(line) => b.mul(y, b.constant(Tensor::vector(line))),
        None => refuse("The weights of terms do not fit the vocabulary."),
    }
}

/// The weights of `count` terms behind those for what is masked and what is unknown, which has their mean.
fn terms(weights: Option<&Value>, masked: i64, count: i64) -> Option<Vec<f32>> {
    let Value::List(items) = weights? else { return None };
    let real = |x: &Value| real(x).map(|x| x as f32);
    let reals = items.iter().map(real).collect::<Option<Vec<f32>>>()?;
    let mean = reals.iter().sum::<f32>() / count as f32;
    let fits = reals.len() as i64 == count;
    fits.then(|| [vec![0.0; masked as usize], vec![mean], reals].concat())
}
