//! Weights as compressed-tensors stores them: packed integers, integers of 8 bits, or floats of 8 bits.

use super::targets::{PATTERNS_MAX, Targets};
use super::{Excepted, fp8, order, part, real, sized, there, turned, typed};
use crate::checkpoint::Checkpoint;
use crate::config::Config;
use crate::diag::shown;
use crate::layers::checked;
use crate::problem::{damaged, over_limit, unsupported};
use crate::weight::{Blocks, Scheme};
use onnxd_plugin_sdk::build::Result;
use onnxd_plugin_sdk::ir::{DataType, Tensor};

/// Forms that are read; what a layer has is seen in its tensors.
const FORMATS: [&str; 6] = [
    "dense", "float-quantized", "int-quantized", "mixed-precision", "naive-quantized",
    "pack-quantized",
];

/// Groups of layers: each layer is compared with all of them.
const GROUPS_MAX: usize = 256;

/// How the weights of some layers are quantized.
#[derive(Debug)]
struct Group {
    targets: Targets,
    bits: usize,
    is_float: bool,
    is_symmetric: bool,
    /// Outputs and inputs that share a scale; `None` for all inputs of one or of all outputs.
    block: Option<[usize; 2]>,
}

#[derive(Debug)]
pub(super) struct Compressed {
    groups: Vec<Group>,
    excepted: Excepted,
}

impl Compressed {
    pub(super) fn read(section: &Config) -> Result<Compressed> {
        formats(section)?;
        if let Some(sparse) = section.section("sparsity_config")?
            && sparse.word("format")?.is_some_and(|format| format != "dense")
        {
            return Err(sparse.unknown("format", "and weights that are left out are not read"));
        }
        if section.section("transform_config")?.is_some_and(|rules| !rules.is_empty()) {
            let why = "and transforms of activations are not written";
            return Err(section.unknown("transform_config", why));
        }
        if section.get("kv_cache_scheme").is_some() {
            section.note(
                "`quantization_config.kv_cache_scheme` asks for a quantized cache, which stays float.",
            );
        }
        let all = section.section("config_groups")?;
        let all = all.ok_or_else(|| section.wrong("config_groups", "an object"))?;
        if all.count() > GROUPS_MAX {
            let found = all.count();
            return Err(over_limit(format!(
                "`quantization_config.config_groups` has {found} groups, of {GROUPS_MAX} at most"
            )));
        }
        let mut patterns = 0;
        let groups = all.sections()?.into_iter().map(|group| {
            let read = Group::read(section, &group)?;
            section.close(&group);
            patterns += read.targets.patterns();
            if patterns > PATTERNS_MAX {
                let text = "`targets` of all groups in `quantization_config` have more than";
                return Err(over_limit(format!("{text} {PATTERNS_MAX} patterns")));
            }
            Ok(read)
        });
        let groups = groups.collect::<Result<_>>()?;
        Ok(Compressed { groups, excepted: Excepted::with_expressions(section, "ignore")? })
    }
}

fn formats(section: &Config) -> Result<()> {
    match section.word("format")? {
        Some(format) if !FORMATS.contains(&format) => {
            Err(section.unknown("format", "which is no form of weights that is read"))
        }
        _ => Ok(()),
    }
}

impl Group {
    fn read(section: &Config, group: &Config) -> Result<Group> {
        formats(group)?;
        let targets = Targets::read(group, "targets")?;
        for key in ["input_activations", "output_activations"] {
            if group.get(key).is_some() {
                section.note(format!(
                    "`quantization_config.config_groups` asks for {key} that are quantized; they stay float."
                ));
            }
        }
        let weights = group.section("weights")?;
        let weights = weights.ok_or_else(|| group.wrong("weights", "an object"))?;
        let bits = weights.size("num_bits")?;
        let is_float = match weights.word("type")? {
            None | Some("int") => false,
            Some("float") => true,
            Some(_) => return Err(weights.unknown("type", "which is no type that is known")),
        };
        if !(bits == 8 || bits == 4 && !is_float) {
            return Err(weights.unknown(
                "num_bits",
                "and only integers of 4 and 8 bits, and floats of 8, are read",
            ));
        }
        weights.only("dynamic", false)?;
        let known = ["group", "weight", "static", "dynamic"];
        let order = weights.get("actorder");
        if !order.is_none_or(|order| {
            order.as_bool().is_some() || order.as_str().is_some_and(|word| known.contains(&word))
        }) {
            return Err(weights.unknown("actorder", "which is no order that is known"));
        }
        let block = match weights.word("strategy")? {
            Some("group") => Some([1, weights.size("group_size")?]),
            Some("block") => fp8::block_of(&weights, "block_structure")?,
            Some("channel" | "tensor") => None,
            None if weights.get("group_size").is_some() => Some([1, weights.size("group_size")?]),
            None => None,
            Some(_) => return Err(weights.unknown("strategy", "which is not read")),
        };
        // Tools and types of the program that made it.
        weights.pass_over(&[
            "observer", "observer_kwargs", "scale_dtype", "zp_dtype", "group_size",
            "block_structure",
        ]);
        let is_symmetric = weights.flag("symmetric", true)?;
        group.close(&weights);
        Ok(Group { targets, bits, is_float, is_symmetric, block })
    }

