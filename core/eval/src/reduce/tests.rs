use crate::testing::{assert_near, bools, ints, reals, run, try_all, try_run};
use onnxd_ir::{Attr, Tensor};

fn matrix() -> Tensor {
    Tensor::from_vec(vec![2, 3], vec![1f32, 2.0, 3.0, 4.0, 5.0, 6.0])
}

#[test]
fn axes_as_attribute_and_as_input() {
    let x = matrix();
    let attrs = [("axes", ints(&[-1])), ("keepdims", Attr::Int(0))];
    let y = run("ReduceSum", 11, &attrs, &[&x]);
    assert_eq!((y.dims(), reals(&y)), (&[2usize][..], vec![6.0, 15.0]));
    let axes = Tensor::vector(vec![0i64]);
    let y = run("ReduceMean", 18, &[], &[&x, &axes]);
    assert_eq!((y.dims(), reals(&y)), (&[1usize, 3][..], vec![2.5, 3.5, 4.5]));
    let none = Tensor::vector(Vec::<i64>::new());
    let noop = [("noop_with_empty_axes", Attr::Int(1))];
    assert_eq!(run("ReduceSum", 13, &noop, &[&x, &none]), x);
    assert_eq!(reals(&run("ReduceSum", 13, &[], &[&x, &none])), [21.0]);
    assert!(try_run("ReduceSum", 13, &[], &[&x, &Tensor::vector(vec![2i64])]).is_err());
}

#[test]
fn every_reduction() {
    let x = Tensor::vector(vec![3f32, -4.0]);
    let near = |op, expected: f64| assert_near(&run(op, 13, &[], &[&x]), &[expected], 1e-6);
    near("ReduceL1", 7.0);
    near("ReduceL2", 5.0);
    near("ReduceMax", 3.0);
    near("ReduceMin", -4.0);
    near("ReduceProd", -12.0);
    near("ReduceSumSquare", 25.0);
    near("ReduceLogSumExp", 3.000_911_466_453_774);
    let wrapped = Tensor::vector(vec![i32::MAX, 1]);
    assert_eq!(run("ReduceSum", 13, &[], &[&wrapped]).to_i64s().unwrap(), [i64::from(i32::MIN)]);
    assert_eq!(run("ReduceMax", 20, &[], &[&bools(&[false, true])]).to_i64s().unwrap(), [1]);
}

#[test]
fn nothing_to_reduce() {
    let x = Tensor::from_vec(vec![2, 0], Vec::<f32>::new());
    let attrs = [("axes", ints(&[1]))];
    assert_eq!(reals(&run("ReduceSum", 11, &attrs, &[&x])), [0.0, 0.0]);
    assert_eq!(reals(&run("ReduceProd", 11, &attrs, &[&x])), [1.0, 1.0]);
    assert_eq!(reals(&run("ReduceMax", 11, &attrs, &[&x])), [f64::NEG_INFINITY; 2]);
}

#[test]
fn first_and_last_extreme() {
    let x = Tensor::vector(vec![1i32, 5, 5, 0]);
    assert_eq!(run("ArgMax", 13, &[], &[&x]).to_i64s().unwrap(), [1]);
    let last = [("select_last_index", Attr::Int(1))];
    assert_eq!(run("ArgMax", 13, &last, &[&x]).to_i64s().unwrap(), [2]);
    assert_eq!(run("ArgMin", 13, &[], &[&x]).to_i64s().unwrap(), [3]);
}

#[test]
fn top_k_prefers_the_first_of_equals() {
    let x = Some(Tensor::vector(vec![2f32, 7.0, 7.0, 1.0]));
    let k = Some(Tensor::vector(vec![3i64]));
    let found = try_all("TopK", 11, &[], &[x.clone(), k.clone()], 2).unwrap();
    assert_eq!(
        (reals(&found[0]), found[1].to_i64s().unwrap()),
        (vec![7.0, 7.0, 2.0], vec![1, 2, 0])
    );
    let smallest = [("largest", Attr::Int(0))];
    let found = try_all("TopK", 11, &smallest, &[x.clone(), k], 2).unwrap();
    assert_eq!(found[1].to_i64s().unwrap(), [3, 0, 1]);
    let five = Some(Tensor::vector(vec![5i64]));
    assert!(try_all("TopK", 11, &[], &[x, five], 2).is_err());
}

#[test]
fn running_sums() {
    let (x, axis) = (matrix(), Tensor::scalar(1i32));
    assert_eq!(reals(&run("CumSum", 14, &[], &[&x, &axis])), [1.0, 3.0, 6.0, 4.0, 9.0, 15.0]);
    let attrs = [("exclusive", Attr::Int(1)), ("reverse", Attr::Int(1))];
    assert_eq!(reals(&run("CumSum", 14, &attrs, &[&x, &axis])), [5.0, 3.0, 0.0, 11.0, 6.0, 0.0]);
}
