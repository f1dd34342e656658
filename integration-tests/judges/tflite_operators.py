#!/usr/bin/env python3
"""Judge operators of TFLite -> ONNX on random formulas that TensorFlow converts: TFLite's interpreter says what each gives.

    tflite_operators.py --onnxd target/release/onnxd [--match REGEX] [--forms float,dynamic,float16,int8,int16] [--count 4]
                        [--seed 0] [--jobs 2] [--keep DIR] [--save FILE]

Each case is a function of TensorFlow with attributes and shapes drawn at random, as a TFLite model in several forms: float,
weights of 8 bits, of 16 bits, all integers of 8 bits, and activations of 16 bits. ONNX Runtime must give the interpreter's
results: floats within a tolerance, integers of quantized tensors within two steps. Where the interpreter itself is farther
from what TensorFlow gives (its tables of 16 bits are coarse), a result that is hardly farther will do. Half of the float models
have a batch of varying size and are run with another one too.

Each case ends in one way: equal, wrong, refused (by onnxd) or runtime (ONNX Runtime does not run it). What TensorFlow does
not convert or TFLite does not run is skipped. All but equal and skipped cases make it fail, and so does a run without an
equal one; but what REFUSED lists may be refused. Needs numpy, onnx, onnxruntime and tensorflow.
"""
import argparse
import collections
import json
import multiprocessing
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np

FORMS = ["float", "dynamic", "float16", "int8", "int16"]
STEPS = 2
TIMEOUT_S = 300
# TensorFlow cannot calibrate its loops.
NOT_QUANTIZED = {"recurrent"}
# What has no counterpart in ONNX: formulas, and how onnxd says so.
REFUSED = {"bitwise": "cannot say the bits"}


class Draw(random.Random):
    """Random attributes, and arrays whose numbers are far from steps of rounding."""

    def sizes(self, rank, low=1, high=6):
        return [self.randint(low, high) for _ in range(rank)]

    def floats(self, *shape, low=-3.0, high=3.0):
        return np.random.default_rng(self.getrandbits(32)).uniform(low, high, shape).astype(np.float32)

    def weights(self, *shape):
        return self.floats(*shape, low=-0.5, high=0.5)

    def ints(self, *shape, low=-9, high=9, dtype=np.int32):
        return np.random.default_rng(self.getrandbits(32)).integers(low, high, shape).astype(dtype)

    def bools(self, *shape):
        return self.ints(*shape, low=0, high=2).astype(bool)

    def shape(self, low=1, high=4):
        return self.sizes(self.randint(low, high))

    def broadcast(self, shape):
        """A shape that meets `shape`."""
        kept = [n if self.random() < 0.7 else 1 for n in shape]
        return kept[self.randint(0, len(shape) - 1) if self.random() < 0.4 else 0:]

    def axes(self, rank, least=1):
        axes = self.sample(range(rank), self.randint(least, rank))
        return [a - rank if self.random() < 0.4 else a for a in axes]


FORMULAS = {}


def formula(f):
    FORMULAS[f.__name__] = f
    return f


def each(names, make):
    """Formulas of one kind: `make(draw, tf function)` by name."""
    for name in names.split():
        FORMULAS[name] = lambda d, tf, name=name: make(d, tf, name)


def find(tf, name):
    for place in (tf, tf.math, tf.nn):
        if hasattr(place, name):
            return getattr(place, name)
    raise AttributeError(name)


def unary(d, tf, name, low=-3.0, high=3.0):
    return (lambda x: find(tf, name)(x)), [d.floats(*d.shape(), low=low, high=high)]


each("abs negative exp square sin cos floor ceil round sign tanh sigmoid relu relu6 elu selu softplus softsign zeros_like erf", unary)
each("log sqrt rsqrt", lambda d, tf, name: unary(d, tf, name, 0.1, 4.0))


def integers(d, tf, name):
    return (lambda x: find(tf, name)(x)), [d.ints(*d.shape(), dtype=d.choice([np.int32, np.int32, np.int64]))]


each("abs_ negative_ sign_ square_", lambda d, tf, name: integers(d, tf, name[:-1]))


def binary(d, tf, name, dtype=np.float32):
    shape = d.shape(1, 5)
    other = d.broadcast(shape) if d.random() < 0.6 else shape
    make = d.floats if dtype == np.float32 else lambda *s: d.ints(*s, dtype=dtype)
    x, y = make(*shape), make(*other)
    if re.search("div|mod|pow", name):
        y = np.where(np.abs(y) < 0.5, np.asarray(2, dtype), y) if name != "pow" else np.abs(y)
        x = np.abs(x) + np.asarray(0.25 if dtype == np.float32 else 1, dtype) if name == "pow" else x
    if d.random() < 0.3:
        x, y = y, x
        if re.search("div|mod", name):
            y = np.where(np.abs(y) < 0.5, np.asarray(2, dtype), y)
        if name == "pow":
            x, y = np.abs(x) + np.asarray(1, dtype), np.abs(y)
    act = d.choice(["", "", "relu", "relu6"]) if dtype == np.float32 and name in ("add", "subtract", "multiply", "divide") else ""
    f = lambda x, y: getattr(tf.nn, act)(find(tf, name)(x, y)) if act else find(tf, name)(x, y)
    if d.random() < 0.3:
        return (lambda x: f(x, tf.constant(y))), [x]
    return f, [x, y]


