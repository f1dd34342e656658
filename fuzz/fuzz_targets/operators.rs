//! One node of any operator on any inputs.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onnxd_eval::eval_node;
use onnxd_ir::Tensor;
use std::alloc::{GlobalAlloc, Layout, System};

#[path = "../shared/node.rs"]
mod node;

/// Bytes that the outputs may take.
const BYTES_MAX: usize = 1 << 20;
/// Bytes that a kernel may take at once on the way to outputs of `BYTES_MAX`.
const WORK_BYTES_MAX: usize = 256 << 20;

/// Ends the program where a kernel asks for far more memory than it was allowed.
struct Bounded;

// SAFETY: the system's allocator does the work and keeps its promises; ending the process breaks none.
unsafe impl GlobalAlloc for Bounded {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() > WORK_BYTES_MAX {
            std::process::abort();
        }
        // SAFETY: the caller promises a size that is not zero, as `System` asks.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller promises a place that `alloc` gave for this layout, and so `System`.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Bounded = Bounded;

fuzz_target!(|bytes: &[u8]| {
    let Some(applied) = node::applied(&mut node::Source(bytes)) else { return };
    if let Ok(outputs) = eval_node(&applied.node, applied.opset, &applied.inputs, BYTES_MAX) {
        let bytes: usize = outputs.iter().map(Tensor::byte_len).sum();
        assert!(bytes <= BYTES_MAX, "{} gave {bytes} bytes", applied.node.op);
    }
});
