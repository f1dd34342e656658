//! Reads elements of a strided view in the order of the view. Where the view runs across its source, runs along the
//! source's own order are read side by side, so that each cache line of the source is looked at once.

use std::borrow::Cow;

/// Runs of the source that are read side by side: as many elements as the shortest write is long.
const RUNS: usize = 16;
/// Elements of a run that is read at a time.
const SPAN_MAX: usize = 1 << 16;
/// Elements that are farther apart are read one by one.
const STEP_MAX: usize = 16;

/// What a view looks at: gives `len` elements from the element `first` on.
pub(crate) trait Source {
    /// Bytes of an element.
    fn size(&self) -> usize;
    /// The bytes of `len` elements from `first` on.
    fn run(&self, first: usize, len: usize) -> Cow<'_, [u8]>;
}

/// Writes the elements `base + Σ iₐ·strides[a]` of `source` to `out`, for all `i` below `dims`.
///
/// All of them lie in the source, as was checked before.
pub(crate) fn gather(
    source: &dyn Source,
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
fn along(source: &dyn Source, (count, step): (usize, isize), from: usize, out: &mut [u8]) {
    let size = source.size();
    if step == 0 {
        let element = source.run(from, 1);
        out.chunks_exact_mut(size).for_each(|to| to.copy_from_slice(&element));
        return;
    }
    for (part, out) in parts(count, step).zip(out.chunks_mut(part_len(step) * size)) {
        let from = moved(from, part, step);
        let run = Run::read(source, from, out.len() / size, step);
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
    source: &dyn Source,
    (rows, row_step, apart): (usize, isize, usize),
    (columns, column_step): (usize, isize),
    from: usize,
    out: &mut [u8],
) {
    let size = source.size();
    for row in parts(rows, row_step) {
        let count = part_len(row_step).min(rows - row);
        let from = moved(from, row, row_step);
        for column in (0..columns).step_by(RUNS) {
            let read = |c| Run::read(source, moved(from, c, column_step), count, row_step);
            let runs: Vec<Run> = (column..columns.min(column + RUNS)).map(read).collect();
            let plain = runs.iter().all(Run::is_plain);
            for j in 0..count {
                let out = &mut out[((row + j) * apart + column) * size..];
                write_row(&runs, j, size, plain, out);
            }
        }
    }
}

/// Element `j` of each run, one after the other; `plain` if all of them are.
fn write_row(runs: &[Run], j: usize, size: usize, plain: bool, out: &mut [u8]) {
    macro_rules! sized {
        ($size:literal) => {
            for (run, to) in runs.iter().zip(out.chunks_exact_mut($size)) {
                to.copy_from_slice(&run.bytes[j * $size..][..$size]);
            }
        };
    }
    match size {
        1 if plain => sized!(1),
        2 if plain => sized!(2),
        4 if plain => sized!(4),
        8 if plain => sized!(8),
        _ => write_each(&mut out[..runs.len() * size], size, |i| runs[i].element(j, size)),
    }
}

fn write_each<'s>(out: &mut [u8], size: usize, element: impl Fn(usize) -> &'s [u8]) {
    let places = out.chunks_exact_mut(size).enumerate();
    places.for_each(|(i, to)| to.copy_from_slice(element(i)));
}

/// Elements of the source that follow each other in the view, `step` apart.
struct Run<'s> {
    bytes: Cow<'s, [u8]>,
    step: usize,
    count: usize,
    /// The first element of the view is the last one read.
    backwards: bool,
}

impl<'s> Run<'s> {
    fn read(source: &'s dyn Source, from: usize, count: usize, step: isize) -> Run<'s> {
        let (backwards, step) = (step < 0, step.unsigned_abs());
        let span = (count - 1) * step;
        let first = if backwards { from - span } else { from };
        Run { bytes: source.run(first, span + 1), step, count, backwards }
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
