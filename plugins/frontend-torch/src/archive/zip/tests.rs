use super::*;
use crate::archive::fixture::script;
use crate::archive::fuzzing;

#[test]
fn damaged_files_never_panic() {
    let bytes = script();
    for end in 0..bytes.len() {
        fuzzing::file(&bytes[..end]);
        assert!(Archive::open(bytes.slice(..end)).is_err());
    }
    for at in 0..bytes.len() {
        let mut damaged = bytes.to_vec();
        damaged[at] ^= [1, 0x80, 0xff][at % 3];
        fuzzing::file(&damaged);
    }
}
