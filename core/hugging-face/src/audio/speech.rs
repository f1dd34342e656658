//! Transformers that read samples of sound: convolutions make vectors of them, and a wide one says where they are.

use crate::architecture::{Architecture, Target};
use crate::checkpoint::Checkpoint;
use crate::conv::Conv;
use crate::diag;
use crate::layers::graph;
use crate::layers::{Activation, Layers, activate, checked};
use crate::transformer::{Order, Stack, project};
use onnxd_plugin_sdk::build::{Result, Var};
use onnxd_plugin_sdk::ir::{DataType, Dim, Graph, Tensor, ValueType};

/// PyTorch's epsilon of the norms that no field says.
const EPSILON: f64 = 1e-5;

#[derive(Clone, Debug)]
pub(super) struct Sound {
    pub(super) prefixes: &'static [&'static str],
    pub(super) front: Front,
    pub(super) places: Places,
    pub(super) stack: Stack,
    /// Elements of what is inserted behind each layer, for a language.
    pub(super) inserted: Option<usize>,
    pub(super) adapter: Option<Adapter>,
    pub(super) head: Head,
}

/// The convolutions that make vectors of samples.
#[derive(Clone, Debug)]
pub(super) struct Front {
    /// Channels, kernel and stride of each.
    pub(super) layers: Vec<[usize; 3]>,
    /// Whether vectors are normed behind each; else channels are, behind the first.
    pub(super) is_each_normed: bool,
    pub(super) activation: Activation,
    /// Whether vectors are normed before the layers take them.
    pub(super) has_last_norm: bool,
}

/// The convolution that says where vectors are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    pub(super) taps: usize,
    pub(super) groups: usize,
    /// Whether it reads what a batch norm gives; else its weights have a length of their own.
    pub(super) has_batch_norm: bool,
}

/// Convolutions that make fewer vectors of what the layers give.
#[derive(Clone, Copy, Debug)]
pub(super) struct Adapter {
    pub(super) size: usize,
    pub(super) count: usize,
    pub(super) kernel: usize,
    pub(super) stride: usize,
}

/// What a class gives. `weighted` says that a head reads the sum of all layers, by learned weights.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Head {
    Base,
    /// Scores of so many characters for each vector.
    Ctc(usize),
    /// Labels of all, by the mean of vectors of `size` elements.
    Labels {
        labels: usize,
        size: usize,
        weighted: bool,
    },
    /// Labels of each vector.
    Frames {
        labels: usize,
        weighted: bool,
    },
}

impl Architecture for Sound {
    fn prefixes(&self) -> &'static [&'static str] {
        self.prefixes
    }

    fn graph(&self, weights: &Checkpoint, target: &Target) -> Result<Graph> {
        graph(weights, target.opset, |layers| self.write(&layers))
    }

    fn card(&self) -> Vec<(&'static str, String)> {
        let strides = self.front.layers.iter().map(|[_, _, stride]| *stride);
        let step = strides.fold(1usize, usize::saturating_mul);
        let mut facts = vec![
            ("layers", self.stack.count.to_string()),
            ("hidden_size", self.stack.hidden.to_string()),
            ("heads", self.stack.heads.to_string()),
            ("samples_per_vector", step.to_string()),
        ];
        if self.front.is_each_normed {
            // Processors of such models give a mask, too.
            let fact = "rows of a batch must have one length: the model takes no `attention_mask`";
            facts.push(("padding", fact.to_owned()));
        }
        facts
    }
}

impl Sound {
    fn write(&self, net: &Layers<'_>) -> Result<()> {
        let (b, hidden) = (net.b, self.stack.hidden);
        net.w.pass_over(&["masked_spec_embed", ".num_batches_tracked"]);
        let dims = ["batch_size", "samples"].map(|name| Dim::Symbol(name.into()));
        let samples = b.input("input_values", ValueType::tensor(DataType::Float, dims));
        let (x, size) = self.front.write(net, samples)?;
        let x = match self.front.has_last_norm {
            true => net.layer_norm(x, "feature_projection.layer_norm", size, self.stack.epsilon)?,
            false => x,
        };
        let x = project(net, x, "feature_projection.projection", [size, hidden])?;
        let x = b.add(x, self.places.write(net, x, (hidden, self.front.activation))?)?;
        let states = self.layers(net, x)?;
        let last = *states.last().expect("there is the input of the first layer");
        let (name, given) = match self.head {
            Head::Base => ("last_hidden_state", self.adapted(net, last)?.0),
            Head::Ctc(vocabulary) => {
                let (x, size) = self.adapted(net, last)?;
                ("logits", project(net, x, "lm_head", [size, vocabulary])?)
            }
            Head::Labels { labels, size, weighted } => {
                let x = if weighted { weighted_sum(net, &states)? } else { last };
                let x = project(net, x, "projector", [hidden, size])?;
                let mean = b.reduce_mean(x).axes(vec![1]).keepdims(0).one()?;
                ("logits", project(net, mean, "classifier", [size, labels])?)
            }
            Head::Frames { labels, weighted } => {
                let x = if weighted { weighted_sum(net, &states)? } else { last };
                ("logits", project(net, x, "classifier", [hidden, labels])?)
            }
        };
        b.output(given, name)
    }

