"""Makes the cases `hub-*`: backbones and layers of keras_hub, and what Keras itself computes with them.

    KERAS_BACKEND=jax python hub.py [CASE...]

It needs no TensorFlow, unlike `make.py`, whose files have the same names here. Weights are random, also those that Keras
begins with zeros or ones. Some steps are padding.
"""

import os
import sys
import tempfile

import keras
import keras_hub
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
TEXT = dict(vocabulary_size=50, num_layers=2, num_heads=2, hidden_dim=16, intermediate_dim=24, max_sequence_length=12)
STEPS = 7


def text(class_name, **more):
    return lambda: getattr(keras_hub.models, class_name)(**{**TEXT, **more})


def llama(class_name, **more):
    sizes = dict(vocabulary_size=50, num_layers=2, num_query_heads=4, num_key_value_heads=2, hidden_dim=16,
                 intermediate_dim=24, rope_max_wavelength=100)
    return lambda: getattr(keras_hub.models, class_name)(**{**sizes, **more})


def layers():
    """Layers by themselves, whose mask is that of the embedding."""
    own = keras_hub.layers
    gelu = keras_hub.models.BertBackbone(**{**TEXT, "num_layers": 1}).transformer_layers[0].activation
    ids = keras.Input((None,), dtype="int32", name="token_ids")
    x = own.TokenAndPositionEmbedding(50, 12, 16, mask_zero=True, name="embedding")(ids)
    x = own.TransformerEncoder(24, 2, dropout=0.1, normalize_first=True, name="encoder")(x)
    x = own.TransformerDecoder(24, 2, activation=gelu, name="decoder")(x)
    x = own.TransformerDecoder(24, 4, name="both_ways")(x, use_causal_mask=False)
    untied = keras.layers.ReversibleEmbedding(50, 16, tie_weights=False, logit_soft_cap=3.0, name="untied")
    tied = keras.layers.ReversibleEmbedding(50, 16, name="tied")
    x = keras.layers.Add(name="sum")([x, untied(ids), tied(ids)])
    return keras.Model(ids, {"tied_out": tied(x, reverse=True), "untied_out": untied(x, reverse=True)})


def masks():
    """Masks of numbers, of which Keras takes the least before it asks what they mean, and arguments by their places."""
    own = keras_hub.layers
    x = given = keras.Input((STEPS, 16), name="x")
    padding = keras.Input((STEPS,), dtype="int32", name="few")
    attention = keras.Input((STEPS, STEPS), name="each")
    for dropout in 0.0, 0.1:
        x = own.TransformerEncoder(24, 2, dropout=dropout)(x, padding, attention, return_attention_scores=0)
        x = own.TransformerDecoder(24, 2, dropout=dropout)(x, None, padding, attention)
        x = own.TransformerDecoder(24, 2, dropout=dropout)(x, decoder_padding_mask=padding, use_causal_mask=0)
        x = own.TransformerDecoder(24, 2, dropout=dropout)(x, *[None] * 10)
    return keras.Model([given, padding, attention], x)


def crossed():
    """Decoders that look at another sequence of another length and size, with norms before and after."""
    own = keras_hub.layers
    x = keras.Input((STEPS, 16), name="x")
    other = keras.Input((None, 12), name="other")
    few = keras.Input((None,), dtype="int32", name="few")
    y = own.TransformerDecoder(24, 2, normalize_first=True)(x, other, encoder_padding_mask=few)
    y = own.TransformerDecoder(24, 4, dropout=0.1)(decoder_sequence=y, encoder_sequence=other, encoder_padding_mask=few)
    return keras.Model({"x": x, "other": other, "few": few}, own.TransformerDecoder(24, 1)(y, other))


