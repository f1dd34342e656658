//! What the version of a file changes in the meaning of operators.
//!
//! Torch writes the version that the operators of a model need. An older file means what the operator meant then:
//!
//! | operator | before version | change |
//! | --- | --- | --- |
//! | `div`, `div_` | 4 | integers are divided with `rounding_mode="trunc"` |
//! | `full` | 5 | without `dtype`, the fill value is a float |
//! | `linspace` | 8 | without `steps`, there are 100 |
//! | `logspace` | 9 | without `steps`, there are 100 |
//!
//! `gelu` got the argument `approximate` in version 10, with a default that is the old meaning.

use super::Default;
use std::rc::Rc;

/// What is known of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArgumentForm {
    Absent,
    None,
    /// An integer or boolean.
    Integer,
    /// A tensor of integers or booleans.
    Integers,
    /// A number or tensor of floats.
    Float,
    /// Complex numbers, and what is no number.
    Other,
}

/// The one argument of an old call that must change.
#[derive(Debug, PartialEq)]
pub(crate) struct Upgrade {
    /// Where it stands unless it is named; none if it is always named.
    position: Option<usize>,
    name: &'static str,
    change: ArgumentChange,
}

#[derive(Debug, PartialEq)]
pub(crate) enum ArgumentChange {
    /// It becomes this value.
    Value(Default),
    /// It becomes a float of the same value.
    ToFloat,
}

/// Finds an argument by position and name.
type ArgumentLookup<'a> = &'a dyn Fn(Option<usize>, &str) -> ArgumentForm;

/// An operator whose meaning changed.
struct UpgradeRow {
    name: &'static str,
    /// The first version with today's meaning.
    version: u32,
    upgrade: fn(ArgumentLookup) -> Option<Upgrade>,
}

const ROWS: &[UpgradeRow] = &[
    UpgradeRow { name: "aten::div", version: 4, upgrade: div },
    UpgradeRow { name: "aten::div_", version: 4, upgrade: div },
    UpgradeRow { name: "aten::full", version: 5, upgrade: full },
    UpgradeRow { name: "aten::linspace", version: 8, upgrade: steps },
    UpgradeRow { name: "aten::logspace", version: 9, upgrade: steps },
];

/// What a call in a file of `version` needs to mean the same today. `see` says what an argument is.
pub(crate) fn upgrade<V>(
    name: &str,
    version: u32,
    positional: &[V],
    named: &[(Rc<str>, V)],
    see: impl Fn(&V) -> ArgumentForm,
) -> Option<Upgrade> {
    let row = ROWS.iter().find(|row| row.name == name && version < row.version)?;
    (row.upgrade)(&|position, name| {
        let at = position.and_then(|position| positional.get(position));
        let by_name = || named.iter().find(|(other, _)| &**other == name).map(|(_, value)| value);
        at.or_else(by_name).map_or(ArgumentForm::Absent, &see)
    })
}

impl Upgrade {
    /// Changes the argument. `make` gives the new value; it gets the old one, if there is one.
    pub(crate) fn apply<V>(
        &self,
        positional: &mut [V],
        named: &mut Vec<(Rc<str>, V)>,
        make: impl FnOnce(&ArgumentChange, Option<&V>) -> V,
    ) {
        let at = self.position.and_then(|position| positional.get_mut(position));
        let by_name = named.iter_mut().find(|(name, _)| &**name == self.name);
        if let Some(value) = at.or(by_name.map(|(_, value)| value)) {
            *value = make(&self.change, Some(value));
            return;
        }
        named.push((self.name.into(), make(&self.change, None)));
    }
}

/// `div(Tensor self, Tensor|Scalar other, *, str? rounding_mode, Tensor out)`; two numbers have a float quotient.
fn div(argument: ArgumentLookup) -> Option<Upgrade> {
    use ArgumentForm::{Integer, Integers};
    let operands = (argument(Some(0), "self"), argument(Some(1), "other"));
    let integers = matches!(operands, (Integers, Integer | Integers) | (Integer, Integers))
        && argument(None, "out") != ArgumentForm::Float
        && argument(None, "rounding_mode") == ArgumentForm::Absent;
    let change = ArgumentChange::Value(Default::Text("trunc"));
    integers.then_some(Upgrade { position: None, name: "rounding_mode", change })
}

