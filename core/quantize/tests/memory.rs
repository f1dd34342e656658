//! A hundred times as many samples take no more memory.

use onnxd_eval::Builtin;
use onnxd_ir::Tensor;
use onnxd_ir::text::parse_model;
use onnxd_quantize::observe::{Limits, StatisticParts, Stats, WantedValues, observe};
use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: the system's allocator does the work and keeps its promises. The counters beside it allocate nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(live, Relaxed);
        // SAFETY: the caller promises a size that is not zero, as `System` asks.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller promises a place that `alloc` gave for this layout, and so `System`.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes at the peak above what is alive before.
fn peak(samples: usize) -> usize {
    let model = parse_model(
        r#"<ir_version: 8, opset_import: ["" : 17]>
        main (float[1, 4, 32, 32] x) => (float[1, 4, 1, 1] y) {
            a = Relu (x)
            b = Exp (a)
            y = GlobalAveragePool (b)
        }"#,
    )
    .unwrap();
    let sample = |i: usize| {
        let values = (0..4096).map(|k| ((i * 31 + k) as f32 * 0.01).sin() * (1 + i) as f32 * 1e-3);
        let x = Tensor::from_vec(vec![1, 4, 32, 32], values.collect());
        Ok(BTreeMap::from([("x".to_owned(), x)]))
    };
    let parts =
        StatisticParts { bins: Some(2048), channel_axis: Some(1), ..StatisticParts::default() };
    let before = LIVE.load(Relaxed);
    PEAK.store(before, Relaxed);
    let make = |_: &str| Stats::new(&parts);
    let mut all = (0..samples).map(sample);
    let found = observe(&Builtin, &model, &mut all, &WantedValues::All, &make, Limits::default());
    assert_eq!(found.unwrap()["b"].tensors, samples as u64);
    PEAK.load(Relaxed) - before
}

#[test]
fn memory_does_not_grow_with_the_samples() {
    let on = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        // Threads of kernels are started by the first run.
        pool.install(|| [2, 10, 1000].map(peak))
    };
    let [_, few, many] = on(1);
    assert!(many as f64 <= few as f64 * 1.05, "{few} bytes for 10 samples, {many} for 1000");
    // Samples that run at once do not always take most at the same time.
    let [_, few_at_once, many_at_once] = on(2);
    let most = few_at_once.max(2 * few) as f64;
    assert!(many_at_once as f64 <= most * 1.05, "{few_at_once} bytes at once, {many_at_once}");
}