each("add subtract multiply divide maximum minimum pow floordiv floormod squared_difference less less_equal greater greater_equal equal not_equal atan2", binary)
each("add_ subtract_ multiply_ maximum_ minimum_ floordiv_ floormod_ less_ greater_equal_ equal_ not_equal_",
     lambda d, tf, name: binary(d, tf, name[:-1], d.choice([np.int32, np.int32, np.int64])))


@formula
def logical(d, tf):
    f = d.choice([tf.logical_and, tf.logical_or])
    shape = d.shape()
    return (lambda x, y: f(x, tf.logical_not(y))), [d.bools(*shape), d.bools(*shape)]


@formula
def activations(d, tf):
    kind = d.choice(["leaky", "gelu", "gelu_tanh", "hard_swish", "swish", "relu_n1", "clip", "prelu", "softmax", "log_softmax"])
    x = d.floats(*d.shape(2, 4), low=-5, high=5)
    alpha = d.floats(x.shape[-1], low=0, high=1)
    beta = d.choice([1.0, 1.0, 0.5])
    return {
        "leaky": lambda x: tf.nn.leaky_relu(x, 0.3),
        "gelu": lambda x: tf.nn.gelu(x),
        "gelu_tanh": lambda x: tf.nn.gelu(x, approximate=True),
        "hard_swish": lambda x: x * tf.nn.relu6(x + 3.0) * (1.0 / 6.0),
        "swish": lambda x: tf.nn.silu(x),
        "relu_n1": lambda x: tf.minimum(tf.maximum(x, -1.0), 1.0),
        "clip": lambda x: tf.clip_by_value(x, -0.7, 2.1),
        "prelu": lambda x: tf.maximum(x, 0.0) + alpha * tf.minimum(x, 0.0),
        "softmax": lambda x: tf.nn.softmax(x * beta),
        "log_softmax": lambda x: tf.nn.log_softmax(x),
    }[kind], [x]


def fused(d, tf):
    return d.choice([tf.identity, tf.identity, tf.nn.relu, tf.nn.relu6, tf.tanh])


