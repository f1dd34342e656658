//! Makes Resize of what repeats every element along axes: Reshape, Expand or Tile, and Reshape.
//!
//! ```onnx
//! before (float[1,2,3,5] x) => (float[1,2,6,15] y)
//! <int64[6] apart = {1, 2, 3, 1, 5, 1}, int64[6] wide = {1, 2, 3, 2, 5, 3}, int64[4] together = {1, 2, 6, 15}>
//! {
//!   a = Reshape(x, apart)
//!   e = Expand(a, wide)
//!   y = Reshape(e, together)
//! }
//! ```
//!
//! becomes
//!
//! ```onnx
//! after (float[1,2,3,5] x) => (float[1,2,6,15] y)
//! <float[4] y_scales = {1.0, 1.0, 2.0, 3.0}>
//! {
//!   y = Resize<coordinate_transformation_mode = "asymmetric", nearest_mode = "floor">(x, , y_scales)
//! }
//! ```

use crate::parts::{PatternNodes, dims, needs, of_type, unlike};
use onnxd_plugin_sdk::ir::ops::Reshape;
use onnxd_plugin_sdk::ir::{At, DataType, Dim, ValueId};
use onnxd_plugin_sdk::rewrite::{Rewrite, Rewriter, Skip};

/// Larger factors and sizes are not exact in the runtimes' arithmetic.
const SIZE_MAX: i64 = 1 << 16;

pub(crate) fn fuse_resize(cx: &mut Rewriter, back: At<Reshape>) -> Rewrite {
    let parts = PatternNodes::from_root(cx, back.out);
    let wide = back.data;
    let repeated = parts.attempt(|| first(&parts, "Expand", wide));
    let narrow = repeated.or_else(|_| first(&parts, "Tile", wide))?;
    let x = first(&parts, "Reshape", narrow).or_else(|_| first(&parts, "Unsqueeze", narrow))?;
    let (input_dims, result) = (dims(cx, x)?, dims(cx, back.out)?);
    let (narrow, wide) = (dims(cx, narrow)?, dims(cx, wide)?);
    if input_dims.len() < 3 || result.len() != input_dims.len() || narrow.len() != wide.len() {
        return Skip::unlike();
    }
    parts.closed()?;
    let factors = factors(&input_dims, &narrow, &wide, &result)?;
    // Whole rows are repeated faster than elements are picked.
    if factors[..2] != [1, 1] || factors.last() == Some(&1) {
        return Skip::because("it does not repeat elements of rows");
    }
    needs(cx, "Resize by whole factors", 11)?;
    // Runtimes have kernels for these types only.
    of_type(cx, x, &[DataType::Float])?;
    let scales: Vec<f32> = factors.iter().map(|f| *f as f32).collect();
    cx.rebuild(back.out, |b| {
        let resize = b.resize(x).scales(scales).nearest_mode("floor");
        resize.coordinate_transformation_mode("asymmetric").one()
    })
}

fn first(parts: &PatternNodes, op: &str, v: ValueId) -> Result<ValueId, Skip> {
    parts.attempt(|| parts.node(op, v)?.input(0).ok_or_else(unlike))
}

/// How often the elements of each axis are repeated: each axis stands in `narrow` and `wide`, and after it a new one
/// where they are repeated.
fn factors(given: &[Dim], narrow: &[Dim], wide: &[Dim], result: &[Dim]) -> Result<Vec<i64>, Skip> {
    let mut found = vec![];
    let mut at = 0;
    for (size, end) in given.iter().zip(result) {
        if !narrow.get(at).is_some_and(|n| n.same(size)) || !wide[at].same(size) {
            return Skip::because("the values are not repeated along axes of their own");
        }
        at += 1;
        let new = narrow.get(at).filter(|n| n.known() == Some(1)).and_then(|_| wide[at].known());
        let after = new.zip(size.known()).map(|(times, size)| (times, size * times));
        match after
            .filter(|(times, all)| *times > 1 && *all < SIZE_MAX && end.known() == Some(*all))
        {
            Some((times, _)) => {
                found.push(times);
                at += 1;
            }
            None if end.same(size) => found.push(1),
            None => return Skip::because("the values are not repeated along axes of their own"),
        }
    }
    let repeats = found.iter().any(|f| *f > 1);
    if at == narrow.len() && repeats { Ok(found) } else { Skip::unlike() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_plugin_sdk::rewrite::check::{check_doc_example, check_same, check_skip};

    #[test]
    fn doc_example() {
        check_doc_example(include_str!("resize.rs"), fuse_resize);
    }

    #[test]
    fn tiles_and_symbolic_batches() {
        let model = check_same(
            fuse_resize,
            "g (float[N,1,4] x) => (float[N,1,12] y)
             <int64[1] last = {3}, int64[4] times = {1, 1, 1, 3}, int64[3] together = {0, 1, 12}>
             { a = Unsqueeze(x, last) e = Tile(a, times) y = Reshape(e, together) }",
        );
        assert_eq!(model.graph.node_count(), 1);
    }

    #[test]
    fn declined() {
        let graph = "g (float[1,2,3,5] x) => (float[1,2,3,10] y)
             <int64[5] apart = {1, 2, 3, 5, 1}, int64[5] wide = {1, 2, 3, 5, 2}, int64[4] together = {1, 2, 3, 10}>
             { a = Reshape(x, apart) e = Expand(a, wide) y = Reshape(e, together) }";
        let check = |text: &str, why| check_skip(fuse_resize, why, text);
        check(&graph.replace("] y)", "] y, float[1,2,3,5,2] e)"), "`e` is read elsewhere, too");
        check(&graph.replace("float", "int64"), "`x` is of type int64");
        let before = graph
            .replace("{1, 2, 3, 5, 1}", "{1, 2, 3, 1, 5}")
            .replace("{1, 2, 3, 5, 2}", "{1, 2, 3, 2, 5}");
        check(&before, "the values are not repeated along axes of their own");
        let rows =
            before.replace("{1, 2, 3, 10}", "{1, 2, 6, 5}").replace("[1,2,3,10]", "[1,2,6,5]");
        check(&rows, "it does not repeat elements of rows");
    }
}
