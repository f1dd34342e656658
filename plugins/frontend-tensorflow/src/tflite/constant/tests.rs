use super::*;
use crate::tflite::model::Tensor as Declared;

fn declared(number: i32, dims: &[i64], sparsity: Option<Sparsity>) -> Declared {
    Declared {
        name: "c".to_owned(),
        number,
        dims: dims.to_vec(),
        signature: vec![],
        ranked: true,
        data: None,
        quantization: None,
        sparsity,
        variable: false,
    }
}

fn read(declared: &Declared, data: &[u8]) -> Result<Tensor> {
    tensor(declared, &Bytes::copy_from_slice(data), &Cell::new(1 << 10))
}

fn compressed(segments: &[usize], indices: &[usize]) -> SparseAxis {
    SparseAxis::Compressed { segments: segments.to_vec(), indices: indices.to_vec() }
}

/// Rows of which some elements are stored.
fn rows(axes: Vec<SparseAxis>) -> Declared {
    declared(6, &[2, 3], Some(Sparsity { order: vec![0, 1], blocks: vec![], axes }))
}

#[test]
fn sparse_rows() {
    let axes = || vec![SparseAxis::Dense(2), compressed(&[0, 2, 3], &[0, 2, 1])];
    let tensor = read(&rows(axes()), &[1, 2, 3]).unwrap();
    assert_eq!(tensor.to_i64s().unwrap(), [1, 0, 2, 0, 3, 0]);
    for data in [&[1, 2][..], &[1, 2, 3, 4]] {
        assert!(read(&rows(axes()), data).is_err(), "{data:?}");
    }
}

/// Blocks of 2 x 2, in the order of rows of blocks.
#[test]
fn sparse_blocks() {
    let axes = vec![
        SparseAxis::Dense(2),
        compressed(&[0, 1, 2], &[1, 0]),
        SparseAxis::Dense(2),
        SparseAxis::Dense(2),
    ];
    let sparsity = Sparsity { order: vec![0, 1, 2, 3], blocks: vec![0, 1], axes };
    let tensor = read(&declared(6, &[4, 4], Some(sparsity)), &[1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
    let expected = [0, 0, 1, 2, 0, 0, 3, 4, 5, 6, 0, 0, 7, 8, 0, 0];
    assert_eq!(tensor.to_i64s().unwrap(), expected);
}

#[test]
fn sparse_constants_that_contradict_themselves() {
    let bad = |axes: Vec<SparseAxis>| assert!(read(&rows(axes), &[1, 2, 3]).is_err());
    bad(vec![SparseAxis::Dense(3), compressed(&[0, 2, 3], &[0, 2, 1])]);
    bad(vec![SparseAxis::Dense(2), compressed(&[0, 2, 3], &[0, 9, 1])]);
    bad(vec![SparseAxis::Dense(2), compressed(&[0, 2], &[0, 2, 1])]);
    bad(vec![SparseAxis::Dense(2), compressed(&[0, 2, usize::MAX], &[0, 2, 1])]);
    bad(vec![SparseAxis::Dense(2)]);
    let many = vec![SparseAxis::Dense(1); 200];
    let order = (0..200).collect();
    let sparsity = Sparsity { order, blocks: vec![0; 198], axes: many };
    assert!(read(&declared(6, &[1, 1], Some(sparsity)), &[1]).is_err());
    let large = Sparsity { order: vec![0], blocks: vec![], axes: vec![SparseAxis::Dense(1 << 20)] };
    let found = read(&declared(6, &[1 << 20], Some(large)), &[1]).unwrap_err();
    assert!(found.to_string().contains("N0213"), "{found}");
}

/// Each level would name the levels inside of it twice.
#[test]
fn levels_that_repeat_each_other() {
    let level = || compressed(&[0, 3, 0, 3], &[0, 0, 0]);
    let mut axes: Vec<SparseAxis> = (0..15).map(|_| level()).collect();
    axes.push(compressed(&[0, 0, 0, 0], &[]));
    let sparsity = Sparsity { order: (0..16).collect(), blocks: vec![], axes };
    assert!(read(&declared(6, &[1; 16], Some(sparsity)), &[]).is_err());
}

#[test]
fn numbers_of_4_bits() {
    let tensor = read(&declared(29, &[3], None), &[0xf1, 0x08]).unwrap();
    assert_eq!((tensor.dtype(), tensor.to_i64s().unwrap()), (DataType::Int8, vec![1, -1, -8]));
    let tensor = read(&declared(30, &[2], None), &[0xf1]).unwrap();
    assert_eq!((tensor.dtype(), tensor.to_i64s().unwrap()), (DataType::Uint8, vec![1, 15]));
    assert!(read(&declared(29, &[3], None), &[0xf1]).is_err());
}

#[test]
fn texts() {
    let data = [2u32, 12, 14, 15].iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>();
    let shifted = [2u32, 16, 18, 19].iter().flat_map(|n| n.to_le_bytes());
    let whole: Vec<u8> = shifted.chain(*b"abc").collect();
    let tensor = read(&declared(7, &[2], None), &whole).unwrap();
    assert_eq!(tensor.as_strings().unwrap(), [Bytes::from_static(b"ab"), Bytes::from_static(b"c")]);
    assert!(read(&declared(7, &[2], None), &data[..8]).is_err());
    assert!(read(&declared(7, &[2], None), &[0xff; 8]).is_err());
}
