//! What takes more than a conversion's share of what it shares with others: threads of the service, and the disk.

use std::fs;
use std::thread;
use std::time::Duration;

const THREADS: usize = 10_000;
const STACK_BYTES: usize = 64 << 10;
const FILES: usize = 10_000;
const FILE_BYTES: usize = 1 << 20;
/// Longer than the parent takes to look.
const WAIT: Duration = Duration::from_secs(30);

/// How many threads there were when the system refused one more.
pub(crate) fn start_threads() -> String {
    for count in 0..THREADS {
        let small = thread::Builder::new().stack_size(STACK_BYTES);
        if let Err(e) = small.spawn(|| thread::sleep(WAIT)) {
            return format!("{count} threads, then refused ({e})");
        }
    }
    thread::sleep(WAIT);
    format!("{THREADS} threads: allowed")
}

/// Every second file loses its name at once, and stays open.
pub(crate) fn fill_disk() -> String {
    let mut open = Vec::new();
    for count in 0..FILES {
        let name = format!("fill-{count}");
        let written = fs::write(&name, vec![1; FILE_BYTES]);
        if let Err(e) = written {
            return format!("{count} files, then refused ({e})");
        }
        if count % 2 == 0 && open.len() < 100 {
            open.extend(fs::File::open(&name));
            let _ = fs::remove_file(&name);
        }
    }
    thread::sleep(WAIT);
    format!("{FILES} files: allowed")
}
