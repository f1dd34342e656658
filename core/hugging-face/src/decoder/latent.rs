//! Attention whose keys and values come from one small vector for each token (MLA).

use super::attention::finished;
use super::shared::{CachedLayer, Shared};
use super::weights::Net;
use super::{Decoder, Latent};
use onnxd_plugin_sdk::build::{Result, Var};

/// The epsilon of norms of small vectors, in which the file has no say.
const EPSILON: f64 = 1e-6;

/// What attention gives, and the cache with the new keys and values.
pub(super) fn attention(
    net: &Net<'_>,
    shared: &Shared,
    x: Var,
    (at, l): (&CachedLayer<'_>, &Latent),
) -> Result<(Var, [Var; 2])> {
    let Decoder { hidden, heads, head, value, .. } = *net.d;
    let b = net.b;
    let name = |part: &str| format!("{}self_attn.{part}", at.prefix);
    let parts = |x, first: usize, second: usize| {
        b.split(x).split(vec![first as i64, second as i64]).axis(-1).outputs()
    };
    let apart = |x, heads: usize, head: usize| {
        let x = b.reshape(x, vec![0, 0, heads as i64, head as i64]).one()?;
        b.transpose(x).perm(vec![0, 2, 1, 3]).one()
    };
    let small = |x, part: &str, size: usize| {
        let weight = format!("{}.weight", name(part));
        net.rms(x, net.constant(&weight, net.w.tensor(&weight, &[size])?), EPSILON)
    };
    let turned = |x| match at.layer.rope {
        Some(rope) => shared.turns[rope].apply(b, x, l.turning),
        None => Ok(x),
    };
    let q = match l.query {
        None => net.project(x, &name("q_proj"), [hidden, heads * head])?,
        Some(size) => {
            let low = net.project(x, &name("q_a_proj"), [hidden, size])?;
            let low = small(low, "q_a_layernorm", size)?;
            net.project(low, &name("q_b_proj"), [size, heads * head])?
        }
    };
    let [plain, turning] = parts(apart(q, heads, head)?, head - l.turning, l.turning)?;
    let q = b.concat([plain, turned(turning)?]).axis(-1).one()?;
    let low = net.project(x, &name("kv_a_proj_with_mqa"), [hidden, l.keys + l.turning])?;
    let [low, turning] = parts(low, l.keys, l.turning)?;
    let both = (head - l.turning) + value;
    let low = small(low, "kv_a_layernorm", l.keys)?;
    let kv = net.project(low, &name("kv_b_proj"), [l.keys, heads * both])?;
    let [plain, v] = parts(apart(kv, heads, both)?, head - l.turning, value)?;
    // One key that turns, for all heads.
    let turning = turned(apart(turning, 1, l.turning)?)?;
    let turning = b.expand(turning, vec![1, heads as i64, 1, 1])?;
    let k = b.concat([plain, turning]).axis(-1).one()?;
    finished(net, shared, [q, k, v], at)
}
