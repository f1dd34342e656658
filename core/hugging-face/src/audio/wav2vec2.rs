//! wav2vec 2.0, and what differs from it in names and switches: HuBERT, UniSpeech.

use super::speech::{Adapter, Front, Head, Places, Sound};
use crate::architecture::Architecture;
use crate::config::Config;
use crate::fields;
use crate::layers::Activation;
use crate::transformer::{Mlp, Names, Order, Stack};
use onnxd_plugin_sdk::build::Result;

const NAMES: Names = Names {
    layers: "encoder.layers",
    norm: "layer_norm",
    mlp_norm: "final_layer_norm",
    attention: ["attention.q_proj", "attention.k_proj", "attention.v_proj", "attention.out_proj"],
    up: "feed_forward.intermediate_dense",
    down: "feed_forward.output_dense",
    scales: [""; 2],
};

/// Fields of training, and of heads that are not read.
const PASSED: [&str; 44] = [
    "activation_dropout", "apply_spec_augment", "codevector_dim", "contrastive_logits_temperature",
    "conv_bias", "ctc_loss_reduction", "ctc_zero_infinity", "diversity_loss_weight",
    "feat_extract_dropout", "freeze_feat_extract_train", "feat_proj_dropout",
    "feat_quantizer_dropout", "final_dropout", "gradient_checkpointing", "hidden_dropout",
    "layerdrop", "mask_channel_length", "mask_channel_min_space", "mask_channel_other",
    "mask_channel_prob", "mask_channel_selection", "mask_feature_length", "mask_feature_min_masks",
    "mask_feature_prob", "mask_time_length", "mask_time_min_masks", "mask_time_min_space",
    "mask_time_other", "mask_time_prob", "mask_time_selection", "no_mask_channel_overlap",
    "no_mask_time_overlap", "num_clusters", "num_codevector_groups", "num_codevectors_per_group",
    "num_ctc_classes", "num_feat_extract_layers", "num_negatives", "proj_codevector_dim",
    "replace_prob", "tdnn_dilation", "tdnn_dim", "tdnn_kernel", "xvector_output_dim",
];

/// What a class gives.
#[derive(Clone, Copy)]
enum Class {
    Base,
    Ctc,
    Labels,
    Frames,
}

pub(super) fn wav2vec2(c: &Config) -> Result<Box<dyn Architecture>> {
    let known = [
        ("Wav2Vec2Model", Class::Base),
        ("Wav2Vec2ForCTC", Class::Ctc),
        ("Wav2Vec2ForSequenceClassification", Class::Labels),
        ("Wav2Vec2ForAudioFrameClassification", Class::Frames),
    ];
    let sound = described(c, &["wav2vec2."], &known)?;
    let adapter = adapter(c, sound.stack.hidden)?;
    if adapter.is_some() && matches!(sound.head, Head::Labels { .. } | Head::Frames { .. }) {
        return Err(c.unknown("add_adapter", "which no class that classifies has"));
    }
    Ok(Box::new(Sound { adapter, ..sound }))
}

pub(super) fn hubert(c: &Config) -> Result<Box<dyn Architecture>> {
    let known = [
        ("HubertModel", Class::Base),
        ("HubertForCTC", Class::Ctc),
        ("HubertForSequenceClassification", Class::Labels),
    ];
    let mut sound = described(c, &["hubert."], &known)?;
    sound.front.has_last_norm = c.flag("feat_proj_layer_norm", true)?;
    sound.places.has_batch_norm = c.flag("conv_pos_batch_norm", false)?;
    Ok(Box::new(sound))
}

pub(super) fn unispeech(c: &Config) -> Result<Box<dyn Architecture>> {
    let known = [
        ("UniSpeechModel", Class::Base),
        ("UniSpeechForCTC", Class::Ctc),
        ("UniSpeechForSequenceClassification", Class::Labels),
    ];
    Ok(Box::new(described(c, &["unispeech."], &known)?))
}

pub(super) fn unispeech_sat(c: &Config) -> Result<Box<dyn Architecture>> {
    let known = [
        ("UniSpeechSatModel", Class::Base),
        ("UniSpeechSatForCTC", Class::Ctc),
        ("UniSpeechSatForSequenceClassification", Class::Labels),
        ("UniSpeechSatForAudioFrameClassification", Class::Frames),
    ];
    Ok(Box::new(described(c, &["unispeech_sat."], &known)?))
}