    /// What each layer reads, and what the last one gives. The norm of all lies before or behind the layers, as
    /// norms inside of them do.
    fn layers(&self, net: &Layers<'_>, x: Var) -> Result<Vec<Var>> {
        let Stack { hidden, epsilon, order, .. } = self.stack;
        let norm = |x| net.layer_norm(x, "encoder.layer_norm", hidden, epsilon);
        let mut states = vec![if order == Order::After { norm(x)? } else { x }];
        for number in 0..self.stack.count {
            let x = self.stack.layer(net, states[number], number, |_| Ok(None))?;
            states.push(match self.inserted {
                Some(size) => self.inserted(net, x, (number, size))?,
                None => x,
            });
        }
        if order == Order::Before {
            let last = states.pop().expect("there is the input of the first layer");
            states.push(norm(last)?);
        }
        Ok(states)
    }

    /// `x + up(relu(down(norm(x))))` behind a layer.
    fn inserted(&self, net: &Layers<'_>, x: Var, (layer, size): (usize, usize)) -> Result<Var> {
        let (b, hidden) = (net.b, self.stack.hidden);
        let name = |part: &str| format!("{}adapter_layer.{part}", self.stack.prefix(layer));
        let y = net.layer_norm(x, &name("norm"), hidden, EPSILON)?;
        let y = b.relu(project(net, y, &name("linear_1"), [hidden, size])?)?;
        b.add(x, project(net, y, &name("linear_2"), [size, hidden])?)
    }

    /// What comes behind the layers, and how many elements its vectors have.
    fn adapted(&self, net: &Layers<'_>, mut x: Var) -> Result<(Var, usize)> {
        let (b, hidden) = (net.b, self.stack.hidden);
        let Some(Adapter { size, count, kernel, stride }) = self.adapter else {
            return Ok((x, hidden));
        };
        if size != hidden {
            x = project(net, x, "adapter.proj", [hidden, size])?;
            x = net.layer_norm(x, "adapter.proj_layer_norm", size, EPSILON)?;
        }
        x = b.transpose(x).perm([0, 2, 1]).one()?;
        let channels = [size, 2 * size];
        let conv = Conv { channels, kernel: &[kernel], stride: &[stride], pad: 1, groups: 1 };
        for layer in 0..count {
            let both = conv.apply(net, x, &format!("adapter.layers.{layer}.conv"))?;
            let [value, gate] = b.split(both).split(vec![size as i64; 2]).axis(1).outputs()?;
            x = b.mul(value, b.sigmoid(gate)?)?;
        }
        Ok((b.transpose(x).perm([0, 2, 1]).one()?, size))
    }
}

impl Front {
    /// Vectors [B, T, C] of samples, and how many elements they have.
    fn write(&self, net: &Layers<'_>, samples: Var) -> Result<(Var, usize)> {
        let b = net.b;
        let mut x = b.unsqueeze(samples, vec![1])?;
        let mut size = 1;
        for (i, [channels, kernel, stride]) in self.layers.iter().enumerate() {
            let name = format!("feature_extractor.conv_layers.{i}");
            let layer = diag::Layer::new(name.clone(), "convolution of samples");
            let sizes = [size, *channels];
            let (kernel, stride) = (&[*kernel], &[*stride]);
            let conv = Conv { channels: sizes, kernel, stride, pad: 0, groups: 1 };
            x = b.in_layer(layer, |_| {
                let x = conv.apply(net, x, &format!("{name}.conv"))?;
                let x = match (self.is_each_normed, i) {
                    (true, _) => self.normed(net, x, &name, *channels)?,
                    (false, 0) => channels_normed(net, x, &name, *channels)?,
                    (false, _) => x,
                };
                activate(b, x, self.activation)
            })?;
            size = *channels;
        }
        Ok((b.transpose(x).perm([0, 2, 1]).one()?, size))
    }

    /// The norm of vectors [B, C, T].
    fn normed(&self, net: &Layers<'_>, x: Var, name: &str, size: usize) -> Result<Var> {
        let x = net.b.transpose(x).perm([0, 2, 1]).one()?;
        let x = net.layer_norm(x, &format!("{name}.layer_norm"), size, EPSILON)?;
        net.b.transpose(x).perm([0, 2, 1]).one()
    }
}

