#!/usr/bin/env python3
"""Judge layers and functions of Keras -> ONNX, with many options each: Keras itself says what they give.

    keras_layers.py --onnxd target/debug/onnxd [--keras 3|2] [--match REGEX] [--keep DIR] [--seed N]

Each case is a small model with random weights, saved as `.keras`. ONNX Runtime must give Keras' values, in Keras' element
types. A case is equal, refused, or wrong; a file that ONNX Runtime does not load is wrong. It fails if one is wrong, or none
is equal. Needs keras, tensorflow, numpy, onnx and onnxruntime; `--keras 2` takes tf_keras.
"""
import argparse
import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np

from keras_cases import options, unusual


def layer(make, *shapes, dtypes=None, named=None, call=None):
    """A case of one layer: how it is made, and the shapes of its inputs."""
    def build(keras):
        kinds = dtypes or ["float32"] * len(shapes)
        inputs = [keras.Input(shape=shape, dtype=kind) for shape, kind in zip(shapes, kinds)]
        if call:
            outputs = call(keras, make(keras), inputs)
        else:
            outputs = make(keras)(inputs[0] if len(inputs) == 1 else inputs, **(named or {}))
        return keras.Model(inputs, outputs)
    return build


def recurrent(cases):
    for kind in ["LSTM", "GRU", "SimpleRNN"]:
        for o in options(return_sequences=[False, True], go_backwards=[False, True], use_bias=[True, False],
                         masked=["", "inside", "all"], return_state=[False, True]):
            masked = o.pop("masked")
            more = {"reset_after": False} if kind == "GRU" and o["use_bias"] != o["return_state"] else {}

            def build(keras, kind=kind, o=o, masked=masked, more=more):
                x = keras.Input((6, 3))
                y = keras.layers.Masking()(x) if masked else x
                return keras.Model(x, getattr(keras.layers, kind)(4, **o, **more)(y))
            cases[f"{kind}-{'-'.join(k for k, v in o.items() if v is True)}-{masked}-{len(more)}"] = build
        for name in ["relu", "linear", "elu", "softsign", "gelu", "exponential", "hard_sigmoid", "silu", "leaky_relu", "softmax"]:
            for masked in [False, True]:
                def build(keras, kind=kind, name=name, masked=masked):
                    x = keras.Input((5, 3))
                    y = keras.layers.Masking()(x) if masked else x
                    return keras.Model(x, getattr(keras.layers, kind)(4, activation=name, return_sequences=masked)(y))
                cases[f"{kind}-activation-{name}-{masked}"] = build
        if kind != "SimpleRNN":
            for name in ["tanh", "hard_sigmoid", "gelu", "linear"]:
                cases[f"{kind}-gates-{name}"] = layer(
                    lambda k, kind=kind, name=name: getattr(k.layers, kind)(3, recurrent_activation=name), (5, 2))
        for mode, seq, masked in itertools.product(["concat", "sum", "ave", "mul", None], [False, True], [False, True]):
            def build(keras, kind=kind, mode=mode, seq=seq, masked=masked):
                x = keras.Input((None, 3))
                y = keras.layers.Masking()(x) if masked else x
                inner = getattr(keras.layers, kind)(3, return_sequences=seq)
                return keras.Model(x, keras.layers.Bidirectional(inner, merge_mode=mode)(y))
            cases[f"Bidirectional-{kind}-{mode}-{seq}-{masked}"] = build
    for kind, shape in [("ConvLSTM1D", (4, 6, 2)), ("ConvLSTM2D", (3, 6, 5, 2)), ("ConvLSTM3D", (2, 4, 4, 4, 2))]:
        for o in options(padding=["same", "valid"], return_sequences=[False, True], go_backwards=[False, True],
                         return_state=[False, True], strides=[1, 2]):
            cases[f"{kind}-{'-'.join(map(str, o.values()))}"] = layer(
                lambda k, kind=kind, o=o: getattr(k.layers, kind)(3, 3, **o), shape)
    cells = [("stack", lambda k: [k.layers.LSTMCell(4), k.layers.GRUCell(3), k.layers.SimpleRNNCell(2)]),
             ("act", lambda k: k.layers.GRUCell(3, activation="gelu", reset_after=False)),
             ("one", lambda k: k.layers.LSTMCell(4, use_bias=False))]
    for (name, make), seq, state, zero, masked in itertools.product(cells, [0, 1], [0, 1], [0, 1], [0, 1]):
        def build(keras, make=make, seq=seq, state=state, zero=zero, masked=masked):
            x = keras.Input((5, 3))
            y = keras.layers.Masking()(x) if masked else x
            rnn = keras.layers.RNN(make(keras), return_sequences=bool(seq), return_state=bool(state),
                                   zero_output_for_mask=bool(zero))
            return keras.Model(x, rnn(y))
        cases[f"RNN-{name}-{seq}{state}{zero}{masked}"] = build
    inner = [("dense", lambda k: k.layers.Dense(3), (4, 5)), ("conv", lambda k: k.layers.Conv2D(2, 3), (3, 6, 6, 2)),
             ("lstm", lambda k: k.layers.LSTM(3), (3, 4, 2)), ("pool", lambda k: k.layers.GlobalMaxPooling1D(), (None, 4, 2))]
    for name, make, shape in inner:
        cases[f"TimeDistributed-{name}"] = layer(lambda k, make=make: k.layers.TimeDistributed(make(k)), shape)