fn described(
    c: &Config,
    prefixes: &'static [&'static str],
    known: &[(&str, Class)],
) -> Result<Sound> {
    fields::pass_over(c, &PASSED);
    let class = fields::class(c, known)?;
    let hidden = fields::size(c, "hidden_size", 768)?;
    let heads = fields::size(c, "num_attention_heads", 12)?;
    fields::check_heads(c, "num_attention_heads", [hidden, heads])?;
    let is_stable = c.flag("do_stable_layer_norm", false)?;
    let epsilon = c.number("layer_norm_eps", 1e-5)?;
    let stack = Stack {
        names: NAMES,
        count: fields::layers(c, 12)?,
        hidden,
        heads,
        inner: fields::size(c, "intermediate_size", 3072)?,
        epsilon,
        activation: fields::activation(c, "hidden_act", Activation::Gelu)?,
        order: if is_stable { Order::Before } else { Order::After },
        mlp: Mlp::Plain,
        has_scales: false,
    };
    let groups = fields::size(c, "num_conv_pos_embedding_groups", 16)?;
    if hidden % groups != 0 {
        let must = format!("a divisor of the {hidden} elements");
        return Err(c.wrong("num_conv_pos_embedding_groups", &must));
    }
    let taps = fields::size(c, "num_conv_pos_embeddings", 128)?;
    let inserted = c.optional_size("adapter_attn_dim")?;
    let weighted = c.flag("use_weighted_layer_sum", false)?;
    if weighted && is_stable && matches!(class, Class::Labels | Class::Frames) {
        c.note(
            "The classifier reads a sum of all layers, with the last norm behind the last one. \
             Transformers 4 computes it so; Transformers 5 leaves the norm out.",
        );
    }
    let size = fields::size(c, "classifier_proj_size", 256)?;
    let vocabulary = fields::size(c, "vocab_size", 32)?;
    Ok(Sound {
        prefixes,
        front: front(c)?,
        places: Places { taps, groups, has_batch_norm: false },
        stack,
        // Layers with norms behind their branches have none inserted.
        inserted: inserted.filter(|_| is_stable),
        adapter: None,
        head: match class {
            Class::Base => Head::Base,
            Class::Ctc => Head::Ctc(vocabulary),
            Class::Labels => Head::Labels { labels: fields::labels(c)?, size, weighted },
            Class::Frames => Head::Frames { labels: fields::labels(c)?, weighted },
        },
    })
}

/// The convolutions that make vectors of samples.
fn front(c: &Config) -> Result<Front> {
    let channels = fields::sizes(c, "conv_dim", &[512; 7])?;
    let kernels = fields::sizes(c, "conv_kernel", &[10, 3, 3, 3, 3, 2, 2])?;
    let strides = fields::sizes(c, "conv_stride", &[5, 2, 2, 2, 2, 2, 2])?;
    for (key, list) in [("conv_kernel", &kernels), ("conv_stride", &strides)] {
        if list.len() != channels.len() {
            return Err(c.wrong(key, "as long as `conv_dim`"));
        }
    }
    let sizes = channels.into_iter().zip(kernels).zip(strides);
    let is_each_normed = match c.word("feat_extract_norm")? {
        None | Some("group") => false,
        Some("layer") => true,
        Some(_) => {
            return Err(c.unknown("feat_extract_norm", "and only `group` and `layer` are known"));
        }
    };
    Ok(Front {
        layers: sizes.map(|((channels, kernel), stride)| [channels, kernel, stride]).collect(),
        is_each_normed,
        activation: fields::activation(c, "feat_extract_activation", Activation::Gelu)?,
        has_last_norm: true,
    })
}

/// Convolutions behind the layers.
fn adapter(c: &Config, hidden: usize) -> Result<Option<Adapter>> {
    let adapter = Adapter {
        size: fields::size(c, "output_hidden_size", hidden)?,
        count: fields::size(c, "num_adapter_layers", 3)?,
        kernel: fields::size(c, "adapter_kernel_size", 3)?,
        stride: fields::size(c, "adapter_stride", 2)?,
    };
    Ok(c.flag("add_adapter", false)?.then_some(adapter))
}
