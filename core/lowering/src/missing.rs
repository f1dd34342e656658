//! Operators that cannot be lowered.

use onnxd_diagnostics::{Diagnostic, Layer, shown};
use std::collections::BTreeMap;

/// Places of an operator that are named.
const PLACES_MAX: usize = 3;

/// Operators that cannot be lowered, with the places where they occur. Each is one finding.
#[derive(Clone, Debug, Default)]
pub struct Missing(BTreeMap<String, MissingLayers>);

#[derive(Clone, Debug, Default)]
struct MissingLayers {
    count: usize,
    first: Vec<Layer>,
}

impl Missing {
    /// Adds a place of `op`.
    pub fn add(&mut self, op: impl Into<String>, place: Layer) {
        let places = self.0.entry(op.into()).or_default();
        places.count += 1;
        if places.first.len() < PLACES_MAX {
            places.first.push(place);
        }
    }

    /// A finding for each operator, as `say` makes it of the operator's name and its number of places,
    /// ` (2 places)` or nothing. It names the first place, and its help the next ones.
    pub fn findings(self, say: impl Fn(&str, &str) -> Diagnostic) -> Vec<Diagnostic> {
        let finding = |(op, MissingLayers { count, first }): (String, MissingLayers)| {
            let counted = if count == 1 { String::new() } else { format!(" ({count} places)") };
            let mut found = say(&op, &counted);
            let mut places = first.into_iter();
            found.layer = places.next();
            let more = places.map(|p| format!("`{}` {}", shown(&p.name), p.place));
            let more: Vec<String> = more.map(|m| m.trim().to_owned()).collect();
            if !more.is_empty() {
                let help = format!("{} It also occurs at {}.", found.help, more.join(", "));
                found.help = help.trim_start().to_owned().into();
            }
            found
        };
        self.0.into_iter().map(finding).collect()
    }
}
