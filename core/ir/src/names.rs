//! Names of values that are added to a graph.

use crate::{Graph, ValueId};

impl Graph {
    /// `base`, or the first of `base_1`, `base_2`, ... that no value of this graph has.
    pub fn fresh_name(&self, base: &str) -> String {
        let base = if base.is_empty() { "value" } else { base };
        if self.value_named(base).is_none() {
            return base.to_owned();
        }
        let mut suffix = 1usize;
        loop {
            let name = format!("{base}_{suffix}");
            if self.value_named(&name).is_none() {
                return name;
            }
            // Doubling keeps a million equal bases from costing a quadratic search.
            suffix = if suffix < 64 { suffix + 1 } else { suffix + self.value_ids().len() };
        }
    }

    /// A free name for what stands in for value `of` in a role: `w` gives `w_scaled`. A name that tells the
    /// role already gets another number, so names stay short however often a value is derived.
    pub fn derived_name(&self, of: ValueId, role: &str) -> String {
        let name = self[of].name.as_str();
        match name.split('_').skip(1).any(|part| part == role) {
            true => self.fresh_name(unnumbered(name)),
            false => self.fresh_name(&format!("{name}_{role}")),
        }
    }
}

/// A name without the number that [`Graph::fresh_name`] gives.
fn unnumbered(name: &str) -> &str {
    match name.rsplit_once('_') {
        Some((base, number)) if number.parse::<usize>().is_ok() => base,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use crate::Graph;

    #[test]
    fn a_derived_name_tells_each_role_once() {
        let mut g = Graph::new("g");
        let mut v = g.add_value("w", None);
        let mut seen = vec![];
        for role in ["scaled", "scaled", "bias", "scaled", "bias", "bias"] {
            let name = g.derived_name(v, role);
            v = g.add_value(&name, None);
            seen.push(name);
        }
        let wanted = ["w_scaled", "w_scaled_1", "w_scaled_1_bias", "w_scaled_1_bias_1"];
        assert_eq!(seen[..4], wanted);
        assert_eq!(seen[4..], ["w_scaled_1_bias_2", "w_scaled_1_bias_3"]);
    }

    #[test]
    fn a_number_of_the_source_stays() {
        let mut g = Graph::new("g");
        let v = g.add_value("conv_12", None);
        assert_eq!(g.derived_name(v, "bias"), "conv_12_bias");
    }

    #[test]
    fn names_do_not_grow_with_a_chain() {
        let mut g = Graph::new("g");
        let mut v = g.add_value("w", None);
        for i in 0..20_000 {
            let name = g.derived_name(v, ["scaled", "merged", "bias"][i % 3]);
            assert!(name.len() < 40, "{name}");
            v = g.add_value(&name, None);
        }
    }
}
