use super::*;
use std::sync::atomic::{AtomicU64, Ordering};

static HEARD: AtomicU64 = AtomicU64::new(0);

unsafe extern "C" fn progress(_: *const abi::Job, done: u64, total: u64) -> abi::Status {
    HEARD.store(10 * done + total, Ordering::SeqCst);
    abi::OK
}

#[test]
fn an_older_host_hears_the_numbers() {
    // SAFETY: all-zero is a valid table without functions.
    let mut host: abi::Host = unsafe { std::mem::zeroed() };
    host.progress = Some(progress);
    host.progress_about = {
        unsafe extern "C" fn never(_: *const abi::Job, _: u64, _: u64, _: abi::Str) -> abi::Status {
            panic!("beyond what the host says it has")
        }
        Some(never)
    };
    host.struct_size = offset_of!(abi::Host, progress_about) as u32;
    // SAFETY: a whole table, of which it says that less is there.
    let table = unsafe { copied(&raw const host) }.unwrap();
    // SAFETY: `progress` does not look at the job.
    assert_eq!(unsafe { tell(&table, std::ptr::null(), (3, 7), "layer") }, abi::OK);
    assert_eq!(HEARD.load(Ordering::SeqCst), 37);
}