/// `full(int[] size, Scalar fill_value, *, Dimname[]? names, ScalarType? dtype, ..., Tensor out)`
fn full(argument: ArgumentLookup) -> Option<Upgrade> {
    let free =
        |name: &str| matches!(argument(None, name), ArgumentForm::Absent | ArgumentForm::None);
    let fill = argument(Some(1), "fill_value");
    let inferred = matches!(fill, ArgumentForm::Integer | ArgumentForm::Integers)
        && ["names", "dtype", "out"].into_iter().all(free);
    inferred.then_some(Upgrade {
        position: Some(1),
        name: "fill_value",
        change: ArgumentChange::ToFloat,
    })
}

/// `linspace(Scalar start, Scalar end, int? steps, ...)`, `logspace` too.
fn steps(argument: ArgumentLookup) -> Option<Upgrade> {
    let missing = matches!(argument(Some(2), "steps"), ArgumentForm::Absent | ArgumentForm::None);
    let change = ArgumentChange::Value(Default::Int(100));
    missing.then_some(Upgrade { position: Some(2), name: "steps", change })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Arguments as the test writes them: `i`, `f`, `n`one; in capitals tensors.
    fn seen(argument: &char) -> ArgumentForm {
        match argument {
            'i' => ArgumentForm::Integer,
            'I' => ArgumentForm::Integers,
            'f' | 'F' => ArgumentForm::Float,
            'n' => ArgumentForm::None,
            _ => ArgumentForm::Other,
        }
    }

    fn upgraded(name: &str, version: u32, positional: &str, named: &[(&str, char)]) -> String {
        let mut positional: Vec<char> = positional.chars().collect();
        let mut named: Vec<(Rc<str>, char)> =
            named.iter().map(|(name, value)| ((*name).into(), *value)).collect();
        let Some(upgrade) = upgrade(name, version, &positional, &named, seen) else {
            return "same".to_owned();
        };
        upgrade.apply(&mut positional, &mut named, |change, old| match (change, old) {
            (ArgumentChange::Value(Default::Text("trunc")), None) => 't',
            (ArgumentChange::Value(Default::Int(100)), _) => '#',
            (ArgumentChange::ToFloat, Some('i')) => 'f',
            other => panic!("{other:?}"),
        });
        let named: String = named.iter().map(|(name, value)| format!(" {name}={value}")).collect();
        positional.into_iter().collect::<String>() + &named
    }

    #[test]
    fn integers_were_divided_to_integers() {
        for operands in ["II", "Ii", "iI"] {
            let expected = format!("{operands} rounding_mode=t");
            assert_eq!(upgraded("aten::div", 3, operands, &[]), expected);
            assert_eq!(upgraded("aten::div_", 1, operands, &[]), expected);
            assert_eq!(upgraded("aten::div", 4, operands, &[]), "same");
        }
        for operands in ["FI", "IF", "If", "Fi", "ii", "if", "Ic"] {
            assert_eq!(upgraded("aten::div", 3, operands, &[]), "same", "{operands}");
        }
        assert_eq!(upgraded("aten::div", 3, "I", &[("other", 'i')]), "I other=i rounding_mode=t");
        assert_eq!(upgraded("aten::div", 3, "II", &[("rounding_mode", 'n')]), "same");
        assert_eq!(upgraded("aten::div", 3, "II", &[("out", 'F')]), "same");
        assert_eq!(upgraded("aten::mul", 3, "II", &[]), "same");
    }

    #[test]
    fn full_gave_floats() {
        assert_eq!(upgraded("aten::full", 4, "li", &[("dtype", 'n')]), "lf dtype=n");
        assert_eq!(upgraded("aten::full", 4, "l", &[("fill_value", 'i')]), "l fill_value=f");
        assert_eq!(upgraded("aten::full", 4, "lf", &[]), "same");
        assert_eq!(upgraded("aten::full", 5, "li", &[]), "same");
        for name in ["dtype", "out", "names"] {
            assert_eq!(upgraded("aten::full", 4, "li", &[(name, 'i')]), "same");
        }
    }

    #[test]
    fn steps_were_a_hundred() {
        assert_eq!(upgraded("aten::linspace", 7, "ff", &[]), "ff steps=#");
        assert_eq!(upgraded("aten::linspace", 7, "ffn", &[]), "ff#");
        assert_eq!(upgraded("aten::logspace", 8, "ff", &[("steps", 'n')]), "ff steps=#");
        assert_eq!(upgraded("aten::linspace", 7, "ffi", &[]), "same");
        assert_eq!(upgraded("aten::linspace", 8, "ffn", &[]), "same");
    }
}
