"""Networks of TensorFlow and Keras, each in the kinds of files that it is saved in."""

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers


def floats(*sizes):
    random = np.random.default_rng(0)
    return [random.standard_normal(size).astype(np.float32) for size in sizes]


def cnn():
    return keras.Sequential([
        keras.Input((16, 16, 3), name="image"),
        layers.Conv2D(8, 3, strides=2, padding="same", use_bias=False, name="stem"),
        layers.BatchNormalization(name="norm"),
        layers.ReLU(max_value=6.0),
        layers.DepthwiseConv2D(3, padding="same", activation="relu"),
        layers.MaxPooling2D(),
        layers.Flatten(),
        layers.Dense(5, activation="softmax", name="scores"),
    ])


def wide():
    """Layers whose weights are too large to be there twice."""
    return keras.Sequential([
        keras.layers.Input((6, 6, 16)),
        keras.layers.Conv2D(16, 3, padding="same", activation="relu"),
        keras.layers.DepthwiseConv2D(5, depth_multiplier=4),
        keras.layers.Conv2DTranspose(8, 3, strides=2),
        keras.layers.Flatten(),
        keras.layers.Dense(8),
    ])


def dilated():
    """Convolutions that TensorFlow computes on blocks of cells."""
    return keras.Sequential([
        keras.Input((10, 9, 2), name="image"),
        layers.Conv2D(4, 3, dilation_rate=2, padding="same", activation="relu", name="whole"),
        layers.DepthwiseConv2D(3, dilation_rate=(2, 3), name="deep"),
    ])


def blocks(x):
    """The same with a bias and an activation between the blocks."""
    random = np.random.default_rng(2)
    weights, bias = random.normal(size=(3, 3, 2, 4)), random.normal(size=4)
    cells = tf.space_to_batch(x, [2, 3], [[1, 3], [3, 3]])
    cells = tf.nn.conv2d(cells, tf.constant(weights, tf.float32), 1, "VALID")
    cells = tf.nn.relu6(tf.nn.bias_add(cells, tf.constant(bias, tf.float32)))
    return tf.batch_to_space(cells, [2, 3], [[0, 2], [1, 0]])


def branches():
    """Two inputs, a shared layer, a nested model, a mask."""
    words = keras.Input((6,), dtype="int32", name="words")
    numbers = keras.Input((4,), name="numbers")
    shared = layers.Dense(4, activation="tanh", name="shared")
    inner = keras.Sequential([keras.Input((4,)), layers.Dense(4, name="inside")], name="inner")
    text = layers.LSTM(4, name="reader")(layers.Embedding(9, 4, mask_zero=True, name="table")(words))
    joined = layers.Concatenate()([shared(text), shared(inner(numbers))])
    return keras.Model([words, numbers], [layers.Dense(2, name="left")(joined), layers.Dense(1, name="right")(joined)])


def merges():
    """What masks leave out of tensors that are merged, and normalization with settings of its own."""
    left, right = keras.Input((4, 3), name="left"), keras.Input((4, 3), name="right")
    given = keras.Input((1, 3), dtype="bool", name="given")
    masked = [layers.Masking()(left), layers.Masking()(right)]
    merged = [layer()(masked) for layer in [layers.Multiply, layers.Maximum, layers.Minimum]]
    pictures = layers.Reshape((4, 3, 1))(layers.Concatenate()(merged)[:, :, :3])
    normal = layers.LayerNormalization(axis=[-1, 1], name="ordered")(pictures)
    scaled = layers.LayerNormalization(axis=1, rms_scaling=True, name="scaled")(left)
    shares = layers.Softmax(axis=1, name="shares")(right, mask=given)
    return keras.Model([left, right, given], [*merged, normal, scaled, shares])


def merge_inputs():
    left, right = floats((2, 4, 3), (2, 4, 3))
    left[:, 1], right[0, 1], right[1, 3] = 0, 0, 0
    return [left, right, np.array([[[True, False, True]], [[False, True, True]]])]