def attention(cases):
    for o in options(use_bias=[True, False], value_dim=[None, 5], output_shape=[None, 7], causal=[False, True],
                     scores=[False, True], masked=["", "padding", "given"]):
        def build(keras, o=o):
            x, y = keras.Input((4, 6)), keras.Input((5, 6))
            q, v = (keras.layers.Masking()(t) if o["masked"] == "padding" else t for t in (x, y))
            mha = keras.layers.MultiHeadAttention(2, 3, value_dim=o["value_dim"], use_bias=o["use_bias"],
                                                  output_shape=o["output_shape"])
            more, inputs = {}, [x, y]
            if o["masked"] == "given":
                mask = keras.Input((4, 5), dtype="bool")
                more["attention_mask"] = mask
                inputs.append(mask)
            if o["causal"]:
                more["use_causal_mask"] = True
            if o["scores"]:
                more["return_attention_scores"] = True
            return keras.Model(inputs, mha(q, v, **more))
        cases["MultiHeadAttention-" + "-".join(map(str, o.values()))] = build
    for axes, shape in [((1, 2), (3, 2, 6)), ((2,), (3, 4, 6)), ((1,), (3, 4, 6)), ((1, 2, 3), (2, 2, 3, 4))]:
        cases[f"MultiHeadAttention-axes-{axes}"] = layer(
            lambda k, axes=axes: k.layers.MultiHeadAttention(2, 3, attention_axes=axes), shape,
            call=lambda k, l, i: l(i[0], i[0]))
    for o in options(use_bias=[True, False], use_causal_mask=[False, True], return_attention_scores=[False, True]):
        def call(k, l, i, o=o):
            return l(i[0], i[1], **{key: v for key, v in o.items() if key != "use_bias" and v})
        cases["GroupQueryAttention-" + "-".join(map(str, o.values()))] = layer(
            lambda k, o=o: k.layers.GroupQueryAttention(4, 6, 2, use_bias=o["use_bias"]), (5, 6), (3, 6), call=call)
    for kind in ["Attention", "AdditiveAttention"]:
        for o in options(scale=[False, True], masked=[False, True], causal=[False, True], scores=[False, True]):
            def build(keras, kind=kind, o=o):
                x, y = keras.Input((4, 6)), keras.Input((5, 6))
                q, v = (keras.layers.Masking()(t) if o["masked"] else t for t in (x, y))
                more = {k: True for k, on in [("use_causal_mask", o["causal"]), ("return_attention_scores", o["scores"])] if on}
                return keras.Model([x, y], getattr(keras.layers, kind)(use_scale=o["scale"])([q, v], **more))
            cases[f"{kind}-" + "-".join(map(str, o.values()))] = build


