//! One job as bytes: schema version, protobuf message, checksum.
//!
//! Journal and index hold the same bytes, so that they can be compared without decoding.

use onnxd_proto::footprint::{DECODED_BYTES_MAX, decode_within};
use onnxd_proto::onnxd::Job;
use prost::Message;

/// Version of the record's layout. Fields may be added to `Job` without raising it.
pub const SCHEMA: u8 = 1;
/// Largest record; a job of some thousand files stays far below.
pub(crate) const RECORD_BYTES_MAX: usize = 8 << 20;
const CHECKSUM_BYTES: usize = 4;

/// Why bytes are not a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordError {
    /// Written by an onnxd with this newer schema.
    Newer(u8),
    Damaged,
}

/// `schema | message | crc32c`, the checksum over everything before it.
pub(crate) fn encode(job: &Job) -> Vec<u8> {
    let mut out = Vec::with_capacity(1 + job.encoded_len() + CHECKSUM_BYTES);
    out.push(SCHEMA);
    out.extend_from_slice(&job.encode_to_vec());
    let checksum = crc32c::crc32c(&out);
    out.extend_from_slice(&checksum.to_le_bytes());
    out
}

/// The inverse of [`encode`].
pub(crate) fn decode(bytes: &[u8]) -> Result<Job, RecordError> {
    let body = bytes.len().checked_sub(CHECKSUM_BYTES).ok_or(RecordError::Damaged)?;
    let (body, checksum) = bytes.split_at(body);
    if checksum != crc32c::crc32c(body).to_le_bytes() {
        return Err(RecordError::Damaged);
    }
    match body.split_first() {
        Some((&SCHEMA, message)) => {
            decode_within(message, DECODED_BYTES_MAX).map_err(|_| RecordError::Damaged)
        }
        Some((&newer, _)) if newer > SCHEMA => Err(RecordError::Newer(newer)),
        _ => Err(RecordError::Damaged),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_byte_is_noticed() {
        let job = Job { id: "a".into(), name: "lenet".into(), lease: 7, ..Job::default() };
        let bytes = encode(&job);
        assert_eq!(decode(&bytes), Ok(job));
        for at in 0..bytes.len() {
            let mut wrong = bytes.clone();
            wrong[at] ^= 0x40;
            assert_eq!(decode(&wrong), Err(RecordError::Damaged), "byte {at}");
            assert_eq!(decode(&bytes[..at]), Err(RecordError::Damaged), "cut at {at}");
        }
    }

    #[test]
    fn a_newer_schema_is_named() {
        let mut bytes = encode(&Job::default());
        bytes.truncate(1);
        bytes[0] = SCHEMA + 1;
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        assert_eq!(decode(&bytes), Err(RecordError::Newer(SCHEMA + 1)));
    }
}
