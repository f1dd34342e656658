use super::*;
use crate::testing::{archive, dict, floats, pickle, tensor};
use crate::{self as pickled, Context, Pickled};

fn storages<T>(look: impl FnOnce(&Storages, &Storage) -> T) -> T {
    let archive = archive(&[("data/0", &floats(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]))]);
    let storages = Storages::new(StorageSource::Archive(&archive, "data/"), "");
    look(&storages, &storages.storage("0", DataType::Float, Some(6)).unwrap())
}

#[test]
fn views_are_slices_or_derived() {
    storages(|storages, storage| {
        let view = |offset, sizes: &[usize], strides: &[usize]| {
            let stored = storages.view(storage, offset, sizes, strides).unwrap();
            let held = stored.tensor.derivation().is_none();
            (stored.tensor.as_slice::<f32>().unwrap().into_owned(), held)
        };
        assert_eq!(view(2, &[2, 2], &[2, 1]), (vec![2.0, 3.0, 4.0, 5.0], true));
        assert_eq!(view(0, &[3, 2], &[1, 3]), (vec![0.0, 3.0, 1.0, 4.0, 2.0, 5.0], false));
        assert_eq!(view(1, &[3], &[2]), (vec![1.0, 3.0, 5.0], false));
        assert_eq!(view(5, &[], &[]), (vec![5.0], true));
        assert_eq!(view(5, &[2, 2], &[0, 0]), (vec![5.0; 4], false));
        assert_eq!(view(9, &[0, 3], &[3, 1]), (vec![], true));
        // Axes of one element may have any stride.
        assert_eq!(view(0, &[1, 2], &[99, 1]), (vec![0.0, 1.0], true));
    });
}

#[test]
fn views_beyond_their_storage_are_refused() {
    storages(|storages, storage| {
        let cases: &[(usize, &[usize], &[usize])] = &[
            (0, &[7], &[1]),
            (6, &[], &[]),
            (usize::MAX, &[1], &[1]),
            (0, &[2], &[6]),
            (0, &[2, 2], &[1]),
            (0, &[2], &[usize::MAX]),
            (0, &[usize::MAX, usize::MAX], &[0, 0]),
            (0, &[1 << 40], &[0]),
            (0, &[1; 65], &[1; 65]),
        ];
        for (offset, sizes, strides) in cases {
            let result = storages.view(storage, *offset, sizes, strides);
            assert!(result.is_err(), "{offset} {sizes:?} {strides:?}");
        }
        // All tensors together may repeat no more than a certain number of elements.
        let many = |i: usize| storages.view(storage, 0, &[1 << 26, 1 + i], &[0, 0]);
        assert!(many(0).is_ok());
        assert_eq!(many(3).unwrap_err().code, "N0213");
    });
}

#[test]
fn storages_beyond_their_member_are_refused() {
    storages(|storages, _| {
        let error = |key, count| storages.storage(key, DataType::Double, Some(count)).unwrap_err();
        assert_eq!(error("0", 4).code, "N0202");
        assert_eq!(error("0", usize::MAX).code, "N0202");
        assert!(error("1", 4).message.contains("no `data/1`"));
        assert!(storages.storage("1", DataType::Double, Some(0)).is_ok());
        assert_eq!(storages.storage("0", DataType::Double, None).unwrap().elements.len(), 3);
    });
}

/// The first tensor of a pickle over six bytes.
fn pickled(value: &[u8]) -> Result<Rc<StoredTensor>, Diagnostic> {
    let scales: Vec<u8> = [0.5f64, 0.25].iter().flat_map(|s| s.to_le_bytes()).collect();
    let archive = archive(&[("data/0", &[1, 2, 3, 4, 5, 6]), ("data/1", &scales)]);
    let storages = Storages::new(StorageSource::Archive(&archive, "data/"), "");
    let context = Context { storages: Some(&storages), ..Context::default() };
    let value = pickled::read(&pickle(&dict(&[("t", value.to_vec())])), &context)?.checked()?;
    match value.get("t") {
        Some(Pickled::Tensor(tensor)) => Ok(tensor),
        other => panic!("{other:?}"),
    }
}

/// The call that rebuilds a quantized tensor of sizes 2 and 3.
fn quantized(quantizer: &[u8]) -> Vec<u8> {
    let plain = tensor("QInt8", "0", 6, (0, &[2, 3], &[3, 1]));
    let name = b"_rebuild_qtensor\n";
    let start = b"ctorch._utils\n";
    let rest = &plain[start.len() + b"_rebuild_tensor_v2\n".len()..plain.len() - 4];
    [start, &name[..], rest, quantizer, b"\x89)tR"].concat()
}

#[test]
fn quantized_tensors_have_scales() {
    let one =
        pickled(&quantized(b"(ctorch\nper_tensor_affine\nG\x3f\xe0\0\0\0\0\0\0K\x03t")).unwrap();
    assert_eq!(one.tensor.dtype(), DataType::Int8);
    let quantizer = one.quantizer.as_ref().unwrap();
    assert_eq!((&quantizer.scales[..], &quantizer.zero_points[..]), (&[0.5][..], &[3][..]));
    let channels = |axis: u8| {
        let scales = tensor("Double", "1", 2, (0, &[2], &[1]));
        let head = &b"(ctorch\nper_channel_affine\n"[..];
        pickled(&quantized(&[head, &scales, b"](K\x00K\x01e", &[b'K', axis, b't']].concat()))
    };
    let many = channels(0).unwrap();
    let quantizer = many.quantizer.as_ref().unwrap();
    assert_eq!((&quantizer.scales[..], quantizer.axis), (&[0.5, 0.25][..], Some(0)));
    assert!(channels(1).unwrap_err().message.contains("2 scales and 2 zero points"));
    assert!(channels(7).is_err());
    let odd = pickled(&quantized(b"(ctorch\nper_row\nK\x01K\x01t")).unwrap_err();
    assert_eq!(odd.code, "N0214");
}

#[test]
fn types_without_storage_class_are_named_by_the_tensor() {
    let plain = tensor("Untyped", "0", 6, (0, &[3], &[1]));
    let v3 = |ty: &str| {
        let body = &plain[b"ctorch._utils\n_rebuild_tensor_v2\n".len()..plain.len() - 2];
        let ty = format!("ctorch\n{ty}\n}}tR");
        pickled(&[b"ctorch._utils\n_rebuild_tensor_v3\n", body, ty.as_bytes()].concat())
    };
    assert_eq!(v3("uint16").unwrap().tensor.to_i64s(), Some(vec![0x0201, 0x0403, 0x0605]));
    assert_eq!(v3("float8_e5m2").unwrap().tensor.dtype(), DataType::Float8E5M2);
    assert_eq!(v3("bits8").unwrap_err().code, "N0214");
    assert!(v3("int64").is_err());
}
