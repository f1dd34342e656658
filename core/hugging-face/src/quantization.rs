//! Checkpoints that come quantized: what `quantization_config` says of their weights, and readers of these by its
//! `quant_method`. Integers are kept, and only brought into the order in which ONNX has them.

mod awq;
mod compressed;
mod fp8;
mod gptq;
mod mxfp4;
mod targets;

use crate::checkpoint::Checkpoint;
use crate::config::Config;
use crate::diag::{Code, Diagnostic, shown};
use crate::layers::checked;
use crate::problem::{damaged, over_limit, unsupported};
use crate::weight::Scheme;
use onnxd_plugin_sdk::build::Result;
use onnxd_plugin_sdk::ir::{DataType, Derivation, Tensor};
use regex_lite::Regex;
use std::collections::HashSet;

/// Fields that say how the tools of a method run or made it, and not what is stored.
const INERT: [&str; 34] = [
    "backend", "batch_size", "block_name_to_quantize", "cache_block_outputs",
    "damp_auto_increment", "damp_percent", "dataset", "dequantize", "disable_exllama", "do_fuse",
    "exllama_config", "fuse_max_seq_len", "global_compression_ratio", "max_input_length", "meta",
    "model_file_base_name", "model_name_or_path", "model_seqlen", "modules_in_block_to_quantize",
    "modules_to_fuse", "module_name_preceding_first_block", "mse", "offload_to_disk",
    "pad_token_id", "quantization_status", "quantizer", "static_groups", "sym", "tokenizer",
    "true_sequential", "use_cuda_fp16", "use_exllama", "version", "act_group_aware",
];

/// How weights are stored; `None` if nothing says that they come quantized.
///
/// # Errors
/// A method, or a field of one, that is not known.
pub(crate) fn scheme(config: &Config) -> Result<Option<Box<dyn Scheme>>> {
    let mut section = config.section("quantization_config")?;
    if section.is_none() {
        // The name before compressed-tensors was part of Transformers.
        section = config.section("compression_config")?;
    }
    let Some(section) = section else { return Ok(None) };
    let scheme: Box<dyn Scheme> = match section.word("quant_method")? {
        Some("awq") => Box::new(awq::Awq::read(&section)?),
        Some("gptq") => Box::new(gptq::Gptq::read(&section)?),
        Some("fp8") => Box::new(fp8::Fp8::read(&section)?),
        Some("compressed-tensors") => Box::new(compressed::Compressed::read(&section)?),
        Some("mxfp4") => Box::new(mxfp4::Mxfp4::read(&section)?),
        _ => {
            return Err(
                section.unknown("quant_method", "and weights that come quantized so are not read")
            );
        }
    };
    section.pass_over(&INERT);
    config.close(&section);
    Ok(Some(scheme))
}

/// Names with a `*` that a list may have: each layer is compared with all of them.
const PATTERNS_MAX: usize = 1024;

/// Names of layers that stay real numbers.
#[derive(Debug, Default)]
struct Excepted {
    field: &'static str,
    names: HashSet<String>,
    patterns: Vec<String>,
    expressions: Vec<Regex>,
}

impl Excepted {
    /// A list as compressed-tensors has it, with patterns that begin with `re:`.
    fn with_expressions(section: &Config, field: &'static str) -> Result<Excepted> {
        let (expressions, names) = targets::apart(section.words(field)?.unwrap_or_default());
        let expressions = targets::compiled(section, field, &expressions)?;
        Ok(Excepted { expressions, ..Excepted::of(field, &names)? })
    }

    fn read(section: &Config, field: &'static str) -> Result<Excepted> {
        Excepted::of(field, &section.words(field)?.unwrap_or_default())
    }

    fn of(field: &'static str, all: &[&str]) -> Result<Excepted> {
        let all = all.iter().map(|name| (*name).to_owned());
        let (patterns, names): (Vec<String>, Vec<String>) = all.partition(|n| n.contains('*'));
        if patterns.len() > PATTERNS_MAX {
            let found = patterns.len();
            return Err(over_limit(format!(
                "`{field}` in `quantization_config` has {found} names with a `*`, of {PATTERNS_MAX} at most"
            )));
        }
        let (names, expressions) = (names.into_iter().collect(), vec![]);
        Ok(Excepted { field, names, patterns, expressions })
    }

    /// What of the list the layer is, or lies in.
    fn listed(&self, name: &str) -> Option<&str> {
        let parts: Vec<&str> = name.split('.').collect();
        let runs = (0..parts.len()).flat_map(|from| (from..parts.len()).map(move |to| (from, to)));
        let found =
            runs.into_iter().find_map(|(from, to)| self.names.get(&parts[from..=to].join(".")));
        let found = found.or_else(|| self.patterns.iter().find(|listed| lies_in(name, listed)));
        let fitting = || self.expressions.iter().find(|expression| expression.is_match(name));
        found.map(String::as_str).or_else(|| fitting().map(Regex::as_str))
    }

    /// Refuses weights of the layer `name` that come quantized although it is listed.
    fn check(&self, w: &Checkpoint, name: &str) -> Result<()> {
        match w.names(name).iter().find_map(|name| self.listed(name)) {
            None => Ok(()),
            Some(listed) => Err(damaged(format!(
                "`{}` lists `{}`, and the weights of `{}` come quantized",
                self.field,
                shown(listed),
                shown(name)
            ))),
        }
    }
}