@formula
def conv2d(d, tf):
    h, w, c, o = d.randint(5, 11), d.randint(5, 11), d.choice([1, 2, 4, 6]), d.choice([1, 3, 4, 8])
    kh, kw = d.randint(1, 4), d.randint(1, 4)
    group = d.choice([1, 1, 1, 2]) if c % 2 == 0 and o % 2 == 0 else 1
    dilated = d.random() < 0.25
    strides = 1 if dilated else [d.randint(1, 3), d.randint(1, 3)]
    dilations = [d.randint(1, 2), d.randint(1, 3)] if dilated else None
    k, bias = d.weights(kh, kw, c // group, o), d.weights(o)
    act, padding, biased = fused(d, tf), d.choice(["SAME", "VALID"]), d.random() < 0.7
    f = lambda x: tf.nn.conv2d(x, k, strides, padding, dilations=dilations)
    return (lambda x: act(f(x) + bias) if biased else act(f(x))), [d.floats(d.choice([1, 1, 2]), h, w, c)]


@formula
def depthwise(d, tf):
    h, w, c, m = d.randint(5, 11), d.randint(5, 11), d.choice([1, 2, 5, 8]), d.choice([1, 1, 2, 3])
    s = d.choice([1, 1, 2])
    k, bias = d.weights(d.randint(1, 5), d.randint(1, 5), c, m), d.weights(c * m)
    act, padding = fused(d, tf), d.choice(["SAME", "VALID"])
    dilations = [d.randint(1, 2)] * 2 if s == 1 and d.random() < 0.3 else None
    return (lambda x: act(tf.nn.depthwise_conv2d(x, k, [1, s, s, 1], padding, dilations=dilations) + bias)), [d.floats(1, h, w, c)]


@formula
def conv1d(d, tf):
    c, o = d.choice([1, 3, 4]), d.choice([1, 4])
    k, act = d.weights(d.randint(1, 4), c, o), fused(d, tf)
    s, padding = d.randint(1, 2), d.choice(["SAME", "VALID"])
    return (lambda x: act(tf.nn.conv1d(x, k, s, padding))), [d.floats(d.choice([1, 2]), d.randint(5, 12), c)]


@formula
def conv3d(d, tf):
    c, o = d.choice([1, 3]), d.choice([1, 4])
    k, s, padding = d.weights(d.randint(1, 3), d.randint(1, 3), d.randint(1, 3), c, o), d.sizes(3, 1, 2), d.choice(["SAME", "VALID"])
    return (lambda x: tf.nn.relu(tf.nn.conv3d(x, k, [1, *s, 1], padding))), [d.floats(1, 5, 6, 7, c)]


@formula
def transpose_conv(d, tf):
    c, o, s, kh, kw = d.choice([1, 3, 4]), d.choice([1, 2, 4]), d.sizes(2, 1, 3), d.randint(1, 4), d.randint(1, 4)
    padding, bias = d.choice(["SAME", "VALID"]), d.weights(o)
    h, w = d.randint(3, 6), d.randint(3, 6)
    size = lambda n, s, k: n * s if padding == "SAME" else (n - 1) * s + k
    if padding == "VALID":
        kh, kw = max(kh, s[0]), max(kw, s[1])
    k, b = d.weights(kh, kw, o, c), d.choice([1, 2])
    out = [b, size(h, s[0], kh), size(w, s[1], kw), o]
    return (lambda x: tf.nn.conv2d_transpose(x, k, out, s, padding) + bias), [d.floats(b, h, w, c)]


@formula
def conv3d_transpose(d, tf):
    c, o, s = d.choice([1, 3]), d.choice([1, 2]), d.sizes(3, 1, 2)
    k, n = d.weights(2, 3, 2, o, c), d.sizes(3, 2, 4)
    return (lambda x: tf.nn.conv3d_transpose(x, k, [1, *[a * b for a, b in zip(n, s)], o], [1, *s, 1], "SAME")), [d.floats(1, *n, c)]


@formula
def dense(d, tf):
    shape, o = d.shape(2, 4), d.randint(1, 9)
    w, bias, act, biased = d.weights(shape[-1], o), d.weights(o), fused(d, tf), d.random() < 0.7
    return (lambda x: act(tf.matmul(x, w) + bias) if biased else tf.matmul(x, w)), [d.floats(*shape)]


@formula
def large_dense(d, tf):
    n, o = d.choice([64, 96]), d.choice([40, 64])
    w, bias = d.weights(n, o), d.weights(o)
    return (lambda x: tf.nn.relu(tf.matmul(x, w) + bias)), [d.floats(d.randint(1, 3), n)]


@formula
def large_conv(d, tf):
    c, o, k = d.choice([16, 24]), d.choice([16, 32]), d.choice([1, 3])
    w = d.weights(k, k, c, o)
    return (lambda x: tf.nn.relu6(tf.nn.conv2d(x, w, d.choice([1, 2]), "SAME"))), [d.floats(1, 8, 8, c)]


@formula
def matmul(d, tf):
    batch, m, k, n = d.sizes(d.randint(0, 3), 1, 3), *d.sizes(3, 1, 6)
    a, b = d.random() < 0.3, d.random() < 0.4
    x, y = [k, m] if a else [m, k], [n, k] if b else [k, n]
    other = d.broadcast(batch) if batch and d.random() < 0.4 else batch
    y = d.floats(*other, *y)
    if d.random() < 0.3:
        return (lambda x: tf.matmul(x, tf.constant(y), transpose_a=a, transpose_b=b)), [d.floats(*batch, *x)]
    return (lambda x, y: tf.matmul(x, y, transpose_a=a, transpose_b=b)), [d.floats(*batch, *x), y]


@formula
def einsum(d, tf):
    equation, x, y = d.choice([("abc,cd->abd", (2, 3, 4), (4, 5)), ("bhqd,bhkd->bhqk", (1, 2, 3, 4), (1, 2, 5, 4)), ("ij,ij->i", (3, 4), (3, 4)),
                               ("abc,adc->abd", (2, 3, 4), (2, 5, 4)), ("bqhd,bkhd->bhqk", (1, 3, 2, 4), (1, 5, 2, 4))])
    return (lambda x, y: tf.einsum(equation, x, y)), [d.floats(*x), d.floats(*y)]


@formula
def pool(d, tf):
    f = d.choice([tf.nn.max_pool2d, tf.nn.avg_pool2d])
    k, s, padding, act = d.sizes(2, 1, 4), d.sizes(2, 1, 3), d.choice(["SAME", "VALID"]), d.choice([tf.identity, tf.identity, tf.nn.relu])
    return (lambda x: act(f(x, k, s, padding))), [d.floats(d.choice([1, 2]), d.randint(4, 9), d.randint(4, 9), d.choice([1, 3, 5]))]


@formula
def norms(d, tf):
    kind = d.choice(["l2", "lrn", "batch", "layer"])
    x = d.floats(1, 4, 5, d.choice([4, 7])) if kind != "layer" else d.floats(*d.shape(2, 4))
    n = x.shape[-1]
    scale, offset, mean, variance = d.floats(n), d.floats(n), d.floats(n), d.floats(n, low=0.2, high=2)
    radius = d.randint(1, 3)

    def layer(x):
        m, v = tf.nn.moments(x, [-1], keepdims=True)
        return (x - m) * tf.math.rsqrt(v + 1e-3) * scale + offset
    return {
        "l2": lambda x: tf.nn.l2_normalize(x, -1),
        "lrn": lambda x: tf.nn.local_response_normalization(x, radius, 1.5, 0.3, 0.6),
        "batch": lambda x: tf.nn.batch_normalization(x, mean, variance, offset, scale, 1e-3),
        "layer": layer,
    }[kind], [x]


def reduction(d, tf, name, dtype=np.float32):
    shape = d.shape(1, 5)
    axes, keep = d.axes(len(shape)), d.random() < 0.5
    axes = axes[0] if len(axes) == 1 and d.random() < 0.5 else axes
    x = d.bools(*shape) if dtype == bool else d.ints(*shape, low=-4, high=5, dtype=dtype) if dtype != np.float32 else d.floats(*shape)
    return (lambda x: getattr(tf, name)(x, axes, keepdims=keep)), [x]


each("reduce_sum reduce_mean reduce_max reduce_min reduce_prod", reduction)
each("reduce_all reduce_any", lambda d, tf, name: reduction(d, tf, name, bool))
each("reduce_sum_ reduce_max_ reduce_min_ reduce_prod_", lambda d, tf, name: reduction(d, tf, name[:-1], d.choice([np.int32, np.int64])))


@formula
def argument(d, tf):
    f, shape = d.choice([tf.argmax, tf.argmin]), d.shape(1, 4)
    axis, to = d.randint(-len(shape), len(shape) - 1), d.choice([tf.int32, tf.int64])
    return (lambda x: f(x, axis, output_type=to)), [d.floats(*shape)]


@formula
def reshape(d, tf):
    x = d.floats(2, 3, 4)
    shape = d.choice([[6, 4], [-1], [2, -1, 2], [1, 24, 1], [4, 3, 2], [2, 2, 2, 3], [-1, 12]])
    return (lambda x: tf.reshape(x, shape)), [x]


@formula
def transpose(d, tf):
    shape = d.shape(2, 6)
    perm = d.sample(range(len(shape)), len(shape))
    return (lambda x: tf.transpose(x, perm)), [d.floats(*shape)]


@formula
def squeeze(d, tf):
    # A batch of varying size is no axis to go.
    shape = [2, *(d.choice([1, 1, 3]) for _ in range(3))]
    ones = [i for i, n in enumerate(shape) if n == 1]
    axes = d.choice([None, ones[:1], [a - 4 for a in ones]]) if ones else None
    return (lambda x: tf.squeeze(x, axes)), [d.floats(*shape)]


@formula
def expand_dims(d, tf):
    shape = d.shape(1, 4)
    axis = d.randint(-len(shape) - 1, len(shape))
    return (lambda x: tf.expand_dims(x, axis)), [d.floats(*shape)]


@formula
def strided_slice(d, tf):
    shape = d.sizes(d.randint(1, 4), 2, 6)
    items = []
    for n in shape[:d.randint(1, len(shape))]:
        start, end = sorted([d.randint(0, n - 1), d.randint(1, n)])
        items.append(d.choice([
            slice(start, max(end, start + 1)), slice(None, None, 2), slice(None), d.randint(-n, n - 1), slice(start - n, None),
            slice(None, None, -1), slice(n - 1, 0, -2)]))
    if d.random() < 0.3:
        items.insert(d.randint(0, len(items)), None)
    if d.random() < 0.3:
        items.insert(d.randint(0, len(items)), Ellipsis)
    return (lambda x: x[tuple(items)]), [d.floats(*shape)]


@formula
def slice_(d, tf):
    shape = d.sizes(d.randint(1, 4), 2, 6)
    begin = [d.randint(0, n - 1) for n in shape]
    size = [d.choice([-1, d.randint(1, n - b)]) for n, b in zip(shape, begin)]
    if d.random() < 0.4:
        return (lambda x, b: tf.slice(x, b, size)), [d.floats(*shape), np.array(begin, np.int32)]
    return (lambda x: tf.slice(x, begin, size)), [d.floats(*shape)]


@formula
def gather(d, tf):
    shape = d.sizes(d.randint(1, 4), 2, 5)
    axis = d.randint(0, len(shape) - 1)
    batch = d.randint(0, axis) if d.random() < 0.4 else 0
    indices = d.ints(*shape[:batch], *d.sizes(d.randint(0, 2)), low=0, high=shape[axis], dtype=d.choice([np.int32, np.int64]))
    if d.random() < 0.5:
        return (lambda x: tf.gather(x, tf.constant(indices), axis=axis, batch_dims=batch)), [d.floats(*shape)]
    return (lambda x, i: tf.gather(x, i, axis=axis, batch_dims=batch)), [d.floats(*shape), indices]


@formula
def gather_nd(d, tf):
    shape = d.sizes(d.randint(2, 4), 2, 5)
    depth, outer = d.randint(1, len(shape)), d.sizes(d.randint(1, 2))
    indices = np.stack([d.ints(*outer, low=0, high=n) for n in shape[:depth]], -1).astype(np.int32)
    return (lambda x, i: tf.gather_nd(x, i)), [d.floats(*shape), indices]


@formula
def concat(d, tf):
    shape, n = d.shape(1, 5), d.randint(2, 4)
    axis = d.randint(-len(shape), len(shape) - 1)
    arrays = []
    for _ in range(n):
        own = list(shape)
        own[axis] = d.randint(1, 4)
        arrays.append(d.floats(*own, low=-d.uniform(0.5, 3), high=d.uniform(0.5, 4)))
    return (lambda *x: tf.concat(x, axis)), arrays


@formula
def stack(d, tf):
    shape, n = d.shape(1, 4), d.randint(2, 3)
    axis = d.randint(-len(shape) - 1, len(shape))
    return (lambda *x: tf.stack(x, axis)), [d.floats(*shape) for _ in range(n)]


@formula
def unstack(d, tf):
    shape = d.sizes(d.randint(1, 4), 1, 4)
    axis = d.randint(-len(shape), len(shape) - 1)
    return (lambda x: tf.unstack(x, axis=axis)), [d.floats(*shape)]


@formula
def split(d, tf):
    shape = d.shape(1, 4)
    axis = d.randint(-len(shape), len(shape) - 1)
    parts = d.sizes(d.randint(1, 3), 1, 3)
    shape[axis] = sum(parts) if d.random() < 0.5 else 2 * len(parts)
    how = parts if shape[axis] == sum(parts) and d.random() < 0.7 else 2 if shape[axis] % 2 == 0 else 1
    return (lambda x: tf.split(x, how, axis)), [d.floats(*shape)]


@formula
def tile(d, tf):
    shape = d.shape(1, 4)
    times = d.sizes(len(shape), 1, 3)
    return (lambda x: tf.tile(x, times)), [d.floats(*shape)]


@formula
def broadcast_to(d, tf):
    shape = d.shape(1, 4)
    return (lambda x: tf.broadcast_to(x, [2, *shape])), [d.floats(*d.broadcast(shape))]


@formula
def pad(d, tf):
    shape = d.sizes(d.randint(1, 4), 3, 6)
    pads = [[d.randint(0, 2), d.randint(0, 2)] for _ in shape]
    mode, value = d.choice(["CONSTANT", "CONSTANT", "REFLECT", "SYMMETRIC"]), d.choice([0, 0, 1.5])
    return (lambda x: tf.pad(x, pads, mode, value)), [d.floats(*shape)]


@formula
def reverse(d, tf):
    shape = d.shape(1, 4)
    axes = d.axes(len(shape))[:1] if d.random() < 0.7 else [0]
    return (lambda x: tf.reverse(x, axes)), [d.floats(*shape)]


@formula
def reverse_sequence(d, tf):
    shape = d.sizes(d.randint(2, 4), 2, 5)
    seq, batch = d.sample(range(len(shape)), 2)
    lengths = d.ints(shape[batch], low=1, high=shape[seq] + 1, dtype=d.choice([np.int32, np.int64]))
    return (lambda x, n: tf.reverse_sequence(x, n, seq_axis=seq, batch_axis=batch)), [d.floats(*shape), lengths]


@formula
def roll(d, tf):
    shape = d.shape(1, 3)
    axis, shift = d.randint(0, len(shape) - 1), d.randint(-4, 4)
    return (lambda x: tf.roll(x, shift, axis)), [d.floats(*shape)]


@formula
def space(d, tf):
    block = d.choice([2, 3])
    kind = d.choice(["s2d", "d2s", "s2b", "b2s"])
    x = {"s2d": (1, 2 * block, 3 * block, 2), "d2s": (2, 2, 3, 2 * block * block), "s2b": (1, 4, 6, 2), "b2s": (4, 2, 3, 2)}[kind]
    return {
        "s2d": lambda x: tf.nn.space_to_depth(x, block),
        "d2s": lambda x: tf.nn.depth_to_space(x, block),
        "s2b": lambda x: tf.space_to_batch(x, [2, 2], [[0, 0], [2, 0]]),
        "b2s": lambda x: tf.batch_to_space(x, [2, 2], [[0, 1], [1, 0]]),
    }[kind], [d.floats(*x)]


@formula
def one_hot(d, tf):
    shape, depth = d.shape(1, 3), d.randint(2, 6)
    axis = d.randint(-1, len(shape))
    on, off = d.choice([(1.0, 0.0), (2.5, -1.0)])
    return (lambda i: tf.one_hot(i, depth, on, off, axis)), [d.ints(*shape, low=0, high=depth)]


@formula
def select(d, tf):
    shape = d.shape(1, 4)
    return (lambda c, x, y: tf.where(c, x, y)), [d.bools(*d.broadcast(shape)), d.floats(*shape), d.floats(*d.broadcast(shape))]


@formula
def where(d, tf):
    return (lambda c: tf.where(c)), [d.bools(*d.shape(1, 3))]


@formula
def cumsum(d, tf):
    shape = d.shape(1, 4)
    axis, a, b = d.randint(-len(shape), len(shape) - 1), d.random() < 0.5, d.random() < 0.5
    return (lambda x: tf.cumsum(x, axis, a, b)), [d.choice([d.floats, d.ints])(*shape)]


@formula
def top_k(d, tf):
    n = d.randint(3, 8)
    k = d.randint(1, n)
    return (lambda x: tuple(tf.math.top_k(x, k))), [d.floats(*d.sizes(d.randint(0, 2)), n)]


@formula
def cast(d, tf):
    x = d.choice([d.floats(3, 4, low=0.1, high=9), d.floats(3, 4), d.ints(3, 4), d.ints(3, 4, low=0, dtype=np.uint8), d.bools(3, 4), d.ints(3, 4, dtype=np.int64)])
    to = d.choice([tf.float32, tf.int32, tf.int64, tf.bool, tf.float16, tf.int8] if x.min() < 0 else [tf.float32, tf.int32, tf.int64, tf.uint8, tf.bool])
    return (lambda x: tf.cast(x, to)), [x]


@formula
def shapes(d, tf):
    kind = d.choice(["range", "fill", "shape", "size", "rank"])
    x = d.floats(*d.shape())
    return {
        "range": (lambda n: tf.range(1, n, 2), [np.array(9, np.int32)]),
        "fill": (lambda n: tf.fill(n, 2.5), [np.array([2, 3], np.int32)]),
        "shape": (lambda x: tf.shape(x) * 2, [x]),
        "size": (lambda x: tf.cast(tf.size(x), tf.float32) + x, [x]),
        "rank": (lambda x: tf.cast(tf.rank(x), tf.float32) * x, [x]),
    }[kind]


@formula
def scatter(d, tf):
    kind = d.choice(["nd", "update", "add", "max", "min", "sub"])
    indices = np.array(d.sample(range(6), 3), np.int32)[:, None]
    x, u = d.floats(6, 3), d.floats(3, 3)
    if kind == "nd":
        return (lambda i, u: tf.scatter_nd(i, u, [6, 3])), [indices, u]
    return (lambda x, i, u: getattr(tf, "tensor_scatter_nd_" + kind)(x, i, u)), [x, indices, u]


@formula
def segment(d, tf):
    f = d.choice([tf.math.unsorted_segment_sum, tf.math.unsorted_segment_max, tf.math.unsorted_segment_min, tf.math.unsorted_segment_prod])
    n = d.randint(3, 7)
    return (lambda x, i: f(x, i, 5)), [d.floats(n, *d.sizes(d.randint(0, 2))), d.ints(n, low=0, high=5)]


@formula
def resize(d, tf):
    h, w = d.randint(1, 7), d.randint(1, 7)
    to = d.sizes(2, 1, 15)
    align, half = d.choice([(False, False), (True, False), (False, True)])
    f = d.choice([tf.compat.v1.image.resize_bilinear, tf.compat.v1.image.resize_nearest_neighbor])
    return (lambda x: f(x, to, align_corners=align, half_pixel_centers=half)), [d.floats(d.choice([1, 2]), h, w, d.choice([1, 3]))]


@formula
def diagonal(d, tf):
    kind, n = d.choice(["diag", "set", "part"]), d.randint(2, 4)
    return {
        "diag": (lambda x: tf.linalg.diag(x), [d.floats(2, n)]),
        "set": (lambda x, y: tf.linalg.set_diag(x, y), [d.floats(2, n, n + 1), d.floats(2, n)]),
        "part": (lambda x: tf.linalg.band_part(x, 1, 0), [d.floats(n, n)]),
    }[kind]


@formula
def unique(d, tf):
    return (lambda x: tuple(tf.unique(x))), [d.ints(d.randint(3, 9), low=0, high=4)]


@formula
def update_slice(d, tf):
    x, u = d.floats(5, 6), d.floats(2, 3)
    return (lambda x, u, s: tf.raw_ops.XlaDynamicUpdateSlice(input=x, update=u, indices=s)), [x, u, d.ints(2, low=0, high=6)]


@formula
def embedding(d, tf):
    table = d.floats(9, 4)
    return (lambda i: tf.nn.embedding_lookup(table, i)), [d.ints(*d.shape(1, 3), low=0, high=9)]


@formula
def bitwise(d, tf):
    kind = d.choice(["xor", "shift", "bitcast"])
    x, y = d.ints(3, 4), d.ints(3, 4, low=0, high=5)
    return {
        "xor": (lambda x, y: tf.bitwise.bitwise_xor(x, y), [x, y]),
        "shift": (lambda x, y: tf.bitwise.right_shift(x, y), [x, y]),
        "bitcast": (lambda x: tf.bitcast(x, tf.int32), [d.floats(3, 4)]),
    }[kind]


@formula
def several(d, tf):
    """Some layers after each other, as networks have them."""
    c = d.choice([2, 4])
    k, w = d.weights(3, 3, c, 6), d.weights(6, 5)
    kind = d.choice(["residual", "gate", "attention", "branches"])

    def f(x):
        y = tf.nn.relu6(tf.nn.conv2d(x, k, 1, "SAME") + 0.1)
        if kind == "residual":
            y = tf.nn.relu(tf.nn.depthwise_conv2d(y, d_k, [1, 1, 1, 1], "SAME") + y)
        if kind == "gate":
            y = y * tf.sigmoid(tf.reduce_mean(y, [1, 2], keepdims=True))
        if kind == "branches":
            y = tf.concat([tf.nn.max_pool2d(y, 2, 1, "SAME"), tf.nn.avg_pool2d(y, 3, 1, "SAME")], -1)[..., ::2]
            y = tf.concat([y, y], -1)
        if kind == "attention":
            t = tf.reshape(y, [-1, 36, 6])
            y = tf.reshape(tf.matmul(tf.nn.softmax(tf.matmul(t, t, transpose_b=True) * 0.3), t), [-1, 6, 6, 6])
        return tf.nn.softmax(tf.matmul(tf.reduce_mean(y, [1, 2]), w))
    d_k = d.weights(3, 3, 6, 1)
    return f, [d.floats(1, 6, 6, c)]


@formula
def recurrent(d, tf):
    kind = d.choice(["LSTM", "GRU", "SimpleRNN"])
    layer = getattr(tf.keras.layers, kind)(d.randint(2, 5), return_sequences=d.random() < 0.5, go_backwards=d.random() < 0.3, unroll=d.random() < 0.3)
    x = d.floats(d.choice([1, 2]), d.randint(2, 5), d.randint(2, 4), low=-1, high=1)
    layer(x)
    return (lambda x: layer(x)), [x]


# ---- files ----


def converter_of(tf, f, arrays, form, dynamic):
    specs = []
    for i, a in enumerate(arrays):
        shape = [None, *a.shape[1:]] if dynamic and a.ndim else list(a.shape)
        specs.append(tf.TensorSpec(shape, a.dtype, name=f"x{i}"))
    concrete = tf.function(f, input_signature=specs).get_concrete_function()
    converter = tf.lite.TFLiteConverter.from_concrete_functions([concrete])
    if form == "float":
        return converter
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if form == "float16":
        converter.target_spec.supported_types = [tf.float16]
    if form in ("int8", "int16"):
        def samples():
            yield arrays
            for scale in (0.3, 0.7, 0.9):
                yield [(a * scale).astype(a.dtype) if a.dtype == np.float32 else a for a in arrays]
        converter.representative_dataset = samples
        sets = tf.lite.OpsSet
        converter.target_spec.supported_ops = [sets.TFLITE_BUILTINS_INT8 if form == "int8" else sets.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8]
        converter.inference_input_type = converter.inference_output_type = tf.int8 if form == "int8" else tf.int16
    return converter


def stored(array, detail):
    """What a tensor of a model holds for real numbers."""
    scale, zero = detail["quantization"]
    if array.dtype != np.float32 or not scale or detail["dtype"] == np.float32:
        return array
    limits = np.iinfo(detail["dtype"])
    return np.clip(np.round(array / scale) + zero, limits.min, limits.max).astype(detail["dtype"])


def interpreted(tf, model, arrays, f):
    """Inputs and results of the interpreter, by position; those of TensorFlow as the model would store them; and which results are quantized."""
    kind = tf.lite.experimental.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = tf.lite.Interpreter(model_content=model, experimental_op_resolver_type=kind, num_threads=1)
    details = interpreter.get_input_details()
    order = sorted(range(len(details)), key=lambda i: int(re.findall(r"x(\d+)", details[i]["name"])[-1]))
    for i, position in enumerate(order):
        interpreter.resize_tensor_input(details[position]["index"], arrays[i].shape)
    interpreter.allocate_tensors()
    given = []
    for i, position in enumerate(order):
        given.append(stored(arrays[i], details[position]))
        interpreter.set_tensor(details[position]["index"], given[-1])
    interpreter.invoke()
    by_position = [None] * len(given)
    for i, position in enumerate(order):
        by_position[position] = given[i]
    outputs = interpreter.get_output_details()
    truth = [stored(t.numpy(), o) for t, o in zip(tf.nest.flatten(f(*map(tf.constant, arrays))), outputs)]
    return by_position, [interpreter.get_tensor(o["index"]) for o in outputs], truth, [o["quantization"][0] != 0 for o in outputs]


def difference(want, found, truth, quantized, form):
    if want.dtype != found.dtype:
        return f"elements of {found.dtype}, not {want.dtype}"
    if want.shape != found.shape:
        return f"shape {found.shape}, not {want.shape}"
    if not want.size:
        return None
    a, b = want.astype(np.float64), found.astype(np.float64)
    if quantized and want.dtype.kind in "iu":
        worst = int(np.abs(a - b).max())
        if worst <= STEPS:
            return None
        if truth.shape == want.shape:
            theirs, own = np.abs(a - truth).max(), np.abs(b - truth).max()
            return f"{worst} steps apart, {own:.0f} from TensorFlow, where the interpreter is {theirs:.0f}" if own > theirs + STEPS else None
        return f"{worst} steps apart"
    if want.dtype.kind != "f":
        return None if np.array_equal(a, b) else f"{np.sum(a != b)} of {a.size} values differ"
    finite = np.abs(a[np.isfinite(a)])
    scale = max(1.0, finite.max() if finite.size else 1.0)
    # Kernels of weights of 8 bits round activations too.
    atol = {"dynamic": 0.02, "float16": 2e-3}.get(form, 2e-5) * scale
    equal = np.isclose(a, b, 1e-4 if form == "float" else 0.02, atol, equal_nan=True)
    return None if equal.all() else f"{np.sum(~equal)} of {a.size} values differ, by {np.nanmax(np.abs(a - b)):.3g} of {scale:.3g}"


def converted(onnxd, path, folder):
    import onnx
    out = os.path.join(folder, "out")
    run = subprocess.run([onnxd, "convert", path, "--out", out], capture_output=True, text=True, timeout=300)
    if run.returncode:
        lines = [l for l in (run.stdout + run.stderr).splitlines() if " N0" in l or l.startswith("N0")]
        return None, f"exit {run.returncode}: " + " | ".join(lines)[:400]
    file = os.path.join(out, "model.onnx")
    onnx.checker.check_model(file, full_check=True)
    return file, None


def judged(onnxd, path, runs, form, folder):
    import onnxruntime
    file, why = converted(onnxd, path, folder)
    if file is None:
        return "refused", why
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    try:
        session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        return "runtime", str(error)[:300]
    names = [i.name for i in session.get_inputs()]
    for given, wanted, truth, quantized in runs:
        if len(names) != len(given):
            return "wrong", f"{len(names)} inputs, not {len(given)}"
        try:
            found = session.run(None, dict(zip(names, given)))
        except Exception as error:
            return "runtime", str(error)[:300]
        if len(found) != len(wanted):
            return "wrong", f"{len(found)} results, not {len(wanted)}"
        for i, (want, got) in enumerate(zip(wanted, found)):
            why = difference(want, np.asarray(got), truth[i], quantized[i], form)
            if why:
                return "wrong", f"result {i} for {[a.shape for a in given]}: {why}"
    return "equal", None


OPTIONS = None


def stage(name, number):
    """A file that is there while a model of the case is judged."""
    return os.path.join(OPTIONS.stages, f"{name}_{number}")


def judge_case(task):
    name, number = task
    import tensorflow as tf
    folder = tempfile.mkdtemp(prefix="tflite_operators_")
    rows = []
    try:
        for form in OPTIONS.forms.split(","):
            if name in NOT_QUANTIZED and form.startswith("int"):
                continue
            d = Draw(f"{OPTIONS.seed} {name} {number}")
            path = os.path.join(folder, f"{name}_{number}_{form}.tflite")
            try:
                f, arrays = FORMULAS[name](d, tf)
                arrays = [np.asarray(a) for a in arrays]
                dynamic = form == "float" and number % 2 == 1 and len(arrays) == 1 and arrays[0].ndim > 1
                model = converter_of(tf, f, arrays, form, dynamic).convert()
                runs = [interpreted(tf, model, arrays, f)]
                if dynamic:
                    runs.append(interpreted(tf, model, [np.concatenate([a, a[::-1] * np.asarray(0.9, a.dtype)]) for a in arrays], f))
            except Exception as error:
                rows.append((name, number, form, "skipped", f"{type(error).__name__}: {str(error)[:150]}"))
                continue
            with open(path, "wb") as file:
                file.write(model)
            with open(stage(name, number), "w") as file:
                file.write(form)
            try:
                end, why = judged(OPTIONS.onnxd, path, runs, form, folder)
            except Exception as error:
                end, why = "wrong", f"{type(error).__name__}: {str(error)[:300]}"
            os.remove(stage(name, number))
            rows.append((name, number, form, end, why))
            if end != "equal" and OPTIONS.keep:
                shutil.copy(path, OPTIONS.keep)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return rows


def main():
    global OPTIONS
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--onnxd", required=True)
    parser.add_argument("--match", default="")
    parser.add_argument("--forms", default=",".join(FORMS))
    parser.add_argument("--count", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep")
    parser.add_argument("--save", help="writes all findings as JSON")
    OPTIONS = parser.parse_args()
    if OPTIONS.keep:
        os.makedirs(OPTIONS.keep, exist_ok=True)
    OPTIONS.stages = tempfile.mkdtemp(prefix="tflite_operators_stages_")
    tasks = [(name, i) for name in FORMULAS if re.search(OPTIONS.match, name) for i in range(OPTIONS.count)]
    random.Random(0).shuffle(tasks)
    rows = []
    with multiprocessing.get_context("spawn").Pool(OPTIONS.jobs, initializer=begin, initargs=(OPTIONS,)) as pool:
        pending = [(task, pool.apply_async(judge_case, (task,))) for task in tasks]
        for (name, number), case in pending:
            try:
                found = case.get(TIMEOUT_S)
            except multiprocessing.TimeoutError:
                # TensorFlow's converter ends some processes. Others ended while a model was judged.
                judging = os.path.exists(stage(name, number))
                form = open(stage(name, number)).read() if judging else "-"
                found = [(name, number, form, "wrong" if judging else "skipped", "it gave no answer")]
            rows += found
            for name, number, form, end, why in found:
                if end not in ("equal", "skipped"):
                    print(f"{end}: {name} {number} {form}: {why}", flush=True)
    for form in OPTIONS.forms.split(","):
        ends = collections.Counter(end for _, _, f, end, _ in rows if f == form)
        print(f"{form}: " + ", ".join(f"{ends[e]} {e}" for e in ("equal", "refused", "wrong", "runtime", "skipped")))
    if OPTIONS.save:
        with open(OPTIONS.save, "w") as f:
            json.dump(rows, f, indent=0)
    shutil.rmtree(OPTIONS.stages, ignore_errors=True)
    def known(name, why):
        return name in REFUSED and REFUSED[name] in (why or "")
    ends = collections.Counter(end for name, _, _, end, why in rows if end != "refused" or not known(name, why))
    sys.exit(ends["equal"] == 0 or any(ends[end] for end in ("wrong", "runtime", "refused")))


def begin(options):
    global OPTIONS
    OPTIONS = options
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 2)


if __name__ == "__main__":
    main()
