//! One layer while it is built: its section, its inputs, and the graph that it adds nodes to.
//!
//! Nodes are named after their operators (`conv1_conv`); the last one of a layer takes the layer's
//! name when the layer is complete.

use std::collections::HashMap;
use std::ops::Deref;

use onnxd_plugin_sdk::build::{GraphBuilder, Operand, Var};
use onnxd_plugin_sdk::ir::{Tensor, ValueId, ValueType};

use crate::diag::{Code, Diagnostic, Layer, shown};
use crate::geometry::{MapSize, Pads};
use crate::ini::SectionRef;
use crate::mapping::{Map, Parent};
use crate::source::NetworkSource;

/// What a layer's function answers.
pub(crate) type Lowered<T = Var> = Result<T, Diagnostic>;

/// A value as layers read it: `[batch, channels, height, width]`, or `[batch, channels]` if it is flat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Feature {
    pub(crate) value: Var,
    pub(crate) size: MapSize,
    pub(crate) flat: bool,
}

impl From<Feature> for Operand {
    fn from(x: Feature) -> Operand {
        Operand::Var(x.value)
    }
}

impl Feature {
    /// The value with the sizes that its type has.
    pub(crate) fn from_var(b: &GraphBuilder, value: Var, layer: &Layer) -> Lowered<Feature> {
        let ty = b.type_of(value);
        let shape = ty.as_ref().and_then(ValueType::shape).unwrap_or_default();
        let sizes = shape.iter().skip(1).map(|d| usize::try_from(d.known()?).ok());
        let (size, flat) = match sizes.collect::<Option<Vec<usize>>>().as_deref() {
            Some([channels]) => (MapSize::new(*channels, [1, 1]), true),
            Some([channels, height, width]) => (MapSize::new(*channels, [*height, *width]), false),
            _ => {
                let message = format!(
                    "`{}` cannot be its input: layers read [batch, channels, height, width] or \
                     [batch, channels], of known sizes",
                    shown(&b.name_of(value))
                );
                return Err(Diagnostic::new(Code::ShapeMismatch, message).at(layer.clone()));
            }
        };
        Ok(Feature { value, size: size.check(layer)?, flat })
    }
}

/// What each layer computes; nothing for those that cannot be built.
pub(crate) struct Built {
    pub(crate) features: Vec<Option<Feature>>,
    /// By layer and value of its ONNX file.
    pub(crate) results: HashMap<(usize, ValueId), Var>,
}

/// A layer under construction.
pub(crate) struct Cell<'c, 'f, 'i> {
    pub(crate) builder: &'c GraphBuilder,
    pub(crate) source: &'c NetworkSource<'f>,
    pub(crate) section: SectionRef<'i>,
    pub(crate) layer: Layer,
    /// In the order of `Input`.
    pub(crate) inputs: Vec<Feature>,
    /// Names of the inputs' layers.
    pub(crate) parents: Vec<String>,
}

impl Deref for Cell<'_, '_, '_> {
    type Target = GraphBuilder;
    fn deref(&self) -> &GraphBuilder {
        self.builder
    }
}

