//! Recurrent layers.

use crate::context::{Done, LowerContext};
use crate::row::{AdapterRow, down, up};

const ALL: &[&str] = &["RNN", "GRU", "LSTM"];

pub(crate) const ROWS: &[AdapterRow] =
    &[up(&["GRU"], 3, gru_3), up(ALL, 7, recurrent_7), down(ALL, 14, batch_first)];

/// The default of `direction` was misspelt.
fn gru_3(s: &mut LowerContext<'_>) -> Done {
    if matches!(s.word("direction", "forward")?.as_str(), "forward" | "foward") {
        s.set_word("direction", "forward");
    }
    Ok(())
}

/// Which outputs there are says which are wanted.
fn recurrent_7(s: &mut LowerContext<'_>) -> Done {
    s.drop("output_sequence");
    Ok(())
}

/// Before opset 14 the batch is the second axis, the third of the sequence of outputs.
fn batch_first(s: &mut LowerContext<'_>) -> Done {
    if !s.flag("layout", false)? {
        return Ok(());
    }
    s.drop("layout");
    for i in [0, 5, 6] {
        if let Some(v) = s.optional(i) {
            s.set_input(i, Some(s.b.transpose(v).perm([1, 0, 2]).one()?))?;
        }
    }
    s.then(0, |b, y| b.transpose(y).perm([2, 0, 1, 3]).one())?;
    s.then(1, |b, y| b.transpose(y).perm([1, 0, 2]).one())?;
    s.then(2, |b, y| b.transpose(y).perm([1, 0, 2]).one())
}