/// The norm of each channel over time: a group norm of groups of one channel.
fn channels_normed(net: &Layers<'_>, x: Var, name: &str, size: usize) -> Result<Var> {
    let part = |role: &str| {
        let name = format!("{name}.layer_norm.{role}");
        Ok(net.constant(&name, net.w.tensor(&name, &[size])?))
    };
    net.b.instance_normalization(x, part("weight")?, part("bias")?).epsilon(EPSILON).one()
}

/// The sum of what layers give, by learned weights of all.
fn weighted_sum(net: &Layers<'_>, states: &[Var]) -> Result<Var> {
    let b = net.b;
    let weights = net.constant("layer_weights", net.w.tensor("layer_weights", &[states.len()])?);
    let shares = b.softmax(weights).axis(0).one()?;
    let shares = b.reshape(shares, vec![-1, 1, 1, 1]).one()?;
    let states = states.iter().map(|x| b.unsqueeze(*x, vec![0])).collect::<Result<Vec<Var>>>()?;
    let states = b.concat(states).axis(0).one()?;
    b.reduce_sum(b.mul(states, shares)?).axes(vec![0]).keepdims(0).one()
}

impl Places {
    /// What is added to vectors [B, T, E] for where they are.
    fn write(
        &self,
        net: &Layers<'_>,
        x: Var,
        (hidden, activation): (usize, Activation),
    ) -> Result<Var> {
        const NAME: &str = "encoder.pos_conv_embed.conv";
        let b = net.b;
        let mut x = b.transpose(x).perm([0, 2, 1]).one()?;
        if self.has_batch_norm {
            x = batch_normed(net, x, "encoder.pos_conv_embed.batch_norm", hidden)?;
        }
        let dims = [hidden, hidden / self.groups, self.taps];
        let weight = match self.has_batch_norm {
            true => net.w.tensor(&format!("{NAME}.weight"), &dims)?,
            false => weight(net.w, NAME, &dims)?,
        };
        let weight = net.constant(&format!("{NAME}.weight"), weight);
        // As many vectors as before: an even kernel would give one more.
        let half = (self.taps / 2) as i64;
        let pads = vec![half, half - i64::from(self.taps.is_multiple_of(2))];
        let call = b.conv(x, weight).pads(pads).group(self.groups as i64);
        let bias = format!("{NAME}.bias");
        let call = match net.w.optional(&bias, &[hidden])? {
            Some(tensor) => call.b(net.constant(&bias, tensor)),
            None => call,
        };
        let x = activate(b, call.one()?, activation)?;
        b.transpose(x).perm([0, 2, 1]).one()
    }
}

fn batch_normed(net: &Layers<'_>, x: Var, name: &str, size: usize) -> Result<Var> {
    let part = |role: &str| {
        let name = format!("{name}.{role}");
        Ok(net.constant(&name, net.w.tensor(&name, &[size])?))
    };
    let [mean, variance] = ["running_mean", "running_var"].map(part);
    let call = net.b.batch_normalization(x, part("weight")?, part("bias")?, mean?, variance?);
    call.epsilon(EPSILON).one()
}

/// Weights as directions with a length for each tap, which older files call by other names.
fn weight(w: &Checkpoint, name: &str, dims: &[usize; 3]) -> Result<Tensor> {
    let [_, _, taps] = *dims;
    let (lengths, directions) = match w.optional(&format!("{name}.weight_g"), &[1, 1, taps])? {
        Some(lengths) => (lengths, w.tensor(&format!("{name}.weight_v"), dims)?),
        None => {
            let part = |i| format!("{name}.parametrizations.weight.original{i}");
            (w.tensor(&part(0), &[1, 1, taps])?, w.tensor(&part(1), dims)?)
        }
    };
    let numbers = |tensor: &Tensor| tensor.as_slice::<f32>().unwrap_or_default().into_owned();
    let gains = gains(&numbers(&lengths), &directions.as_slice::<f32>().unwrap_or_default());
    checked(name, directions.scaled(2, &gains))
}

/// What directions [.., taps] are multiplied by, so that those of each tap have its length together.
fn gains(lengths: &[f32], directions: &[f32]) -> Vec<f64> {
    let mut squares = vec![0f64; lengths.len()];
    for row in directions.chunks(lengths.len().max(1)) {
        for (square, x) in squares.iter_mut().zip(row) {
            *square += f64::from(*x) * f64::from(*x);
        }
    }
    lengths.iter().zip(squares).map(|(length, square)| f64::from(*length) / square.sqrt()).collect()
}

#[cfg(test)]
mod tests {
    use super::gains;

    #[test]
    fn each_tap_gets_its_length() {
        // Two taps with the directions (3, 4) and (0, 2).
        assert_eq!(gains(&[10.0, 1.0], &[3.0, 0.0, 4.0, 2.0]), [2.0, 0.5]);
    }
}