impl Cell<'_, '_, '_> {
    /// A value that this layer computed, with its sizes.
    pub(crate) fn feature(&self, value: Var) -> Lowered<Feature> {
        Feature::from_var(self, value, &self.layer)
    }

    /// A finding about the layer as a whole.
    pub(crate) fn problem(&self, code: Code, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(code, message).at(self.layer.clone())
    }

    // ---- constants ------------------------------------------------------------------------

    /// A number in the element type of the network.
    pub(crate) fn scalar(&self, role: &str, value: f32) -> Var {
        self.parameter(role, self.source.reals(vec![], vec![value]))
    }

    /// One number for each channel of `x`, or one for all.
    pub(crate) fn per_channel(&self, role: &str, x: Feature, values: Vec<f32>) -> Var {
        if values.iter().all(|value| *value == values[0]) {
            return self.scalar(role, values[0]);
        }
        let dims = if x.flat { vec![values.len()] } else { vec![values.len(), 1, 1] };
        self.parameter(role, self.source.reals(dims, values))
    }

    /// A parameter that other layers may share.
    pub(crate) fn weights(&self, suffix: &'static str, data: Tensor) -> Var {
        let value = self.parameter(suffix, data);
        self.source.offer(&self.layer, suffix, value);
        value
    }

    /// The parameter `suffix` of layer `owner`.
    pub(crate) fn shared(&self, suffix: &'static str, owner: String, dims: Vec<usize>) -> Var {
        self.source.share(self, &self.layer, suffix, owner, dims)
    }

    // ---- inputs ---------------------------------------------------------------------------

    /// The only input, or all of them side by side along the channels.
    pub(crate) fn joined(&self) -> Lowered<Feature> {
        if let [x] = self.inputs[..] {
            return Ok(x);
        }
        let plane = self.common_plane()?;
        let flat = self.inputs.iter().all(|x| x.flat);
        let channels = self.inputs.iter().fold(0_usize, |n, x| n.saturating_add(x.size.channels));
        MapSize::new(channels, plane).check(&self.layer)?;
        let part = |x: &Feature| if flat { Ok(*x) } else { self.spread(*x, plane) };
        let parts: Vec<Feature> = self.inputs.iter().map(part).collect::<Lowered<_>>()?;
        self.feature(self.concat(parts).axis(1).one()?)
    }

    /// As [`Cell::joined`], with axes for height and width.
    pub(crate) fn image(&self) -> Lowered<Feature> {
        self.unsqueezed(self.joined()?)
    }

    /// As [`Cell::joined`], for layers that keep the number of channels: where `NbOutputs` is set, it
    /// must be that number.
    pub(crate) fn kept(&self) -> Lowered<Feature> {
        let x = self.joined()?;
        self.check_outputs(x).map(|()| x)
    }

    /// Height and width of all inputs; single pixels adapt to the others.
    fn common_plane(&self) -> Lowered<[usize; 2]> {
        let planes = || self.inputs.iter().map(|x| x.size.plane());
        let plane = planes().find(|plane| *plane != [1, 1]).unwrap_or([1, 1]);
        match planes().find(|other| *other != plane && *other != [1, 1]) {
            None => Ok(plane),
            Some(_) => Err(self.different_inputs()),
        }
    }

    pub(crate) fn different_inputs(&self) -> Diagnostic {
        const SHOWN_MAX: usize = 8;
        let show = |(name, x): (&String, &Feature)| {
            let MapSize { channels, height, width } = x.size;
            format!("`{name}` {width} x {height} x {channels}")
        };
        let pairs = self.parents.iter().zip(&self.inputs);
        let shown: Vec<String> = pairs.take(SHOWN_MAX).map(show).collect();
        let message = format!("the inputs differ in size: {}", shown.join(", "));
        self.problem(Code::ShapeMismatch, message)
    }

    /// A flat value as an image of one pixel.
    pub(crate) fn unsqueezed(&self, x: Feature) -> Lowered<Feature> {
        if !x.flat {
            return Ok(x);
        }
        let known = self.source.unsqueezed.borrow().get(&x.value).copied();
        let value = match known {
            Some(value) => value,
            None => self.unsqueeze(x, [2, 3])?,
        };
        self.source.unsqueezed.borrow_mut().insert(x.value, value);
        Ok(Feature { value, flat: false, ..x })
    }

    /// An image of a plane; a single pixel is repeated.
    fn spread(&self, x: Feature, plane: [usize; 2]) -> Lowered<Feature> {
        let x = self.unsqueezed(x)?;
        if x.size.plane() == plane {
            return Ok(x);
        }
        let [height, width] = plane.map(|n| n as i64);
        self.feature(self.expand(x, [1, 1, height, width])?)
    }

    /// The part of every input that `InputOffsetX`, `InputWidth` and their like name.
    pub(crate) fn cut_inputs(&self) -> Lowered<Vec<Feature>> {
        let keys = ["InputOffsetX", "InputOffsetY", "InputWidth", "InputHeight"];
        if !keys.iter().any(|key| self.section.has(key)) {
            return Ok(self.inputs.clone());
        }
        let [x, y, width, height] = keys.map(|key| self.section.or(key, 0_usize));
        let (x, y, width, height) = (x?, y?, width?, height?);
        let cut = |input: &Feature| {
            // 0 stands for all that remains.
            let after = |total: usize, offset: usize, wanted: usize| {
                let rest = total.checked_sub(offset)?;
                let wanted = if wanted == 0 { rest } else { wanted };
                rest.checked_sub(wanted).map(|cut| -(cut as i64))
            };
            let MapSize { width: wide, height: tall, .. } = input.size;
            let (Some(right), Some(bottom)) = (after(wide, x, width), after(tall, y, height))
            else {
                let message =
                    format!("asks for a part that the input of {wide} x {tall} does not have");
                return Err(self.section.problem(keys[0], message));
            };
            let pads = Pads { top: -(y as i64), left: -(x as i64), bottom, right };
            if pads == Pads::default() {
                return Ok(*input);
            }
            self.padded(self.unsqueezed(*input)?, pads, 0.0)
        };
        self.inputs.iter().map(cut).collect()
    }

    // ---- helpers of several layers --------------------------------------------------------

    /// Where `NbOutputs` is set, it must be the number of channels that the layer has anyway.
    pub(crate) fn check_outputs(&self, x: Feature) -> Lowered<()> {
        let channels = x.size.channels;
        match self.section.get::<usize>("NbOutputs")? {
            Some(outputs) if outputs != channels => {
                let message = format!("is {outputs}, but the layer has {channels} channels");
                Err(self.section.problem("NbOutputs", message))
            }
            _ => Ok(()),
        }
    }

    /// Which channels the outputs read.
    pub(crate) fn connections(&self, outputs: usize) -> Lowered<Map> {
        let pairs = self.parents.iter().zip(&self.inputs);
        let parents: Vec<Parent> =
            pairs.map(|(name, x)| Parent { name, channels: x.size.channels }).collect();
        let channels = parents.iter().fold(0_usize, |n, p| n.saturating_add(p.channels));
        self.source.claim_connections(outputs, channels, &self.layer)?;
        Map::of_section(self.section, &parents, outputs)
    }

    /// An image with a border of `fill`; negative amounts cut off.
    pub(crate) fn padded(&self, x: Feature, pads: Pads, fill: f32) -> Lowered<Feature> {
        let x = self.cropped(x, pads.map(|n| n.min(0)))?;
        let pads = pads.map(|n| n.max(0));
        if pads == Pads::default() {
            return Ok(x);
        }
        pads.around(x.size, &self.layer)?;
        let Pads { top, left, bottom, right } = pads;
        let padded = self.pad(x, [0, 0, top, left, 0, 0, bottom, right]);
        self.feature(padded.constant_value((fill != 0.0).then_some(fill)).one()?)
    }

    fn cropped(&self, x: Feature, pads: Pads) -> Lowered<Feature> {
        if pads == Pads::default() {
            return Ok(x);
        }
        let size = pads.around(x.size, &self.layer)?;
        let (top, left) = (-pads.top, -pads.left);
        let ends = [top + size.height as i64, left + size.width as i64];
        self.feature(self.slice(x, [top, left], ends).axes([2, 3]).one()?)
    }
}
