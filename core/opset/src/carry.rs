//! What the operator table alone tells about a change: attributes and their defaults, and how many
//! inputs and outputs there may be.

use crate::context::{Done, LowerContext, refuse};
use onnxd_ir::Attr;
use onnxd_ir::schema::{AttrSchema, OpSchema};

/// Attributes of early versions that only spoke to the memory planner.
const FORGOTTEN: &[&str] = &["consumed_inputs"];
/// Attributes whose absence means ones.
const ONES: &[&str] = &["dilations", "strides"];

/// Writes defaults out that differ, and leaves attributes out that say what is so without them.
pub(crate) fn attributes(s: &LowerContext<'_>, old: &OpSchema, new: &OpSchema) -> Done {
    let given = s.attr_names();
    for attr in &old.attributes {
        if given.iter().any(|name| name == attr.name) {
            continue;
        }
        let Some(other) = new.attribute(attr.name) else { continue };
        if let Some(value) = default_of(attr)
            && (other.required || other.default != attr.default)
        {
            s.set(attr.name, value);
        }
    }
    for name in given.iter().filter(|n| new.attribute(n).is_none() && !n.starts_with("__")) {
        if !says_nothing(s, old, name) {
            return refuse(format!("there is no attribute `{name}`"));
        }
        s.drop(name);
    }
    Ok(())
}

/// Whether the node means the same without the attribute.
fn says_nothing(s: &LowerContext<'_>, old: &OpSchema, name: &str) -> bool {
    let default = old.attribute(name).and_then(default_of);
    match s.attr(name) {
        _ if FORGOTTEN.contains(&name) => true,
        Ok(Some(Attr::Ints(list))) if ONES.contains(&name) => list.iter().all(|x| *x == 1),
        Ok(Some(given)) => default.is_some_and(|d| same(&d, &given)),
        Ok(None) => true,
        Err(_) => false,
    }
}

fn same(a: &Attr, b: &Attr) -> bool {
    match (a, b) {
        (Attr::Int(a), Attr::Int(b)) => a == b,
        (Attr::Float(a), Attr::Float(b)) => a == b,
        (Attr::Str(a), Attr::Str(b)) => a == b,
        (Attr::Ints(a), Attr::Ints(b)) => a == b,
        _ => false,
    }
}

/// The default that the operator table names.
fn default_of(attr: &AttrSchema) -> Option<Attr> {
    let text = attr.default?;
    Some(match attr.kind {
        1 => Attr::Float(text.parse().ok()?),
        2 => Attr::Int(text.parse().ok()?),
        3 => Attr::Str(text.as_bytes().into()),
        7 => Attr::Ints(text.split(',').map(|x| x.parse().ok()).collect::<Option<_>>()?),
        _ => return None,
    })
}

/// Takes off inputs that are absent anyway, and outputs without reader.
pub(crate) fn trim(s: &LowerContext<'_>, new: &OpSchema) -> Done {
    let inputs = s.inputs();
    if inputs.len() > new.inputs_max && inputs[new.inputs_max..].iter().all(Option::is_none) {
        s.set_inputs(&inputs[..new.inputs_max])?;
    }
    let outputs = s.output_count();
    if outputs > new.outputs_max && (new.outputs_max..outputs).all(|i| !s.wants(i)) {
        s.keep_outputs(new.outputs_max);
    }
    Ok(())
}

/// Spells the attribute `name` as the other version does; words without a pair are refused.
pub(crate) fn respell(
    s: &LowerContext<'_>,
    name: &str,
    default: &str,
    pairs: &[(&str, &str)],
) -> Done {
    let old = s.word(name, default)?;
    let Some((_, new)) = pairs.iter().find(|(from, _)| *from == old) else {
        return refuse(format!("there is no `{name}` \"{old}\""));
    };
    s.set_word(name, new);
    Ok(())
}
