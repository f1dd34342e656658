use super::*;
use crate::wire::proto::Extent;

fn part(extents: &[(i64, Option<i64>)]) -> TensorSliceProto {
    let extent = |(start, length): &(i64, Option<i64>)| Extent { start: *start, length: *length };
    TensorSliceProto { extent: extents.iter().map(extent).collect() }
}

#[test]
fn keys_are_ordered_codes() {
    let found = key("w", &part(&[(0, None), (3, Some(3))]));
    assert_eq!(found, b"\0w\0\x01\x01\x02\x80\x7f\x83\x83");
    // Numbers from 64 on have more bytes.
    let found = key("", &part(&[(64, Some(-65))]));
    assert_eq!(found, b"\0\0\x01\x01\x01\xc0\x40\x3f\xbf");
}

#[test]
fn parts_are_read_from_text() {
    assert_eq!(parse("", &[2, 3]), Some(vec![(0, 2), (0, 3)]));
    assert_eq!(parse("4 6 0,2:-", &[4, 6]), Some(vec![(0, 2), (0, 6)]));
    for bad in ["4 6 3,2:-", "4 6 0,2", "4 0,2:-", "x", "4 6 a:b", "4 6 1,18446744073709551615:-"] {
        assert_eq!(parse(bad, &[4, 6]), None, "{bad}");
    }
}

#[test]
fn parts_are_joined() {
    let tensor = |dims: Vec<usize>, values: &[f32]| Tensor::from_vec(dims, values.to_vec());
    let left = (vec![(0, 2), (0, 1)], tensor(vec![2, 1], &[1.0, 3.0]));
    let right = (vec![(0, 2), (1, 1)], tensor(vec![2, 1], &[2.0, 4.0]));
    let both = joined(&whole(&[2, 2]), &[left.clone(), right]).unwrap();
    assert_eq!(both.as_slice::<f32>().unwrap()[..], [1.0, 2.0, 3.0, 4.0]);
    let lower = joined(&vec![(1, 1), (0, 2)], &[(whole(&[2, 2]), both)]).unwrap();
    assert_eq!(lower.as_slice::<f32>().unwrap()[..], [3.0, 4.0]);
    assert!(joined(&whole(&[2, 2]), &[left]).is_err());
}
