//! What small programs mean: the method that is taken, hooks, functions within functions, lists that grow.

use super::{import, module, named, operators, shapes};
use onnxd_plugin_sdk::ir::{DataType, Origin, Tensor};
use onnxd_plugin_sdk::testing;
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

#[test]
fn tensors_of_several_lengths_are_padded_ones() {
    let with = |last: &str| {
        let code = format!(
            "  def forward(self: __torch__.Net, x: Tensor, m: Tensor) -> Tensor:
    n = torch._nested_tensor_from_mask(x, m, False)
    return {last}
"
        );
        let dropped = shapes(json!([[2, 3, 1], [2, 3]]))(module(&code));
        import(&dropped.param("export.input_dtypes", json!(["float32", "bool"])))
    };
    let (model, _) = with("torch.to_padded_tensor(n, 0., torch.size(x))").unwrap();
    let run = |mask: [u8; 6]| {
        let x = Tensor::from_vec(vec![2, 3, 1], vec![1f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let mask = Tensor::from_vec_as(DataType::Bool, vec![2, 3], mask.to_vec());
        testing::run(&model, [("x", x), ("m", mask)]).unwrap()[0].1.to_reals().unwrap().values
    };
    assert_eq!(run([1, 1, 0, 1, 0, 0]), [1.0, 2.0, 0.0, 4.0, 0.0, 0.0]);
    assert_eq!(run([1, 1, 1, 0, 0, 0]), [1.0, 2.0, 3.0, 0.0, 0.0, 0.0]);
    // A mask with holes makes no tensor of several lengths.
    assert_eq!(run([1, 0, 1, 1, 1, 1]), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    for (last, name) in [("torch.cumsum(n, 1)", "cumsum"), ("torch.cat([x, n], 1)", "cat")] {
        let why = with(last).unwrap_err();
        let word = format!("`aten::{name}` takes a tensor");
        assert!(why.contains(&word) && why.contains("several lengths"), "{why}");
    }
}

#[test]
fn a_signal_that_is_longer_than_its_spectra_ends_in_zeros() {
    let code = "  def forward(self: __torch__.Net, x: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
    s = torch.complex(x, torch.neg(x))
    a = torch.istft(s, 4, 2, 4, None, False, False, True)
    b = torch.istft(s, 4, 2, 4, None, False, False, True, 11)
    c = torch.istft(s, 4, 2, 4, None, True, False, True, 5)
    return (a, b, c)
";
    for open in [false, true] {
        let dropped = shapes(json!([[3, 3]]))(module(code));
        let dropped = match open {
            true => dropped.param("export.dynamic_axes", json!({"x": {"1": "frames"}})),
            false => dropped,
        };
        let (model, _) = import(&dropped).unwrap();
        let x: Vec<f32> = (1u8..10).map(f32::from).collect();
        let given = testing::run(&model, [("x", Tensor::from_vec(vec![3, 3], x))]).unwrap();
        let [a, b, c] = [0, 1, 2].map(|at| given[at].1.as_slice::<f32>().unwrap().to_vec());
        assert_eq!((a.len(), b.len(), c.len()), (8, 11, 5));
        assert_eq!((&b[..8], &b[8..]), (&a[..], &[0f32; 3][..]));
        assert_eq!(c, a[2..7]);
    }
}

#[test]
fn parameters_of_a_method_may_have_values() {
    let code = "  def forward(self: __torch__.Net,
    x: Tensor,
    mode: str,
    rate: int=8,
    at: Optional[List[int]]=None) -> Tensor:
    if torch.eq(mode, \"slow\"):
      y = torch.slice(x, 0, None, None, torch.floordiv(rate, 4))
    else:
      y = torch.neg(x)
    if torch.__isnot__(at, None):
      at0 = unchecked_cast(List[int], at)
      z = torch.permute(y, at0)
    else:
      z = y
    return z
";
    let with = |constants: serde_json::Value| {
        let dropped = shapes(json!([[2]]))(module(code));
        import(&dropped.param("source.constants", constants))
    };
    let why = import(&shapes(json!([[2]]))(module(code))).unwrap_err();
    assert!(why.contains("`mode` is of type `str`") && why.contains("source.constants"), "{why}");
    let ops = |constants| operators(&with(constants).unwrap().0.graph);
    assert_eq!(ops(json!({"mode": "fast"})), [":Neg"]);
    assert_eq!(ops(json!({"mode": "slow", "at": [0]})), [":Slice"]);
    let bound = module(code).param("source.constants", json!({"mode": "fast", "x": [1.5, 2]}));
    let graph = import(&bound).unwrap().0.graph;
    assert_eq!(graph.inputs().len(), 0);
    let why = with(json!({"mode": 3})).unwrap_err();
    assert!(why.contains("`source.constants` has 3 for `mode` of type `str`"), "{why}");
}

#[test]
fn keys_of_dicts_are_names_of_inputs_and_outputs() {
    let code =
        "  def forward(self: __torch__.Net, x: Dict[str, Tensor]) -> Dict[str, List[Tensor]]:
    return {\"sum\": [torch.add(x[\"a\"], x[\"b\"])], \"parts\": [x[\"a\"], torch.neg(x[\"b\"])]}
";
    let dropped = shapes(json!([[2], [2]]))(module(code));
    let why = import(&dropped).unwrap_err();
    assert!(why.contains("keys of the dict `x`") && why.contains("export.input_names"), "{why}");
    let graph = import(&dropped.param("export.input_names", json!(["a", "b"]))).unwrap().0.graph;
    assert_eq!(named(&graph, graph.inputs()), ["a: float[2]", "b: float[2]"]);
    let outputs = ["sum.0: float[2]", "parts.0: float[2]", "parts.1: float[2]"];
    assert_eq!(named(&graph, graph.outputs()), outputs);
}
