//! Cumulative sums and the like.

use super::Source;
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::lower::Table;

pub(crate) fn rows(table: Table<Source>) -> Table<Source> {
    super::rows! { table;
        "Cumsum" => |b, a: Cumulative| {
            let flag = |on: bool| on.then_some(1i64);
            b.cum_sum(a.x, a.axis).exclusive(flag(a.exclusive)).reverse(flag(a.reverse)).one()
        };
    }
}

arguments! {
    /// `Cumsum(x, axis; exclusive: bool = false, reverse: bool = false, T: type, Tidx: type = int32) -> out`
    struct Cumulative { x: Var, axis: i64, exclusive: bool, reverse: bool }
}
