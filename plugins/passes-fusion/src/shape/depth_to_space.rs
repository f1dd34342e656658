//! Makes DepthToSpace and SpaceToDepth of Reshape, Transpose and Reshape.
//!
//! ```onnx
//! before (float[2,8,3,5] x) => (float[2,2,6,10] y)
//! <int64[6] apart = {2, 2, 2, 2, 3, 5}, int64[4] together = {2, 2, 6, 10}>
//! {
//!   a = Reshape(x, apart)
//!   t = Transpose<perm = [0, 1, 4, 2, 5, 3]>(a)
//!   y = Reshape(t, together)
//! }
//! ```
//!
//! becomes
//!
//! ```onnx
//! after (float[2,8,3,5] x) => (float[2,2,6,10] y)
//! {
//!   y = DepthToSpace<blocksize = 2, mode = "CRD">(x)
//! }
//! ```

use crate::parts::{PatternNodes, dims, needs, of_type, unlike};
use onnxd_plugin_sdk::ir::ops::{Reshape, Transpose};
use onnxd_plugin_sdk::ir::{At, DataType, Dim};
use onnxd_plugin_sdk::rewrite::{Rewrite, Rewriter, Skip};

pub(crate) fn fuse_depth_to_space(cx: &mut Rewriter, back: At<Reshape>) -> Rewrite {
    let turned = cx.producer::<Transpose>(back.data).map_err(|_| unlike())?;
    let apart = cx.producer::<Reshape>(turned.data).map_err(|_| unlike())?;
    let parts = PatternNodes::from_root(cx, back.out);
    parts.node("Transpose", turned.out)?;
    parts.node("Reshape", apart.out)?;
    let x = apart.data;
    let (given, split, result) = (dims(cx, x)?, dims(cx, apart.out)?, dims(cx, back.out)?);
    let (Ok([n, c, h, w]), Ok(split), Ok(result)) =
        (<[Dim; 4]>::try_from(given), <[Dim; 6]>::try_from(split), <[Dim; 4]>::try_from(result))
    else {
        return Skip::unlike();
    };
    // What the axes of the split value are, and what they become.
    let (kind, block) = match turned.perm[..] {
        [0, 3, 4, 1, 5, 2] => (DepthOrSpace::Depth("DCR"), split[1].known()),
        [0, 1, 4, 2, 5, 3] => (DepthOrSpace::Depth("CRD"), split[2].known()),
        [0, 3, 5, 1, 2, 4] => (DepthOrSpace::Space, split[3].known()),
        _ => return Skip::unlike(),
    };
    parts.closed()?;
    let sizes = [&c, &h, &w].map(Dim::known);
    let ([Some(c), Some(h), Some(w)], Some(b)) = (sizes, block.filter(|b| *b > 0)) else {
        return Skip::because(format!("the sizes of {} are not known", cx.name(x)));
    };
    let [split_wanted, wanted] = match kind {
        DepthOrSpace::Depth("DCR") => {
            [vec![b, b, c / (b * b), h, w], vec![c / (b * b), h * b, w * b]]
        }
        DepthOrSpace::Depth(_) => [vec![c / (b * b), b, b, h, w], vec![c / (b * b), h * b, w * b]],
        DepthOrSpace::Space => [vec![c, h / b, b, w / b, b], vec![c * b * b, h / b, w / b]],
    };
    let are = |found: &[Dim], wanted: &[i64]| {
        found.iter().zip(wanted).all(|(f, w)| f.known() == Some(*w))
    };
    let fits = split[0].same(&n) && result[0].same(&n);
    if !fits || !are(&split[1..], &split_wanted) || !are(&result[1..], &wanted) {
        return Skip::because("the blocks are not moved between channels and space");
    }
    match kind {
        DepthOrSpace::Depth(mode) => {
            needs(cx, "DepthToSpace with a mode", if mode == "CRD" { 11 } else { 1 })?;
            // Runtimes have kernels for these types only.
            of_type(cx, x, &[DataType::Float, DataType::Double])?;
            let mode = (cx.opset >= 11).then_some(mode);
            cx.rebuild(back.out, |f| f.depth_to_space(x).blocksize(b).mode(mode).one())
        }
        DepthOrSpace::Space => {
            of_type(cx, x, &[DataType::Float])?;
            cx.rebuild(back.out, |f| f.space_to_depth(x).blocksize(b).one())
        }
    }
}

/// Which of the two operators it is.
enum DepthOrSpace {
    /// DepthToSpace with a mode.
    Depth(&'static str),
    /// SpaceToDepth.
    Space,
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_plugin_sdk::rewrite::check::{check_doc_example, check_same, check_skip};

    #[test]
    fn doc_example() {
        check_doc_example(include_str!("depth_to_space.rs"), fuse_depth_to_space);
    }

    #[test]
    fn all_kinds() {
        let model = check_same(
            fuse_depth_to_space,
            "g (float[N,8,3,5] x, float[2,2,4,6] z) => (float[N,2,6,10] y, float[2,8,2,3] s)
             <int64[6] apart = {0, 2, 2, 2, 3, 5}, int64[4] together = {-1, 2, 6, 10},
              int64[6] blocks = {2, 2, 2, 2, 3, 2}, int64[4] deep = {2, 8, 2, 3}>
             {
               a = Reshape(x, apart)
               t = Transpose<perm = [0, 3, 4, 1, 5, 2]>(a)
               y = Reshape(t, together)
               b = Reshape(z, blocks)
               u = Transpose<perm = [0, 3, 5, 1, 2, 4]>(b)
               s = Reshape(u, deep)
             }",
        );
        let ops: Vec<_> = model.graph.nodes().map(|(_, node)| node.op.clone()).collect();
        assert_eq!(ops, ["DepthToSpace", "SpaceToDepth"]);
    }

    #[test]
    fn declined() {
        let graph = "g (float[2,8,3,5] x) => (float[2,2,6,10] y)
             <int64[6] apart = {2, 2, 2, 2, 3, 5}, int64[4] together = {2, 2, 6, 10}>
             { a = Reshape(x, apart) t = Transpose<perm = [0, 1, 4, 2, 5, 3]>(a) y = Reshape(t, together) }";
        let check = |text: &str, why| check_skip(fuse_depth_to_space, why, text);
        check(&graph.replace("] y)", "] y, float[2,2,3,2,5,2] t)"), "`t` is read elsewhere, too");
        check(&graph.replace("float", "int64"), "");
        let other =
            graph.replace("{2, 2, 6, 10}", "{2, 2, 10, 6}").replace("[2,2,6,10]", "[2,2,10,6]");
        check(&other, "the blocks are not moved between channels and space");
        check(&graph.replace("[0, 1, 4, 2, 5, 3]", "[0, 1, 5, 2, 4, 3]"), "");
    }
}