def preparing(cases):
    for mode, shape in itertools.product(["int", "one_hot", "multi_hot", "count"], [(3,), (1,)]):
        cases[f"Discretization-{mode}-{shape}"] = layer(
            lambda k, mode=mode: k.layers.Discretization([-0.5, 0.0, 0.7], output_mode=mode), shape)
        cases[f"IntegerLookup-{mode}-{shape}"] = layer(
            lambda k, mode=mode: k.layers.IntegerLookup(vocabulary=[1, 3, 4], output_mode=mode), shape, dtypes=["int64"])
        cases[f"IntegerLookup-oov-{mode}-{shape}"] = layer(
            lambda k, mode=mode: k.layers.IntegerLookup(vocabulary=[1, 3], num_oov_indices=2, mask_token=0, output_mode=mode),
            shape, dtypes=["int64"])
        if mode != "int":
            cases[f"CategoryEncoding-{mode}-{shape}"] = layer(
                lambda k, mode=mode: k.layers.CategoryEncoding(5, output_mode=mode), shape, dtypes=["int32"])
    for o in options(interpolation=["nearest", "bilinear", "bicubic", "area", "lanczos3", "lanczos5"],
                     fit=["", "crop_to_aspect_ratio", "pad_to_aspect_ratio"], kind=["float32", "uint8"], size=[(4, 9), (9, 5)],
                     antialias=[False, True]):
        more = {o["fit"]: True} if o["fit"] else {}
        if o["antialias"]:
            more["antialias"] = True
        cases["Resizing-" + "-".join(map(str, o.values()))] = layer(
            lambda k, o=o, more=more: k.layers.Resizing(*o["size"], interpolation=o["interpolation"], **more),
            (6, 7, 3), dtypes=[o["kind"]])
    for size in [(3, 4), (6, 7), (9, 9), (4, 9)]:
        cases[f"CenterCrop-{size}"] = layer(lambda k, size=size: k.layers.CenterCrop(*size), (6, 7, 3))
    for axis, mean in [(-1, [1.0, 2.0, 3.0]), (1, [1.0] * 4), (None, 1.0), ((1, 3), [[1.0, 2.0, 3.0]] * 4)]:
        for invert in [False, True]:
            cases[f"Normalization-{axis}-{invert}"] = layer(
                lambda k, axis=axis, mean=mean, invert=invert: k.layers.Normalization(
                    axis, mean=mean, variance=np.square(np.array(mean) + 0.5).tolist(), invert=invert), (4, 5, 3))
    random = {"RandomFlip": [], "RandomRotation": [0.2], "RandomZoom": [0.2], "RandomTranslation": [0.1, 0.1],
              "RandomContrast": [0.2], "RandomBrightness": [0.2], "RandomCrop": [3, 3], "RandomSharpness": [0.3],
              "RandomShear": [0.1, 0.1], "RandomHue": [0.1], "RandomInvert": [0.3], "RandomGrayscale": [0.3],
              "RandomPosterization": [4], "RandomGaussianBlur": [0.3], "RandomPerspective": [0.2], "Solarization": [],
              "RandomColorJitter": [], "RandomErasing": [], "Equalization": [], "AugMix": [], "RandAugment": []}
    for (name, arguments), kind in itertools.product(random.items(), ["float32", "uint8"]):
        cases[f"{name}-{kind}"] = layer(
            lambda k, name=name, arguments=arguments: getattr(k.layers, name)(*arguments), (6, 6, 3), dtypes=[kind])
    for mode, fit, last in itertools.product(["log", "magnitude", "psd", "real", "imag", "angle", "stft"], [False, True],
                                             ["channels_last", "channels_first"]):
        cases[f"STFTSpectrogram-{mode}-{fit}-{last}"] = layer(
            lambda k, mode=mode, fit=fit, last=last: k.layers.STFTSpectrogram(
                mode, frame_length=16, frame_step=4, fft_length=16, expand_dims=fit, data_format=last),
            (50, 2) if last == "channels_last" else (2, 50))
    for o in options(fft_length=[32, 64], sequence_length=[None, 24], power_to_db=[True, False], mag_exp=[2.0, 1.0]):
        cases["MelSpectrogram-" + "-".join(map(str, o.values()))] = layer(
            lambda k, o=o: k.layers.MelSpectrogram(sequence_stride=8, num_mel_bins=5, sampling_rate=1000, min_freq=10,
                                                   max_freq=400, **o), (200,))


