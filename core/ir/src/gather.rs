//! Reads elements of a strided view in the order of the view. Where the view runs across its source, runs along the
//! source's own order are read side by side, so that each cache line of the source is looked at once.

use std::borrow::Cow;
use std::ops::Range;

/// Bytes of each row that are written at a time: a cache line. So many runs of the source are read side by side.
const LINE: usize = 64;
/// Elements of a run that is read at a time.
const SPAN_MAX: usize = 1 << 16;
/// Elements that are farther apart are read one by one.
const STEP_MAX: usize = 16;

/// What a view looks at: gives `len` elements from the element `first` on.
pub(crate) trait ElementSource {
    /// Bytes of an element.
    fn size(&self) -> usize;
    /// The bytes of `len` elements from `first` on.
    fn run(&self, first: usize, len: usize) -> Cow<'_, [u8]>;
}

/// Writes the elements `base + Σ iₐ·strides[a]` of `source` to `out`, for all `i` below `dims`.
///
/// All of them lie in the source, as was checked before.
pub(crate) fn gather(
    source: &dyn ElementSource,
    dims: &[usize],
    strides: &[isize],
    base: usize,
    out: &mut [u8],
) {
    let (dims, strides) = merged(dims, strides);
    let (Some((&last, outer)), Some((&step, steps))) = (dims.split_last(), strides.split_last())
    else {
        out.copy_from_slice(&source.run(base, 1));
        return;
    };
    // The axis along which the source lies closest together, if it is not the last one.
    let near = |a: &usize| steps[*a].unsigned_abs();
    let across = (0..outer.len()).filter(|a| steps[*a] != 0).min_by_key(near);
    let across = across.filter(|a| step != 1 && step != 0 && near(a) < step.unsigned_abs());
    let size = source.size();
    let inner = |axis: usize| dims[axis + 1..].iter().product::<usize>();
    let mut others: Vec<usize> = (0..outer.len()).filter(|a| Some(*a) != across).collect();
    others.retain(|a| dims[*a] > 1);
    let count: usize = others.iter().map(|a| dims[*a]).product();
    for mut i in 0..count {
        let (mut from, mut to) = (base, 0);
        for a in others.iter().rev() {
            from = moved(from, i % dims[*a], steps[*a]);
            to += i % dims[*a] * inner(*a);
            i /= dims[*a];
        }
        let out = &mut out[to * size..];
        match across {
            None => along(source, (last, step), from, &mut out[..last * size]),
            Some(a) => turned(source, (dims[a], steps[a], inner(a)), (last, step), from, out),
        }
    }
}

fn moved(from: usize, count: usize, stride: isize) -> usize {
    from.wrapping_add_signed(stride.wrapping_mul(count as isize))
}

/// Axes of one element left out, and axes that follow each other in the source made one.
fn merged(dims: &[usize], strides: &[isize]) -> (Vec<usize>, Vec<isize>) {
    let (mut sizes, mut steps): (Vec<usize>, Vec<isize>) = (Vec::new(), Vec::new());
    for (dim, stride) in dims.iter().zip(strides).filter(|(dim, _)| **dim != 1) {
        match (sizes.last_mut(), steps.last_mut()) {
            (Some(size), Some(step)) if *step == stride.wrapping_mul(*dim as isize) => {
                *size *= dim;
                *step = *stride;
            }
            _ => {
                sizes.push(*dim);
                steps.push(*stride);
            }
        }
    }
    (sizes, steps)
}

/// One run of the view: `count` elements of the source, `step` apart.
fn along(source: &dyn ElementSource, (count, step): (usize, isize), from: usize, out: &mut [u8]) {
    let size = source.size();
    if step == 0 {
        let element = source.run(from, 1);
        out.chunks_exact_mut(size).for_each(|to| to.copy_from_slice(&element));
        return;
    }
    for (part, out) in parts(count, step).zip(out.chunks_mut(part_len(step) * size)) {
        let from = moved(from, part, step);
        let run = ElementRun::read(source, from, out.len() / size, step);
        match run.is_plain() {
            true => out.copy_from_slice(&run.bytes),
            false => write_each(out, size, |j| run.element(j, size)),
        }
    }
}

/// Elements of the view that are read at a time.
fn part_len(step: isize) -> usize {
    match step.unsigned_abs() {
        step @ 1..=STEP_MAX => SPAN_MAX / step,
        _ => 1,
    }
}

fn parts(count: usize, step: isize) -> impl Iterator<Item = usize> {
    (0..count).step_by(part_len(step))
}

