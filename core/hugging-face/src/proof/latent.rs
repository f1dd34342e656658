//! Attention whose keys and values come from one small vector for each token: DeepSeek's.

use super::base::{Base, LLAMA, NEIGHBOURS};
use super::fields::Fields;
use super::formulas::{Formulas, LATENT_NAMES, Latent, RMS};
use super::layer::Layer;
use super::rotary::turn;
use super::source::{Plain, Row};

pub(super) fn of(
    kind: &str,
    c: &Fields<'_>,
    (base, tokens): (&Base<'_>, usize),
) -> Option<Plain<Formulas>> {
    match kind {
        "deepseek_v2" => Some(deepseek(c, base, tokens, 0)),
        "deepseek_v3" => Some(deepseek(c, base, tokens, 3).map(|mut f| {
            f.scale *= by_length(c);
            f
        })),
        _ => None,
    }
}

/// `dense` is how many layers have no experts where the file does not say.
fn deepseek(c: &Fields<'_>, base: &Base<'_>, tokens: usize, dense: usize) -> Plain<Formulas> {
    let size = |key: &str| c.size(key).ok_or_else(|| format!("`{key}` is no size"));
    let mut f = base(&LLAMA.turning(None))?;
    let turning = size("qk_rope_head_dim")?;
    f.kv_heads = f.heads;
    f.head = size("qk_nope_head_dim")?.saturating_add(turning);
    f.value = size("v_head_dim")?;
    let of_queries = c.get("q_lora_rank").is_some();
    f.latent = Some(Latent { of_queries, keys: size("kv_lora_rank")?, turning });
    f.scale = (f.head as f64).sqrt().recip();
    f.turns = vec![turn(c, turning, NEIGHBOURS, tokens)?];
    let dense = c.size("first_k_dense_replace").unwrap_or(dense);
    for (i, each) in f.each.iter_mut().enumerate() {
        each.turn = Some(0);
        each.has_experts = c.get("n_routed_experts").is_some() && i >= dense;
    }
    Ok(f)
}

/// What scores are multiplied by for long sequences.
fn by_length(c: &Fields<'_>) -> f64 {
    let scaling = c.inside("rope_parameters").or(c.inside("rope_scaling")).unwrap_or_default();
    let factor = scaling.number("factor").unwrap_or(1.0);
    let all = scaling.number("mscale_all_dim").unwrap_or(0.0);
    if factor > 1.0 { (0.1 * all * factor.ln() + 1.0).powi(2) } else { 1.0 }
}

impl Layer<'_> {
    /// Queries, keys and values of all heads, behind so many tokens.
    pub(super) fn latent_heads(&self, x: &[Row], l: &Latent, past: usize) -> Plain<[Vec<Row>; 3]> {
        let (heads, head, value) = (self.f.heads, self.f.head, self.f.value);
        let plain = head.saturating_sub(l.turning);
        let turn = &self.f.turns[0];
        if 2 * turn.angles.len() != l.turning || plain + l.turning != head {
            return Err("another part of a head turns".to_owned());
        }
        let mut q = match l.of_queries {
            true => {
                self.linear(LATENT_NAMES[1], &self.small(self.linear(LATENT_NAMES[0], x)?, "q")?)?
            }
            false => self.linear(self.f.names.qkv[0], x)?,
        };
        let both = self.linear(LATENT_NAMES[2], x)?;
        if both.iter().any(|row| row.len() != l.keys + l.turning) {
            return Err(format!("`{}` has another number of outputs", LATENT_NAMES[2]));
        }
        let small = both.iter().map(|row| row[..l.keys].to_vec()).collect();
        let all = self.linear(LATENT_NAMES[3], &self.small(small, "kv")?)?;
        let (mut k, mut v) = (vec![], vec![]);
        for (s, ((q, both), all)) in q.iter_mut().zip(&both).zip(&all).enumerate() {
            if q.len() != heads * head || all.len() != heads * (plain + value) {
                return Err("heads have another number of elements".to_owned());
            }
            q.chunks_exact_mut(head).for_each(|head| turn.turn(&mut head[plain..], past + s));
            let mut turned = both[l.keys..].to_vec();
            turn.turn(&mut turned, past + s);
            let each = all.chunks_exact(plain + value);
            let key = |head: &[f64]| [&head[..plain], &turned].concat();
            k.push(each.clone().flat_map(key).collect());
            v.push(each.flat_map(|head| head[plain..].to_vec()).collect());
        }
        Ok([q, k, v])
    }

    /// The norm of small vectors, whose epsilon the file has no say in.
    fn small(&self, mut x: Vec<Row>, part: &str) -> Plain<Vec<Row>> {
        let name = format!("self_attn.{part}_a_layernorm.weight");
        let weight = self.vector(&name, x.first().map_or(0, Vec::len))?;
        let weight = weight.ok_or_else(|| format!("`{name}` is not there"))?;
        x.iter_mut().for_each(|x| RMS.apply(x, &weight, &[]));
        Ok(x)
    }
}
