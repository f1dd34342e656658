//! Arrays read along their first axis: `.npz`, `.npy`, IDX, IDX in gzip. All pieces together are the whole.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use onnxd_arrays::stored;

const BYTES_MAX: usize = 1 << 24;

fuzz_target!(|bytes: &[u8]| {
    let Ok(arrays) = stored(&Bytes::copy_from_slice(bytes), "stem") else { return };
    for array in arrays.iter().take(8) {
        let dims = array.dims();
        let row = dims.iter().skip(1).try_fold(16usize, |n, d| n.checked_mul(*d));
        if row.is_none_or(|n| n > BYTES_MAX / 4) {
            continue;
        }
        let Ok(mut rows) = array.rows() else { continue };
        let (mut seen, mut left) = (0, BYTES_MAX);
        while let Ok(Some(piece)) = rows.take(3) {
            assert_eq!(piece.dtype(), array.dtype());
            seen += piece.dims().first().copied().unwrap_or(1);
            left = left.saturating_sub(piece.bytes().len().max(1));
            if left == 0 {
                break;
            }
        }
        assert!(seen <= dims.first().copied().unwrap_or(1));
    }
});
