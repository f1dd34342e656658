//! What small programs mean: the method that is taken, hooks, functions within functions, lists that grow.

use super::{import, module, operators, shapes};
use onnxd_plugin_sdk::ir::Origin;
use serde_json::json;

/// The operators of a program, its sub-graphs left out, and the texts of notes.
fn run(code: &str) -> Result<(Vec<String>, Vec<String>), String> {
    let (model, notes) = import(&shapes(json!([[2]]))(module(code)))?;
    Ok((operators(&model.graph), notes))
}

#[test]
fn overloads_of_forward_stand_for_it() {
    let code = "  def forward__0(self: __torch__.Net, x: Tensor) -> Tensor:
    return torch.relu(x)
  def forward__1(self: __torch__.Net, x: Dict[str, Tensor]) -> Tensor:
    return torch.neg(x[\"a\"])
";
    assert_eq!(run(code).unwrap().0, [":Relu"]);
    let two = "  def encode(self: __torch__.Net, x: Tensor) -> Tensor:
    return torch.relu(x)
  def decode(self: __torch__.Net, x: Tensor) -> Tensor:
    return torch.neg(x)
";
    let why = run(two).unwrap_err();
    assert!(why.contains("`encode`, `decode`") && why.contains("source.method"), "{why}");
}

#[test]
fn hooks_run_around_forward() {
    let code = "  __forward_pre_hooks__ = [\"before\", ]
  __forward_hooks__ = [\"behind\", ]
  def forward(self: __torch__.Net, x: Tensor) -> Tensor:
    return torch.relu(x)
  def before(self: __torch__.Net, i: Tuple[Tensor]) -> Tensor:
    return torch.neg((i)[0])
  def behind(self: __torch__.Net, i: Tuple[Tensor], o: Tensor) -> Tensor:
    return torch.exp(o)
";
    assert_eq!(run(code).unwrap().0, [":Neg", ":Relu", ":Exp"]);
}

#[test]
fn functions_within_functions_see_the_variables_around_them() {
    let code = "  def forward(self: __torch__.Net, x: Tensor) -> Tensor:
    def __forked_function():
      return torch.relu(x)
    a = fork(__forked_function)
    return torch.wait(a)
";
    assert_eq!(run(code).unwrap().0, [":Relu"]);
}

#[test]
fn an_exception_that_depends_on_data_is_told() {
    let code = "  def forward(self: __torch__.Net, x: Tensor) -> Tensor:
    if bool(torch.gt(torch.sum(x), 0)):
      ops.prim.RaiseException(\"too large\", \"builtins.ValueError\")
    else:
      pass
    return torch.relu(x)
";
    let (_, notes) = run(code).unwrap();
    assert!(notes.iter().any(|note| note.contains("too large")), "{notes:?}");
}

#[test]
fn all_unknown_operators_are_listed_at_once() {
    let code = "  def forward(self: __torch__.Net, x: Tensor) -> Tensor:
    a = torch.cholesky_inverse(x)
    b = torch.geqrf(a)
    return torch.relu(torch.ormqr((b)[0], a, a))
";
    let why = run(code).unwrap_err();
    for op in ["cholesky_inverse", "geqrf", "ormqr"] {
        assert!(why.contains(op), "{op}: {why}");
    }
}

#[test]
fn lists_of_numbers_grow_in_loops() {
    let code = "  def forward(self: __torch__.Net, x: Tensor) -> Tensor:
    n = int(torch.sum(x))
    l = annotate(List[int], [])
    for i in range(n):
      _0 = torch.append(l, torch.mul(i, 2))
    return torch.tensor(l)
";
    assert!(run(code).unwrap().0.contains(&":Loop".to_owned()));
}

#[test]
fn sizes_of_complex_numbers_are_those_of_their_parts() {
    let forward = |norm: &str| {
        format!(
            "  def forward(self: __torch__.Net, x: Tensor) -> Tensor:
    return torch.real(torch.fft_fftn(x, None, [0, 1], {norm}))
"
        )
    };
    let graph =
        |norm| import(&shapes(json!([["n", "m"]]))(module(&forward(norm)))).unwrap().0.graph;
    let plain = graph("None");
    assert!(!operators(&plain).contains(&":Shape".to_owned()));
    let scaled = graph("\"ortho\"");
    assert_eq!(operators(&scaled).iter().filter(|op| *op == ":Shape").count(), 2);
    let read = scaled.nodes().flat_map(|(_, node)| node.inputs.iter().flatten());
    for value in read.map(|v| &scaled[*v]) {
        let produced = value.origin() != Origin::None || value.initializer().is_some();
        assert!(produced, "`{}` is read, and nothing produces it", value.name);
    }
}

#[test]
fn complex_numbers_are_no_python_numbers() {
    let code = "  def forward(self: __torch__.Net, x: Tensor) -> Tensor:
    return torch.mul(x, torch.item(torch.select(torch.fft_fft(x), 0, 0)))
";
    let why = run(code).unwrap_err();
    assert!(why.contains("complex numbers is taken for a number"), "{why}");
}

#[test]
fn what_python_computes_is_not_told_to_be_unknown() {
    let code = "  def forward(self: __torch__.Net, x: Tensor) -> Tensor:
    n = ops.prim.min([torch.size(torch.cholesky_inverse(x), 0), 3])
    return torch.slice(x, 0, 0, n)
";
    let why = run(code).unwrap_err();
    assert!(why.contains("cholesky_inverse") && !why.contains("prim::min"), "{why}");
}
