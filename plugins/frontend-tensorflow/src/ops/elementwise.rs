//! Arithmetic element by element.

use super::{Lower, Source};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::lower::{Lowered, Table};

pub(crate) fn rows(table: Table<Source>) -> Table<Source> {
    super::rows! { table;
        "Add" | "AddV2" => |b, a: Two| b.add(a.x, a.y);
        "Sub" => |b, a: Two| b.sub(a.x, a.y);
        "Mul" => |b, a: Two| b.mul(a.x, a.y);
        "Identity" | "StopGradient" | "Snapshot" => identity;
    }
}

arguments! {
    /// `AddV2(x, y; T: type) -> z`
    struct Two { x: Var, y: Var }
    /// `Identity(input; T: type) -> output`
    struct Input { input: Var }
}

fn identity(_: &Lower, a: Input) -> Lowered<Var> {
    Ok(a.input)
}
