//! The part of a layer that looks at each token alone.

use super::weights::Net;
use super::{Mlp, MlpKind};
use crate::layers::activate;
use onnxd_plugin_sdk::build::{Result, Var};

/// The MLP of the layer under `prefix`.
pub(super) fn mlp(net: &Net<'_>, x: Var, prefix: &str) -> Result<Var> {
    let names = &net.d.names;
    let Mlp { kind, inner, .. } = net.d.mlp;
    let name = |part: &str| format!("{prefix}{part}");
    match kind {
        MlpKind::Gated => {
            gated(net, x, [name(names.gate), name(names.up), name(names.down)], inner)
        }
        MlpKind::GatedInOne => {
            let both = net.linear(&name(names.gate_up), [net.d.hidden, 2 * inner])?;
            let gate = net.apply(x, &both.rows("gate", 0, inner)?)?;
            let up = net.apply(x, &both.rows("up", inner, inner)?)?;
            down(
                net,
                net.b.mul(activate(net.b, gate, net.d.mlp.activation)?, up)?,
                &name(names.down),
                inner,
            )
        }
        MlpKind::Plain => {
            let up = net.project(x, &name(names.up), [net.d.hidden, inner])?;
            down(net, activate(net.b, up, net.d.mlp.activation)?, &name(names.down), inner)
        }
    }
}

/// `down(f(gate(x)) * up(x))` by the names of the three.
pub(super) fn gated(
    net: &Net<'_>,
    x: Var,
    [gate, up, last]: [String; 3],
    inner: usize,
) -> Result<Var> {
    let sizes = [net.d.hidden, inner];
    let gate = activate(net.b, net.project(x, &gate, sizes)?, net.d.mlp.activation)?;
    down(net, net.b.mul(gate, net.project(x, &up, sizes)?)?, &last, inner)
}

fn down(net: &Net<'_>, x: Var, name: &str, inner: usize) -> Result<Var> {
    net.project(x, name, [inner, net.d.hidden])
}
