//! Work shared out over the threads of the current pool, where it is worth it, and over the lanes of
//! the processor.

use crate::num::Num;
use rayon::prelude::*;
use std::cell::Cell;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// Steps of work of one task; less than a few of these are not shared out.
const PART: usize = 1 << 14;

thread_local! {
    /// Whether the work of this thread is one of several that run at once.
    static ALONE: Cell<bool> = const { Cell::new(false) };
}

/// Does `work` without sharing out most of it: others keep the other threads busy, or processor time counts.
pub fn alone<T>(work: impl FnOnce() -> T) -> T {
    let before = ALONE.replace(true);
    let done = work();
    ALONE.set(before);
    done
}

/// Threads among which work is shared out.
pub(crate) fn threads() -> usize {
    if ALONE.get() { 1 } else { rayon::current_num_threads() }
}

/// Fills `out` in parts that are multiples of `unit` elements, each of which takes `cost` steps of
/// work: `fill(first, part)` is told the index of the part's first element.
pub(crate) fn fill_parts<T: Send>(
    out: &mut [T],
    unit: usize,
    cost: usize,
    fill: &(dyn Fn(usize, &mut [T]) + Sync),
) {
    let unit = unit.max(1);
    let size = (PART / unit.saturating_mul(cost).max(1)).max(1) * unit;
    if threads() == 1 || out.len().saturating_mul(cost) < 4 * PART || out.len() <= size {
        fill(0, out);
        return;
    }
    for_each_chunk(out, size, &|i, part| fill(i * size, part));
}

/// Memory that is filled from the front.
pub(crate) struct Unfilled<'a, T> {
    memory: &'a mut [MaybeUninit<T>],
    /// Elements that are filled.
    count: usize,
}

impl<T: Clone> Unfilled<'_, T> {
    /// Fills with copies what follows.
    ///
    /// # Panics
    /// If there is less room.
    pub(crate) fn push(&mut self, run: &[T]) {
        let room = &mut self.memory[self.count..][..run.len()];
        for (place, value) in room.iter_mut().zip(run) {
            place.write(value.clone());
        }
        self.count += run.len();
    }

    /// The same with copies of one element.
    pub(crate) fn push_all(&mut self, value: &T, count: usize) {
        for place in &mut self.memory[self.count..][..count] {
            place.write(value.clone());
        }
        self.count += count;
    }

    /// Elements that there is room for, filled or not.
    pub(crate) fn room(&self) -> usize {
        self.memory.len()
    }

    /// What is filled from index `from` on.
    pub(crate) fn since(&mut self, from: usize) -> &mut [T] {
        let filled = &mut self.memory[from..self.count];
        // SAFETY: elements up to `count` have been written by `push` and `push_all`, which alone raise it. It is the
        // same memory, borrowed as exclusively.
        unsafe { std::slice::from_raw_parts_mut(filled.as_mut_ptr().cast(), filled.len()) }
    }
}

/// As [`fill_parts`], for `len` elements of new memory, which is not cleared first.
///
/// # Panics
/// If `fill` leaves a part unfilled.
pub(crate) fn pushed_parts<T: Send>(
    len: usize,
    unit: usize,
    cost: usize,
    fill: &(dyn Fn(usize, &mut Unfilled<T>) + Sync),
) -> Vec<T> {
    let mut all = Vec::with_capacity(len);
    fill_parts(&mut all.spare_capacity_mut()[..len], unit, cost, &|first, memory| {
        let mut part = Unfilled { memory, count: 0 };
        fill(first, &mut part);
        assert_eq!(part.count, part.memory.len(), "all of a part is filled");
    });
    // SAFETY: there is room for `len` elements. `fill_parts` gives each of them to the closure once, which has just
    // seen that all of its part is filled.
    unsafe { all.set_len(len) };
    all
}

/// Elements of new memory that are written first and then changed, while they are in the cache.
const PIECE: usize = 1 << 12;

/// As [`fill_parts`], for new memory that is cleared shortly before it is filled.
pub(crate) fn filled_parts<T: Clone + Default + Send>(
    len: usize,
    unit: usize,
    cost: usize,
    fill: &(dyn Fn(usize, &mut [T]) + Sync),
) -> Vec<T> {
    let begin = |_, count: usize, part: &mut Unfilled<T>| part.push_all(&T::default(), count);
    begun_parts(len, unit, cost, (&begin, fill))
}

