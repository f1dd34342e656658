//! The node of an operator from what is given by name, whichever operator it is.

use crate::result::Result;
use crate::{GraphBuilder, Operand, Var, promoted};
use onnxd_diagnostics::{Code, Diagnostic, shown};
use onnxd_ir::schema::{self, AttrSchema, OpSchema, Param, ParamKind, ParamType};
use onnxd_ir::{Attr, DataType, Node, ValueId};
use std::collections::{HashMap, VecDeque};

/// Names that inputs or attributes have in older versions of the standard.
const FORMERLY: &[(&str, &str, &str)] = &[
    ("Pad", "constant_value", "value"),
    ("Pad", "pads", "paddings"),
    ("Upsample", "scales", "height_scale"),
];
/// What a [`crate::Call`] of any operator has. Its code is compiled once, not for each operator; methods of calls only
/// pass on what they are given.
pub(crate) struct Draft<'b> {
    pub(crate) builder: &'b GraphBuilder,
    domain: &'b str,
    op: &'b str,
    /// By the name in the newest version; unnamed ones by position.
    given: Vec<(&'b str, Operand)>,
    variadic: Vec<Operand>,
    /// Whether `variadic` are all inputs from the first on.
    pub(crate) positional: bool,
    /// Attributes as another node has them.
    pub(crate) kept: Vec<(String, Attr)>,
    /// Of the first outputs.
    pub(crate) names: VecDeque<String>,
    pub(crate) called: Option<String>,
    /// A node whose texts it has.
    pub(crate) like: Option<&'b Node>,
}

impl<'b> Draft<'b> {
    pub(crate) fn new(
        builder: &'b GraphBuilder,
        (domain, op): (&'b str, &'b str),
        given: Vec<(&'b str, Operand)>,
        variadic: Vec<Operand>,
    ) -> Box<Draft<'b>> {
        let (positional, kept, names) = (false, vec![], VecDeque::new());
        let (called, like) = (None, None);
        Box::new(Draft {
            builder,
            domain,
            op,
            given,
            variadic,
            positional,
            kept,
            names,
            called,
            like,
        })
    }

    /// Names the first outputs after their roles.
    pub(crate) fn roles(&mut self, roles: &[&str]) {
        self.names = roles.iter().map(|role| self.builder.fresh(role)).collect();
    }

    /// Adds the node; gives output number `slot`.
    pub(crate) fn only(&mut self, slot: usize) -> Result<Var> {
        let wanted: Vec<bool> = (0..=slot).map(|i| i == slot).collect();
        Ok(self.emit(&wanted)?.remove(0))
    }

    /// Adds the node with the outputs that `node` has.
    pub(crate) fn outputs_of(&mut self, node: &Node) -> Result<Vec<Option<Var>>> {
        let wanted: Vec<bool> = node.outputs.iter().map(Option::is_some).collect();
        let mut found = self.emit(&wanted)?.into_iter();
        Ok(wanted.iter().map(|wanted| wanted.then(|| found.next()).flatten()).collect())
    }

    pub(crate) fn set(&mut self, name: &'b str, to: Operand) {
        self.given.retain(|(n, _)| *n != name);
        self.given.push((name, to));
    }

    fn wrong(&self, what: impl std::fmt::Display) -> Diagnostic {
        let message = format!("{}: {what}.", shown(self.op));
        self.builder.diagnostic(Code::OnnxInvalid, message)
    }

    /// Adds the node; gives the outputs that are wanted.
    pub(crate) fn emit(&mut self, wanted: &[bool]) -> Result<Vec<Var>> {
        let given = self.given.iter_mut().map(|(_, operand)| operand);
        given.chain(&mut self.variadic).for_each(|operand| self.builder.locate(operand));
        let node = match self.builder.schema(self.domain, self.op)? {
            Some(schema) => self.placed(schema)?,
            None => self.as_given()?,
        };
        let (node, outputs) = self.with_outputs(node, wanted);
        let id = self.builder.add_node(node)?;
        if let Some(constants) = self.builder.folded(id) {
            return Ok(constants);
        }
        Ok(outputs)
    }

    fn with_outputs(&mut self, mut node: Node, wanted: &[bool]) -> (Node, Vec<Var>) {
        let role = snake(self.op);
        if let Some(like) = self.like {
            node.doc.clone_from(&like.doc);
            node.metadata.clone_from(&like.metadata);
        }
        node.name = self.called.take().unwrap_or_default();
        let mut outputs = vec![];
        for wanted in wanted {
            let name = self.names.pop_front().unwrap_or_else(|| self.builder.fresh(&role));
            let id = wanted.then(|| self.builder.value(&name));
            outputs.extend(id.map(|id| self.builder.var(id)));
            node.outputs.push(id);
        }
        (node, outputs)
    }