def gates():
    """Weights that `.h5` files have in another order than the layers make them."""
    x = keras.Input((4, 3), name="x")
    gated = layers.MultiHeadAttention(2, 3, use_gate=True, name="gated")(x, x)
    backward = layers.GRU(3, go_backwards=True, return_sequences=True, name="back")
    both = layers.Bidirectional(layers.LSTM(3, return_sequences=True, name="on"), backward_layer=backward, name="both")
    both.forward_layer.trainable = False
    return keras.Model(x, [gated, both(x)])


def word_inputs():
    words = np.array([[3, 1, 8, 0, 0, 0], [2, 2, 7, 4, 1, 0]], np.int32)
    return [words, *floats((2, 4))]


class Loops(tf.Module):
    """A loop whose end depends on a tensor, within it a condition, and a list of tensors."""

    def __init__(self):
        self.weight = tf.Variable(floats((3, 3))[0] * 0.3, name="weight")

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, "x"), tf.TensorSpec([], tf.int32, "n")])
    def serve(self, x, n):
        rows = tf.TensorArray(tf.float32, size=n, element_shape=[None, 3])
        for i in tf.range(n):
            x = tf.matmul(x, self.weight)
            if tf.reduce_sum(x) > 0.0:
                x = x + 1.0
            rows = rows.write(i, x)
        return {"last": x, "all": rows.stack()}


class Stream(tf.Module):
    """A wake word a frame at a time: two rings of the last frames and features, how often it was heard, and noise."""

    def __init__(self, noise):
        self.frames = tf.Variable(tf.zeros([1, 3, 4]), name="frames")
        self.features = tf.Variable(tf.zeros([1, 2, 5]), name="features")
        self.heard = tf.Variable(0, name="heard")
        self.weights = [tf.constant(w) for w in floats((3, 4, 5), (2, 5, 3))]
        self.generator = tf.random.Generator.from_seed(7) if noise else None

    @tf.function(input_signature=[tf.TensorSpec([1, 1, 4], tf.float32, "x")])
    def serve(self, x):
        if self.generator is not None:
            x = x + 0.1 * self.generator.normal([1, 1, 4]) + 0.1 * self.generator.uniform([1, 1, 4])
        frames = tf.concat([self.frames, x], 1)[:, 1:]
        self.frames.assign(frames)
        features = tf.nn.relu(tf.einsum("btc,tcf->bf", frames, self.weights[0]))
        past = self.features.read_value()
        self.features.assign(tf.concat([past[:, 1:], features[:, None]], 1))
        scores = tf.einsum("btf,tfk->bk", tf.concat([past[:, 1:], features[:, None]], 1), self.weights[1])
        if self.generator is not None and tf.reduce_max(scores) > 0.5:
            self.heard.assign_add(1)
        return tf.nn.sigmoid(scores) + tf.cast(self.heard, tf.float32)


def stateful():
    """A layer that goes on from the call before, in both directions of it."""
    x = keras.layers.Input(batch_shape=(2, 3, 4))
    y = keras.layers.GRU(3, stateful=True, return_sequences=True, name="first")(x)
    y = keras.layers.Bidirectional(keras.layers.LSTM(2, stateful=True), name="both")(y)
    return keras.Model(x, y)


class Shared(tf.Module):
    """Several signatures of one network, and a table that is no part of them all."""

    def __init__(self):
        self.weight = tf.Variable(floats((3, 2))[0], name="weight")
        keys = tf.lookup.KeyValueTensorInitializer(tf.constant(["a", "b"]), tf.constant([0, 1]))
        self.table = tf.lookup.StaticHashTable(keys, -1)

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, "x")])
    def scores(self, x):
        return {"scores": tf.nn.softmax(tf.matmul(x, self.weight))}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "words")])
    def lookup(self, words):
        return {"rows": tf.gather(tf.transpose(self.weight), self.table.lookup(words))}


def frames():
    """A graph of TensorFlow 1 with a loop."""
    graph = tf.Graph()
    with graph.as_default():
        tf.compat.v1.disable_control_flow_v2()
        x = tf.compat.v1.placeholder(tf.float32, [2, 3], "x")
        step = lambda i, x: (i + 1, tf.tanh(x) * 2.0)
        _, y = tf.while_loop(lambda i, x: tf.reduce_sum(x) > -50.0 + tf.cast(i, tf.float32) * 25.0, step, [0, x])
        tf.identity(y, "y")
        tf.compat.v1.enable_control_flow_v2()
    return graph
