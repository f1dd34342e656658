use super::{Branches, Carried, Paths, Repeat, Taken, Turn};
use crate::{Driver, Fallback, Lowered, Table};
use onnxd_build::{Operand, Var};
use onnxd_diagnostics::{Code, Diagnostic};
use onnxd_ir::text::print_graph;
use onnxd_ir::{DataType, Graph, Opsets, ValueType};
use std::cell::Cell;

/// A source whose values are tensors.
struct Plain<'s> {
    driver: Driver<'s>,
}

#[derive(Clone)]
enum Form {
    Fixed(Var),
    Tensor(ValueType),
}

impl Plain<'_> {
    fn type_of(&self, v: Var) -> ValueType {
        self.driver.builder().type_of(v).unwrap()
    }
}

impl Paths for Plain<'_> {
    type Source = ();
    type Key = &'static str;
    type Item = Var;
    type Form = Form;
    type Block = ();

    fn driver(&self) -> &Driver<'_> {
        &self.driver
    }

    fn fixed(&self, item: Var) -> Form {
        Form::Fixed(item)
    }

    fn form_of(&self, item: &Var) -> Lowered<Form> {
        Ok(match self.driver.builder().is_own(*item) {
            true => Form::Tensor(self.type_of(*item)),
            false => Form::Fixed(*item),
        })
    }

    fn widened(&self, form: Form, item: &Var) -> Lowered<Form> {
        Ok(match form {
            Form::Fixed(fixed) if fixed == *item => form,
            Form::Fixed(fixed) => {
                Form::Tensor(self.type_of(fixed).either(&self.type_of(*item)).unwrap())
            }
            Form::Tensor(ty) => Form::Tensor(ty.either(&self.type_of(*item)).unwrap()),
        })
    }

    fn types(&self, form: &Form) -> Vec<ValueType> {
        match form {
            Form::Fixed(_) => vec![],
            Form::Tensor(ty) => vec![ty.clone()],
        }
    }

    fn packed(&self, form: &Form, item: &Var) -> Lowered<Vec<Var>> {
        Ok(if matches!(form, Form::Fixed(_)) { vec![] } else { vec![*item] })
    }

    fn unpacked(&self, form: &Form, from: &mut dyn Iterator<Item = Var>) -> Var {
        match form {
            Form::Fixed(item) => *item,
            Form::Tensor(_) => from.next().unwrap(),
        }
    }

    fn truth(&self, condition: &Var) -> Lowered<Var> {
        Ok(*condition)
    }

    fn leaves_out(&self, why: &Diagnostic) -> bool {
        why.message == "never"
    }

    fn begin_block(&self) {}

    fn suspend_block(&self) {}

    fn resume_block(&self, (): ()) {}
}

