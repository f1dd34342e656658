//! What a user asks for: settings, exceptions for single nodes, and which nodes it is about.

use crate::range::Levels;
use crate::report::name_of;
use onnxd_ir::{DataType, Graph, Node};
use std::collections::BTreeMap;

/// ONNX Runtime's first layer of BERT.
pub(crate) const EMBEDDINGS: &str = "EmbedLayerNormalization";

/// How values of a node are quantized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Type of activations.
    pub activation: DataType,
    /// Type of weights.
    pub weight: DataType,
    /// One scale for each output channel of a weight.
    pub per_channel: bool,
    /// Ranges of activations are symmetric around zero.
    pub symmetric: bool,
    /// Weights use one bit less.
    pub reduce_range: bool,
    /// Products are to be exact on every processor: weights of `int8` are held as `uint8`, and those
    /// of signed activations use one bit less.
    pub exact: bool,
    /// The type of weights was named in the params: it is taken at its word, also where another would
    /// be exact on more processors.
    pub named: bool,
    /// Elements along an axis that share a scale, where weights are in blocks.
    pub block_size: usize,
    /// The range of weights may be narrower than they are, where that lowers their squared error.
    /// With few bits it always may.
    pub clip_weights: bool,
}

impl Settings {
    /// With types of which runtimes have products: none has them of signed activations and unsigned
    /// weights.
    #[must_use]
    pub(crate) fn runnable(self) -> Settings {
        let signed = |dtype| match dtype {
            DataType::Uint8 => DataType::Int8,
            DataType::Uint16 => DataType::Int16,
            other => other,
        };
        match self.activation {
            DataType::Int8 | DataType::Int16 => {
                let reduced = self.exact && self.activation == DataType::Int8;
                let reduce_range = self.reduce_range || reduced;
                Settings { weight: signed(self.weight), reduce_range, ..self }
            }
            _ => self,
        }
    }

    /// The integers that activations use.
    pub(crate) fn activation_levels(self) -> Levels {
        let levels = Levels::of(self.activation);
        let all = levels.unwrap_or(Levels { dtype: DataType::Uint8, min: 0, max: 255 });
        if self.symmetric { all.symmetric() } else { all }
    }

    /// Whether weights of `int8` are held as `uint8`: sums of two products with `uint8` saturate on
    /// processors without instructions for them, unless weights use one bit less.
    pub(crate) fn held_above(self) -> bool {
        let bytes = (self.activation, self.weight) == (DataType::Uint8, DataType::Int8);
        self.exact && bytes && !self.reduce_range
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            activation: DataType::Uint8,
            weight: DataType::Int8,
            per_channel: true,
            symmetric: false,
            reduce_range: false,
            exact: false,
            named: false,
            block_size: 32,
            clip_weights: false,
        }
    }
}

/// What differs for a single node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// See [`Settings::activation`].
    pub activation: Option<DataType>,
    /// See [`Settings::weight`].
    pub weight: Option<DataType>,
    /// See [`Settings::per_channel`].
    pub per_channel: Option<bool>,
    /// See [`Settings::symmetric`].
    pub symmetric: Option<bool>,
    /// See [`Settings::reduce_range`].
    pub reduce_range: Option<bool>,
    /// See [`Settings::block_size`].
    pub block_size: Option<usize>,
}

impl Overrides {
    fn over(&self, all: Settings) -> Settings {
        Settings {
            activation: self.activation.unwrap_or(all.activation),
            weight: self.weight.unwrap_or(all.weight),
            per_channel: self.per_channel.unwrap_or(all.per_channel),
            symmetric: self.symmetric.unwrap_or(all.symmetric),
            reduce_range: self.reduce_range.unwrap_or(all.reduce_range),
            named: all.named || self.weight.is_some(),
            exact: all.exact && self.weight.is_none() && self.reduce_range.is_none(),
            block_size: self.block_size.unwrap_or(all.block_size),
            ..all
        }
    }
}

/// Settings for all nodes, and for which.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuantizeRequest {
    /// For nodes without exceptions.
    pub settings: Settings,
    /// Operators to quantize; empty means all that it is good for.
    pub op_types: Vec<String>,
    /// Names of nodes to quantize, `*` and `?` allowed; empty means all.
    pub include: Vec<String>,
    /// Names of nodes to leave in floating point, `*` and `?` allowed.
    pub exclude: Vec<String>,
    /// By name of node, `*` and `?` allowed.
    pub overrides: BTreeMap<String, Overrides>,
    /// What a search found, which counts last, by the value that a node computes first. A graph has no two of one
    /// name, while names of nodes are any text, and several may be alike.
    pub found: BTreeMap<String, Overrides>,
    /// The only node to quantize of those that are to be, by the value that it computes first.
    pub alone: Option<String>,
    /// What a `MatMul` with constant weights and its bias give is quantized, too.
    pub linear_outputs: bool,
    /// Of two computed factors, `MatMul` and `Gemm` make no integers.
    pub matmul_const_b_only: bool,
    /// Nothing but weighted operators computes on integers: no operator follows, saturation stands for no
    /// clamp, and what `Gemm` computes is quantized at once, as with `Conv`.
    pub weighted_only: bool,
    /// What the format has besides, where outputs are not good.
    pub remedies: Remedies,
}

