//! Names of tensors: those of the file as those of the family, and what is done to rows on the way.

use super::facts::architectures::{Architecture, FALCON};
use super::integers::Integers;
use super::rows::{self, Rows, entry, grouped, halves_apart};
use super::tensors::{Kind, Stored};
use crate::checkpoint::Checkpoint;
use crate::decoder::{Decoder, ExpertWeights, Fused, HeadNorm, MlpKind, Order};
use crate::diag::{Code, Diagnostic, shown};
use crate::problem::{damaged, unsupported};
use crate::safetensors;
use onnxd_plugin_sdk::ir::{Tensor, TensorError};
use std::collections::HashMap;

/// Tensors that facts are read from, and not weights.
const FACTS: [&str; 3] =
    ["rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"];

/// Parallel branches with a norm each.
const TWO: Order = Order::Parallel { norms: 2 };

/// Names of parts of the model, and of parts of a layer: in the file, and in the family.
struct Spelling {
    model: Vec<(&'static str, String)>,
    layer: Vec<(&'static str, String)>,
    /// Names of weights of experts, in which `*` is the number of one.
    experts: Vec<(&'static str, String)>,
    /// What names of layers begin with.
    layers: &'static str,
}

impl Spelling {
    fn of(d: &Decoder, architecture: &Architecture) -> Spelling {
        let n = &d.names;
        let model = [
            ("token_embd", n.embedding),
            ("position_embd", n.positions),
            ("token_embd_norm", n.embedding_norm),
            ("output_norm", n.final_norm),
            ("output", n.lm_head),
        ];
        let up = if d.mlp.kind == MlpKind::GatedInOne { n.gate_up } else { n.up };
        // Falcon has the norm of attention, where it is one of two, under a name of its own.
        let first =
            if architecture.layer == FALCON && d.order == TWO { n.mlp_norm } else { n.norm };
        let before = [("attn_norm", first), ("ffn_norm", n.mlp_norm)];
        let after = [("post_attention_norm", n.after_attention), ("post_ffw_norm", n.after_mlp)];
        let norms = match d.order {
            Order::Before | TWO => before.to_vec(),
            Order::After => after.to_vec(),
            Order::Both => [before, after].concat(),
            Order::Parallel { .. } | Order::Alone => before[..1].to_vec(),
        };
        let layer = [
            ("attn_q", n.q),
            ("attn_k", n.k),
            ("attn_v", n.v),
            ("attn_qkv", n.qkv),
            ("attn_output", n.o),
            ("attn_q_norm", n.q_norm),
            ("attn_k_norm", n.k_norm),
            ("attn_sinks", n.sinks),
            ("ffn_gate", n.gate),
            ("ffn_up", up),
            ("ffn_down", n.down),
            ("shortconv.in_proj", "conv.in_proj"),
            ("shortconv.out_proj", "conv.out_proj"),
            ("shortconv.conv", "conv.conv"),
        ];
        let experts = d.mlp.experts.iter().flat_map(|e| {
            let shared = e.shared.into_iter().flat_map(|(name, _, gate)| {
                let of = |part: &str| format!("{name}.{part}");
                [
                    ("ffn_gate_shexp", of("gate_proj")),
                    ("ffn_up_shexp", of("up_proj")),
                    ("ffn_down_shexp", of("down_proj")),
                    ("ffn_gate_inp_shexp", gate.to_owned()),
                ]
            });
            [("ffn_gate_inp", e.router_name.to_owned())].into_iter().chain(shared)
        });
        let own = |pairs: &'static [(&'static str, &'static str)]| {
            pairs.iter().map(|(file, family)| (*file, (*family).to_owned()))
        };
        let owned = |(file, family): (&'static str, &str)| (file, family.to_owned());
        Spelling {
            experts: of_experts(d),
            model: own(architecture.model).chain(model.map(owned)).collect(),
            layer: own(architecture.layer)
                .chain(experts)
                .chain(norms.into_iter().map(owned))
                .chain(layer.map(owned))
                .collect(),
            layers: n.layers,
        }
    }

    fn family<'s>(pairs: &'s [(&'static str, String)], part: &str) -> Option<&'s str> {
        let found = pairs.iter().find(|(file, _)| *file == part)?;
        Some(found.1.as_str()).filter(|name| !name.is_empty())
    }

    /// The name in the file of what the family calls so.
    fn file(&self, name: &str) -> Option<String> {
        let (stem, ending) = ending(name);
        let find = |pairs: &[(&'static str, String)], stem: &str| {
            pairs.iter().find(|(_, family)| family == stem).map(|(file, _)| *file)
        };
        let layer = stem.strip_prefix(self.layers).and_then(|rest| rest.strip_prefix('.'));
        let of_layer = layer.and_then(|rest| rest.split_once('.'));
        if let Some((number, part)) = of_layer {
            let any = |(_, name): &&(&str, String)| match name.split_once('*') {
                Some((before, behind)) => {
                    let rest = part.strip_prefix(before).and_then(|rest| rest.strip_suffix(behind));
                    rest.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
                }
                None => name == part,
            };
            let of_expert = || self.experts.iter().find(any).map(|(file, _)| *file);
            let found = find(&self.layer, part).or_else(of_expert)?;
            return Some(format!("blk.{number}.{found}{ending}"));
        }
        Some(format!("{}{ending}", find(&self.model, stem)?))
    }
}

/// Names of weights of experts.
fn of_experts(d: &Decoder) -> Vec<(&'static str, String)> {
    let names = d.mlp.experts.iter().flat_map(|e| match e.weights {
        ExpertWeights::Each { gate, up, down } => {
            vec![("ffn_gate_exps", gate), ("ffn_up_exps", up), ("ffn_down_exps", down)]
        }
        ExpertWeights::Stacked { gate_up, down } => {
            vec![("ffn_gate_exps", gate_up), ("ffn_down_exps", down)]
        }
        ExpertWeights::Alternating { .. } => vec![
            ("ffn_gate_exps", "mlp.experts.gate_up_proj"),
            ("ffn_down_exps", "mlp.experts.down_proj"),
        ],
    });
    names.map(|(file, family)| (file, family.to_owned())).collect()
}

/// A name without its ending, and that.
fn ending(name: &str) -> (&str, &str) {
    let at = [".weight", ".bias"].iter().find(|ending| name.ends_with(**ending));
    name.split_at(name.len() - at.map_or(0, |ending| ending.len()))
}

/// The tensors of a file by the names of the family.
pub(super) fn checkpoint(
    tensors: &[Stored],
    d: &Decoder,
    architecture: &Architecture,
) -> Result<Checkpoint, Diagnostic> {
    let spelling = Spelling::of(d, architecture);
    let by_name = tensors.iter().map(|tensor| (tensor.name.as_str(), tensor)).collect();
    let weights =
        Weights { d, spelling: &spelling, is_permuted: architecture.is_permuted, by_name };
    let (mut all, mut integers) = (HashMap::new(), HashMap::new());
    for stored in tensors.iter().filter(|stored| !FACTS.contains(&stored.name.as_str())) {
        let told = shown(&stored.name);
        let found = weights.of(stored).map_err(|e| damaged(format!("tensor `{told}`: {e}")))?;
        let Some(found) = found else {
            let kind = architecture.name;
            return Err(unsupported(format!(
                "tensor `{told}` is no part of a model of the architecture `{kind}` that is known"
            )));
        };
        for Found { name, tensor, rows } in found {
            if let Some(rows) = rows.filter(|rows| rows.format().is_some()) {
                integers.insert(name.clone(), rows);
            }
            let held = safetensors::Stored::held(stored.name.clone(), tensor);
            if all.insert(name, held).is_some() {
                let why = "says the same as another tensor of the file";
                return Err(damaged(format!("tensor `{told}` {why}")));
            }
        }
    }
    let mut found = Checkpoint::of(all);
    found.by(Some(Box::new(Integers(integers))));
    found.spelled(Box::new(move |name| spelling.file(name)));
    Ok(found)
}

/// Layers whose experts are told.
const TOLD_MAX: usize = 3;

/// A note of experts whose gate and up are one matrix of the family and lie in blocks of two types: no constant of the
/// graph has both, so that their integers are not kept.
pub(super) fn mixed_experts(tensors: &[Stored], d: &Decoder) -> Option<Diagnostic> {
    let experts = d.mlp.experts.as_ref()?;
    if !matches!(experts.weights, ExpertWeights::Stacked { .. }) {
        return None;
    }
    let of_name: HashMap<&str, Kind> = tensors.iter().map(|t| (t.name.as_str(), t.kind)).collect();
    let mixed = tensors.iter().filter_map(|gate| {
        let up = format!("{}ffn_up_exps.weight", gate.name.strip_suffix("ffn_gate_exps.weight")?);
        let kinds = [gate.kind, *of_name.get(up.as_str())?];
        let has_blocks = kinds.iter().any(|kind| matches!(kind, Kind::Blocks(_)));
        let [one, other] = kinds.map(Kind::name);
        (one != other && has_blocks)
            .then(|| format!("`{}` is {one} and `{}` is {other}", shown(&gate.name), shown(&up)))
    });
    let mixed: Vec<String> = mixed.collect();
    let more = match mixed.len().saturating_sub(TOLD_MAX) {
        0 => String::new(),
        n => format!(", and so in {n} more layers"),
    };
    let told = mixed[..mixed.len().min(TOLD_MAX)].join(", ");
    let note = Diagnostic::new(
        Code::LayerParameterIgnored,
        format!(
            "Experts become float32, because gates and what they gate are of two types: {told}{more}."
        ),
    );
    let help = "Quantize the original model with one type for both, if the result is too large.";
    (!mixed.is_empty()).then(|| note.help(help))
}

/// A tensor by the name of the family, and its rows where these are outputs.
struct Found {
    name: String,
    tensor: Tensor,
    rows: Option<Rows>,
}

impl Found {
    fn plain(name: String, rows: &Rows) -> rows::Result<Found> {
        Ok(Found { name, tensor: rows.tensor()?, rows: None })
    }

    /// The weights of a layer.
    fn matrix(name: String, rows: Rows) -> rows::Result<Found> {
        Ok(Found { name, tensor: rows.tensor()?, rows: Some(rows) })
    }
}

type Named = Vec<Found>;

struct Weights<'a> {
    d: &'a Decoder,
    spelling: &'a Spelling,
    is_permuted: bool,
    by_name: HashMap<&'a str, &'a Stored>,
}

impl Weights<'_> {
    /// What a tensor of the file is in the family; `None` if nothing.
    fn of(&self, stored: &Stored) -> rows::Result<Option<Named>> {
        let rows = Rows::of(stored)?;
        let (stem, ending) = ending(&stored.name);
        let Some(layer) = stem.strip_prefix("blk.") else {
            let name = Spelling::family(&self.spelling.model, stem);
            let named = name.map(|name| {
                // The table of words is looked up by rows.
                let rows = (stem == "output").then(|| rows.clone());
                let tensor = Rows::of(stored)?.tensor()?;
                Ok(vec![Found { name: format!("{name}{ending}"), tensor, rows }])
            });
            return named.transpose();
        };
        let Some((number, part)) = layer.split_once('.') else { return Ok(None) };
        let within = number.parse::<usize>().is_ok_and(|number| number < self.d.layers.len());
        if !within {
            return Ok(None);
        }
        let prefix = format!("{}.{number}.", self.spelling.layers);
        let file = format!("blk.{number}.");
        if let Some(found) = self.of_experts((&rows, part, ending), (&prefix, &file))? {
            return Ok(Some(found));
        }
        let Some(name) = Spelling::family(&self.spelling.layer, part) else { return Ok(None) };
        let name = format!("{prefix}{name}");
        Ok(Some(match (part, ending) {
            ("attn_sinks", _) => vec![Found::plain(name, &rows)?],
            ("attn_q_norm", _) => self.norms(&rows, (&name, ending), self.d.heads)?,
            ("attn_k_norm", _) => self.norms(&rows, (&name, ending), self.d.kv_heads)?,
            _ => vec![self.part(&rows, (part, ending), format!("{name}{ending}"))?],
        }))
    }

    /// A part of a layer, with its rows and axes as the family has them.
    fn part(&self, rows: &Rows, (part, ending): (&str, &str), name: String) -> rows::Result<Found> {
        let Decoder { heads, kv_heads, head, .. } = *self.d;
        let rows = match part {
            "attn_q" if self.is_permuted => halves_apart(rows, heads)?,
            "attn_k" if self.is_permuted => halves_apart(rows, kv_heads)?,
            "attn_qkv" if self.d.attention.fused == Fused::Grouped => {
                grouped(rows, [heads, kv_heads, head])?
            }
            _ => rows.clone(),
        };
        let is_weight = ending == ".weight";
        let is_matrix = matches!(part, "attn_qkv" | "attn_output" | "ffn_up" | "ffn_down");
        let found = Found::matrix(name, rows)?;
        let tensor = &found.tensor;
        let other = match part {
            _ if is_matrix && is_weight && self.d.inputs_first => tensor.permuted(&[1, 0])?,
            "ffn_gate_inp_shexp" => tensor.reshaped([1, tensor.len()])?,
            "shortconv.conv" if is_weight && tensor.rank() == 2 => {
                tensor.reshaped([tensor.dims()[0], 1, tensor.dims()[1]])?
            }
            _ => return Ok(found),
        };
        Ok(Found { tensor: other, ..found })
    }

    /// Norms of heads, which some families have in a list.
    fn norms(
        &self,
        rows: &Rows,
        (name, ending): (&str, &str),
        heads: usize,
    ) -> rows::Result<Named> {
        if self.d.attention.head_norm != HeadNorm::Listed {
            return Ok(vec![Found::plain(format!("{name}{ending}"), rows)?]);
        }
        if rows.count() != heads {
            let why = format!("it has {} rows, and there are {heads} heads", rows.count());
            return Err(TensorError::Derivation(why));
        }
        let one = |i| Found::plain(format!("{name}.norms.{i}{ending}"), &entry(rows, i)?);
        (0..heads).map(one).collect()
    }

    /// Experts, which lie in one tensor, in older files in a tensor each.
    fn of_experts(
        &self,
        (rows, part, ending): (&Rows, &str, &str),
        (prefix, file): (&str, &str),
    ) -> rows::Result<Option<Named>> {
        let Some(experts) = &self.d.mlp.experts else { return Ok(None) };
        let (dims, count) = (rows.dims(), experts.count);
        if part.ends_with("_exps") && (dims.len() < 2 || dims[0] != count) {
            let why = format!("its shape is {dims:?}, and there are {count} experts");
            return Err(TensorError::Derivation(why));
        }
        let role = |part: &str| {
            ["gate", "up", "down"].iter().position(|role| part.strip_prefix("ffn_") == Some(role))
        };
        match experts.weights {
            ExpertWeights::Each { gate, up, down } => {
                let names = [gate, up, down];
                let name = |role: usize, i: &str| {
                    format!("{prefix}{}{ending}", names[role].replace('*', i))
                };
                if let Some(role) = part.strip_suffix("_exps").and_then(role) {
                    let one = |i: usize| Found::matrix(name(role, &i.to_string()), entry(rows, i)?);
                    return (0..count).map(one).collect::<rows::Result<_>>().map(Some);
                }
                let single = part.rsplit_once('.').and_then(|(part, i)| Some((role(part)?, i)));
                single
                    .map(|(role, i)| Ok(vec![Found::matrix(name(role, i), rows.clone())?]))
                    .transpose()
            }
            ExpertWeights::Stacked { gate_up, down } => match part {
                "ffn_gate_exps" => {
                    let up = self.partner(file, "ffn_up_exps", ending)?;
                    let name = format!("{prefix}{gate_up}{ending}");
                    if let Some(both) = rows.behind(&up)? {
                        return Ok(Some(vec![Found::matrix(name, both)?]));
                    }
                    let tensor = Tensor::concat(&[rows.tensor()?, up.tensor()?], 1)?;
                    Ok(Some(vec![Found { name, tensor, rows: None }]))
                }
                "ffn_up_exps" => Ok(self.goes_with_gate(file, ending)),
                "ffn_down_exps" => {
                    let name = format!("{prefix}{down}{ending}");
                    Ok(Some(vec![Found::matrix(name, rows.clone())?]))
                }
                _ => Ok(None),
            },
            ExpertWeights::Alternating { .. } => {
                self.alternating((rows, part, ending), (prefix, file))
            }
        }
    }

    /// Gate and up in turn, with inputs first.
    fn alternating(
        &self,
        (rows, part, ending): (&Rows, &str, &str),
        (prefix, file): (&str, &str),
    ) -> rows::Result<Option<Named>> {
        let is_weight = ending == ".weight";
        let found = |part: &str, rows: Rows| {
            let name =
                format!("{prefix}mlp.experts.{part}{}", if is_weight { "" } else { "_bias" });
            let tensor = rows.tensor()?;
            let tensor = if is_weight { tensor.permuted(&[0, 2, 1])? } else { tensor };
            Ok(Some(vec![Found { name, tensor, rows: Some(rows).filter(|_| is_weight) }]))
        };
        match part {
            "ffn_gate_exps" => {
                let up = self.partner(file, "ffn_up_exps", ending)?;
                if !is_weight {
                    let apart = |rows: &Rows| {
                        let tensor = rows.tensor()?;
                        tensor.reshaped([tensor.dims(), &[1]].concat())
                    };
                    let both = Tensor::concat(&[apart(rows)?, apart(&up)?], 2)?;
                    let dims = [both.dims()[0], both.dims()[1].saturating_mul(2)];
                    let name = format!("{prefix}mlp.experts.gate_up_proj_bias");
                    let tensor = both.reshaped(dims)?;
                    return Ok(Some(vec![Found { name, tensor, rows: None }]));
                }
                let both = rows.in_turn(&up)?.ok_or_else(|| {
                    let why = format!("`{file}ffn_up_exps{ending}` is stored otherwise");
                    TensorError::Derivation(why)
                })?;
                found("gate_up_proj", both)
            }
            "ffn_up_exps" => Ok(self.goes_with_gate(file, ending)),
            "ffn_down_exps" => found("down_proj", rows.clone()),
            _ => Ok(None),
        }
    }

    /// Nothing more of what is taken with the gate of this ending; `None`, which is no tensor of the family, without.
    fn goes_with_gate(&self, file: &str, ending: &str) -> Option<Named> {
        let gate = format!("{file}ffn_gate_exps{ending}");
        self.by_name.contains_key(gate.as_str()).then(Vec::new)
    }

    /// Another part of the same layer.
    fn partner(&self, file: &str, part: &str, ending: &str) -> rows::Result<Rows> {
        let name = format!("{file}{part}{ending}");
        let missing = || TensorError::Derivation(format!("tensor `{name}` is missing"));
        Rows::of(self.by_name.get(name.as_str()).ok_or_else(missing)?)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::small;
    use super::super::{import, read};
    use super::mixed_experts;

    const Q8_0: u32 = 8;
    const F16: u32 = 1;

    #[test]
    fn experts_that_lose_their_integers_are_told() {
        let file = (0..6).fold(small("granitemoe"), |file, i| {
            // Both alike, an up of another type, and two types without blocks.
            let (gate, up) = if i == 0 { (Q8_0, Q8_0) } else { (Q8_0, F16) };
            let (gate, up) = if i == 5 { (0, F16) } else { (gate, up) };
            let bytes =
                |kind: u32| vec![0; if kind == Q8_0 { 34 } else { [128, 64][kind as usize] }];
            file.tensor(&format!("blk.{i}.ffn_gate_exps.weight"), &[1, 1, 32], gate, bytes(gate))
                .tensor(&format!("blk.{i}.ffn_up_exps.weight"), &[1, 1, 32], up, bytes(up))
        });
        let file = file.size("granitemoe.expert_count", 4).size("granitemoe.expert_used_count", 2);
        let read = read("m.gguf", &file.bytes()).unwrap();
        let mut decoder = import::describe("m.gguf", &read).unwrap().decoder;
        let told = mixed_experts(&read.tensors, &decoder).unwrap().message.clone();
        let words =
            "`blk.1.ffn_gate_exps.weight` is Q8_0 and `blk.1.ffn_up_exps.weight` is float16, ";
        assert!(
            told.contains(words) && !told.contains("blk.0") && !told.contains("blk.4"),
            "{told}"
        );
        assert!(told.ends_with("and so in 1 more layers."), "{told}");
        assert!(mixed_experts(&read.tensors[..2], &decoder).is_none());
        // Experts with a tensor each keep what each has.
        decoder.mlp.experts = None;
        assert!(mixed_experts(&read.tensors, &decoder).is_none());
    }
}
