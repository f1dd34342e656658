//! The params of a conversion, as components read them.

use onnxd_params::{Resolved, Section};
use onnxd_proto::onnxd as message;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;

/// All params of one conversion, complete with defaults. Cheap to clone; all clones share the record of what was read.
#[derive(Clone, Debug, Default)]
pub struct Params(Arc<Resolved>);

impl Params {
    /// Params as the host hands them over: one object of sections.
    ///
    /// # Errors
    /// That the text is no object.
    pub fn parse(json: &str) -> Result<Params, String> {
        Ok(Params(Arc::new(Resolved::parse(json)?)))
    }

    /// Params that came with other JSON.
    #[cfg(feature = "pass")]
    pub(crate) fn of(values: Value) -> Params {
        Params(Arc::new(Resolved::from_json(values)))
    }

    /// A section that [`params!`](crate::params!) declared, in types.
    ///
    /// # Panics
    /// If a row of the declaration allows values that its field does not hold. That is a fault of the plugin, and is
    /// reported as one.
    pub fn section<S: Section>(&self) -> S {
        self.0.section()
    }

    /// A param by its dotted key; null if it is unset. Looking at it says that its value counts.
    ///
    /// A param that a user set and that no component looked at is a finding of the conversion. So look at a param only
    /// where its value counts: the seed of random numbers only if there are any.
    pub fn get(&self, key: &str) -> &Value {
        self.0.get(key)
    }

    /// A param by its dotted key, for a look that does not count.
    #[cfg(feature = "quantizer")]
    pub(crate) fn peek(&self, key: &str) -> &Value {
        self.0.peek(key)
    }

    /// Says that a param, or a part of it, changes nothing although it was looked at. `why` goes on after its key and
    /// value: "has no effect: ...", "names ..., which ...". The user hears of it if the param was set.
    pub fn without_effect(&self, key: &str, why: impl Into<String>) {
        self.0.without_effect(key, why);
    }

    /// What was read so far, beside `others`.
    pub(crate) fn read(&self, others: &BTreeSet<String>) -> message::ParamsRead {
        let seen = self.0.seen();
        let idle = seen.idle.iter().cloned().map(|(key, why)| message::IdleParam { key, why });
        message::ParamsRead {
            keys: seen.keys.union(others).cloned().collect(),
            idle: idle.collect(),
        }
    }

    /// What `f` gives, and the keys that it looked at, which do not count as read.
    #[cfg(feature = "quantizer")]
    pub(crate) fn recording<T>(&self, f: impl FnOnce() -> T) -> (T, BTreeSet<String>) {
        let before = std::mem::take(&mut self.0.seen().keys);
        let given = f();
        let during = std::mem::replace(&mut self.0.seen().keys, before);
        (given, during)
    }
}
