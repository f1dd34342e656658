use super::*;
use crate::{Attr, Graph, Node, Reals, same_graph};
use half::f16;

/// Counts up in every element, so that each names its place.
fn counted(dims: &[usize]) -> Tensor {
    let count: usize = dims.iter().product();
    Tensor::from_vec(dims, (0..count).map(|i| i as u16).collect())
}

/// The element at `at` of a tensor in row-major order.
fn element(x: &Tensor, at: &[usize]) -> u16 {
    let place = at.iter().zip(x.dims()).fold(0, |place, (i, n)| place * n + i);
    x.as_slice::<u16>().unwrap()[place]
}

fn each_place(dims: &[usize], mut f: impl FnMut(&[usize])) {
    for mut i in 0..dims.iter().product() {
        let mut at = vec![0; dims.len()];
        for (a, n) in dims.iter().enumerate().rev() {
            at[a] = i % n;
            i /= n;
        }
        f(&at);
    }
}

/// Each range of elements is what the whole tensor has there, however it is asked for.
fn check_ranges(x: &Tensor) {
    let whole = x.bytes();
    let size = x.dtype().bits() / 8;
    for first in 0..x.len() {
        for end in (first..=x.len()).step_by(3) {
            assert_eq!(x.part(first..end)[..], whole[first * size..end * size], "{first}..{end}");
        }
    }
    let mut blocks = Vec::new();
    x.in_blocks::<()>(|block| {
        blocks.extend_from_slice(block);
        Ok(())
    })
    .unwrap();
    assert_eq!(blocks, whole);
    assert_eq!(x.held(), *x);
}

#[test]
fn every_order_of_axes() {
    let x = counted(&[2, 3, 4, 5]);
    for axes in [[3, 2, 1, 0], [0, 2, 1, 3], [2, 3, 0, 1], [1, 0, 3, 2], [3, 0, 1, 2]] {
        let turned = x.permuted(&axes).unwrap();
        assert!(turned.derivation().is_some());
        each_place(turned.dims(), |at| {
            let mut from = [0; 4];
            axes.iter().zip(at).for_each(|(a, i)| from[*a] = *i);
            assert_eq!(element(&turned, at), element(&x, &from), "{axes:?} {at:?}");
        });
        check_ranges(&turned);
    }
    assert!(x.permuted(&[0, 1, 2, 3]).unwrap().derivation().is_none());
    for wrong in [&[0, 1, 2][..], &[0, 1, 2, 2], &[0, 1, 2, 4]] {
        assert!(matches!(x.permuted(wrong), Err(TensorError::Derivation(_))), "{wrong:?}");
    }
}

#[test]
fn elements_of_every_size_are_turned() {
    use DataType::{Complex128, Double, Float, Float16, Uint8};
    let (rows, columns) = (67, 131);
    for dtype in [Uint8, Float16, Float, Double, Complex128] {
        let size = dtype.bits() / 8;
        let bytes: Vec<u8> = (0..rows * columns * size).map(|i| (i * 7 % 251) as u8).collect();
        let x = Tensor::new(dtype, vec![rows, columns], bytes.clone().into()).unwrap();
        let turned = x.permuted(&[1, 0]).unwrap().held();
        for (i, found) in turned.bytes().chunks(size).enumerate() {
            let from = (i % rows * columns + i / rows) * size;
            assert_eq!(*found, bytes[from..from + size], "{dtype} {i}");
        }
    }
}

#[test]
fn slices_with_steps_of_both_signs() {
    let x = counted(&[7, 9, 4]);
    let slices = [(5, 3, -2), (1, 4, 2), (3, 4, -1)];
    let part = x.sliced(&slices).unwrap();
    assert_eq!(part.dims(), [3, 4, 4]);
    each_place(part.dims(), |at| {
        let from: Vec<usize> = slices
            .iter()
            .zip(at)
            .map(|((first, _, step), i)| first.wrapping_add_signed(step * *i as isize))
            .collect();
        assert_eq!(element(&part, at), element(&x, &from), "{at:?}");
    });
    check_ranges(&part);
    // Rows that follow each other are where they were.
    assert!(x.sliced(&[(2, 3, 1), (0, 9, 1), (0, 4, 1)]).unwrap().derivation().is_none());
    assert!(x.sliced(&[(0, 0, 1), (0, 9, 1), (0, 4, 1)]).unwrap().is_empty());
    for wrong in [(5, 3, 1), (2, 4, -1), (7, 1, 1), (0, usize::MAX, 1), (0, 2, isize::MAX)] {
        let found = x.sliced(&[wrong, (0, 9, 1), (0, 4, 1)]);
        assert!(
            matches!(found, Err(TensorError::Derivation(_) | TensorError::TooLarge)),
            "{wrong:?}"
        );
    }
}