/// Ways to better outputs that a format has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Remedies {
    /// Activations of 16 bits.
    pub wide_activations: bool,
    /// Mode `weight_only`.
    pub weights_alone: bool,
}

impl Default for QuantizeRequest {
    fn default() -> Self {
        QuantizeRequest {
            settings: Settings::default(),
            op_types: Vec::new(),
            include: Vec::new(),
            exclude: Vec::new(),
            overrides: BTreeMap::new(),
            found: BTreeMap::new(),
            alone: None,
            linear_outputs: false,
            matmul_const_b_only: true,
            weighted_only: false,
            remedies: Remedies::default(),
        }
    }
}

impl QuantizeRequest {
    /// The oldest operator set whose `QuantizeLinear` and `DequantizeLinear` take the types asked
    /// for, with scales for channels.
    #[must_use]
    pub fn opset_min(&self) -> i64 {
        let all = [Some(self.settings.activation), Some(self.settings.weight)];
        let single = self.overrides.values().flat_map(|o| [o.activation, o.weight]);
        match all.into_iter().chain(single).flatten().all(|dtype| dtype.bits() == 8) {
            true => 13,
            false => 21,
        }
    }

    /// The same for tables of constants alone, if operators that read them are named: they become
    /// integers without samples in every mode.
    #[must_use]
    pub fn tables(&self) -> Option<QuantizeRequest> {
        let named = [EMBEDDINGS, "Gather"].into_iter().filter(|op| self.names(op));
        let op_types: Vec<String> = named.map(str::to_owned).collect();
        // What gathers takes whole bytes everywhere.
        let weight = Some(self.settings.weight).filter(|dtype| dtype.bits() == 8);
        let settings = Settings { weight: weight.unwrap_or(DataType::Int8), ..self.settings };
        (!op_types.is_empty()).then(|| QuantizeRequest { op_types, settings, ..self.clone() })
    }

    /// Whether [`QuantizeRequest::op_types`] names an operator.
    pub(crate) fn names(&self, op: &str) -> bool {
        self.op_types.iter().any(|named| named == op)
    }

    /// The settings of a node; `None` if it is to stay in floating point. A node is known by what
    /// the report calls it; one without a name also by what it computes.
    #[must_use]
    pub fn settings_for(&self, graph: &Graph, node: &Node) -> Option<Settings> {
        let reported = name_of(graph, node);
        let value = node.output(0).map(|v| graph[v].name.as_str());
        let computed = value.filter(|_| node.name.is_empty());
        let fits =
            |glob: &str| fits(glob, &reported) || computed.is_some_and(|name| fits(glob, name));
        let named = |list: &[String]| list.iter().any(|glob| fits(glob));
        let wanted = (self.op_types.is_empty() || self.op_types.contains(&node.op))
            && (self.include.is_empty() || named(&self.include))
            && !named(&self.exclude)
            && self.alone.as_deref().is_none_or(|alone| value == Some(alone));
        let over = |settings: Settings| {
            let asked = self.overrides.iter().filter(|(glob, _)| fits(glob)).map(|of| of.1);
            let found = value.and_then(|value| self.found.get(value));
            asked.chain(found).fold(settings, |settings, overrides| overrides.over(settings))
        };
        wanted.then(|| over(self.settings))
    }
}

/// Whether `name` is what `glob` stands for: `*` is any text, `?` any character.
pub(crate) fn fits(glob: &str, name: &str) -> bool {
    wildmatch::WildMatch::new(glob).matches(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs() {
        for (glob, name, fit) in [
            ("conv*", "conv1", true),
            ("*/fc?", "block/fc1", true),
            ("*/fc?", "block/fc12", false),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbY", false),
            ("", "", true),
            ("*", "", true),
            ("x", "", false),
            ("a[1]*", "a[1]{2}", true),
            ("Conv*", "conv1", false),
        ] {
            assert_eq!(fits(glob, name), fit, "{glob} {name}");
        }
    }

    #[test]
    fn nodes_are_chosen_and_have_exceptions() {
        let mut request =
            QuantizeRequest { exclude: vec!["last*".into()], ..QuantizeRequest::default() };
        let signed = Overrides { activation: Some(DataType::Int8), ..Overrides::default() };
        request.overrides.insert("conv?".into(), signed);
        let mut graph = Graph::new("g");
        let y = graph.add_value("y", None);
        let named = |name: &str| Node { name: name.into(), ..Node::new("Conv", [], [y]) };
        let of = |request: &QuantizeRequest, name: &str| {
            Some(request.settings_for(&graph, &named(name))?.activation)
        };
        assert_eq!(of(&request, "conv1"), Some(DataType::Int8));
        assert_eq!(of(&request, "other"), Some(DataType::Uint8));
        assert_eq!(of(&request, "last1"), None);
        request.op_types = vec!["Gemm".into()];
        assert_eq!(of(&request, "conv1"), None);
        for (glob, left) in [("y", true), ("Conv -> y", true), ("x", false)] {
            let request =
                QuantizeRequest { exclude: vec![glob.into()], ..QuantizeRequest::default() };
            assert_eq!(of(&request, "").is_none(), left, "{glob}");
            assert!(of(&request, "named").is_some(), "what it computes is not its name");
        }
    }
}
