//! One layer while it is built: its inputs, and the nodes it adds to the graph.
//!
//! Nodes are named after their operators (`conv1_conv`); the last one of a layer takes the
//! layer's name when the layer is complete.

use onnxd_plugin_sdk::ir::{Attr, DataType, Node, Op, Tensor, ValueId, ValueType, ops};

use crate::build::{Build, Feature, Size};
use crate::diag::{Code, Diagnostic, Layer};
use crate::ini::SectionRef;
use crate::mapping::{Map, Parent};

/// What a layer's function answers.
pub(crate) type Lowered = Result<Feature, Diagnostic>;

/// A layer under construction.
pub(crate) struct Cell<'b, 'f, 'i> {
    pub(crate) build: &'b mut Build<'f>,
    pub(crate) section: SectionRef<'i>,
    pub(crate) layer: Layer,
    /// In the order of `Input`.
    pub(crate) inputs: Vec<Feature>,
    /// Names of the inputs' layers.
    pub(crate) parents: Vec<String>,
}

/// How much is added on each side; negative values cut off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pads {
    pub(crate) top: i64,
    pub(crate) left: i64,
    pub(crate) bottom: i64,
    pub(crate) right: i64,
}

impl Pads {
    pub(crate) fn symmetric([y, x]: [i64; 2]) -> Pads {
        Pads { top: y, left: x, bottom: y, right: x }
    }

    fn map(self, f: impl Fn(i64) -> i64) -> Pads {
        Pads { top: f(self.top), left: f(self.left), bottom: f(self.bottom), right: f(self.right) }
    }

    fn size(self, size: Size, layer: &Layer) -> Result<Size, Diagnostic> {
        let along = |n: usize, before: i64, after: i64| {
            let sum = n as i128 + i128::from(before) + i128::from(after);
            (sum > 0).then(|| usize::try_from(sum).unwrap_or(usize::MAX))
        };
        let height = along(size.height, self.top, self.bottom);
        let width = along(size.width, self.left, self.right);
        match (height, width) {
            (Some(height), Some(width)) => Size { height, width, ..size }.check(layer),
            _ => {
                let message =
                    format!("cuts more off than the input of {} x {} has", size.width, size.height);
                Err(Diagnostic::new(Code::ShapeMismatch, message).at(layer.clone()))
            }
        }
    }
}

impl<'i> Cell<'_, '_, 'i> {
    // ---- nodes ----------------------------------------------------------------------------

    /// Adds a node whose output has type `ty`.
    pub(crate) fn node(
        &mut self,
        suffix: &str,
        ty: ValueType,
        make: impl FnOnce(ValueId) -> Node,
    ) -> ValueId {
        let name = self.build.fresh(&format!("{}_{suffix}", self.layer.name));
        let out = self.build.graph.add_value(&name, Some(ty));
        let node = Node { layers: vec![self.layer.clone()], ..make(out) };
        self.build.graph.add_node(node);
        out
    }

    /// Adds an operator whose output has axes of `sizes` after the batch.
    pub(crate) fn op<O: Op>(&mut self, sizes: &[usize], op: O) -> ValueId {
        let ty = self.build.shaped(sizes);
        self.node(&O::NAME.to_lowercase(), ty, |out| op.into_node(out))
    }

    /// Adds an operator whose output is an image of a size.
    pub(crate) fn image<O: Op>(&mut self, size: Size, op: O) -> Feature {
        let Size { channels, height, width } = size;
        let value = self.op(&[channels, height, width], op);
        Feature { value, size, flat: false }
    }

    /// Adds an operator whose output is like its input `x`.
    pub(crate) fn same<O: Op>(&mut self, x: Feature, op: O) -> Feature {
        let ty = self.build.value_type(x.size, x.flat);
        let value = self.node(&O::NAME.to_lowercase(), ty, |out| op.into_node(out));
        Feature { value, ..x }
    }

    // ---- constants ------------------------------------------------------------------------

    pub(crate) fn constant(&mut self, suffix: &str, data: Tensor) -> ValueId {
        self.build.constant(&format!("{}_{suffix}", self.layer.name), data)
    }

