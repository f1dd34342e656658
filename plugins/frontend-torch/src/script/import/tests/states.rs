//! What a module keeps between calls is found, and becomes inputs and outputs where the params ask for it.

use super::{named, shapes};
use crate::Torch;
use crate::archive::fixture::{archive, floats, object, pickle, tensor};
use onnxd_plugin_sdk::ir::{Model, Tensor};
use onnxd_plugin_sdk::testing::{self, Dropped};
use serde_json::json;

/// A buffer `mean` of [3, 4], a cache of no rows and two columns, a list of two tensors, numbers and None. The file
/// also has a tensor `spare` of [1, 2].
const HEAD: &str = "class Net(Module):
  __parameters__ = []
  __buffers__ = [\"mean\", ]
  mean : Tensor
  cache : Tensor
  both : List[Tensor]
  calls : int
  share : float
  warned : bool
  last : Optional[Tensor]
  def forward(self: __torch__.Net, x: Tensor) -> Tensor:
";

fn dropped(lines: &str) -> Dropped {
    let of = |at: u8| tensor("Float", "0", 6, (at, &[2], &[1]));
    let both = [vec![b']', b'('], of(2), of(4), vec![b'e']].concat();
    let share = [vec![b'G'], 0.5f64.to_be_bytes().to_vec()].concat();
    let root = object(
        "__torch__",
        "Net",
        &[
            ("mean", of(2)),
            ("cache", tensor("Float", "0", 6, (0, &[0, 2], &[2, 1]))),
            ("both", both),
            ("calls", vec![b'K', 0]),
            ("share", share),
            ("warned", vec![0x89]),
            ("last", vec![b'N']),
            ("spare", of(0)),
        ],
    );
    let file = archive(&[
        ("net/data.pkl", &pickle(&root)),
        ("net/data/0", &floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])),
        ("net/constants.pkl", &pickle(b")")),
        ("net/code/__torch__.py", format!("{HEAD}{lines}").as_bytes()),
        ("net/version", b"3\n"),
    ]);
    shapes(json!([[2]]))(Dropped::file("net.pt", file))
}

/// Codes, messages and places of what keeps these lines from being converted.
fn refused(lines: &str) -> Vec<String> {
    why(&dropped(lines))
}

fn why(dropped: &Dropped) -> Vec<String> {
    let found = testing::import(&Torch, dropped).unwrap_err();
    let text = |d: &onnxd_plugin_sdk::diagnostics::Diagnostic| {
        let layer = d.layer.clone().unwrap_or_default();
        format!("{} {} [{} {}]", d.code, d.message, layer.kind, layer.place)
    };
    found.0.iter().map(text).collect()
}

/// The notes of a conversion without states, and how many outputs there are.
fn notes(lines: &str) -> (Vec<String>, usize) {
    let done = testing::import(&Torch, &dropped(lines)).unwrap();
    let told = done.log.notes.into_iter().map(|note| note.message);
    (told.filter(|text| !text.contains("supposed")).collect(), done.model.graph.outputs().len())
}

/// The model with its states as inputs and outputs, and their names.
fn with_states(lines: &str) -> (Model, Vec<(String, String)>) {
    let dropped = dropped(lines).param("export.mutations", "outputs");
    let done = testing::import(&Torch, &dropped).unwrap();
    let states = done.log.states.into_iter().map(|s| (s.input, s.output)).collect();
    (done.model, states)
}

fn row(x: &[f32]) -> Tensor {
    Tensor::vector(x.to_vec())
}

/// What each of so many calls on [1, 2] gives first, with the states of one passed on to the next one.
fn calls(lines: &str, count: usize) -> Vec<Tensor> {
    let (model, states) = with_states(lines);
    let mut kept: Vec<(String, Tensor)> = vec![];
    let call = |_| {
        let x = ("x", row(&[1.0, 2.0]));
        let inputs = kept.iter().map(|(name, value)| (name.as_str(), value.clone()));
        let given = testing::run(&model, inputs.chain([x]).collect::<Vec<_>>()).unwrap();
        let passed = |(input, output): &(String, String)| {
            let (_, value) = given.iter().find(|(name, _)| name == output).unwrap();
            (input.clone(), value.clone())
        };
        kept = states.iter().map(passed).collect();
        given[0].1.clone()
    };
    (0..count).map(call).collect()
}

#[test]
fn buffers_that_are_written_in_place_are_refused_or_passed_on() {
    let lines = "    mean = self.mean
    _0 = torch.add_(torch.mul_(mean, 2.), x)
    return torch.add(x, self.mean)
";
    let found = refused(lines);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("N0203 The network writes the buffer `mean`"), "{found:?}");
    assert!(found[0].ends_with("[Net __torch__.py:13]"), "{found:?}");
    assert_eq!(calls(lines, 2), [row(&[8.0, 12.0]), row(&[16.0, 24.0])]);
    let (model, states) = with_states(lines);
    let graph = &model.graph;
    assert_eq!(states, [("mean".to_owned(), "mean_out".to_owned())]);
    assert_eq!(named(graph, graph.inputs()), ["x: float[2]", "mean: float[2]"]);
    let mean = graph.value_named("mean").unwrap();
    assert_eq!(graph[mean].initializer(), Some(&row(&[3.0, 4.0])));

    let through_a_view = "    _0 = torch.add_(torch.select(self.mean, 0, 1), 1)
    return torch.mul(x, self.mean)