/// The same for memory that begins as a copy of `values`.
pub(crate) fn copied_parts<T: Clone + Send + Sync>(
    values: &[T],
    unit: usize,
    cost: usize,
    fill: &(dyn Fn(usize, &mut [T]) + Sync),
) -> Vec<T> {
    let begin = |first: usize, count: usize, part: &mut Unfilled<T>| {
        part.push(&values[first..first + count]);
    };
    begun_parts(values.len(), unit, cost, (&begin, fill))
}

/// Changes elements from an index on.
type Fill<'f, T> = dyn Fn(usize, &mut [T]) + Sync + 'f;

/// Writes so many elements from an index on.
type Begin<'f, T> = dyn Fn(usize, usize, &mut Unfilled<T>) + Sync + 'f;

fn begun_parts<T: Clone + Send>(
    len: usize,
    unit: usize,
    cost: usize,
    (begin, fill): (&Begin<T>, &Fill<T>),
) -> Vec<T> {
    let unit = unit.max(1);
    let piece = (PIECE / unit).max(1) * unit;
    pushed_parts(len, unit, cost, &|first, part| {
        while part.count < part.memory.len() {
            let (at, count) = (part.count, piece.min(part.memory.len() - part.count));
            begin(first + at, count, part);
            fill(first + at, part.since(at));
        }
    })
}

/// Shares out `memory` in chunks of `size` elements, of which the last may be shorter: `f(number, chunk)`.
pub(crate) fn for_each_chunk<T: Send>(
    memory: &mut [T],
    size: usize,
    f: &(dyn Fn(usize, &mut [T]) + Sync),
) {
    let size = size.max(1);
    let (all, start) = (memory.len(), Start(memory.as_mut_ptr()));
    share(all.div_ceil(size), &|i| {
        let first = i * size;
        // SAFETY: `first` is below `all`, and the chunk ends there at the latest. `memory` is borrowed exclusively
        // until `share` returns, which is after all tasks. Each number occurs once, so that chunks are disjoint.
        let chunk =
            unsafe { std::slice::from_raw_parts_mut(start.at(first), size.min(all - first)) };
        f(i, chunk);
    });
}

/// Does the tasks 0 to `count`. Which thread does which is code that would be large if it knew their types.
pub(crate) fn share(count: usize, task: &(dyn Fn(usize) + Sync)) {
    match threads() {
        1 => (0..count).for_each(task),
        _ => (0..count).into_par_iter().for_each(task),
    }
}

/// Some columns of a matrix whose other columns belong to others.
pub(crate) struct ColumnBlock<'a, T> {
    start: *mut T,
    rows: usize,
    columns: usize,
    /// Distance of two rows.
    stride: usize,
    memory: PhantomData<&'a mut [T]>,
}

// SAFETY: a block is an exclusive borrow of its elements, as a `&mut [T]` is, and may go where that may go.
unsafe impl<T: Send> Send for ColumnBlock<'_, T> {}

impl<T> ColumnBlock<'_, T> {
    /// Number of rows and columns.
    pub(crate) fn sizes(&self) -> (usize, usize) {
        (self.rows, self.columns)
    }

    /// Where the first element lies, and the distance of two rows.
    pub(crate) fn parts(&mut self) -> (*mut T, usize) {
        (self.start, self.stride)
    }

    /// One row.
    pub(crate) fn row(&mut self, i: usize) -> &mut [T] {
        assert!(i < self.rows, "row {i} of {}", self.rows);
        // SAFETY: the row is one of the block's, whose rows lie within the memory that it was made of, `stride`
        // apart. The block is borrowed exclusively, and no other block has these columns.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(i * self.stride), self.columns) }
    }
}

impl<'a, T: Copy> ColumnBlock<'a, MaybeUninit<T>> {
    /// The same block, whose rows have been filled with what `value` gives.
    fn filled(mut self, value: impl Fn(usize) -> T) -> ColumnBlock<'a, T> {
        for i in 0..self.rows {
            self.row(i).fill(MaybeUninit::new(value(i)));
        }
        let ColumnBlock { start, rows, columns, stride, .. } = self;
        ColumnBlock { start: start.cast(), rows, columns, stride, memory: PhantomData }
    }
}