    /// A number in the element type of the network.
    pub(crate) fn scalar(&mut self, suffix: &str, value: f32) -> ValueId {
        let data = self.build.reals(vec![], vec![value]);
        self.constant(suffix, data)
    }

    pub(crate) fn integers(&mut self, suffix: &str, values: Vec<i64>) -> ValueId {
        self.constant(suffix, Tensor::vector(values))
    }

    /// One number for each channel of `x`, or one for all.
    pub(crate) fn per_channel(&mut self, suffix: &str, x: Feature, values: Vec<f32>) -> ValueId {
        if values.iter().all(|value| *value == values[0]) {
            return self.scalar(suffix, values[0]);
        }
        let dims = if x.flat { vec![values.len()] } else { vec![values.len(), 1, 1] };
        let data = self.build.reals(dims, values);
        self.constant(suffix, data)
    }

    /// `value`, of samples of `sizes`, in another element type.
    pub(crate) fn cast(
        &mut self,
        value: ValueId,
        from: DataType,
        to: DataType,
        sizes: &[usize],
    ) -> ValueId {
        if from == to {
            return value;
        }
        let ValueType::Tensor { shape, .. } = self.build.shaped(sizes) else { return value };
        let ty = ValueType::Tensor { dtype: Some(to), shape };
        self.node("cast", ty, |out| {
            Node::new("Cast", [value], [out]).with("to", Attr::Int(to.number().into()))
        })
    }

    // ---- inputs ---------------------------------------------------------------------------

    /// The only input, or all of them side by side along the channels.
    pub(crate) fn input(&mut self) -> Lowered {
        if let [x] = self.inputs[..] {
            return Ok(x);
        }
        let plane = self.common_plane()?;
        let flat = self.inputs.iter().all(|x| x.flat);
        let mut parts = Vec::new();
        let mut channels = 0_usize;
        for x in self.inputs.clone() {
            let x = if flat { x } else { self.unsqueezed(x) };
            channels = channels.saturating_add(x.size.channels);
            parts.push(self.broadcast(x, plane).value);
        }
        let size = Size::new(channels, plane).check(&self.layer)?;
        let ty = self.build.value_type(size, flat);
        let concat = ops::Concat::new(parts, 1);
        let value = self.node("concat", ty, |out| concat.into_node(out));
        Ok(Feature { value, size, flat })
    }

    /// As [`Cell::input`], with axes for height and width.
    pub(crate) fn image_input(&mut self) -> Lowered {
        let x = self.input()?;
        Ok(self.unsqueezed(x))
    }