    /// The node of an operator that no table lists: inputs in the order given, attributes by name.
    fn as_given(&mut self) -> Result<Node> {
        let (domain, attrs) = (self.domain.to_owned(), std::mem::take(&mut self.kept));
        let mut node = Node { domain, attrs, ..Node::new(self.op, [], []) };
        for input in &std::mem::take(&mut self.variadic) {
            node.inputs.push(self.builder.materialize(input, None, (self.op, "input"))?);
        }
        for (name, operand) in std::mem::take(&mut self.given) {
            let attr = operand.kind().and_then(|kind| operand.to_attr(kind));
            let attr = attr.ok_or_else(|| self.wrong(format_args!("`{name}` is no attribute")))?;
            node.attrs.push((name.to_owned(), attr));
        }
        Ok(node)
    }

    /// The node with each operand where this version of the operator has it.
    fn placed(&mut self, schema: &'static OpSchema) -> Result<Node> {
        let mut operands: Vec<Operand> = vec![];
        let mut attrs = vec![];
        if self.positional {
            operands.append(&mut self.variadic);
        }
        for (name, operand) in std::mem::take(&mut self.given) {
            if matches!(operand, Operand::Absent) {
                continue;
            }
            match self.place_of(schema, name) {
                Some(OperandSlot::Input(i)) => {
                    operands.resize(operands.len().max(i + 1), Operand::Absent);
                    operands[i] = operand;
                }
                Some(OperandSlot::Attribute(attribute)) => {
                    attrs.extend(self.attribute(attribute, &operand)?);
                }
                None => {
                    let version = self.builder.version(self.domain).unwrap_or(0);
                    let what = format_args!("there is no `{name}` at opset {version}");
                    return Err(self.wrong(what));
                }
            }
        }
        if !self.variadic.is_empty() {
            let fixed = schema.inputs.iter().filter(|p| !is_variadic(p)).count();
            operands.resize(operands.len().max(fixed), Operand::Absent);
            operands.append(&mut self.variadic);
        }
        attrs.sort_by(|a, b| a.0.cmp(&b.0));
        attrs.splice(0..0, std::mem::take(&mut self.kept));
        let inputs = self.inputs(schema, &operands)?;
        let domain = self.domain.to_owned();
        Ok(Node { domain, inputs, attrs, ..Node::new(self.op, [], []) })
    }

    #[cfg(test)]
    pub(crate) fn has_place(&self, schema: &'static OpSchema, name: &str) -> bool {
        self.place_of(schema, name).is_some()
    }

    pub(crate) fn place_of(&self, schema: &'static OpSchema, name: &str) -> Option<OperandSlot> {
        let other = FORMERLY.iter().filter(|(op, ..)| *op == self.op).find_map(|(_, new, old)| {
            if *new == name { Some(*old) } else { (*old == name).then_some(*new) }
        });
        for name in [Some(name), other].into_iter().flatten() {
            let input = schema.inputs.iter().position(|p| p.name.eq_ignore_ascii_case(name));
            let input = input.map(OperandSlot::Input);
            let mut attributes = schema.attributes.iter();
            let mut attribute = || attributes.find(|a| a.name.eq_ignore_ascii_case(name));
            if let Some(place) = input.or_else(|| attribute().map(OperandSlot::Attribute)) {
                return Some(place);
            }
        }
        // Some inputs have had another name at the same position.
        let newest = &schema::history(self.domain, self.op).last()?.inputs;
        let at = newest.iter().position(|p| p.name == name)?;
        let old = schema.inputs.get(at)?;
        let other = newest.iter().any(|p| p.name.eq_ignore_ascii_case(old.name));
        (!other).then_some(OperandSlot::Input(at))
    }

    /// The attribute, unless it is at its default.
    pub(crate) fn attribute(
        &self,
        attribute: &'static AttrSchema,
        operand: &Operand,
    ) -> Result<Option<(String, Attr)>> {
        let constant = match operand {
            Operand::Var(v) => self
                .builder
                .constant_of(*v)
                .map(Operand::Tensor)
                .or_else(|| self.builder.ints_of(*v).map(Operand::Ints)),
            other => Some(other.clone()),
        };
        let name = attribute.name;
        let Some(constant) = constant else {
            let version = self.builder.version(self.domain).unwrap_or(0);
            let given = match operand {
                Operand::Var(v) => shown(&self.builder.name_of(*v)),
                _ => String::new(),
            };
            let what =
                format!("`{name}` is an attribute at opset {version}, `{given}` is computed");
            return Err(self.wrong(what));
        };
        let Some(attr) = constant.to_attr(attribute.kind) else {
            return Err(self.wrong(format_args!("`{name}` is of another kind")));
        };
        let is_default = attribute.default.is_some_and(|text| match &attr {
            Attr::Int(x) => text.parse() == Ok(*x),
            Attr::Float(x) => text.parse() == Ok(*x),
            Attr::Str(x) => text.as_bytes() == x.as_ref(),
            _ => false,
        });
        Ok((!is_default).then(|| (name.to_owned(), attr)))
    }

