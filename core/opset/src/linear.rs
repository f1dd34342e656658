//! Matrix products.

use crate::context::{Done, LowerContext};
use crate::row::{AdapterRow, down, up};

pub(crate) const ROWS: &[AdapterRow] =
    &[up(&["Gemm"], 7, gemm_7), down(&["Gemm"], 11, gemm_11_down)];

/// From opset 7 on the third input broadcasts without being told to.
fn gemm_7(s: &mut LowerContext<'_>) -> Done {
    s.drop("broadcast");
    Ok(())
}

fn gemm_11_down(s: &mut LowerContext<'_>) -> Done {
    if s.has(2) {
        return Ok(());
    }
    s.set_input(2, Some(s.b.cast(0.0, s.dtype(s.var(0)?)?)?))
}