UNARY = """absolute arccosh arcsin arcsinh arctan arctanh cbrt ceil cos cosh deg2rad exp exp2 expm1 floor isfinite isinf isnan
isneginf isposinf log log10 log1p log2 logical_not negative rad2deg reciprocal round sign signbit sin sinc sinh sqrt square tan
tanh trunc rsqrt erf erfinv relu relu6 sigmoid silu softplus softsign selu elu celu gelu hard_sigmoid hard_silu hard_tanh
hard_shrink soft_shrink sparse_plus sparse_sigmoid squareplus tanh_shrink log_sigmoid leaky_relu log_softmax softmax sparsemax
glu nan_to_num i0 copy zeros_like ones_like ravel flip fliplr flipud sort argsort cumsum cumprod diff median mean sum prod max
min std var all any argmax argmin count_nonzero ptp logsumexp nansum nanmean nanmax nanmin nanvar nanstd nanprod nanargmax
nanargmin nancumsum transpose squeeze size average fabs erfc conj real normalize isreal nonzero""".split()
BINARY = """add subtract multiply divide true_divide divide_no_nan floor_divide power maximum minimum fmax fmin mod fmod arctan2
hypot heaviside logaddexp logaddexp2 equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor
isclose outer kron where_ bitwise_and bitwise_or bitwise_xor left_shift right_shift gcd lcm matmul inner vdot append""".split()
TYPES = ["float32", "float16", "int32", "int64", "uint8", "int8", "bool"]