#[test]
fn parts_along_each_axis() {
    let parts = [counted(&[2, 3, 4]), counted(&[2, 3, 4]).permuted(&[0, 1, 2]).unwrap()];
    for axis in 0..3 {
        let turned = Tensor::concat(&[parts[0].clone(), parts[1].clone(), parts[0].clone()], axis);
        let joined = turned.unwrap();
        each_place(joined.dims(), |at| {
            let mut from = at.to_vec();
            from[axis] %= parts[0].dims()[axis];
            assert_eq!(element(&joined, at), element(&parts[0], &from), "{axis} {at:?}");
        });
        check_ranges(&joined);
    }
    let other = counted(&[2, 4, 4]);
    assert!(Tensor::concat(&[parts[0].clone(), other.clone()], 1).is_ok());
    assert!(Tensor::concat(&[parts[0].clone(), other], 0).is_err());
    assert!(Tensor::concat(&[], 0).is_err());
    assert!(Tensor::concat(&parts, 3).is_err());
    let bytes = Tensor::from_vec(vec![2usize, 3, 4], vec![0u8; 24]);
    assert!(Tensor::concat(&[parts[0].clone(), bytes], 0).is_err());
}

/// A view of what was joined, cast and viewed before, against the same steps with everything in memory.
#[test]
fn derivations_inside_each_other() {
    let x = counted(&[6, 8]);
    let steps: [fn(&Tensor) -> Tensor; 6] = [
        |x| x.permuted(&[1, 0]).unwrap(),
        |x| x.sliced(&[(0, x.dims()[0], 1), (x.dims()[1] - 1, x.dims()[1] / 2, -2)]).unwrap(),
        |x| Tensor::concat(&[x.clone(), x.clone()], 1).unwrap(),
        |x| x.permuted(&[1, 0]).unwrap(),
        |x| x.cast(DataType::Int32).unwrap(),
        |x| x.reshaped([x.dims()[0] / 2, x.dims()[1] * 2]).unwrap().permuted(&[1, 0]).unwrap(),
    ];
    let (mut lazy, mut held) = (x.clone(), x);
    for step in steps {
        (lazy, held) = (step(&lazy), step(&held).held());
        assert!(lazy.derivation().is_some() && held.derivation().is_none());
        assert_eq!(lazy, held);
        assert_eq!(lazy.bytes(), held.bytes());
        assert_eq!(lazy.to_i64s(), held.to_i64s());
        check_ranges(&lazy);
    }
}

#[test]
fn views_of_views_are_one_view() {
    let mut x = counted(&[4, 6, 8]);
    for _ in 0..3 * DERIVATIONS_MAX {
        x = x.permuted(&[2, 0, 1]).unwrap().cast(DataType::Uint16).unwrap();
    }
    assert_eq!(x.depth(), 0, "a full turn is the tensor itself");
    let part = x.permuted(&[1, 0, 2]).unwrap().sliced(&[(5, 3, -2), (1, 2, 1), (0, 8, 1)]).unwrap();
    assert_eq!(part.depth(), 1);
    // A cast keeps the order, so the views around it are one, too.
    let cast = part.cast(DataType::Float).unwrap().permuted(&[2, 1, 0]).unwrap();
    assert_eq!(cast.depth(), 2);
    assert_eq!(
        cast,
        part.held().cast(DataType::Float).unwrap().held().permuted(&[2, 1, 0]).unwrap()
    );
}

#[test]
fn depth_is_limited() {
    let mut x = counted(&[2, 2]);
    let deeper = |x: &Tensor| Tensor::concat(&[x.clone(), x.clone()], 0);
    for _ in 0..DERIVATIONS_MAX {
        x = deeper(&x).unwrap();
    }
    assert_eq!(x.dims(), [2 << DERIVATIONS_MAX, 2]);
    let error = deeper(&x).unwrap_err().to_string();
    assert!(error.contains("more than 16 derivations"), "{error}");
    assert!(deeper(&x.held()).is_ok());
}

#[test]
fn what_reads_elsewhere_is_refused() {
    let x = counted(&[4, 4]);
    let view = |dims: &[usize], offset: usize, strides: &[isize]| {
        let from = Derivation::Strided { source: x.clone(), offset, strides: strides.to_vec() };
        Tensor::derived(DataType::Uint16, dims, from)
    };
    assert_eq!(view(&[2, 3], 1, &[0, 5]).unwrap().to_i64s().unwrap(), [1, 6, 11, 1, 6, 11]);
    assert_eq!(view(&[], 7, &[]).unwrap().to_i64s().unwrap(), [7]);
    assert!(view(&[0, usize::MAX], usize::MAX, &[isize::MIN, 1]).unwrap().is_empty());
    let max = usize::MAX;
    for (dims, offset, strides) in [
        (&[4usize, 4][..], 1, &[4isize, 1][..]),
        (&[2], 3, &[-4]),
        (&[2], 0, &[isize::MAX]),
        (&[2], 0, &[isize::MIN]),
        (&[2, 2, 2], 8, &[isize::MAX, isize::MIN, 1]),
        (&[1], max, &[0]),
        (&[4], 0, &[1, 1]),
    ] {
        assert!(matches!(view(dims, offset, strides), Err(TensorError::Derivation(_))), "{dims:?}");
    }
    for dims in [&[max, 2][..], &[max / 2, 1], &[1 << 40, 1 << 22]] {
        let found = view(dims, 0, &[0, 0]);
        assert!(matches!(found, Err(TensorError::TooLarge)), "{dims:?} {found:?}");
    }
    let other = Derivation::Strided { source: x.clone(), offset: 0, strides: vec![1] };
    assert!(Tensor::derived(DataType::Int16, [2], other).is_err());
    assert!(Tensor::derived(DataType::Int16, [3], Derivation::Cast { source: x.clone() }).is_err());
    assert!(x.cast(DataType::String).is_err() && x.cast(DataType::Int4).is_err());
    let packed = Tensor::new(DataType::Int4, vec![2, 2], vec![0, 0].into()).unwrap();
    assert!(packed.permuted(&[1, 0]).is_err());
    let words = Tensor::strings(vec![1], vec!["a".into()]).unwrap();
    assert!(words.permuted(&[0]).is_err());
}

