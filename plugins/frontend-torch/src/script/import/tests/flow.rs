//! What tracers and compilers of torch print around sizes, options and lists.

use super::{import, module, operators, shapes};
use serde_json::json;

/// The operators of `forward` with these lines, for an input of 8 numbers.
fn written(lines: &str) -> Vec<String> {
    let code = format!("  def forward(self: __torch__.Net, x: Tensor) -> Tensor:\n{lines}");
    operators(&import(&shapes(json!([[8]]))(module(&code))).unwrap().0.graph)
}

#[test]
fn arithmetic_of_traced_sizes_is_computed() {
    let lines = "    n = ops.prim.NumToTensor(torch.size(x, 0))
    m = torch.mul_(torch.clamp(torch.sub(n, 5, alpha=1), 0), 3)
    return torch.reshape(torch.expand(torch.unsqueeze(x, 0), [int(m), -1]), [int(torch.mul(m, 8))])
";
    assert_eq!(written(lines), [":Unsqueeze", ":Expand", ":Reshape"]);
}

#[test]
fn traced_sizes_are_tensors_of_operators() {
    let lines = "    n = ops.prim.NumToTensor(torch.size(x, 0))
    s = torch.stack([n, n])
    return torch.mul(x, torch.sum(torch.mul(torch.reciprocal(n), s)))
";
    assert!(written(lines).contains(&":Reciprocal".to_owned()));
}

#[test]
fn an_option_is_none_where_a_condition_says_so() {
    let lines = "    if bool(torch.gt(torch.sum(x), 0)):
      m : Optional[Tensor] = None
    else:
      m = torch.unsqueeze(x, 0)
    if torch.__is__(m, None):
      k = m
    else:
      k = torch.unsqueeze(unchecked_cast(Tensor, m), 0)
    if torch.__isnot__(k, None):
      y = torch.mul(x, torch.dim(unchecked_cast(Tensor, k)))
    else:
      y = x
    return y
";
    assert_eq!(written(lines).iter().filter(|op| *op == ":If").count(), 3);
}

#[test]
fn an_operator_has_a_case_for_each_truth_value() {
    let lines = "    return torch.argsort(x, 0, bool(torch.gt(torch.sum(x), 0)))\n";
    assert!(written(lines).contains(&":If".to_owned()));
}

#[test]
fn numbers_that_a_loop_lists_keep_their_count() {
    let lines = "    sizes = annotate(List[int], [])
    for i in range(2):
      _0 = torch.append(sizes, int(torch.sum(x)))
    return torch.zeros(sizes)
";
    let found = written(lines);
    assert!(!found.iter().any(|op| op == ":Loop" || op.contains("Sequence")), "{found:?}");
}

#[test]
fn any_list_is_a_list() {
    let lines = "    if isinstance([x, x], list):
      y = torch.dict([(\"a\", x), (\"b\", torch.neg(x))])[\"b\"]
    else:
      y = x
    if torch.eq(str(ops.prim.device(x)), \"cpu\"):
      z = torch.abs(y)
    else:
      z = y
    return z
";
    assert_eq!(written(lines), [":Neg", ":Abs"]);
}