def functions(cases):
    for name, kind in itertools.product(UNARY, TYPES):
        cases[f"ops-{name}-{kind}"] = layer(
            lambda k, name=name: (lambda x: getattr(k.ops, name)(x)), (4, 6), dtypes=[kind])
    for name, left, right in itertools.product(BINARY, ["float32", "int32", "uint8", "bool"], ["float32", "int64", "int8", 2, 0.5]):
        def build(keras, name=name, left=left, right=right):
            function = getattr(keras.ops, name.strip("_"))
            x = keras.Input((4, 4), dtype=left)
            y = keras.Input((4, 4), dtype=right) if isinstance(right, str) else right
            args = (keras.ops.greater(x, 0), x, y) if name == "where_" else (x, y)
            return keras.Model([x, y] if isinstance(right, str) else x, function(*args))
        cases[f"ops-{name}-{left}-{right}"] = build
    one = {
        "expand_dims": [(1,), ([0, -1],)], "swapaxes": [(1, -1)], "moveaxis": [(1, 2), ([1, 2], [2, 1])], "tile": [(2,), ([1, 2, 1, 3],)],
        "repeat": [(2, 1), (3,), ([1, 0, 2, 1], 1)], "roll": [(2, 1), (-1,), ([1, 2], [1, 2])], "rot90": [(1, (1, 2)), (3, (1, 2)), (2, (2, 1))],
        "pad": [([[0, 0], [1, 2], [0, 1]],), (1,), ([[0, 0], [1, 2], [3, 1]], "symmetric"), ([[0, 0], [1, 2], [3, 1]], "reflect")],
        "diagonal": [(0, 1, 2), (1, 1, 2), (-2, 2, 1)], "trace": [(0, 1, 2), (1, 1, 2)], "tril": [(0,), (-1,), (2,)], "triu": [(0,), (1,), (-2,)],
        "take": [(3,), ([0, -1], 1), ([[0, 1], [2, 3]], 2)], "split": [(2, 1), ([1, 3], 2)], "array_split": [(3, 1)], "diff": [(2, 1)],
        "quantile": [(0.3,), ([0.1, 0.9], 1), (0.5, [1, 2], "nearest", True), ([0.2], -1, "lower"), (0.4, 1, "higher"), (0.4, 1, "midpoint", True)],
        "percentile": [(30, 1)], "median": [(1,), ([1, 2], True)], "max": [(1, True), ([1, 2],)], "sum": [(1, True), (-1,)], "mean": [([0, 2],)],
        "argmax": [(1, True), (None, True)], "top_k": [(2,)], "softmax": [(1,), (None,)], "one_hot": [(5, 1)], "clip": [(-0.5, 0.5)],
        "round": [(2,), (-1,)], "std": [(1, True)], "unstack": [(4, 1)], "normalize": [(1,), (-1, 1), (-1, 3)], "searchsorted": [], "cumsum": [(1,), (None,)],
        "broadcast_to": [((2, 4, 6),)], "full_like": [(2,)], "cast": [("int32",), ("bool",), ("float16",), ("uint8",)], "trapezoid": [(None, 0.5, 1)],
        "nan_to_num": [(1.0, 2.0, 3.0)], "leaky_relu": [(0.3,)], "elu": [(0.5,)], "celu": [(0.5,)], "gelu": [(True,), (False,)], "threshold": [(0.1, 2.0)],
        "average": [(1,)], "logsumexp": [(1, True)], "reshape": [((-1, 3, 8),), ((2, -1),)], "digitize": [(np.array([-1.0, 0.0, 0.5], "float32"),)],
        "moments": [([1],), ([1, 2], True)], "rms_normalization": [], "layer_normalization": [], "max_pool": [(2,), (2, 1, "same")], "average_pool": [(3, 2, "same")],
        "extract_sequences": [(3, 2)], "stft": [(4, 2, 4), (3, 2, 6, "hamming", False), (4, 1, 6, None)], "glu": [(1,)], "prod": [(1, True)],
        "norm": [(), (1, 1), (0, 2), (3, -1), (float("inf"), 1), (None, 1, True), ("fro", [1, 2]), (1, (1, 2)), (-1, (2, 1), True), (float("inf"), (2, 1))],
        "unique": [(), (False,), (True, True, True, True), (True, True, True, True, 2), (True, False, False, True, None, 60, 7)],
        "convert_to_tensor": [("int32",)], "flip": [(1,), ([1, 2],)],
    }
    for name, calls in one.items():
        for i, arguments in enumerate(calls):
            kind = "int32" if name in ("one_hot",) else "float32"
            cases[f"ops-{name}-with-{i}"] = layer(
                lambda k, name=name, arguments=arguments: (lambda x: getattr(k.ops, name)(x, *arguments)), (4, 6), dtypes=[kind])
    keys = {"int": (slice(None), 1), "step": (slice(None), slice(None, None, -2)), "new": (None, slice(None), Ellipsis, None), "rest": (Ellipsis, slice(1, -1)),
            "last": (slice(None), -1, slice(2, None)), "deep": (slice(None), slice(-3, -1), None, 2)}
    for name, key in keys.items():
        cases[f"ops-getitem-{name}"] = layer(lambda k, key=key: (lambda x: x[key]), (4, 6))
    pairs = {
        "tensordot": [(1,), ([[1], [1]],), (2,)], "dot": [()], "matmul": [()], "cross": [], "concatenate": [(1,), (-1,)], "stack": [(1,), (-1,)],
        "vstack": [()], "hstack": [()], "dstack": [()], "meshgrid": [], "binary_crossentropy": [(True,)], "categorical_crossentropy": [(True,)],
    }
    for name, calls in pairs.items():
        for i, arguments in enumerate(calls):
            joined = name in ("concatenate", "stack", "vstack", "hstack", "dstack")
            def call(k, l, v, name=name, arguments=arguments, joined=joined):
                f = getattr(k.ops, name)
                return f(v, *arguments) if joined else f(*v, *arguments)
            cases[f"ops-{name}-pair-{i}"] = layer(lambda k: None, (4, 4), (4, 4), call=call)
    for equation, shapes in [("bij,bjk->bik", [(3, 4), (4, 2)]), ("bij,bkj->bik", [(3, 4), (5, 4)]), ("b...i,ij->b...j", [(3, 4)]), ("bii->bi", [(3, 3)])]:
        def build(keras, equation=equation, shapes=shapes):
            inputs = [keras.Input(shape) for shape in shapes]
            more = [np.ones((4, 2), "float32")] if equation.count(",") and len(shapes) == 1 else []
            return keras.Model(inputs, keras.ops.einsum(equation, *inputs, *more))
        cases[f"ops-einsum-{equation}"] = build
    square = {"det": (), "inv": (), "cholesky": (), "logdet": (), "slogdet": (), "norm": (), "solve_": (), "qr": (), "pinv": (), "matrix_rank": ()}
    for name in square:
        def build(keras, name=name):
            x = keras.Input((3, 3))
            matrix = keras.ops.add(keras.ops.matmul(x, keras.ops.transpose(x, (0, 2, 1))), np.eye(3, dtype="float32"))
            f = getattr(keras.ops, name.strip("_"))
            return keras.Model(x, f(matrix, x) if name == "solve_" else f(matrix))
        cases[f"ops-linalg-{name}"] = build
    for axis, more in itertools.product([-1, 1, [1, 2]], [{}, {"rms_scaling": True}]):
        def build(keras, axis=axis, more=more):
            x = keras.Input((3, 4))
            sizes = [x.shape[i] for i in (axis if isinstance(axis, list) else [axis])]
            scale = keras.Input(batch_shape=sizes)
            return keras.Model([x, scale], keras.ops.layer_normalization(x, scale, axis=axis, **more))
        cases[f"ops-layer_normalization-{axis}-{len(more)}"] = build
    for name in ["real", "imag", "angle", "absolute"]:
        cases[f"ops-polar-{name}"] = layer(
            lambda k, name=name: (lambda x: getattr(k.ops, name)(k.ops.polar(k.ops.abs(x), x))), (4, 6))
    for size, more in itertools.product([2, (2, 3)], [{}, {"dilation": 2, "padding": (1, 2), "stride": (2, 1)}]):
        def build(keras, size=size, more=more, fold=False):
            x = keras.Input(batch_shape=(2, 3, 7, 8))
            y = keras.ops.unfold(x, size, **more)
            return keras.Model(x, keras.ops.fold(y, (7, 8), size, **more) if fold else y)
        cases[f"ops-unfold-{size}-{len(more)}"] = build
        cases[f"ops-fold-{size}-{len(more)}"] = lambda keras, build=build: build(keras, fold=True)
    for name in ["rgb_to_hsv", "hsv_to_rgb", "rgb_to_grayscale"]:
        cases[f"ops-image-{name}"] = layer(lambda k, name=name: (lambda x: getattr(k.ops.image, name)(k.ops.sigmoid(x))), (5, 5, 3))
    for size, padding, strides, rate in itertools.product([2, 3], ["valid", "same"], [None, 1, 2], [1, 2]):
        if strides == 2 and rate == 2:
            continue
        cases[f"ops-extract_patches-{size}-{padding}-{strides}-{rate}"] = layer(
            lambda k, a=(size, strides, rate, padding): (lambda x: k.ops.image.extract_patches(x, *a)), (7, 6, 2))


