//! Digests by which finished jobs are found: of what a result is, and of where it was brought.
//!
//! Equal digests are no proof, so whoever finds a job by one looks at the job.

use crate::store::Destination;
use onnxd_proto::onnxd::{Job, JobState};

/// Of the identity of a succeeded job, and of the place that a job brought a result to; 0 for none.
pub(crate) type Digests = [u64; 2];

pub(crate) fn of_job(job: &Job) -> Digests {
    let identity = match job.state() {
        JobState::Succeeded => of_identity(&job.identity),
        _ => 0,
    };
    [identity, Destination::filled_by(job).map_or(0, |to| of_result(&to))]
}

pub(crate) fn of_identity(identity: &str) -> u64 {
    if identity.is_empty() { 0 } else { fnv(&[identity]) }
}

pub(crate) fn of_result(to: &Destination<'_>) -> u64 {
    fnv(&[to.identity, to.folder, to.name])
}

/// FNV-1a, with a byte between parts that no text has.
fn fnv(parts: &[&str]) -> u64 {
    let (start, prime) = (0xcbf2_9ce4_8422_2325_u64, 0x0000_0100_0000_01b3);
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0xff]));
    bytes.fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(prime))
}
