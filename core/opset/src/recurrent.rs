//! Recurrent layers.

use crate::row::{Row, down, up};
use crate::site::{Done, Site, word};
use onnxd_ir::Attr;

const ALL: &[&str] = &["RNN", "GRU", "LSTM"];

pub(crate) const ROWS: &[Row] =
    &[up(&["GRU"], 3, gru_3), up(ALL, 7, recurrent_7), down(ALL, 14, batch_first)];

/// The default of `direction` was misspelt.
fn gru_3(s: &mut Site<'_>) -> Done {
    if matches!(s.word("direction", "forward")?.as_str(), "forward" | "foward") {
        s.set("direction", word("forward"));
    }
    Ok(())
}

/// Which outputs there are says which are wanted.
fn recurrent_7(s: &mut Site<'_>) -> Done {
    s.drop("output_sequence");
    Ok(())
}

/// Before opset 14 the batch is the second axis, the third of the sequence of outputs.
fn batch_first(s: &mut Site<'_>) -> Done {
    if s.int("layout")?.unwrap_or(0) == 0 {
        return Ok(());
    }
    s.drop("layout");
    for i in [0, 5, 6] {
        if let Some(v) = s.node().input(i) {
            let moved = s.transpose("moved", v, &[1, 0, 2]);
            s.set_input(i, Some(moved));
        }
    }
    for (i, perm) in [(0, vec![2, 0, 1, 3]), (1, vec![1, 0, 2]), (2, vec![1, 0, 2])] {
        if s.node().output(i).is_some() {
            let (inner, out) = s.detach(i, "moved")?;
            s.add_to(out, "Transpose", &[inner], &[("perm", Attr::Ints(perm))]);
        }
    }
    Ok(())
}