def old(cases):
    """Layers and functions that Keras 2 alone has."""
    for n, o in itertools.product([1, 2], options(
            implementation=[1, 2, 3], padding=["valid", "same"], data_format=["channels_last", "channels_first"], use_bias=[True, False])):
        shape = (7, 6, 5)[:n + 1]
        cases[f"LocallyConnected{n}D-{'-'.join(map(str, o.values()))}"] = layer(
            lambda k, n=n, o=o: getattr(k.layers, f"LocallyConnected{n}D")(3, 2, strides=2, activation="relu", **o), shape)
    import tensorflow as tf
    calls = {
        "sort": [{}, {"axis": 1}, {"direction": "DESCENDING"}], "shape": [{}], "one_hot": [{"depth": 3}, {"depth": 4, "axis": 1, "on_value": 2.0}],
        "argmax": [{"axis": 1}, {"axis": -1, "output_type": "int32"}], "gather": [{"indices": [2, 0], "axis": 1}], "split": [
            {"num_or_size_splits": 2, "axis": 1}, {"num_or_size_splits": [1, -1, 2], "axis": 2}],
        "math.l2_normalize": [{"axis": -1}, {"axis": [1, 2]}], "norm": [{"axis": 1}, {"axis": -1, "keepdims": True}], "nn.silu": [{}, {"beta": 2.0}],
        "slice": [{"begin": [0, 1, 2], "size": [-1, 2, 1]}], "nn.avg_pool1d": [{"ksize": 2, "strides": 2, "padding": "SAME"}],
        "nn.max_pool1d": [{"ksize": 3, "strides": 1, "padding": "VALID"}], "image.flip_left_right": [{}], "nn.softmax": [{"axis": None}, {"axis": 1}],
        "matmul": [{"b": 0, "adjoint_b": True}, {"b": 0, "transpose_a": True}], "math.reduce_euclidean_norm": [{"axis": 1}], "math.top_k": [{}, {"k": 3}],
    }
    for name, all in calls.items():
        for i, keywords in enumerate(all):
            def call(k, l, v, name=name, keywords=keywords):
                f, x = tf, v[0]
                for part in name.split("."):
                    f = getattr(f, part)
                return f(x, **{key: x if key == "b" else value for key, value in keywords.items()})
            cases[f"tf-{name}-{i}"] = layer(lambda k: None, (4, 6), dtypes=["int32" if name == "one_hot" else "float32"], call=call)
    keys = {"row": slice(1, 2), "new": (slice(None), None, slice(None, None, -2)), "at": (slice(None), 1)}
    for name, key in keys.items():
        cases[f"tf-getitem-{name}"] = layer(lambda k: None, (4, 6), call=lambda k, l, v, key=key: v[0][key])
    cases["tf-getitem-computed"] = layer(lambda k: None, (4, 6), call=lambda k, l, v: v[0][:, :tf.shape(v[0])[1] - 1])


