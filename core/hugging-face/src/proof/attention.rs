//! Attention of new tokens to those of the cache and to each other.

use super::formulas::{Fused, HeadNorm};
use super::layer::{Layer, Past};
use super::mlp::softmax;
use super::source::{Plain, Row, dot};

impl Layer<'_> {
    /// What attention gives for new tokens behind those of the cache.
    pub(super) fn attention(&self, x: &[Row], past: &Past) -> Plain<Vec<Row>> {
        let [q, k, v] = match &self.f.latent {
            Some(latent) => self.latent_heads(x, latent, past.tokens)?,
            None => {
                let [mut q, mut k, v] = self.queries_keys_values(x)?;
                let (names, [heads, kv_heads]) =
                    (self.f.names.head_norms, [self.f.heads, self.f.kv_heads]);
                self.position(&mut q, names[0], (heads, past.tokens))?;
                self.position(&mut k, names[1], (kv_heads, past.tokens))?;
                [q, k, v]
            }
        };
        let mix = |s: usize| self.mix((s, &q[s]), [&k, &v], past);
        let mixed: Vec<Row> = (0..x.len()).map(mix).collect();
        self.linear(self.f.names.o, &mixed)
    }

    /// Queries, keys and values of all heads of each token.
    fn queries_keys_values(&self, x: &[Row]) -> Plain<[Vec<Row>; 3]> {
        let f = self.f;
        let mut parts = match f.fused {
            Fused::No => {
                let [q, k, v] = f.names.qkv.map(|name| self.linear(name, x));
                [q?, k?, v?]
            }
            _ => self.parts(&self.linear(f.names.all, x)?)?,
        };
        let [of_queries, of_keys] = f.sizes();
        for (part, size) in parts.iter().zip([of_queries, of_keys, of_keys]) {
            if part.iter().any(|row| row.len() != size) {
                return Err(format!("heads of attention have not {size} elements"));
            }
        }
        if f.head_norm == HeadNorm::Together {
            let [q, k, _] = &mut parts;
            for (part, name) in [q, k].into_iter().zip(f.names.head_norms) {
                let [weight, bias] = self.norm_weights(name, part[0].len())?;
                part.iter_mut().for_each(|x| f.norm.apply(x, &weight, &bias));
            }
        }
        if let Some(bound) = f.clip {
            let all = parts.iter_mut().flatten().flatten();
            all.for_each(|x| *x = x.max(-bound).min(bound));
        }
        Ok(parts)
    }

    /// Takes apart what one weight gives.
    fn parts(&self, all: &[Row]) -> Plain<[Vec<Row>; 3]> {
        let f = self.f;
        let [queries, keys] = f.sizes();
        // In each group the order of queries (0), keys (1) and values (2), and how many elements each has.
        let (groups, order) = match f.fused {
            Fused::ByKey => (f.kv_heads, [0, 1, 2]),
            Fused::ByQuarter => (4, [0, 2, 1]),
            Fused::InTurn | Fused::No => (1, [0, 1, 2]),
        };
        let sizes = [queries / groups, keys / groups, keys / groups];
        let mut parts = [vec![], vec![], vec![]];
        for row in all {
            if row.len() != queries + 2 * keys || queries % groups + keys % groups != 0 {
                return Err(format!("`{}` has not the outputs of all heads", f.names.all));
            }
            let mut of_token = [vec![], vec![], vec![]];
            let mut at = 0;
            for part in order.repeat(groups) {
                of_token[part].extend_from_slice(&row[at..at + sizes[part]]);
                at += sizes[part];
            }
            parts.iter_mut().zip(of_token).for_each(|(part, row)| part.push(row));
        }
        Ok(parts)
    }

    /// Norms and turns queries or keys of so many heads, the first of which stands behind `past` tokens.
    fn position(&self, tokens: &mut [Row], name: &str, (heads, past): (usize, usize)) -> Plain<()> {
        let turn = self.each().turn.map(|turn| &self.f.turns[turn]);
        if turn.is_some_and(|turn| 2 * turn.angles.len() > self.f.head) {
            return Err("more elements turn than a head has".to_owned());
        }
        let turned = |tokens: &mut [Row]| {
            for (s, row) in tokens.iter_mut().enumerate() {
                for head in row.chunks_exact_mut(self.f.head) {
                    turn.iter().for_each(|turn| turn.turn(head, past + s));
                }
            }
        };
        if self.f.turns_first {
            turned(tokens);
            return self.head_norm(tokens, name, heads);
        }
        self.head_norm(tokens, name, heads)?;
        turned(tokens);
        Ok(())
    }

    fn head_norm(&self, tokens: &mut [Row], name: &str, heads: usize) -> Plain<()> {
        let head = self.f.head;
        let own = match self.f.head_norm {
            HeadNorm::No | HeadNorm::Together => return Ok(()),
            HeadNorm::Alike => vec![self.norm_weights(name, head)?; heads],
            HeadNorm::Own => {
                let [weight, _] = self.norm_weights(name, heads * head)?;
                weight.chunks_exact(head).map(|weight| [weight.to_vec(), vec![]]).collect()
            }
            HeadNorm::Listed => {
                let one = |i| self.norm_weights(&format!("{name}.norms.{i}"), head);
                (0..heads).map(one).collect::<Plain<Vec<[Row; 2]>>>()?
            }
        };
        for row in tokens {
            for (x, [weight, bias]) in row.chunks_exact_mut(head).zip(&own) {
                self.f.norm.apply(x, weight, bias);
            }
        }
        Ok(())
    }

    /// Values by the shares that the scores of a token give them, for all heads.
    fn mix(&self, (s, q): (usize, &Row), [k, v]: [&[Row]; 2], past: &Past) -> Row {
        let (f, head) = (self.f, self.f.head);
        let last = past.tokens + s;
        let first = self.each().window.map_or(0, |window| (last + 1).saturating_sub(window));
        let scale = if f.by_layer { f.scale / (self.number + 1) as f64 } else { f.scale };
        let slopes = slopes(f.heads);
        let mut all = vec![0.0; f.heads * f.value];
        for (h, mixed) in all.chunks_exact_mut(f.value).enumerate() {
            let of = h / (f.heads / f.kv_heads);
            // Of the cache, or of a new token.
            let part = |cached: &[f64], new: &[Row], j: usize, size: usize| -> Row {
                match j.checked_sub(past.tokens) {
                    None => cached[(of * past.tokens + j) * size..][..size].to_vec(),
                    Some(j) => new[j][of * size..][..size].to_vec(),
                }
            };
            let score = |j: usize| {
                let product = dot(&q[h * head..][..head], &part(&past.keys, k, j, head)) * scale;
                let score = product + f.alibi * slopes[h] * j as f64;
                f.cap.map_or(score, |cap| cap * (score / cap).tanh())
            };
            let mut shares: Row = (first..=last).map(score).collect();
            softmax(shares.iter_mut());
            for (j, share) in (first..=last).zip(shares) {
                let value = part(&past.values, v, j, f.value);
                mixed.iter_mut().zip(value).for_each(|(sum, value)| *sum += share * value);
            }
        }
        all
    }
}

/// By how much scores of each head grow with the position of the key: `2^(-8 i / n)` for the greatest power of two of
/// heads, then the odd ones of twice as many.
fn slopes(heads: usize) -> Row {
    let n = 1 << heads.max(1).ilog2();
    let slope = |i: usize, n: usize| 2f64.powf(-8.0 * i as f64 / n as f64);
    let of = |h: usize| if h < n { slope(h + 1, n) } else { slope(2 * (h - n) + 1, 2 * n) };
    (0..heads).map(of).collect()
}
