use super::file;
use crate::archive::pickle::Pickled;
use crate::script::debug::{Origin, Origins};
use std::cell::RefCell;
use std::rc::Rc;

fn tuple<const N: usize>(items: [Pickled; N]) -> Pickled {
    Pickled::Tuple(Rc::new(items))
}

fn list(numbers: &[i64]) -> Pickled {
    let numbers = numbers.iter().map(|number| Pickled::Int(*number)).collect();
    Pickled::List(Rc::new(RefCell::new(numbers)))
}

fn text(text: &str) -> Pickled {
    Pickled::Text(text.into())
}

fn mark(offset: i64, source: Pickled, start: i64) -> Pickled {
    tuple([Pickled::Int(offset), tuple([source, Pickled::Int(start), Pickled::Int(start)])])
}

const LINES: [&str; 3] = ["", "  def go(self, x):\n", "    return x.é() + 1\n"];

/// Marks for `def f(x):\n  y = x\n  z = (x)`: the first statement has one, the second in its middle.
fn marks(nothing: &Pickled, source: &Pickled) -> Pickled {
    tuple([
        mark(0, nothing.clone(), 0),
        mark(10, source.clone(), 25),
        mark(17, nothing.clone(), 0),
        mark(23, source.clone(), 37),
        mark(24, source.clone(), 3),
    ])
}

fn check(pickled: &Pickled) {
    let origins = Origins::read("a", pickled).unwrap();
    let function = file("def f(x):\n  y = x\n  z = (x)\n  return z\n").functions[0].clone();
    let origin = |line: u64, text: &str| {
        let (text, function) = (text.to_owned(), Some("go".to_owned()));
        Some(Origin { file: "net.py".into(), line, text, function })
    };
    assert_eq!(origins.of(&function.body[0]), origin(8, "return x.é() + 1"));
    assert_eq!(origins.of(&function.body[1]), origin(7, "def go(self, x):"));
    assert_eq!(origins.between(0, 5), None);
}

#[test]
fn marks_with_a_table_of_lines() {
    let source = tuple([list(&[1, 2]), Pickled::Int(3), Pickled::Int(7)]);
    let nothing = tuple([list(&[]), Pickled::Int(0), Pickled::Int(0)]);
    let [empty, first, second] = LINES.map(text);
    let table = tuple([empty, first, second, text("net.py")]);
    check(&tuple([text("FORMAT_WITH_STRING_TABLE"), table, marks(&nothing, &source)]));
}

#[test]
fn marks_with_texts() {
    let source = tuple([text(&LINES.concat()), text("net.py"), Pickled::Int(7)]);
    let nothing = tuple([text(""), Pickled::None, Pickled::Int(0)]);
    check(&marks(&nothing, &source));
}

#[test]
fn damaged_marks_are_told_or_give_nothing() {
    for damaged in [Pickled::Int(1), tuple([Pickled::Int(1)]), tuple([mark(-1, tuple([]), 0)])] {
        let problem = Origins::read("a", &damaged).err().unwrap();
        assert!(problem.message.contains("the lines of `a` are damaged"));
    }
    // A number outside the table, a table that is no table, a start behind the text.
    let outside = tuple([list(&[9]), Pickled::Int(9), Pickled::Int(1)]);
    let format = text("FORMAT_WITH_STRING_TABLE");
    let far = tuple([list(&[0]), Pickled::Int(0), Pickled::Int(i64::MAX)]);
    for source in [outside, far, tuple([])] {
        let records = tuple([mark(0, source, 99)]);
        let origins = Origins::read("a", &tuple([format.clone(), tuple([text("x\n")]), records]));
        assert_eq!(origins.unwrap().between(0, 9), None);
    }
}
