//! Layers that mix neighbouring tokens by a short convolution.

use super::shared::Shared;
use super::weights::Net;
use onnxd_plugin_sdk::build::{Result, Var};

/// What the convolution over so many taps gives, and the last of its inputs, which the next call begins with.
pub(super) fn convolution(
    net: &Net<'_>,
    shared: &Shared,
    x: Var,
    (prefix, taps, past): (&str, usize, Option<Var>),
) -> Result<(Var, Var)> {
    let (b, size) = (net.b, net.d.hidden);
    let name = |part: &str| format!("{prefix}conv.{part}");
    let x = b.mul(x, shared.tokens.new_ones(b)?)?;
    let x = net.project(x, &name("in_proj"), [size, 3 * size])?;
    let x = b.transpose(x).perm(vec![0, 2, 1]).one()?;
    let [before, after, x] = b.split(x).split(vec![size as i64; 3]).axis(1).outputs()?;
    let new = b.mul(before, x)?;
    let inputs = match past {
        Some(past) => b.concat([past, new]).axis(2).one()?,
        None => b.pad(new, vec![0, 0, taps as i64 - 1, 0, 0, 0]).one()?,
    };
    let last = b.slice(inputs, vec![1 - taps as i64], vec![i64::MAX]).axes(vec![2]).one()?;
    let weight = name("conv.weight");
    let weight = net.constant(&weight, net.w.tensor(&weight, &[size, 1, taps])?);
    let call = b.conv(inputs, weight).group(size as i64);
    let bias = name("conv.bias");
    let mixed = match net.w.optional(&bias, &[size])? {
        Some(tensor) => call.b(net.constant(&bias, tensor)).one()?,
        None => call.one()?,
    };
    let mixed = b.transpose(b.mul(after, mixed)?).perm(vec![0, 2, 1]).one()?;
    Ok((net.project(mixed, &name("out_proj"), [size, size])?, last))
}