#[test]
fn slices_are_scaled_in_double_precision() {
    let values: Vec<f64> = (0..3 * 2000 * 2).map(|i| f64::from(i) * 0.37 - 1000.0).collect();
    let gain: Vec<f64> = (0..2000).map(|i| 1.0 / f64::from(i + 3)).collect();
    let x = Tensor::from_vec(vec![3usize, 2000, 2], values);
    for dtype in [DataType::Float, DataType::Double, DataType::Float16, DataType::Bfloat16] {
        let x = x.cast(dtype).unwrap().held();
        let gain = Reals { dims: vec![2000], values: gain.clone() };
        let wanted = x.to_reals().unwrap().scale_axis(1, &gain).to_tensor(dtype).unwrap();
        let scaled = x.scaled(1, &gain.values).unwrap();
        assert!(scaled.derivation().is_some() && scaled == wanted, "{dtype}");
        assert_eq!(scaled.part(4093..4102), wanted.part(4093..4102));
        assert!(scaled.permuted(&[2, 0, 1]).unwrap() == wanted.permuted(&[2, 0, 1]).unwrap());
    }
    assert!(x.scaled(0, &gain).is_err() && x.scaled(3, &gain).is_err());
    assert!(x.cast(DataType::Int32).unwrap().scaled(1, &gain).is_err());
}

#[test]
fn casts_in_several_blocks() {
    let x = Tensor::vector((0..5000).map(|i| i as f32 * 0.5 - 1000.0).collect::<Vec<_>>());
    let whole = x.cast(DataType::Int8).unwrap();
    let wanted = |i: usize| (i as f32 * 0.5 - 1000.0) as i8;
    assert!(whole.as_slice::<i8>().unwrap().iter().enumerate().all(|(i, v)| *v == wanted(i)));
    let halves = x.cast(DataType::Float16).unwrap();
    assert_eq!(halves.as_slice::<f16>().unwrap()[1], f16::from_f32(-999.5));
    assert_eq!(halves.byte_len(), 10_000);
    assert_ne!(halves, halves.reshaped([2500, 2]).unwrap());
}

#[test]
fn vast_tensors_are_compared_by_what_they_share_and_by_few_elements() {
    let vast = |value: f32| {
        let (source, strides) = (Tensor::vector(vec![value]), vec![0, 0]);
        let from = Derivation::Strided { source, offset: 0, strides };
        Tensor::derived(DataType::Float, [1 << 20, 1 << 20], from).unwrap()
    };
    let x = vast(1.0);
    assert!(x == x.clone() && x != vast(2.0));
    let holding = |x: &Tensor| {
        let mut graph = Graph::new("g");
        let y = graph.add_value("y", None);
        graph.add_node(Node::new("Constant", [], [y]).with("value", Attr::Tensor(x.clone())));
        graph.mark_output(y);
        graph
    };
    assert!(same_graph(&holding(&x), &holding(&x)));
    assert!(!same_graph(&holding(&x), &holding(&vast(2.0))));
}

#[test]
fn what_is_derived_alike_is_equal_and_so_is_what_has_equal_elements() {
    let of = |dims: &[usize], axes: &[usize]| counted(dims).permuted(axes).unwrap();
    assert_eq!(of(&[3, 4], &[1, 0]), of(&[3, 4], &[1, 0]));
    // Equal elements that come about otherwise.
    let sliced = |from: usize| counted(&[9]).sliced(&[(from, 2, 2)]).unwrap();
    let moved = Tensor::vector(vec![1u16, 9, 3]).sliced(&[(0, 2, 2)]).unwrap();
    assert_eq!(sliced(1), moved);
    assert_ne!(sliced(1), sliced(2));
    // Sources that differ where nothing is read of them.
    let other = Tensor::vector(vec![7u16, 1, 8, 3]).sliced(&[(1, 2, 2)]).unwrap();
    assert_eq!(sliced(1), other);
    let cast = |x: Tensor, to| x.cast(to).unwrap();
    assert_ne!(cast(counted(&[4]), DataType::Float), cast(counted(&[4]), DataType::Int32));
}
