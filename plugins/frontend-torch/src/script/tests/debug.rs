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
    let origins = Origins::read(pickled).unwrap();
    let origin = |line: u64, text: &str| {
        let (text, function) = (text.to_owned(), Some("go".to_owned()));
        Some(Origin { file: "net.py".into(), line, text, function })
    };
    assert_eq!(origins.between(12, 17), origin(8, "return x.é() + 1"));
    assert_eq!(origins.between(20, 27), origin(7, "def go(self, x):"));
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
fn damaged_marks_give_nothing() {
    for damaged in [Pickled::Int(1), tuple([Pickled::Int(1)]), tuple([mark(-1, tuple([]), 0)])] {
        assert!(Origins::read(&damaged).is_none());
    }
    // A number outside the table, a table that is no table, a start behind the text.
    let outside = tuple([list(&[9]), Pickled::Int(9), Pickled::Int(1)]);
    let format = text("FORMAT_WITH_STRING_TABLE");
    let far = tuple([list(&[0]), Pickled::Int(0), Pickled::Int(i64::MAX)]);
    for source in [outside, far, tuple([])] {
        let records = tuple([mark(0, source, 99)]);
        let origins = Origins::read(&tuple([format.clone(), tuple([text("x\n")]), records]));
        assert_eq!(origins.unwrap().between(0, 9), None);
    }
}

#[test]
fn long_lines_and_long_sources_are_bounded() {
    let long = "é".repeat(100_000);
    let source = tuple([text(&format!("def {long}(\n{long}")), text("net.py"), Pickled::Int(1)]);
    let origins = Origins::read(&tuple([mark(0, source.clone(), 200_006)])).unwrap();
    let found = origins.between(0, 9).unwrap();
    assert!(found.text.len() < 400 && found.function.unwrap().len() < 400);
    // Each mark looks through the text once, and all together not without end.
    let marks = (0..5_000).map(|at| mark(at, source.clone(), 200_006)).collect::<Vec<_>>();
    let origins = Origins::read(&Pickled::Tuple(marks.into())).unwrap();
    let found = (0..5_000).filter(|at| origins.between(*at, at + 1).is_some());
    assert!((100..2_000).contains(&found.count()));
    let path = format!("/home/me/{long}.py");
    let marks =
        (0..5_000).map(|at| mark(at, tuple([text("f(x)\n"), text(&path), Pickled::Int(1)]), 0));
    let origins = Origins::read(&Pickled::Tuple(marks.collect())).unwrap();
    assert!(origins.between(0, 1).unwrap().file.starts_with("éé"));
    let found = (0..5_000).filter(|at| origins.between(*at, at + 1).is_some());
    assert!((100..2_000).contains(&found.count()));
}
