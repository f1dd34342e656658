//! A budget of rewrites, for bisection.

/// How many more rewrites may be made.
#[derive(Clone, Copy, Debug)]
pub struct Fuel(Option<u64>);

impl Fuel {
    /// No limit.
    pub const UNLIMITED: Fuel = Fuel(None);

    /// At most `rewrites_max` rewrites; 0 means no limit.
    pub fn limited(rewrites_max: u64) -> Fuel {
        Fuel((rewrites_max > 0).then_some(rewrites_max))
    }

    /// Whether nothing may be rewritten any more.
    pub fn is_empty(self) -> bool {
        self.0 == Some(0)
    }

    /// Spends `rewrites`.
    pub fn spend(&mut self, rewrites: u64) {
        if let Some(left) = &mut self.0 {
            *left = left.saturating_sub(rewrites);
        }
    }
}