    /// Inputs as values. Those that have one element type by the standard are brought to one.
    pub(crate) fn inputs(
        &self,
        schema: &OpSchema,
        operands: &[Operand],
    ) -> Result<Vec<Option<ValueId>>> {
        let mut values = vec![];
        let mut types: HashMap<&str, Option<DataType>> = HashMap::new();
        for (i, operand) in operands.iter().enumerate() {
            let param = schema.input(i);
            let letter = param.and_then(shared_type);
            let common = letter.and_then(|letter| {
                *types.entry(letter).or_insert_with(|| self.common(schema, letter, operands))
            });
            if common.is_none() && operand.is_number() {
                self.has_types(schema, letter, operands)?;
            }
            let role = param.map_or("input", |p| p.name);
            let fixed = param.and_then(|p| fixed(schema, p, operand));
            let mut operand = operand.clone();
            if let (Operand::Var(v), Some(to)) = (&operand, common) {
                let from = self.builder.dtype_of(*v);
                if from.is_some_and(|from| from != to) {
                    operand = Operand::Var(self.builder.cast(*v, to)?);
                }
            }
            values.push(self.builder.materialize(&operand, common.or(fixed), (self.op, role))?);
        }
        while values.last() == Some(&None) {
            values.pop();
        }
        Ok(values)
    }

    /// A number that must have the element type of values, of which one is not known.
    fn has_types(
        &self,
        schema: &OpSchema,
        letter: Option<&str>,
        operands: &[Operand],
    ) -> Result<()> {
        let same = |i| letter.is_some() && schema.input(i).and_then(shared_type) == letter;
        let unknown = operands.iter().enumerate().find_map(|(i, operand)| match operand {
            Operand::Var(v) if same(i) && self.builder.dtype_of(*v).is_none() => Some(*v),
            _ => None,
        });
        let Some(v) = unknown else { return Ok(()) };
        let name = shown(&self.builder.name_of(v));
        Err(self.wrong(format_args!("the element type of `{name}` is not known")))
    }

    /// The element type of all inputs that share the type letter.
    fn common(&self, schema: &OpSchema, letter: &str, operands: &[Operand]) -> Option<DataType> {
        if !self.builder.state.borrow().checked {
            return None;
        }
        let mut common_type: Option<DataType> = None;
        let mut weak_float = false;
        for (i, operand) in operands.iter().enumerate() {
            if schema.input(i).and_then(shared_type) != Some(letter) {
                continue;
            }
            let dtype = match operand {
                Operand::Var(v) => self.builder.dtype_of(*v)?,
                Operand::Tensor(tensor) => tensor.dtype(),
                Operand::Float(_) | Operand::Floats(_) => {
                    weak_float = true;
                    continue;
                }
                _ => continue,
            };
            common_type = Some(match common_type {
                Some(so_far) => promoted(so_far, dtype)?,
                None => dtype,
            });
        }
        // A fraction beside integers makes them float32, as in frameworks.
        match common_type {
            Some(dtype) if weak_float && dtype.is_integer() => Some(DataType::Float),
            common_type => common_type,
        }
    }
}

/// Where an operator takes an operand.
pub(crate) enum OperandSlot {
    Input(usize),
    Attribute(&'static AttrSchema),
}

/// The letter for the element type that `param` has in common with others.
fn shared_type(param: &Param) -> Option<&'static str> {
    let ParamType::Letter(letter) = &param.ty else { return None };
    let mixed = matches!(param.kind, ParamKind::Variadic { homogeneous: false, .. });
    (!mixed).then_some(*letter)
}

pub(crate) fn is_variadic(param: &Param) -> bool {
    matches!(param.kind, ParamKind::Variadic { .. })
}

/// The element type that a number gets where the standard allows one type only.
fn fixed(schema: &OpSchema, param: &Param, operand: &Operand) -> Option<DataType> {
    let types = schema.types_of(param)?;
    let number = !matches!(operand, Operand::Var(_) | Operand::Tensor(_) | Operand::Absent);
    number.then(|| types.only_tensor()).flatten()
}

/// `reduce_mean` for `ReduceMean`.
pub(crate) fn snake(op: &str) -> String {
    let mut name = String::new();
    let chars: Vec<char> = op.replace("NaN", "Nan").chars().collect();
    for (i, c) in chars.iter().enumerate() {
        let after_small = i > 0 && !chars[i - 1].is_ascii_uppercase();
        let before_small = chars.get(i + 1).is_some_and(char::is_ascii_lowercase);
        if c.is_ascii_uppercase() && i > 0 && (after_small || before_small) {
            name.push('_');
        }
        name.extend(c.to_lowercase());
    }
    name
}
