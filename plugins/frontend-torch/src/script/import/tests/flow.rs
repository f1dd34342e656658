//! What tracers and compilers of torch print around sizes, options and lists.

use super::{import, module, operators, shapes};
use onnxd_plugin_sdk::ir::DataType;
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

#[test]
fn slices_go_forwards_and_backwards() {
    let slices = [
        ("None, None, -1", "[5, 4, 3, 2, 1]"),
        ("-2, None, -2", "[4, 2]"),
        ("1, 100, 2", "[2, 4]"),
        ("2, -9, -1", "[3, 2, 1]"),
        ("-1, -4, -1", "[5, 4, 3]"),
        ("-9, 9223372036854775807, 1", "[1, 2, 3, 4, 5]"),
        ("3, 1, 9223372036854775807", "annotate(List[int], [])"),
    ];
    for (bounds, expected) in slices {
        let lines = format!(
            "    if torch.eq(torch.slice([1, 2, 3, 4, 5], {bounds}), {expected}):
      y = torch.neg(x)
    else:
      y = torch.abs(x)
    if torch.eq(torch.slice(\"abcde\", 3, 0, -2), \"db\"):
      z = torch.neg(y)
    else:
      z = torch.abs(y)
    return z
"
        );
        assert_eq!(written(&lines), [":Neg", ":Neg"], "{bounds}");
    }
}

/// Why `forward` with these lines is refused.
fn refused(lines: &str) -> String {
    let code = format!("  def forward(self: __torch__.Net, x: Tensor) -> Tensor:\n{lines}");
    import(&shapes(json!([[8]]))(module(&code))).unwrap_err()
}

#[test]
fn containers_do_not_guess_what_depends_on_tensors() {
    let n = "    n = int(torch.sum(x))\n";
    let cases = [
        ("torch.mul(x, torch.count([n, 2], 2))", "`count` of a list"),
        ("torch.mul(x, torch.index([n, 2], 2))", "`index` of a list"),
        ("torch.mul(x, torch.slice([1, 2, 3], n)[0])", "bounds of a slice"),
        ("torch.mul(x, torch.slice([1, 2, 3], 0, 3, 0)[0])", "step 0"),
        ("torch.mul(x, {1: 2, 3: 4}[n])", "key of a dict"),
        ("torch.mul(x, torch.get({n: 2}, 3, 4))", "key of a dict"),
        ("torch.mul(x, torch.sorted([2, 1], bool(n))[0])", "aten::sorted"),
        ("torch.mul(x, torch.len(range(2000000)))", "more than 1048576 items"),
    ];
    for (value, expected) in cases {
        let why = refused(&format!("{n}    return {value}\n"));
        assert!(why.contains(expected), "{value}: {why}");
    }
}

#[test]
fn a_list_contains_numbers_that_are_computed() {
    let lines = "    if torch.__contains__([int(torch.sum(x)), 3], 3):
      y = torch.neg(x)
    else:
      y = torch.abs(x)
    if torch.__contains__([int(torch.sum(x)), 3], 2):
      z = torch.neg(y)
    else:
      z = torch.abs(y)
    return z
";
    let found = written(lines);
    let count = |op: &str| found.iter().filter(|found| *found == op).count();
    assert_eq!((count(":Neg"), count(":Abs"), count(":If")), (1, 0, 1), "{found:?}");
}

#[test]
fn a_tensor_is_a_number_where_one_is_wanted() {
    let lines = "    n = ops.prim.min(annotate(int, torch.argmax(x)), 3)
    return torch.slice(x, 0, 0, n)
";
    let found = written(lines);
    assert!(
        found.contains(&":Min".to_owned()) && found.contains(&":Slice".to_owned()),
        "{found:?}"
    );
}

#[test]
fn constants_of_rank_0_are_numbers_in_arithmetic() {
    // The element type of the output: floats if the constant is a number, as in torch.
    let ty = |forward: &str| {
        let code = format!("  def forward(self: __torch__.Net, x: Tensor) -> Tensor:\n{forward}");
        let dropped = shapes(json!([[2]]))(super::module_with(&code, Some(1.5)))
            .param("export.input_dtypes", json!(["int64"]));
        let graph = import(&dropped).unwrap().0.graph;
        graph[graph.outputs()[0]].ty.clone().unwrap().dtype().unwrap()
    };
    assert_eq!(ty("    return torch.mul(x, CONSTANTS.c0)\n"), DataType::Float);
    let of_user = "    k = torch.detach(torch.to(CONSTANTS.c0, torch.device(\"cpu\"), 7))
    return torch.mul(x, k)
";
    assert_eq!(ty(of_user), DataType::Double);
}