";
    assert!(refused(through_a_view)[0].contains("buffer `mean`"));
    assert_eq!(calls(through_a_view, 2), [row(&[3.0, 10.0]), row(&[3.0, 12.0])]);

    let in_a_list = "    _0 = torch.add_((self.both)[1], 1)
    return torch.mul(x, (self.both)[1])
";
    assert!(refused(in_a_list)[0].contains("`both.1`"), "{:?}", refused(in_a_list));
    assert_eq!(calls(in_a_list, 2), [row(&[6.0, 14.0]), row(&[7.0, 16.0])]);
}

#[test]
fn attributes_that_are_set_are_states_also_as_numbers() {
    let lines = "    if torch.gt(self.calls, 1):
      y = torch.neg(x)
    else:
      y = x
    self.calls = torch.add(self.calls, 1)
    self.share = torch.mul(self.share, 2.)
    return torch.mul(y, self.share)
";
    let found = refused(lines);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("attribute `calls`") && found[1].contains("`share`"), "{found:?}");
    assert_eq!(calls(lines, 3), [row(&[1.0, 2.0]), row(&[2.0, 4.0]), row(&[-4.0, -8.0])]);
}

#[test]
fn a_cache_that_grows_has_an_open_size() {
    let lines = "    self.cache = torch.cat([self.cache, torch.unsqueeze(x, 0)])
    return torch.sum(self.cache, [0])
";
    assert!(refused(lines)[0].contains("attribute `cache`"));
    let (model, _) = with_states(lines);
    let inputs = named(&model.graph, model.graph.inputs());
    assert_eq!(inputs, ["x: float[2]", "cache: float[cache_dynamic_axes_1,2]"]);
    let wanted: Vec<Tensor> = (1..=10).map(|n| row(&[n as f32, 2.0 * n as f32])).collect();
    assert_eq!(calls(lines, 10), wanted);
}

#[test]
fn writes_that_no_output_depends_on_are_told() {
    let once = "    if torch.__not__(self.warned):
      self.warned = True
    else:
      pass
    return torch.neg(x)
";
    let (told, outputs) = notes(once);
    assert!(told.len() == 1 && told[0].contains("attribute `warned`"), "{told:?}");
    assert_eq!(outputs, 1);
    let input = "    _0 = torch.add_(x, 1)
    return torch.mul(x, 2)
";
    let (told, outputs) = notes(input);
    assert!(told.len() == 1 && told[0].contains("input `x`"), "{told:?}");
    assert_eq!(outputs, 1);
    assert_eq!(calls(input, 2), [row(&[4.0, 6.0]), row(&[4.0, 6.0])]);
    let (model, states) = with_states(input);
    assert_eq!(states, []);
    assert_eq!(named(&model.graph, &model.graph.outputs()[1..]), ["x_out: float[2]"]);
    // What is written as it was is no write.
    let same = "    _0 = torch.copy_(self.mean, self.mean)
    self.calls = torch.add(self.calls, 0)
    return torch.neg(x)
";
    assert_eq!(notes(same), (vec![], 1));
}

#[test]
fn what_no_input_can_be_is_refused_with_the_reason() {
    for (lines, reason) in [
        ("    self.last = x\n    return x\n", "`last`, which is None in some calls"),
        (
            "    _0 = torch.append(self.both, x)\n    return (self.both)[-1]\n",
            "`both`, which is a list whose length changes",
        ),
        (
            "    self.cache = torch.to(self.cache, 7)\n    return x\n",
            "`cache`, which changes its element type",
        ),
    ] {
        let found = why(&dropped(lines).param("export.mutations", "outputs"));
        assert!(found.len() == 1 && found[0].contains(reason), "{found:?}");
        assert!(refused(lines)[0].contains("The network writes"), "{lines}");
    }
}

/// `mean` and `both.0` are one tensor in the file.
#[test]
fn a_tensor_of_two_names_is_two_once_one_of_them_is_set() {
    let set = "    y = torch.add(self.mean, (self.both)[0])
    self.mean = x
    return y
";
    let (_, states) = with_states(set);
    assert_eq!(states, [("mean".to_owned(), "mean_out".to_owned())]);
    assert_eq!(calls(set, 3), [row(&[6.0, 8.0]), row(&[4.0, 6.0]), row(&[4.0, 6.0])]);

    // What is written in place has both names.
    let written = "    _0 = torch.add_((self.both)[0], x)
    return torch.add(self.mean, (self.both)[0])
";
    assert_eq!(calls(written, 2), [row(&[8.0, 12.0]), row(&[10.0, 16.0])]);

    let both = "    _0 = torch.add_((self.both)[0], x)
    y = torch.add(self.mean, 0)
    self.mean = x
    return y
";
    let found = why(&dropped(both).param("export.mutations", "outputs"));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("`mean`, which is one tensor with `both.0` that"), "{found:?}");
}