CASES = {
    "hub-bert": text("BertBackbone", num_segments=3),
    "hub-distil-bert": text("DistilBertBackbone"),
    "hub-roberta": text("RobertaBackbone"),
    "hub-xlm-roberta": text("XLMRobertaBackbone", num_layers=1, num_heads=4, dropout=0.0),
    "hub-electra": lambda: keras_hub.models.ElectraBackbone(
        vocab_size=50, embedding_dim=8, num_segments=3, **{k: v for k, v in TEXT.items() if k != "vocabulary_size"}
    ),
    "hub-albert": text(
        "AlbertBackbone", embedding_dim=8, num_segments=3, num_layers=4, num_groups=2, num_inner_repetitions=1
    ),
    "hub-bart": text("BartBackbone", num_layers=1),
    "hub-crossed": crossed,
    "hub-gpt2": text("GPT2Backbone"),
    "hub-opt": text("OPTBackbone"),
    "hub-llama": llama("LlamaBackbone"),
    "hub-llama3": llama(
        "Llama3Backbone", num_layers=1, hidden_dim=32, rope_frequency_adjustment_factor=8.0, rope_low_freq_factor=1.0,
        rope_high_freq_factor=4.0, rope_pretraining_sequence_length=64,
    ),
    "hub-mistral": llama("MistralBackbone", sliding_window=3, rope_scaling_factor=2.0, head_dim=6),
    "hub-phi3": llama("Phi3Backbone", num_layers=1),
    "hub-phi3-long": llama(
        "Phi3Backbone", num_layers=1, rope_scaling_type="su", rope_scaling_short_factor=[1.5, 3.0],
        rope_scaling_long_factor=[2.0, 4.0], max_sequence_length=20, pretraining_sequence_length=5,
    ),
    "hub-qwen": llama("QwenBackbone", num_key_value_heads=1),
    "hub-qwen3": llama("Qwen3Backbone", head_dim=8, tie_word_embeddings=False),
    "hub-gemma": lambda: keras_hub.models.GemmaBackbone(
        50, 1, num_query_heads=4, num_key_value_heads=1, hidden_dim=16, intermediate_dim=24, head_dim=6,
    ),
    "hub-gemma2": lambda: keras_hub.models.GemmaBackbone(
        50, 2, num_query_heads=4, num_key_value_heads=2, hidden_dim=16, intermediate_dim=24, head_dim=8,
        use_post_ffw_norm=True, use_post_attention_norm=True, attention_logit_soft_cap=5.0, final_logit_soft_cap=30.0,
        use_sliding_window_attention=True, sliding_window_size=3, query_head_dim_normalize=False,
    ),
    "hub-vgg": lambda: keras_hub.models.VGGBackbone(stackwise_num_repeats=[2, 1], stackwise_num_filters=[4, 6]),
    "hub-vgg-unnamed": lambda: keras.Sequential([
        keras.Input((8, 8, 3)), keras_hub.models.VGGBackbone([1, 1], [3, 4], image_shape=(8, 8, 3)),
    ]),
    "hub-densenet": lambda: keras_hub.models.DenseNetBackbone([1, 2], image_shape=(16, 16, 3), growth_rate=3),
    "hub-efficientnet": lambda: keras_hub.models.EfficientNetBackbone(
        stackwise_width_coefficients=[0.6, 0.6, 0.2], stackwise_depth_coefficients=[1.1] * 3,
        stackwise_kernel_sizes=[3, 5, 3], stackwise_num_repeats=[1, 1, 1], stackwise_input_filters=[16, 16, 36],
        stackwise_output_filters=[16, 12, 36], stackwise_expansion_ratios=[1, 3, 2],
        stackwise_squeeze_and_excite_ratios=[0.25, 0.5, 0.0], stackwise_strides=[1, 2, 1],
        stackwise_block_types=["v1"] * 3, stackwise_force_input_filters=[0, 0, 0], min_depth=4, depth_divisor=4,
        cap_round_filter_decrease=True, input_shape=(16, None, 3),
    ),
    "hub-xception": lambda: keras_hub.models.XceptionBackbone(
        [[4, 6], [8, 8], [8], [10, 12], [9]], [False, True, False, True, False], image_shape=(28, 28, 3),
    ),
    "hub-layers": layers,
    "hub-masks": masks,
    "hub-resnet": lambda: keras_hub.models.ResNetBackbone(
        input_conv_filters=[4, 4], input_conv_kernel_sizes=[3, 3], stackwise_num_filters=[64, 4],
        stackwise_num_blocks=[1, 2], stackwise_num_strides=[1, 2], block_type="basic_block_vd",
    ),
    "hub-vit": lambda: keras_hub.models.ViTBackbone(
        image_shape=(8, 12, 3), patch_size=4, num_layers=2, num_heads=2, hidden_dim=16, mlp_dim=24,
    ),
}


def settled(model, random):
    """The model with random weights; what is a variance stays positive."""
    for weight in model.weights:
        drawn = random.normal(0, min(0.3, 2 / np.prod(weight.shape[:-1]) ** 0.5), weight.shape)
        is_variance = weight.path.endswith("moving_variance")
        weight.assign(np.asarray(weight) + (abs(drawn) if is_variance else drawn))
    return model


def inputs(model, random):
    """Values by the names of inputs, in Keras' order."""
    def value(name, shape):
        free = STEPS if len(shape) == 2 else 5 if name == "other" else 16
        free = 5 if name == "few" else free
        shape = [2] + [free if n is None else n for n in shape[1:]]
        if name.endswith("padding_mask"):
            mask = np.ones(shape, np.int32)
            mask[1, STEPS // 2 :] = 0
            return mask
        if name in ("few", "each"):
            return random.integers(-2, 3, shape).astype(np.int32 if name == "few" else np.float32)
        if name.endswith("token_ids"):
            ids = random.integers(0, TEXT["vocabulary_size"], shape).astype(np.int32)
            ids[1, STEPS // 2 :] = 0
            return ids
        if name == "segment_ids":
            return random.integers(0, 3, shape).astype(np.int32)
        return random.uniform(-1, 1, shape).astype(np.float32)

    return {x.name: value(x.name, x.shape) for x in model.inputs}


def make(case):
    random = np.random.default_rng(0)
    model = settled(CASES[case](), random)
    folder = os.path.join(HERE, case)
    os.makedirs(folder, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        path = os.path.join(place, "net.keras")
        model.save(path)
        with open(path, "rb") as source, open(os.path.join(folder, "net.keras"), "wb") as target:
            target.write(source.read())
    given = inputs(model, random)
    result = model(given if len(given) > 1 else next(iter(given.values())), training=False)
    outputs = [result[key] for key in sorted(result)] if isinstance(result, dict) else [result]
    for name, values in ("input", given.values()), ("output", outputs):
        named = {f"{name}{i}": np.asarray(value) for i, value in enumerate(values)}
        np.savez_compressed(os.path.join(folder, f"expected.{name}s.npz"), **named)


if __name__ == "__main__":
    for case in sys.argv[1:] or CASES:
        make(case)
