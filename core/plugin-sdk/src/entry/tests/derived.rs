//! Derived tensors on a host that cannot derive: it is given what they come to.

use super::*;
use crate::tensors::LARGE_BYTES;

/// Floats from the fourth byte on: a small part of them, reversed, and all, transposed.
pub(super) fn import(submission: &Submission) -> Result<Imported, Diagnostics> {
    let bytes = submission.read(submission.network())?;
    let side = ((bytes.len() - 4) as f64 / 4.0).sqrt() as usize;
    let weight = Tensor::new(DataType::Float, vec![side, side], bytes.slice(4..)).unwrap();
    let small = weight.sliced(&[(1, 2, 1), (side - 1, 2, -1)]).unwrap();
    let mut g = Graph::new("g");
    let x = g.add_input("x", Some(ValueType::tensor(DataType::Float, [2])));
    let inputs = [small, weight.permuted(&[1, 0]).unwrap()].map(|w| g.add_initializer("w", w));
    let y = g.add_value("y", None);
    g.add_node(crate::ir::Node::new("Sum", [x, inputs[0], inputs[1]], [y]));
    g.mark_output(y);
    Ok(Imported { model: Model::new(g, 8, 17), ..Imported::default() })
}

#[test]
fn a_host_that_cannot_derive_is_given_elements() {
    const SIDE: usize = 130;
    let at = |row: usize, column: usize| (row * SIDE + column) as f32;
    let floats = (0..SIDE * SIDE).map(|i| i as f32);
    let file: Vec<u8> = b"derv".iter().copied().chain(floats.flat_map(f32::to_le_bytes)).collect();
    assert!(file.len() > LARGE_BYTES);
    give_file(&file);
    assert_eq!(drive("frontend/raw", "{}", run), (abi::OK, String::new()));
    let tensors = made();
    assert_eq!(tensors.len(), 2, "each is given once");
    let floats = |bytes: &[u8]| bytemuck::pod_collect_to_vec::<u8, f32>(bytes);
    let (small, large) = (floats(tensors[0]), floats(tensors[1]));
    assert!(small == [at(1, 129), at(1, 128), at(2, 129), at(2, 128)]);
    assert_eq!((large.len(), large[1], large[SIDE]), (SIDE * SIDE, at(1, 0), at(0, 1)));
    assert_eq!(host(|h| h.aliases.len()), 0);
}
