//! An allocator that counts what a thread holds, as an allocator takes it from the system.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

/// The request with the allocator's own word, in steps of 16.
fn taken(bytes: usize) -> isize {
    isize::try_from((bytes + 8).next_multiple_of(16).max(32)).unwrap_or(isize::MAX)
}

fn add(bytes: isize) {
    // A thread that ends has no counters any more, and is not measured.
    let _ = HELD.try_with(|held| {
        held.set(held.get() + bytes);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(held.get())));
    });
}

// SAFETY: all requests go to the system's allocator as they come; the counters are no part of them.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(taken(layout.size()));
        // SAFETY: the caller keeps the rules of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        add(-taken(layout.size()));
        // SAFETY: the caller keeps the rules of `dealloc`, and `at` is of `System`.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Both places are held while the contents move.
        add(taken(size));
        add(-taken(layout.size()));
        // SAFETY: the caller keeps the rules of `realloc`, and `at` is of `System`.
        unsafe { System.realloc(at, layout, size) }
    }
}

/// The most that is held at a time while `f` runs, beyond what was held before, and its result.
pub(crate) fn peak<T>(f: impl FnOnce() -> T) -> (usize, T) {
    let before = HELD.get();
    PEAK.set(before);
    let result = f();
    (usize::try_from(PEAK.get() - before).unwrap_or(0), result)
}
