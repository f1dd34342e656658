//! Whether a node is one that its opset has. What a later opset has names it.

use crate::{GraphBuilder, Result};
use onnxd_diagnostics::{Code, Diagnostic, shown};
use onnxd_ir::Node;
use onnxd_ir::schema::{self, OpSchema};

impl GraphBuilder {
    /// The operator in the version of its domain; `None` if no table lists it, as in foreign domains.
    pub(crate) fn schema(&self, domain: &str, op: &str) -> Result<Option<&'static OpSchema>> {
        let Some(version) = self.version(domain) else {
            let message = format!("The graph has no operators of the domain `{}`.", shown(domain));
            return Err(self.diagnostic(Code::OnnxInvalid, message));
        };
        let found = schema::find(domain, op, version);
        let unknown = !domain.is_empty() && schema::history(domain, op).is_empty();
        if found.is_some() || unknown {
            return Ok(found);
        }
        let message = format!("{} does not exist at opset {version}.", shown(op));
        let found = self.diagnostic(Code::OnnxInvalid, message);
        let later = schema::history(domain, op).iter().find(|schema| schema.since > version);
        Err(match later.filter(|_| domain.is_empty()) {
            Some(schema) => found.until_opset(schema.since),
            None => found,
        })
    }

    /// Counts, attributes and types, where the operator is known.
    pub(crate) fn check(&self, node: &Node) -> Result<()> {
        let domain = if node.is_standard() { "" } else { node.domain.as_str() };
        let Some(schema) = self.schema(domain, &node.op)? else { return Ok(()) };
        let verified = |schema| onnxd_ir::verify::verify_node(&self.graph(), node, schema);
        let Some(first) = verified(schema).0.into_iter().next() else { return Ok(()) };
        let later = schema::history(domain, &node.op).iter().filter(|s| s.since > schema.since);
        let later = later.filter(|_| domain.is_empty()).find(|s| verified(s).0.is_empty());
        Err(self.at_layer(match later {
            Some(schema) => first.until_opset(schema.since),
            None => first,
        }))
    }

    /// The finding about a node, at the layer that it was built for.
    pub(crate) fn at_layer(&self, mut found: Diagnostic) -> Diagnostic {
        if let Some(layer) = self.layer() {
            let node = found.layer.replace(layer).map(|l| l.kind).unwrap_or_default();
            if !node.is_empty() && !found.message.contains(&node) {
                found.message = format!("{node}: {}", found.message);
            }
        }
        found
    }
}
