//! Inputs of a network that the params give a value (`source.constants`): they are no inputs of the model.

use crate::Submission;
use crate::host_params::Source;
use serde_json::{Map, Value};
use std::cell::RefCell;
use std::collections::BTreeSet;

/// Values of inputs, by their names in the source.
#[derive(Debug, Default)]
pub struct Constants {
    values: Map<String, Value>,
    used: RefCell<BTreeSet<String>>,
}

impl Constants {
    /// What the params say. Ask only where inputs can have values.
    pub fn read(submission: &Submission) -> Constants {
        let values = submission.params().section::<Source>().constants();
        let values = values.as_object().cloned().unwrap_or_default();
        Constants { values, used: RefCell::default() }
    }

    /// The value of an input, which counts from now on.
    pub fn take(&self, name: &str) -> Option<&Value> {
        let value = self.values.get(name)?;
        self.used.borrow_mut().insert(name.to_owned());
        Some(value)
    }

    /// Whether an input has a value.
    pub fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// Tells users of values that no input took.
    pub fn tell(&self, submission: &Submission) {
        let used = self.used.borrow();
        for name in self.values.keys().filter(|name| !used.contains(*name)) {
            let why = format!("names `{name}`, which is no input of the network");
            submission.params().without_effect("source.constants", why);
        }
    }
}
