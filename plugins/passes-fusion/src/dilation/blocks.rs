//! Space to batch and back, as TensorFlow's operators of these names do it: cells of blocks become samples of their
//! own. Reshape parts each axis into blocks and cells, Transpose brings cells before samples, Reshape joins both.

use onnxd_plugin_sdk::ir::{Attr, Dim, Facts, Graph, Node, ValueId};

/// Samples that are cells of blocks.
pub(crate) struct Blocks {
    /// What is cut into blocks, or what was put together of them.
    pub(crate) data: ValueId,
    /// Sizes of blocks along the axes behind the first.
    pub(crate) sizes: Vec<i64>,
}

/// What Reshape, Transpose and Reshape make `v` of: the parted value, what was parted, and the order of the Transpose.
fn turned(graph: &Graph, v: ValueId) -> Option<(ValueId, ValueId, Vec<usize>)> {
    let input = |v: ValueId, op: &str| {
        let node = &graph[graph.producer(v)?];
        Some((node, node.input(0)?)).filter(|_| node.is(op))
    };
    let (_, turned) = input(v, "Reshape")?;
    let (transpose, split) = input(turned, "Transpose")?;
    let (_, data) = input(split, "Reshape")?;
    let perm = ints(transpose, "perm")?;
    let perm = perm.iter().map(|axis| usize::try_from(*axis).ok()).collect::<Option<_>>()?;
    Some((split, data, perm))
}

/// What `v` consists of the blocks of.
pub(crate) fn cut(graph: &Graph, facts: &Facts, v: ValueId) -> Option<Blocks> {
    let (split, data, perm) = turned(graph, v)?;
    let [joined, split, whole] = [v, split, data].map(|v| facts.shape(v));
    let (joined, split, whole) = (joined?, split?, whole?);
    let n = whole.len();
    let m = perm.len().checked_sub(n).filter(|m| (1..n).contains(m))?;
    let cells = (0..m).map(|i| 2 + 2 * i);
    let order = cells.chain([0]).chain((0..m).map(|i| 1 + 2 * i)).chain(2 * m + 1..m + n);
    let sizes = (0..m).map(|i| split[2 + 2 * i].known().filter(|size| *size > 0));
    let sizes = sizes.collect::<Option<Vec<i64>>>()?;
    // As many elements as before: so each axis is exactly what its parts make.
    let parted = (0..m).all(|i| {
        let blocks = whole[1 + i].over(sizes[i]);
        blocks.same(&split[1 + 2 * i]) && blocks.same(&joined[1 + i])
    });
    let others = same(&whole[..1], &split[..1])
        && same(&whole[m + 1..], &split[2 * m + 1..])
        && joined.len() == n
        && same(&whole[m + 1..], &joined[m + 1..]);
    (order.eq(perm) && parted && others).then_some(Blocks { data, sizes })
}

/// The samples that `v` is put together of.
pub(crate) fn joined(graph: &Graph, facts: &Facts, v: ValueId) -> Option<Blocks> {
    let (split, data, perm) = turned(graph, v)?;
    let [whole, split, given] = [v, split, data].map(|v| facts.shape(v));
    let (whole, split, given) = (whole?, split?, given?);
    let n = given.len();
    let m = perm.len().checked_sub(n).filter(|m| (1..n).contains(m))?;
    let pairs = (0..m).flat_map(|i| [m + 1 + i, i]);
    let order = [m].into_iter().chain(pairs).chain(2 * m + 1..m + n);
    let sizes = split[..m].iter().map(|size| size.known().filter(|size| *size > 0));
    let sizes = sizes.collect::<Option<Vec<i64>>>()?;
    let whole = Some(whole).filter(|whole| whole.len() == n)?;
    let parted = (0..m).all(|i| {
        let blocks = &split[m + 1 + i];
        blocks.same(&given[1 + i]) && blocks.same(&whole[1 + i].over(sizes[i]))
    });
    let others = same(&split[m..=m], &whole[..1])
        && same(&split[2 * m + 1..], &given[m + 1..])
        && same(&split[2 * m + 1..], &whole[m + 1..]);
    (order.eq(perm) && parted && others).then_some(Blocks { data, sizes })
}

fn same(a: &[Dim], b: &[Dim]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same(b))
}

/// A list of integers that is an attribute.
pub(crate) fn ints(node: &Node, name: &str) -> Option<Vec<i64>> {
    match node.attr(name)? {
        Attr::Ints(all) => Some(all.to_vec()),
        _ => None,
    }
}
