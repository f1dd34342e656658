//! What a conversion took notice of: params and files.

use onnxd_proto::onnxd::{IdleParam, ParamsRead};
use std::collections::BTreeSet;

/// What a conversion took notice of.
#[derive(Debug, Default)]
pub(crate) struct Looked {
    /// Dotted keys; one stands for all below it.
    params: BTreeSet<String>,
    /// A plugin does not tell what it looks at.
    at_all_params: bool,
    /// What was looked at in vain.
    pub(super) idle: Vec<IdleParam>,
    pub(super) files: BTreeSet<String>,
}

impl Looked {
    /// What a plugin mapped, and the params that it read; one that does not say may have read all.
    pub(crate) fn by_plugin(&mut self, files: BTreeSet<String>, params: Option<&ParamsRead>) {
        self.files.extend(files);
        match params {
            // The empty key stands for all of them.
            Some(read) if !read.keys.iter().any(String::is_empty) => {
                self.params.extend(read.keys.iter().cloned());
                self.idle.extend(read.idle.iter().cloned());
            }
            _ => self.at_all_params = true,
        }
    }

    /// Whether something took notice of a param, or of a part of it.
    pub(super) fn has_param(&self, key: &str) -> bool {
        let within = |long: &str, short: &str| {
            long.strip_prefix(short).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.at_all_params || self.params.iter().any(|seen| within(key, seen) || within(seen, key))
    }

    /// Whether something looked at a param in vain, and said so.
    pub(super) fn is_idle(&self, key: &str) -> bool {
        self.idle.iter().any(|idle| idle.key == key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_stands_for_what_is_below_it() {
        let mut looked = Looked::default();
        looked.params.insert("quantization.tool".into());
        looked.params.insert("quantization.overrides.conv1".into());
        assert!(looked.has_param("quantization.tool.dtype"));
        assert!(looked.has_param("quantization.overrides"));
        assert!(!looked.has_param("quantization.toolbox"));
        looked.by_plugin(BTreeSet::new(), Some(&ParamsRead::default()));
        assert!(!looked.has_param("job.name"));
        looked.by_plugin(BTreeSet::new(), None);
        assert!(looked.has_param("job.name"));
    }
}
