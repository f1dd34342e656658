use super::{file, refused};
use crate::script::library::CodeLibrary;
use crate::syntax::ast::{ClassKind, Expr};
use bytes::Bytes;
use std::cell::Cell;

const MODULE: &str = r#"class Net(Module):
  __parameters__ = ["weight", ]
  __buffers__ = []
  __forward_pre_hooks__ = ["before", ]
  __forward_hooks__ = ["behind", ]
  __annotations__ = []
  weight : Tensor
  __annotations__["0"] = __torch__.___torch_mangle_1.Linear
  __annotations__["p q"] = Optional[Tensor]
  in_channels : Final[int] = 3
  def forward(self: __torch__.Net,
    input: Tensor,
    k: int=-2,
    e: Tuple[int, float]=(1, -2.5),
    s: str=CONSTANTS.c0) -> Tensor:
    return input
  def before(self, x: Tensor):
    pass
"#;

#[test]
fn classes_of_modules() {
    let file = file(MODULE);
    let class = &file.classes[0];
    assert_eq!((&*class.name, class.kind), ("Net", ClassKind::Module));
    assert_eq!((class.parameters.len(), class.buffers.len()), (1, 0));
    assert_eq!((&*class.pre_hooks[0], &*class.hooks[0]), ("before", "behind"));
    let attributes: Vec<&str> = class.attributes.iter().map(|a| &*a.name).collect();
    assert_eq!(attributes, ["weight", "0", "p q", "in_channels"]);
    assert_eq!(class.attributes[3].value, Some(Expr::Int(3)));
    let forward = class.method("forward").unwrap();
    let defaults: Vec<Option<Expr>> =
        forward.parameters.iter().map(|p| p.default.clone()).collect();
    let tuple = Expr::Tuple(vec![Expr::Int(1), Expr::Float(-2.5)]);
    assert_eq!(defaults[..4], [None, None, Some(Expr::Int(-2)), Some(tuple)]);
    assert_eq!(class.method("before").unwrap().parameters[0].ty, None);
}

#[test]
fn other_kinds_of_classes() {
    let source = "class Sc:\n  a : int\nclass E(Enum):\n  RED = 1\n  GREEN = 2\nclass P(NamedTuple):\n  x : \
        Tensor\n  y : int = 3\nclass I(ModuleInterface):\n  def forward(self, x: Tensor) -> Tensor:\n    \
        pass\nclass Empty:\nclass J(Interface):\n  pass\n";
    let file = file(source);
    let kinds: Vec<ClassKind> = file.classes.iter().map(|class| class.kind).collect();
    use ClassKind::{Enum, Interface, NamedTuple, Plain};
    assert_eq!(kinds, [Plain, Enum, NamedTuple, Interface, Plain, Interface]);
    assert_eq!(file.classes[1].attributes[1].value, Some(Expr::Int(2)));
    assert_eq!(file.classes[2].attributes[1].value, Some(Expr::Int(3)));
    assert!(refused("class X(Exception):\n  a : int\n").contains("no class is a kind of"));
}

#[test]
fn files_before_torch_1_3() {
    let source = "op_version_set = 1\nimport __torch__\nfrom a import b\ndef forward(self,\n    x: Tensor) -> \
        Tuple[Tensor, Tensor]:\n  _0 = ops.prim.unchecked_unwrap_optional(self.sub.lin.bias)\n  return (x, \
        x)\ndef other(self) -> None:\n  return None";
    let file = file(source);
    assert_eq!(file.version, Some(1));
    let names: Vec<&str> = file.functions.iter().map(|f| &*f.name).collect();
    assert_eq!(names, ["forward", "other"]);
    assert_eq!(file.functions[0].parameters[0].ty, None);
}

#[test]
fn errors_name_member_line_and_column() {
    let problem = refused("def f(x):\n  y = (x\n  return )\n");
    assert!(
        problem.contains("code `a`, line 3, column 3: `)` is expected here, and not `return`"),
        "{problem}"
    );
    for (source, wanted) in [
        ("def f(x):\n  y = x + 1\n", "column 9: the end of the line is expected"),
        ("def f(x):\n  return break\n", "printed code has no `break` here"),
        ("def f(x):\nreturn x\n", "an indented block is expected"),
        ("def f(x):\n    x\n  y\n", "the indentation fits no block"),
        ("def f(x):\n  y = \"a\n", "the string has no end"),
        ("def f(x, x):\n  pass\n", "`x` is defined twice"),
        ("class A:\n  a : int\nclass A:\n  b : int\n", "`A` is defined twice"),
        ("def f():\n  return 9223372036854775808\n", "does not fit an integer of 64 bits"),
        ("def f():\n  return 1 ? 2\n", "`?` has no meaning here"),
        ("x = 1\n", "a class or function is expected here"),
        ("def f():\n  return g(a=1, a=2)\n", "argument `a` is given twice"),
        ("def f():\n  return g(a=1, 2)\n", "an argument without name"),
        ("class A:\n  a\n", "`a` has no type"),
    ] {
        let problem = refused(source);
        assert!(problem.contains(wanted), "{source}: {problem}");
    }
}

#[test]
fn a_library_parses_each_module_once() {
    let reads = Cell::new(0);
    let library = CodeLibrary::new(|module| {
        reads.set(reads.get() + 1);
        let code = match module {
            "__torch__" => "class C:\n  a : int\n",
            "__torch__.a.b" => "class C(Module):\n  b : int\ndef g(x):\n  return x\n",
            "__torch__.bad" => "class\n",
            _ => return None,
        };
        Some(Bytes::from(code))
    });
    let class = |name: &str| library.find_class(name).unwrap().unwrap();
    assert_eq!(&*class("__torch__.C").attributes[0].name, "a");
    assert_eq!(&*class("__torch__.a.b.C").attributes[0].name, "b");
    let function = library.find_function("__torch__.a.b.g").unwrap().unwrap();
    assert_eq!(function.parameters.len(), 1);
    assert_eq!(reads.get(), 2);
    assert!(library.find_class("__torch__.torch.classes.quantized.P").unwrap().is_none());
    assert!(library.find_function("alone").unwrap().is_none());
    assert!(library.find_class("__torch__.a.b.D").unwrap().is_none());
    let bad = library.find_class("__torch__.bad.C").unwrap_err().to_string();
    assert!(bad.contains("code `__torch__.bad`, line 1, column 6: a name is expected"), "{bad}");
}

#[test]
fn methods_at_top_level_are_a_class() {
    let code = "op_version_set = 1\ndef forward(self,\n    x: Tensor) -> Tensor:\n  return x\n";
    let library = CodeLibrary::new(|module| (module == "__torch__.net").then(|| Bytes::from(code)));
    let class = library.find_class("__torch__.net.Module").unwrap().unwrap();
    assert_eq!((class.kind, class.methods.len()), (ClassKind::Module, 1));
    assert!(class.method("forward").is_some());
    assert!(library.find_class("__torch__.Module").unwrap().is_none());
}
