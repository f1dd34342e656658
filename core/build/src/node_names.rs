//! What nodes that are added are called.

/// What nodes that are added are called.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum NodeNames {
    Absent,
    /// Like their first outputs.
    Outputs,
    /// This, followed by what their first outputs have behind the prefix of values.
    After(String),
}

impl NodeNames {
    /// What a node is called whose first output is `output`, where names of values start with `prefix`.
    pub(crate) fn of_node(&self, prefix: &str, output: &str) -> String {
        match self {
            NodeNames::Absent => String::new(),
            NodeNames::Outputs => output.to_owned(),
            NodeNames::After(base) => match output.strip_prefix(prefix) {
                Some(rest) => format!("{base}{rest}"),
                None => format!("{base}_{output}"),
            },
        }
    }
}