/// `spare` and `both.1` are two tensors in the file, and one after the first call.
#[test]
fn tensors_that_become_one_are_refused_if_one_of_them_is_written() {
    let refused = |lines: &str, says: &str| {
        let found = why(&dropped(lines).param("export.mutations", "outputs"));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains(says), "{found:?}");
    };
    let alias = "    _0 = torch.add_(self.spare, 1)
    self.spare = (self.both)[1]
    return torch.add(x, (self.both)[1])
";
    let says = "the attribute `spare`, which becomes one tensor with `both.1`, and one of them is";
    refused(alias, says);
    // The other one is written, and this one is read as it was.
    let other = "    _0 = torch.add_((self.both)[1], 1)
    y = torch.add(self.spare, x)
    self.spare = (self.both)[1]
    return y
";
    refused(other, says);
    // A part of the other one.
    let part = "    _0 = torch.add_(self.spare, 1)
    self.spare = torch.detach((self.both)[1])
    return torch.add(x, (self.both)[1])
";
    refused(part, says);
    // Both are set to what the call made.
    let made = "    y = torch.add(self.spare, x)
    z = torch.add(y, (self.both)[1])
    _0 = torch.add_(self.spare, 1)
    self.spare = y
    both = self.both
    both[1] = y
    return z
";
    refused(made, "which becomes one tensor with `");

    // Nothing is written in place, or not before the name is another one.
    let unwritten = "    y = torch.add(self.spare, x)
    self.spare = (self.both)[1]
    return y
";
    assert_eq!(calls(unwritten, 2), [row(&[2.0, 4.0]), row(&[6.0, 8.0])]);
    let later = "    self.spare = (self.both)[1]
    _0 = torch.add_(self.spare, x)
    return torch.add((self.both)[1], 0)
";
    assert_eq!(calls(later, 2), [row(&[6.0, 8.0]), row(&[7.0, 10.0])]);
    // A copy is a tensor of its own.
    let copy = "    _0 = torch.add_(self.spare, 1)
    self.spare = torch.clone((self.both)[1])
    return torch.add(x, (self.both)[1])
";
    assert_eq!(calls(copy, 2), [row(&[6.0, 8.0]), row(&[6.0, 8.0])]);
}

/// The input of the method has the name of the state.
#[test]
fn a_state_that_shares_its_name_counts() {
    let head = HEAD.replace("x: Tensor) -> Tensor", "x: Tensor, calls: Tensor) -> Tensor");
    let code = format!(
        "{head}    self.calls = torch.add(self.calls, 1)
    return torch.mul(torch.add(x, calls), self.calls)
"
    );
    let dropped = || {
        let file = archive(&[
            ("net/data.pkl", &pickle(&object("__torch__", "Net", &[("calls", vec![b'K', 0])]))),
            ("net/constants.pkl", &pickle(b")")),
            ("net/code/__torch__.py", code.as_bytes()),
            ("net/version", b"3\n"),
        ]);
        shapes(json!([[2], [2]]))(Dropped::file("net.pt", file))
    };
    let found = why(&dropped());
    assert!(found.len() == 1 && found[0].contains("attribute `calls`"), "{found:?}");
    let asked = dropped().param("export.mutations", "outputs");
    let states = testing::import(&Torch, &asked).unwrap().log.states;
    assert_eq!(states.len(), 1);
}

#[test]
fn a_dict_with_numbers_for_keys_has_states() {
    let of = |at: u8| tensor("Float", "0", 6, (at, &[2], &[1]));
    let entries = [vec![b'}', b'(', b'K', 7], of(2), vec![b'K', 8], of(4), vec![b'u']].concat();
    let code = "class Net(Module):
  __parameters__ = []
  __buffers__ = []
  rows : Dict[int, Tensor]
  def forward(self: __torch__.Net, x: Tensor) -> Dict[int, Tensor]:
    _0 = torch.add_((self.rows)[7], x)
    self.rows[8] = x
    return self.rows
";
    let file = archive(&[
        ("net/data.pkl", &pickle(&object("__torch__", "Net", &[("rows", entries)]))),
        ("net/data/0", &floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])),
        ("net/constants.pkl", &pickle(b")")),
        ("net/code/__torch__.py", code.as_bytes()),
        ("net/version", b"3\n"),
    ]);
    let dropped = shapes(json!([[2]]))(Dropped::file("net.pt", file));
    let done = testing::import(&Torch, &dropped.param("export.mutations", "outputs")).unwrap();
    let states: Vec<String> = done.log.states.into_iter().map(|s| s.input).collect();
    assert_eq!(states, ["rows.8", "rows.7"]);
    let outputs = named(&done.model.graph, done.model.graph.outputs());
    assert_eq!(outputs[..2], ["7: float[2]", "8: float[2]"]);
}