/// As [`for_each_block`], for new memory of `count` matrices, whose rows begin as `value(matrix, row)`. Each block is
/// filled with that shortly before `f` sees it.
pub(crate) fn filled_blocks<T: Copy + Send>(
    (count, rows, width): (usize, usize, usize),
    columns: usize,
    value: &(dyn Fn(usize, usize) -> T + Sync),
    f: &(dyn Fn(usize, usize, ColumnBlock<T>) + Sync),
) -> Vec<T> {
    let size = rows.checked_mul(width).and_then(|size| size.checked_mul(count));
    let size = size.expect("matrices lie within memory");
    let mut all = Vec::with_capacity(size);
    let memory = &mut all.spare_capacity_mut()[..size];
    for_each_block(memory, (rows, width), columns, &|matrix, first, block| {
        f(matrix, first, block.filled(|row| value(matrix, row)));
    });
    // SAFETY: there is room for `size` elements, and the blocks, which cover each of them, have been filled.
    unsafe { all.set_len(size) };
    all
}

/// Shares out `memory`, which holds matrices of `rows` times `width` elements, in blocks of at most
/// `columns` columns: `f(matrix, first column, block)`.
pub(crate) fn for_each_block<T: Send>(
    memory: &mut [T],
    (rows, width): (usize, usize),
    columns: usize,
    f: &(dyn Fn(usize, usize, ColumnBlock<T>) + Sync),
) {
    if rows == 0 || width == 0 {
        return;
    }
    let size = rows.checked_mul(width).expect("matrices lie within memory");
    assert!(memory.len().is_multiple_of(size) && columns > 0, "matrices of one size");
    let blocks = width.div_ceil(columns);
    let count = memory.len() / size * blocks;
    let start = Start(memory.as_mut_ptr());
    let block = |i: usize| {
        let (matrix, first) = (i / blocks, i % blocks * columns);
        let columns = columns.min(width - first);
        // SAFETY: there are as many matrices of `size` elements as `memory` holds, and `first` is a column of the
        // first row. `memory` is borrowed exclusively until `share` returns. Each number occurs once, so that
        // blocks are disjoint.
        let start = unsafe { start.at(matrix * size + first) };
        f(matrix, first, ColumnBlock { start, rows, columns, stride: width, memory: PhantomData });
    };
    share(count, &block);
}

/// Memory that tasks write to, each to places of its own.
#[derive(Clone, Copy)]
struct Start<T>(*mut T);

// SAFETY: several threads may have the pointer, because each makes references to elements of its own from it. Elements
// are so handed to other threads, which `Send` allows.
unsafe impl<T: Send> Sync for Start<T> {}

impl<T> Start<T> {
    /// # Safety
    /// Element `i` lies within the memory.
    unsafe fn at(&self, i: usize) -> *mut T {
        // SAFETY: the memory is one piece, and element `i` lies within it, as the caller promises.
        unsafe { self.0.add(i) }
    }
}

/// Compiles a function's loops a second time for processors with 256-bit vectors, and chooses when
/// called. Both give the same results to the bit: products and sums are not fused.
#[macro_export]
macro_rules! vectorized {
    ($(#[$doc:meta])* $vis:vis fn $name:ident$(<$t:ident: $bound:path>)?(
        $($arg:ident: $ty:ty),* $(,)?
    ) $(-> $out:ty)? $body:block) => {
        $(#[$doc])*
        $vis fn $name$(<$t: $bound>)?($($arg: $ty),*) $(-> $out)? {
            #[inline(always)]
            fn plain$(<$t: $bound>)?($($arg: $ty),*) $(-> $out)? $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2")]
                fn wide$(<$t: $bound>)?($($arg: $ty),*) $(-> $out)? {
                    plain($($arg),*)
                }
                if std::arch::is_x86_feature_detected!("avx2") {
                    // SAFETY: the processor has just said that it has AVX2, which is all that `wide` needs.
                    return unsafe { wide($($arg),*) };
                }
            }
            plain($($arg),*)
        }
    };
}
pub(crate) use vectorized;