def integers(name, place, shape, kind, rng):
    """Small integers: also negative ones for functions, but for distances of shifts; divisors are not zero."""
    low = -4 if name.startswith("ops-") and kind.kind == "i" and not ("_shift" in name and place) else 0
    value = rng.integers(low, 5, shape)
    return np.where(value == 0, 3, value) if place and re.search("div|mod", name) else value


def inputs_of(name, model, rng):
    """Numbers for each input; some steps of sequences are masked."""
    found = []
    for at, x in enumerate(model.inputs):
        shape = [2 if i == 0 else (n if n is not None else 4) for i, n in enumerate(x.shape)]
        kind = np.dtype(str(getattr(x.dtype, "name", x.dtype)))
        if kind == np.bool_:
            value = rng.random(shape) < 0.6
        elif kind.kind in "iu":
            value = integers(name, at, shape, kind, rng) if kind != np.uint8 or len(shape) < 4 else rng.integers(0, 255, shape)
        else:
            value = rng.normal(0, 1, shape)
            if len(shape) == 3:
                value[0, (1 + at) % shape[1]] = 0
                value[0, -1] = 0
                value[1, at:2] = 0
        found.append(value.astype(kind))
    return found


def readable(path):
    """The model with outputs that NumPy has: `bfloat16` as `float`."""
    import onnx
    model = onnx.load(path)
    for output in model.graph.output:
        if output.type.tensor_type.elem_type == onnx.TensorProto.BFLOAT16:
            output.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
            name, output.name = output.name, output.name + "_float"
            model.graph.node.append(onnx.helper.make_node("Cast", [name], [output.name], to=onnx.TensorProto.FLOAT))
    return model.SerializeToString()


def leaves(found):
    """All tensors of nested lists and dicts, in Keras' order."""
    if isinstance(found, dict):
        return [leaf for _, part in sorted(found.items()) for leaf in leaves(part)]
    if isinstance(found, (list, tuple)):
        return [leaf for part in found for leaf in leaves(part)]
    return [found]