    /// What it says of weights.
    fn form(&self) -> (usize, bool, bool, Option<[usize; 2]>) {
        (self.bits, self.is_float, self.is_symmetric, self.block)
    }
}

impl Scheme for Compressed {
    fn linear(&self, w: &Checkpoint, name: &str, sizes: [usize; 2]) -> Result<Option<Blocks>> {
        let [packed, plain] = ["weight_packed", "weight"].map(|role| format!("{name}.{role}"));
        if let Some(words) = w.stored(&packed)? {
            let layer = Layer { w, name, sizes, of: self };
            return layer.packed(&typed(&words, &packed, DataType::Int32, words.dims())?).map(Some);
        }
        let layer = Layer { w, name, sizes, of: self };
        match w.stored(&plain)? {
            Some(codes) if matches!(codes.dtype(), DataType::Float8E4M3FN | DataType::Int8) => {
                layer.plain(&sized(&codes, &plain, &sizes)?).map(Some)
            }
            _ => Ok(None),
        }
    }

    fn told(&self) -> &'static str {
        "compressed-tensors"
    }
}

/// A layer that comes quantized.
struct Layer<'a> {
    w: &'a Checkpoint,
    name: &'a str,
    sizes: [usize; 2],
    of: &'a Compressed,
}

impl Layer<'_> {
    fn named(&self, role: &str) -> String {
        format!("{}.{role}", self.name)
    }

    /// The group whose sizes the tensors have; of several that which names the layer, most closely. Groups that say the
    /// same of it are as good as one.
    fn group(
        &self,
        [codes, scales]: [&Tensor; 2],
        is_it: impl Fn(&Group) -> bool,
    ) -> Result<&Group> {
        self.of.excepted.check(self.w, self.name)?;
        let names = self.w.names(self.name);
        let fitting = self.of.groups.iter().filter(|group| is_it(group));
        let fitting: Vec<_> = fitting.map(|group| (group.targets.named(&names), group)).collect();
        let closest = fitting.iter().filter_map(|(named, _)| *named).min();
        let mut groups =
            fitting.iter().filter(|(named, _)| *named == closest).map(|(_, group)| *group);
        let Some(group) = groups.next() else {
            return Err(unsupported(format!(
                "no group of `quantization_config.config_groups` describes the weights of `{}`: {} of the shape {:?} \
                 with scales of the shape {:?}",
                shown(self.name),
                codes.dtype(),
                codes.dims(),
                scales.dims()
            )));
        };
        match groups.all(|other| other.form() == group.form()) {
            true => Ok(group),
            false => Err(unsupported(format!(
                "several groups of `quantization_config.config_groups` describe the weights of `{}`, and their \
                 `targets` do not tell which one counts",
                shown(self.name)
            ))),
        }
    }

    /// Scales of each output, and how many inputs share one.
    fn scales(&self, group: &Group) -> Result<(Tensor, usize)> {
        let name = self.named("weight_scale");
        fp8::scales(&name, &there(self.w, &name)?, self.sizes, group.block)
    }

    /// Codes of 4 or 8 bits in words, each more by half of their range than the integer that it stands for.
    fn packed(&self, words: &Tensor) -> Result<Blocks> {
        let [outputs, inputs] = self.sizes;
        let name = self.named("weight_packed");
        let shares = there(self.w, &self.named("weight_scale"))?;
        let columns = shares.dims().get(1).copied().unwrap_or(1);
        let group = self.group([words, &shares], |group| {
            let block = group.block.map_or(inputs, |[_, size]| size);
            let fits = words.dims() == [outputs, inputs.div_ceil(32 / group.bits)];
            fits && !group.is_float && inputs.div_ceil(block) == columns
        })?;
        let shape = self.named("weight_shape");
        if let Some(stored) = self.w.stored(&shape)? {
            let said = typed(&stored, &shape, DataType::Int64, &[2])?.to_i64s();
            if said != Some(vec![outputs as i64, inputs as i64]) {
                let said = said.unwrap_or_default();
                return Err(damaged(format!(
                    "tensor `{name}` is of the shape {said:?}, and `config.json` asks for {:?}",
                    self.sizes
                )));
            }
        }
        let codes = checked(&name, words.unpacked(group.bits))?;
        let mut codes = checked(&name, codes.sliced(&[(0, outputs, 1), (0, inputs, 1)]))?;
        let (scales, block) = self.scales(group)?;
        let zeros = self.zeros(group, inputs.div_ceil(block))?;
        let dtype = match (group.bits, zeros.is_some()) {
            (4, true) => DataType::Uint4,
            (4, false) => DataType::Int4,
            (_, true) => DataType::Uint8,
            (_, false) => DataType::Int8,
        };
        if zeros.is_none() {
            codes = checked(&name, codes.looked_up(&less_half(group.bits)))?;
        }
        let (codes, order) = self.ordered(&name, codes, block)?;
        Ok(Blocks { codes, dtype, block, scales, zero_points: zeros, offsets: None, order })
    }

    /// Codes in the order of the groups of their inputs, and that order.
    fn ordered(&self, name: &str, codes: Tensor, block: usize) -> Result<(Tensor, Option<Tensor>)> {
        let index = self.named("weight_g_idx");
        if self.w.stored(&index)?.is_none() {
            return Ok((codes, None));
        }
        let groups = part(self.w, &index, DataType::Int32, &[self.sizes[1]])?;
        // Where nothing was ordered, all are -1.
        if groups.to_i64s().is_some_and(|groups| groups.iter().all(|group| *group == -1)) {
            return Ok((codes, None));
        }
        let order = order(&index, &groups, block)?;
        let codes = match &order {
            Some(order) => checked(name, codes.taken(order, 1))?,
            None => codes,
        };
        Ok((codes, order))
    }

    /// Zero points as codes, [outputs, blocks]: words along the outputs, or integers of a byte.
    fn zeros(&self, group: &Group, blocks: usize) -> Result<Option<Tensor>> {
        let [outputs, _] = self.sizes;
        let name = self.named("weight_zero_point");
        let Some(zeros) = self.w.stored(&name)? else {
            return match group.is_symmetric {
                true => Ok(None),
                false => there(self.w, &name).map(Some),
            };
        };
        if zeros.dtype() == DataType::Int8 {
            let zeros = sized(&zeros, &name, &[outputs, blocks])?;
            let half = 1u8 << (group.bits - 1);
            let codes = Tensor::vector((0..=255u8).map(|z| z.wrapping_add(half)).collect());
            return checked(&name, zeros.looked_up(&codes)).map(Some);
        }
        let words = outputs.div_ceil(32 / group.bits);
        let words = typed(&zeros, &name, DataType::Int32, &[words, blocks])?;
        let codes = checked(&name, turned(&name, &words)?.unpacked(group.bits))?;
        let codes = checked(&name, codes.sliced(&[(0, blocks, 1), (0, outputs, 1)]))?;
        turned(&name, &codes).map(Some)
    }

    /// Integers or floats of 8 bits.
    fn plain(&self, codes: &Tensor) -> Result<Blocks> {
        let dtype = codes.dtype();
        let is_float = dtype == DataType::Float8E4M3FN;
        let scale = self.named("weight_scale");
        let stored = there(self.w, &scale)?;
        real(&stored, &scale)?;
        let group = self.group([codes, &stored], |group| {
            group.is_float == is_float && group.bits == 8 && self.scales(group).is_ok()
        })?;
        let (scales, block) = self.scales(group)?;
        let zeros = self.named("weight_zero_point");
        let zero_points = match self.w.stored(&zeros)? {
            None if is_float || group.is_symmetric => None,
            _ => Some(part(self.w, &zeros, dtype, scales.dims())?),
        };
        if is_float && zero_points.is_some() {
            let zeros = shown(&zeros);
            return Err(unsupported(format!(
                "tensor `{zeros}` is there, and the codes are floats"
            )));
        }
        let (codes, order) = self.ordered(&self.named("weight"), codes.clone(), block)?;
        Ok(Blocks { codes, dtype, block, scales, zero_points, offsets: None, order })
    }
}

/// The table of `code - half`, for codes of so many bits, as bits of a signed integer.
fn less_half(bits: usize) -> Tensor {
    let half = 1u8 << (bits - 1);
    let less = (0..=255u8).map(|code| code.wrapping_sub(half));
    match bits {
        8 => Tensor::vector(less.map(|code| code as i8).collect::<Vec<_>>()),
        _ => Tensor::vector(less.map(|code| code & 15).collect::<Vec<_>>()),
    }
}