/// How products are added up.
pub(crate) trait Sum {
    /// `sum + a * b`.
    fn add<T: Num>(sum: T, a: T, b: T) -> T;
}

/// Rounded twice.
pub(crate) struct Apart;

/// Rounded once, by an instruction that not all processors have.
pub(crate) struct Fused;

impl Sum for Apart {
    #[inline(always)]
    fn add<T: Num>(sum: T, a: T, b: T) -> T {
        sum.plus(a.times(b))
    }
}

impl Sum for Fused {
    #[inline(always)]
    fn add<T: Num>(sum: T, a: T, b: T) -> T {
        a.fused(b, sum)
    }
}

/// As [`vectorized!`] for loops that add up products, by `S::add`: they are fused where the processor can do that,
/// as in all products of matrices, so that last bits depend on it.
macro_rules! products {
    ($(#[$doc:meta])* fn $name:ident<$t:ident: $bound:path>($($arg:ident: $ty:ty),* $(,)?) $body:block) => {
        $(#[$doc])*
        fn $name<$t: $bound>($($arg: $ty),*) {
            #[inline(always)]
            fn plain<$t: $bound, S: $crate::parallel::Sum>($($arg: $ty),*) $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma")]
                fn wide<$t: $bound>($($arg: $ty),*) {
                    plain::<$t, $crate::parallel::Fused>($($arg),*)
                }
                let fuses = std::arch::is_x86_feature_detected!("fma");
                if fuses && std::arch::is_x86_feature_detected!("avx2") {
                    // SAFETY: the processor has just said that it has AVX2 and FMA, which is all that `wide` needs.
                    return unsafe { wide($($arg),*) };
                }
            }
            plain::<$t, $crate::parallel::Apart>($($arg),*)
        }
    };
}
pub(crate) use products;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_cover_every_element_once() {
        for (matrices, rows, width, columns) in [(1, 1, 1, 1), (3, 4, 10, 3), (2, 1, 7, 9)] {
            let mut memory = vec![0usize; matrices * rows * width];
            for_each_block(&mut memory, (rows, width), columns, &|matrix, first, mut block| {
                for i in 0..block.sizes().0 {
                    for (j, v) in block.row(i).iter_mut().enumerate() {
                        *v += (matrix * rows + i) * width + first + j + 1;
                    }
                }
            });
            assert!(memory.iter().enumerate().all(|(i, v)| *v == i + 1));
        }
    }

    #[test]
    fn new_memory_is_filled_before_it_is_seen() {
        for (count, rows, width, columns) in
            [(0, 2, 3, 1), (2, 0, 3, 1), (3, 4, 10, 3), (1, 1, 5000, 9000)]
        {
            let made = filled_blocks(
                (count, rows, width),
                columns,
                &|m, i| m * rows + i,
                &|m, first, mut block| {
                    for i in 0..block.sizes().0 {
                        for (j, v) in block.row(i).iter_mut().enumerate() {
                            assert_eq!(*v, m * rows + i);
                            *v = *v * width + first + j;
                        }
                    }
                },
            );
            assert!(made.into_iter().eq(0..count * rows * width));
        }
        for (count, unit, cost) in [(0, 1, 1), (100_000, 7, 3), (10_000, 9000, 1), (5, 10, 1 << 20)]
        {
            let made = filled_parts(count, unit, cost, &|first, part: &mut [usize]| {
                part.iter_mut().enumerate().for_each(|(i, v)| *v += first + i);
            });
            assert!(made.into_iter().eq(0..count));
        }
    }

    #[test]
    #[should_panic(expected = "all of a part is filled")]
    fn a_part_that_is_left_unfilled_is_noticed() {
        pushed_parts(10, 5, 1, &|_, part: &mut Unfilled<u8>| part.push(&[1; 9]));
    }

    #[test]
    fn parts_cover_every_element_once() {
        for (count, unit, cost) in [(0, 1, 1), (100_000, 7, 3), (5, 10, 1 << 20)] {
            let mut memory = vec![0usize; count];
            fill_parts(&mut memory, unit, cost, &|first, part| {
                part.iter_mut().enumerate().for_each(|(i, v)| *v += first + i + 1);
            });
            assert!(memory.iter().enumerate().all(|(i, v)| *v == i + 1));
        }
    }
}