/// The graph that `f` builds of a tensor and a condition.
fn built(f: impl FnOnce(&Plain<'_>, Var, Var) -> Lowered<Vec<Var>>) -> String {
    let (table, opsets) = (Table::new(), Opsets::from([(String::new(), 18)]));
    let driver = Driver::new(&table, &(), Graph::new("g"), opsets, Fallback::default());
    let plain = Plain { driver };
    let b = plain.driver.builder();
    let x = b.input("x", ValueType::tensor(DataType::Float, [2]));
    let c = b.input("c", ValueType::tensor(DataType::Bool, Vec::<i64>::new()));
    for v in f(&plain, x, c).unwrap() {
        let name = b.name_of(v);
        b.output(v, &name).unwrap();
    }
    print_graph(&plain.driver.finish().unwrap().0)
}

type Values = Vec<(&'static str, Var)>;

/// What is set after a condition whose arms give these values; none if only one arm is taken.
fn branch(
    p: &Plain<'_>,
    condition: Var,
    arms: [&dyn Fn() -> Lowered<Values>; 2],
    before: &[(&'static str, Var)],
) -> Result<Values, usize> {
    let before = |key: &&str| before.iter().find(|(known, _)| known == key).map(|(_, v)| *v);
    let branches = Branches { condition, names: ["then", "else"], arms, before: &before };
    match branches.run(p).unwrap() {
        Taken::Either { values, .. } => Ok(values),
        Taken::Only(at) => Err(at),
    }
}

#[test]
fn what_both_arms_give_alike_is_no_output() {
    let text = built(|p, x, c| {
        let b = p.driver.builder();
        let then = || Ok(vec![("same", x), ("y", b.neg(x)?), ("own", x), ("z", b.abs(x)?)]);
        let otherwise = || Ok(vec![("same", x), ("y", b.relu(x)?), ("w", b.exp(x)?)]);
        let values = branch(p, c, [&then, &otherwise], &[("z", x), ("w", x)]).unwrap();
        let keys: Vec<&str> = values.iter().map(|(key, _)| *key).collect();
        assert_eq!(keys, ["same", "y", "z", "w"]);
        assert_eq!(values[0].1, x);
        Ok(values[1..].iter().map(|(_, v)| *v).collect())
    });
    assert_eq!(
        text,
        "\
g (float[2] x, bool c) => (float[2] if, float[2] if_1, float[2] if_2) {
  if, if_1, if_2 = If<else_branch = else () => (float[2] relu, float[2] x_1, float[2] exp) {
    relu = Relu(x)
    exp = Exp(x)
    x_1 = Identity(x)
  }, then_branch = then () => (float[2] neg, float[2] abs, float[2] x_1) {
    neg = Neg(x)
    abs = Abs(x)
    x_1 = Identity(x)
  }>(c)
}
"
    );
}

#[test]
fn an_arm_that_is_never_taken_leaves_nothing() {
    let text = built(|p, x, c| {
        let b = p.driver.builder();
        let never = || {
            b.exp(x)?;
            Err(b.diagnostic(Code::LayerParameter, "never"))
        };
        let taken = || Ok(vec![("y", b.neg(x)?)]);
        assert_eq!(branch(p, c, [&never, &taken], &[]), Err(1));
        assert_eq!(branch(p, c, [&taken, &never], &[]), Err(0));
        Ok(vec![b.neg(x)?])
    });
    assert_eq!(text, "g (float[2] x, bool c) => (float[2] neg) {\n  neg = Neg(x)\n}\n");
}

#[test]
fn a_body_is_built_until_its_values_have_forms() {
    let attempts = Cell::new(0);
    let text = built(|p, x, c| {
        let b = p.driver.builder();
        let turn = |_, carried: &[Carried<Plain<'_>>]| {
            attempts.set(attempts.get() + 1);
            if attempts.get() == 1 {
                p.driver.report(b.diagnostic(Code::LayerUnsupported, "forgotten"));
            }
            let [grown, kept] = [carried[0].item, carried[1].item];
            let y = b.concat([grown, kept]).axis(0).one()?;
            let values = vec![("y", y), ("kept", kept), ("place", b.neg(kept)?)];
            Ok(Turn { condition: None, values, stacked: vec![b.abs(kept)?] })
        };
        let begin = |key| Carried::new(key, x, Form::Fixed(x));
        let before = |_: &&str| Some(x);
        let begins = vec![begin("y"), begin("kept")];
        let repeated = Repeat { name: "body", begins, turn: &turn, before: &before };
        let mut body = repeated.body(p)?.unwrap();
        let stacked = body.add(p, &|| Ok([Operand::Int(3), Operand::Var(c)]))?;
        assert_eq!(body.carried[1].item, x);
        Ok([body.carried[0].item, body.carried[2].item].into_iter().chain(stacked).collect())
    });
    assert_eq!(attempts.get(), 2);
    let loops = "\
  loop, loop_1, loop_2 = Loop<body = body (int64 iteration, bool condition, float[?] state, \
        float[2] state_1) => (bool condition_1, float[?] concat, float[2] neg, float[2] abs) {
    concat = Concat<axis = 0>(state, x)
    neg = Neg(x)
    abs = Abs(x)
    condition_1 = Identity(condition)
  }>(m, c, x, x)
";
    assert!(text.contains(loops), "{text}");
}