    /// Height and width of all inputs; single pixels adapt to the others.
    fn common_plane(&self) -> Result<[usize; 2], Diagnostic> {
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
            let Size { channels, height, width } = x.size;
            format!("`{name}` {width} x {height} x {channels}")
        };
        let pairs = self.parents.iter().zip(&self.inputs);
        let shown: Vec<String> = pairs.take(SHOWN_MAX).map(show).collect();
        let message = format!("the inputs differ in size: {}", shown.join(", "));
        Diagnostic::new(Code::ShapeMismatch, message).at(self.layer.clone())
    }

    /// A flat value as an image of one pixel.
    pub(crate) fn unsqueezed(&mut self, x: Feature) -> Feature {
        if !x.flat {
            return x;
        }
        if let Some(value) = self.build.unsqueezed.get(&x.value) {
            return Feature { value: *value, flat: false, ..x };
        }
        let axes = self.integers("axes", vec![2, 3]);
        let image = self.image(x.size, ops::Unsqueeze::new(x.value, axes));
        self.build.unsqueezed.insert(x.value, image.value);
        image
    }

    fn broadcast(&mut self, x: Feature, [height, width]: [usize; 2]) -> Feature {
        if x.size.plane() == [height, width] {
            return x;
        }
        let shape = self.integers("shape", vec![1, 1, height as i64, width as i64]);
        self.image(Size { height, width, ..x.size }, ops::Expand::new(x.value, shape))
    }

    /// Takes the part of every input that `InputOffsetX`, `InputWidth` and their like name.
    pub(crate) fn cut_inputs(&mut self) -> Result<(), Diagnostic> {
        let keys = ["InputOffsetX", "InputOffsetY", "InputWidth", "InputHeight"];
        if !keys.iter().any(|key| self.section.has(key)) {
            return Ok(());
        }
        let [x, y, width, height] = keys.map(|key| self.section.or(key, 0_usize));
        let (x, y, width, height) = (x?, y?, width?, height?);
        for index in 0..self.inputs.len() {
            let input = self.inputs[index];
            // 0 stands for all that remains.
            let after = |total: usize, offset: usize, wanted: usize| {
                let rest = total.checked_sub(offset)?;
                let wanted = if wanted == 0 { rest } else { wanted };
                rest.checked_sub(wanted).map(|cut| -(cut as i64))
            };
            let right = after(input.size.width, x, width);
            let bottom = after(input.size.height, y, height);
            let (Some(right), Some(bottom)) = (right, bottom) else {
                let message = format!(
                    "asks for a part that the input of {} x {} does not have",
                    input.size.width, input.size.height
                );
                return Err(self.section.problem(keys[0], message));
            };
            let pads = Pads { top: -(y as i64), left: -(x as i64), bottom, right };
            if pads != Pads::default() {
                let image = self.unsqueezed(input);
                self.inputs[index] = self.pad(image, pads, 0.0)?;
            }
        }
        Ok(())
    }

    // ---- helpers of several layers --------------------------------------------------------

    /// `NbOutputs`, which must be there.
    pub(crate) fn outputs(&self) -> Result<usize, Diagnostic> {
        match self.section.required::<usize>("NbOutputs")? {
            0 => Err(self.section.problem("NbOutputs", "must be at least 1")),
            outputs => Ok(outputs),
        }
    }

    /// Where `NbOutputs` is set, it must be the number of channels that the layer has anyway.
    pub(crate) fn check_outputs(&self, x: Feature) -> Result<(), Diagnostic> {
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
    pub(crate) fn connections(&mut self, outputs: usize) -> Result<Map, Diagnostic> {
        let pairs = self.parents.iter().zip(&self.inputs);
        let parents: Vec<Parent> = pairs
            .map(|(name, x)| Parent { name: name.as_str(), channels: x.size.channels })
            .collect();
        let channels = parents.iter().fold(0_usize, |n, p| n.saturating_add(p.channels));
        self.build.claim_connections(outputs, channels, &self.layer)?;
        Map::of_section(self.section, &parents, outputs)
    }

    /// Adds `fill` around an image, or cuts off.
    pub(crate) fn pad(&mut self, x: Feature, pads: Pads, fill: f32) -> Lowered {
        let x = self.crop(x, pads.map(|n| n.min(0)))?;
        let pads = pads.map(|n| n.max(0));
        if pads == Pads::default() {
            return Ok(x);
        }
        let size = pads.size(x.size, &self.layer)?;
        let Pads { top, left, bottom, right } = pads;
        let amounts = self.integers("pads", vec![0, 0, top, left, 0, 0, bottom, right]);
        let constant_value = (fill != 0.0).then(|| self.scalar("fill", fill));
        Ok(self.image(size, ops::Pad { constant_value, ..ops::Pad::new(x.value, amounts) }))
    }

    fn crop(&mut self, x: Feature, pads: Pads) -> Lowered {
        if pads == Pads::default() {
            return Ok(x);
        }
        let size = pads.size(x.size, &self.layer)?;
        let (top, left) = (-pads.top, -pads.left);
        let starts = self.integers("starts", vec![top, left]);
        let ends = vec![top + size.height as i64, left + size.width as i64];
        let ends = self.integers("ends", ends);
        let axes = self.integers("axes", vec![2, 3]);
        let slice = ops::Slice::new(x.value, starts, ends);
        Ok(self.image(size, ops::Slice { axes: Some(axes), ..slice }))
    }

    /// A finding about the layer as a whole.
    pub(crate) fn problem(&self, code: Code, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(code, message).at(self.layer.clone())
    }
}