def judged(name, build, keras, onnxd, folder, seed):
    """`equal`, `refused: why`, `wrong: what`, or nothing if Keras itself does not have the case."""
    import onnxruntime as ort
    rng = np.random.default_rng(zlib.crc32(name.encode()) + seed)
    path, out = os.path.join(folder, "model.keras"), os.path.join(folder, "out")
    shutil.rmtree(out, ignore_errors=True)
    try:
        model = build(keras)
        for weight in model.weights:
            if weight.name.split("/")[-1].split(":")[0] not in ("count", "real_kernel", "imag_kernel") and "float" in str(weight.dtype):
                weight.assign(np.abs(rng.normal(0, 0.6, weight.shape)) if "variance" in weight.name else rng.normal(0, 0.6, weight.shape))
        values = inputs_of(name, model, rng)
        expected = model(values if len(values) > 1 else values[0], training=False)
        model.save(path)
    except Exception as e:  # Keras has no such case.
        return None, f"{type(e).__name__}: {str(e)[:100]}"
    expected = [np.asarray(y) for y in leaves(expected)]
    ran = subprocess.run([onnxd, "convert", path, "--out", out], capture_output=True, text=True)
    if ran.returncode:
        text = ran.stdout + ran.stderr
        why = re.search(r"N\d{4}[^\n]*", text)
        kind = "refused" if ran.returncode in (2, 3) and why else "wrong"
        return kind, (why.group(0) if why else text[-200:])[:170]
    try:
        session = ort.InferenceSession(readable(os.path.join(out, "model.onnx")), providers=["CPUExecutionProvider"])
        given = session.run(None, {i.name: v for i, v in zip(session.get_inputs(), values)})
    except Exception as e:
        return "wrong", "ONNX Runtime: " + str(e)[:150].replace("\n", " ")
    if len(given) != len(expected):
        return "wrong", f"{len(given)} outputs of {len(expected)}"
    for i, (x, y) in enumerate(zip(given, expected)):
        is_short = str(y.dtype) == "bfloat16"
        if is_short:
            y = y.astype("float32")
        if x.dtype != y.dtype or x.shape != y.shape:
            return "wrong", f"output {i}: {x.dtype}{x.shape}, not {y.dtype}{y.shape}"
        if y.dtype.kind == "f":
            limit = 2e-2 if y.dtype == np.float16 or is_short else 1e-4
            if name.startswith("UpSampling2D") and "bicubic" in name:  # TensorFlow reads weights off a table of 1024 steps.
                limit = max(limit, 2e-3)
            close = np.isclose(x, y, limit, limit * max(1.0, float(np.nanmax(np.abs(np.where(np.isfinite(y), y, 0)), initial=0)) * 0.1), equal_nan=True)
        elif name.startswith("Resizing"):  # What is halfway between two integers.
            close = np.abs(x.astype(int) - y.astype(int)) <= 1
        else:
            close = x == y
        if not close.all():
            return "wrong", f"output {i}: {int((~close).sum())} of {close.size} differ, {x[~close][0]} not {y[~close][0]}"
    return "equal", ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--onnxd", required=True)
    parser.add_argument("--keras", default="3", choices=["2", "3"])
    parser.add_argument("--match", default="")
    parser.add_argument("--keep", help="a folder for the files of what is wrong")
    parser.add_argument("--seed", type=int, default=0)
    a = parser.parse_args()
    if a.keras == "2":
        import tf_keras as keras
    else:
        import keras
    cases = {}
    for family in [recurrent, attention, preparing, unusual] + ([functions] if a.keras == "3" else [old]):
        family(cases)
    counts = {"equal": 0, "refused": 0, "wrong": 0, None: 0}
    for name, build in cases.items():
        if not re.search(a.match, name):
            continue
        with tempfile.TemporaryDirectory() as folder:
            verdict, what = judged(name, build, keras, os.path.abspath(a.onnxd), folder, a.seed)
            counts[verdict] += 1
            if verdict in ("wrong", "refused"):
                print(f"{verdict:8} {name}: {what}", flush=True)
            if verdict == "wrong" and a.keep:
                shutil.copytree(folder, os.path.join(a.keep, re.sub(r"[^\w.-]", "_", name)), dirs_exist_ok=True)
        keras.backend.clear_session()
    print(f"{counts['equal']} equal, {counts['refused']} refused, {counts['wrong']} wrong; Keras has not {counts[None]}")
    return int(counts["wrong"] > 0 or counts["equal"] == 0)


if __name__ == "__main__":
    sys.exit(main())