/// A view across its source: rows of the result lie `apart` elements from each other, and a run of the source is
/// a column of them.
fn turned(
    source: &dyn ElementSource,
    (rows, row_step, apart): (usize, isize, usize),
    (columns, column_step): (usize, isize),
    from: usize,
    out: &mut [u8],
) {
    let size = source.size();
    let side = (LINE / size).max(1);
    for row in parts(rows, row_step) {
        let count = part_len(row_step).min(rows - row);
        let from = moved(from, row, row_step);
        for column in (0..columns).step_by(side) {
            let read = |c| ElementRun::read(source, moved(from, c, column_step), count, row_step);
            let runs: Vec<ElementRun> = (column..columns.min(column + side)).map(read).collect();
            let out = &mut out[(row * apart + column) * size..];
            let done = if runs.len() == side { turn(&runs, count, apart, out) } else { 0 };
            let plain = runs.iter().all(ElementRun::is_plain);
            match size {
                1 if plain => side_by_side::<1>(&runs, done..count, apart, out),
                2 if plain => side_by_side::<2>(&runs, done..count, apart, out),
                4 if plain => side_by_side::<4>(&runs, done..count, apart, out),
                8 if plain => side_by_side::<8>(&runs, done..count, apart, out),
                _ => (done..count).for_each(|j| {
                    let out = &mut out[j * apart * size..][..runs.len() * size];
                    write_each(out, size, |i| runs[i].element(j, size));
                }),
            }
        }
    }
}

/// Writes the first of `rows` elements of all runs to rows of the result; how many of them. It works by squares,
/// because runs a power of two apart share few places of a cache.
fn turn(runs: &[ElementRun], rows: usize, apart: usize, out: &mut [u8]) -> usize {
    if !runs.iter().all(ElementRun::is_plain) {
        return 0;
    }
    match LINE / runs.len() {
        1 => squares::<1, 64>(runs, rows, apart, out),
        2 => squares::<2, 32>(runs, rows, apart, out),
        4 => squares::<4, 16>(runs, rows, apart, out),
        8 => squares::<8, 8>(runs, rows, apart, out),
        _ => 0,
    }
}

fn squares<const SIZE: usize, const SIDE: usize>(
    runs: &[ElementRun],
    rows: usize,
    apart: usize,
    out: &mut [u8],
) -> usize {
    let mut square = [[[0; SIZE]; SIDE]; SIDE];
    let done = rows - rows % SIDE;
    for first in (0..done).step_by(SIDE) {
        for (line, run) in square.iter_mut().zip(runs) {
            line.copy_from_slice(&run.bytes.as_chunks().0[first..first + SIDE]);
        }
        for j in 0..SIDE {
            let row = &mut out[(first + j) * apart * SIZE..][..SIDE * SIZE];
            let row = row.as_chunks_mut().0;
            for (to, line) in row.iter_mut().zip(&square) {
                *to = line[j];
            }
        }
    }
    done
}

/// Writes these rows of few runs, as kernels of convolutions have them. That the size of an element is known saves a
/// call for each.
fn side_by_side<const SIZE: usize>(
    runs: &[ElementRun],
    rows: Range<usize>,
    apart: usize,
    out: &mut [u8],
) {
    let runs: Vec<&[[u8; SIZE]]> = runs.iter().map(|run| run.bytes.as_chunks().0).collect();
    for j in rows {
        let row = out[j * apart * SIZE..][..runs.len() * SIZE].as_chunks_mut().0;
        for (to, run) in row.iter_mut().zip(&runs) {
            *to = run[j];
        }
    }
}

fn write_each<'s>(out: &mut [u8], size: usize, element: impl Fn(usize) -> &'s [u8]) {
    let places = out.chunks_exact_mut(size).enumerate();
    places.for_each(|(i, to)| to.copy_from_slice(element(i)));
}

/// Elements of the source that follow each other in the view, `step` apart.
struct ElementRun<'s> {
    bytes: Cow<'s, [u8]>,
    step: usize,
    count: usize,
    /// The first element of the view is the last one read.
    backwards: bool,
}

impl<'s> ElementRun<'s> {
    fn read(
        source: &'s dyn ElementSource,
        from: usize,
        count: usize,
        step: isize,
    ) -> ElementRun<'s> {
        let (backwards, step) = (step < 0, step.unsigned_abs());
        let span = (count - 1) * step;
        let first = if backwards { from - span } else { from };
        ElementRun { bytes: source.run(first, span + 1), step, count, backwards }
    }

    /// Whether its elements are those read, in their order.
    fn is_plain(&self) -> bool {
        self.step == 1 && !self.backwards
    }

    fn element(&self, j: usize, size: usize) -> &[u8] {
        let j = if self.backwards { self.count - 1 - j } else { j };
        &self.bytes[j * self.step * size..][..size]
    }
}
