use super::*;
use crate::graph::fixture::shape;
use crate::graph::index::tests::table;

pub(crate) const FLOAT: i32 = 1;

/// The entry of a tensor of floats.
pub(crate) fn entry(shard_id: i32, offset: i64, values: &[f32]) -> BundleEntryProto {
    let bytes = bytes_of(values);
    BundleEntryProto {
        dtype: FLOAT,
        shape: Some(shape(&[values.len() as i64])),
        shard_id,
        offset,
        size: bytes.len() as i64,
        crc32c: masked_crc(&bytes),
        slices: vec![],
    }
}

pub(crate) fn bytes_of(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// A checkpoint of one file of elements.
pub(crate) fn checkpoint(
    entries: &[(impl AsRef<[u8]>, BundleEntryProto)],
    elements: &[f32],
) -> Vec<(String, Bytes)> {
    let header = BundleHeaderProto { num_shards: 1, ..Default::default() }.encode_to_vec();
    let mut all = vec![(vec![], header)];
    all.extend(entries.iter().map(|(key, entry)| (key.as_ref().to_vec(), entry.encode_to_vec())));
    let all: Vec<(&[u8], &[u8])> = all.iter().map(|(k, v)| (&k[..], &v[..])).collect();
    vec![
        ("variables/variables.index".into(), table(&all).into()),
        ("variables/variables.data-00000-of-00001".into(), bytes_of(elements).into()),
    ]
}

const PREFIX: &str = "variables/variables";

fn said(entries: &[(&str, BundleEntryProto)], elements: &[f32]) -> String {
    let files = Files::Fixed(checkpoint(entries, elements));
    let tensor = Bundle::open(&files, PREFIX).and_then(|bundle| bundle.tensor("a", ""));
    tensor.unwrap_err().into_finding().message
}

#[test]
fn tensors_are_slices_of_the_file() {
    let entries = [("a", entry(0, 4, &[2.0, 3.0])), ("b", entry(0, 0, &[1.0]))];
    let files = Files::Fixed(checkpoint(&entries, &[1.0, 2.0, 3.0]));
    let bundle = Bundle::open(&files, PREFIX).unwrap();
    assert_eq!(bundle.tensor("a", "").unwrap().as_slice::<f32>().unwrap()[..], [2.0, 3.0]);
    assert_eq!(bundle.tensor("a", "2 1,1").unwrap().as_slice::<f32>().unwrap()[..], [3.0]);
    assert_eq!(bundle.tensor("c", "").unwrap_err().code, "N0209");
    let names = shard_names(PREFIX, &files.read("variables/variables.index").unwrap()).unwrap();
    assert_eq!(names, ["variables/variables.data-00000-of-00001"]);
}

#[test]
fn hostile_entries_are_refused() {
    let good = entry(0, 0, &[1.0, 2.0]);
    let with = |edit: fn(&mut BundleEntryProto)| {
        let mut bad = good.clone();
        edit(&mut bad);
        said(&[("a", bad)], &[1.0, 2.0])
    };
    assert!(with(|e| e.offset = 4).contains("ends before the elements of `a`"));
    assert!(with(|e| e.offset = -4).contains("negative size"));
    assert!(with(|e| e.offset = i64::MAX).contains("ends before"));
    assert!(with(|e| e.shard_id = 7).contains("is in file 7 of 1"));
    assert!(with(|e| e.shard_id = -1).contains("is in file -1 of 1"));
    assert!(with(|e| e.size = 12).contains("has 12 bytes"));
    assert!(with(|e| e.crc32c ^= 1).contains("checksum"));
    assert!(with(|e| e.shape = Some(shape(&[i64::MAX, i64::MAX]))).contains("has 8 bytes"));
    assert!(with(|e| e.shape = Some(shape(&[-1]))).contains("axis of size -1"));
    assert!(with(|e| e.dtype = 7).contains("a type that ONNX does not have"));
    let twice = [("a", good.clone()), ("b", entry(0, 4, &[2.0]))];
    assert!(said(&twice, &[1.0, 2.0]).contains("two of its tensors overlap"));
}

#[test]
fn variables_in_parts_are_joined() {
    let part = |start| crate::wire::proto::TensorSliceProto {
        extent: vec![crate::wire::proto::Extent { start, length: Some(1) }],
    };
    let whole = BundleEntryProto {
        shape: Some(shape(&[2])),
        slices: vec![part(0), part(1)],
        dtype: FLOAT,
        ..Default::default()
    };
    let entries = [
        (b"a".to_vec(), whole),
        (slices::key("a", &part(0)), entry(0, 4, &[2.0])),
        (slices::key("a", &part(1)), entry(0, 0, &[1.0])),
    ];
    let files = Files::Fixed(checkpoint(&entries, &[1.0, 2.0]));
    let bundle = Bundle::open(&files, PREFIX).unwrap();
    assert_eq!(bundle.tensor("a", "").unwrap().as_slice::<f32>().unwrap()[..], [2.0, 1.0]);
    assert_eq!(bundle.tensor("a", "2 1,1").unwrap().as_slice::<f32>().unwrap()[..], [1.0]);
}
