//! Matrix products.

use crate::row::{Row, down, up};
use crate::site::{Done, Site};

pub(crate) const ROWS: &[Row] = &[up(&["Gemm"], 7, gemm_7), down(&["Gemm"], 11, gemm_11_down)];

/// From opset 7 on the third input broadcasts without being told to.
fn gemm_7(s: &mut Site<'_>) -> Done {
    s.drop("broadcast");
    Ok(())
}

fn gemm_11_down(s: &mut Site<'_>) -> Done {
    if !s.has(2) {
        let zero = s.scalar("c", 0.0, s.dtype(s.input(0)?)?)?;
        s.set_input(2, Some(zero));
    }
    Ok(())
}