/// Whether the parts of `listed` follow each other in those of `name`; a `*` is any part.
fn lies_in(name: &str, listed: &str) -> bool {
    let name: Vec<&str> = name.split('.').collect();
    let listed: Vec<&str> = listed.split('.').collect();
    let fits =
        |at: &[&str]| at.iter().zip(&listed).all(|(part, listed)| *listed == "*" || part == listed);
    name.windows(listed.len()).any(fits)
}

/// A tensor of a layer that must have this type and these sizes.
fn part(w: &Checkpoint, name: &str, dtype: DataType, dims: &[usize]) -> Result<Tensor> {
    typed(&there(w, name)?, name, dtype, dims)
}

fn there(w: &Checkpoint, name: &str) -> Result<Tensor> {
    w.stored(name)?.ok_or_else(|| {
        let message = format!("tensor `{}` is missing", shown(name));
        let help = "Copy all files of the checkpoint again, completely.";
        Diagnostic::new(Code::WeightsMissing, message).help(help)
    })
}

fn typed(tensor: &Tensor, name: &str, dtype: DataType, dims: &[usize]) -> Result<Tensor> {
    if tensor.dtype() != dtype {
        return Err(unsupported(format!(
            "tensor `{}` has elements of type {}, and its method has {dtype}",
            shown(name),
            tensor.dtype()
        )));
    }
    sized(tensor, name, dims)
}

fn sized(tensor: &Tensor, name: &str, dims: &[usize]) -> Result<Tensor> {
    match tensor.dims() == dims {
        true => Ok(tensor.clone()),
        false => {
            let message = format!(
                "tensor `{}` has the shape {:?}, and `config.json` asks for {dims:?}",
                shown(name),
                tensor.dims()
            );
            let help = "Check that `config.json` and the weights belong together.";
            Err(Diagnostic::new(Code::WeightsSize, message).help(help))
        }
    }
}

/// A tensor of real numbers as float32.
fn reals(w: &Checkpoint, name: &str, dims: &[usize]) -> Result<Tensor> {
    real(&sized(&there(w, name)?, name, dims)?, name)
}

fn real(tensor: &Tensor, name: &str) -> Result<Tensor> {
    match tensor.dtype() {
        DataType::Float | DataType::Float16 | DataType::Bfloat16 => {
            checked(name, tensor.cast(DataType::Float))
        }
        DataType::Float8E8M0 => checked(name, tensor.looked_up(&powers(127))),
        other => Err(unsupported(format!(
            "tensor `{}` has elements of type {other}, which are no scales",
            shown(name)
        ))),
    }
}

/// The table of `2^(code - bias)`.
fn powers(bias: i32) -> Tensor {
    let power = |code: i32| 2f64.powi(code - bias) as f32;
    Tensor::vector((0..256).map(power).collect::<Vec<f32>>())
}

/// Numbers of groups along axis 0 as numbers along the last axis: [groups, outputs] to [outputs, groups].
fn turned(name: &str, tensor: &Tensor) -> Result<Tensor> {
    checked(name, tensor.permuted(&[1, 0]))
}

/// Scales of blocks of `[rows, columns]` elements as scales of `columns` elements of each of `outputs` rows.
fn scales_of_rows(name: &str, scales: &Tensor, rows: usize, outputs: usize) -> Result<Tensor> {
    let (count, columns) = (scales.dims()[0], scales.dims()[1]);
    let strides = vec![columns as isize, 0, 1];
    let from = Derivation::Strided { source: scales.clone(), offset: 0, strides };
    let all = checked(name, Tensor::derived(scales.dtype(), [count, rows, columns], from))?;
    let all = checked(name, all.reshaped([count * rows, columns]))?;
    checked(name, all.sliced(&[(0, outputs, 1), (0, columns, 1)]))
}

/// Sizes of groups: -1 is all inputs.
fn group_size(section: &Config, default: usize) -> Result<Option<usize>> {
    match section.number("group_size", default as f64)? {
        -1.0 => Ok(None),
        size if size.fract() == 0.0 && (1.0..=2_147_483_648.0).contains(&size) => {
            Ok(Some(size as usize))
        }
        _ => Err(section.wrong("group_size", "-1 or a whole number from 1 on")),
    }
}

/// In which order inputs of one group follow each other, by the group of each; `None` if they do already.
fn order(name: &str, groups: &Tensor, size: usize) -> Result<Option<Tensor>> {
    let groups = groups.to_i64s().unwrap_or_default();
    let is_in_order = |(at, group): (usize, i64)| group == (at / size) as i64;
    if groups.iter().copied().enumerate().all(is_in_order) {
        return Ok(None);
    }
    let mut order: Vec<usize> = (0..groups.len()).collect();
    order.sort_by_key(|input| groups[*input]);
    if !order.iter().map(|input| groups[*input]).enumerate().all(is_in_order) {
        let why = format!("tensor `{}` does not make groups of {size} inputs", shown(name));
        return Err(damaged(why));
    }
    Ok(Some(Tensor::vector(order.into_iter().map(|input| input as i64).collect::<Vec<i64>>())))
}

#[cfg(test)]
mod tests;
