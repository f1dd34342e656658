//! The words that go with a result, and by which it is known again.

use std::fs;
use std::io::Read;
use std::path::Path;

use onnxd_diagnostics::escaped;
use onnxd_proto::onnxd::Job;

use crate::conversion::publish::RECEIPT;

/// Largest receipt that is read to recognise a result.
const RECEIPT_BYTES_MAX: u64 = 64 * 1024;

/// Whether a folder holds the result of this job: its receipt says so.
pub(crate) fn is_result_of(folder: &Path, job: &str) -> bool {
    let mut text = String::new();
    let read = fs::File::open(folder.join(RECEIPT))
        .and_then(|file| file.take(RECEIPT_BYTES_MAX).read_to_string(&mut text));
    read.is_ok() && text.lines().any(|line| line == format!("job: {job}"))
}

/// The receipt of a drop that an earlier job had answered already.
pub(crate) fn duplicate_receipt(job: &Job) -> String {
    format!(
        "onnxd {}: {}\nresult: duplicate of job {}: the same files, params and plugins\n\
         model: {}\nnext: nothing; the result is the earlier one\njob: {}\n",
        env!("CARGO_PKG_VERSION"),
        escaped(&job.name),
        job.duplicate_of,
        escaped(&job.published),
        job.id
    )
}

/// The receipt of a drop that was converted.
pub(crate) fn success_receipt(job: &Job) -> String {
    format!(
        "onnxd {}: {}\nresult: succeeded\nmodel: {}\njob: {}\n",
        env!("CARGO_PKG_VERSION"),
        escaped(&job.name),
        escaped(&job.published),
        job.id
    )
}
