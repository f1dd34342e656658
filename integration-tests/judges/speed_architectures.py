"""Ten networks with drawn weights, in the forms in which PyTorch's exporter writes them, with samples: for judges that
measure time. `ALL` maps a name to a function that gives a model and its inputs by name (samples along the first axis)."""
import math

import numpy as np
from onnx import TensorProto, helper, numpy_helper

OPSET = 18


class Net:
    """A graph that grows node by node."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.nodes, self.constants, self.count = [], [], 0

    def name(self, stem):
        self.count += 1
        return f"{stem}_{self.count}"

    def constant(self, array, stem="c"):
        name = self.name(stem)
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def weight(self, *dims, fan=None):
        fan = fan or math.prod(dims[1:])
        return self.constant(self.random.normal(0, 1 / math.sqrt(fan), dims).astype(np.float32), "w")

    def bias(self, size):
        return self.constant(self.random.normal(0, 0.1, size).astype(np.float32), "b")

    def op(self, kind, *inputs, **attributes):
        out = self.name(kind.lower())
        self.nodes.append(helper.make_node(kind, list(inputs), [out], name=self.name(kind), **attributes))
        return out

    def model(self, inputs, output):
        values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in inputs]
        out = helper.make_tensor_value_info(output, TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "g", values, [out], self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)

    def samples(self, *dims):
        return self.random.normal(0, 1, dims).astype(np.float32)

    # Parts that networks share.

    def linear(self, x, inputs, outputs):
        product = self.op("MatMul", x, self.weight(inputs, outputs, fan=inputs))
        return self.op("Add", self.bias(outputs), product)

    def norm(self, x, size):
        scale = self.constant(self.random.uniform(0.5, 1.5, size).astype(np.float32))
        return self.op("LayerNormalization", x, scale, self.bias(size), axis=-1)

    def gelu(self, x):
        half, one = self.constant(np.float32(0.5)), self.constant(np.float32(1.0))
        root = self.constant(np.float32(math.sqrt(2)))
        erf = self.op("Erf", self.op("Div", x, root))
        return self.op("Mul", self.op("Mul", x, self.op("Add", erf, one)), half)

    def conv(self, x, inputs, outputs, kernel=3, stride=1, group=1):
        pad = kernel // 2
        return self.op("Conv", x, self.weight(outputs, inputs // group, kernel, kernel), self.bias(outputs), group=group,
                       kernel_shape=[kernel] * 2, pads=[pad] * 4, strides=[stride] * 2)

    def relu6(self, x):
        return self.op("Clip", x, self.constant(np.float32(0)), self.constant(np.float32(6)))

    def silu(self, x):
        return self.op("Mul", x, self.op("Sigmoid", x))

    def heads(self, x, tokens, width, heads, last):
        split = self.op("Reshape", x, self.constant(np.array([0, tokens, heads, width // heads])))
        return self.op("Transpose", split, perm=[0, 2, 3, 1] if last else [0, 2, 1, 3])

    def attention(self, q, k, v, tokens, width, heads, causal=False):
        q, k = self.heads(q, tokens, width, heads, False), self.heads(k, tokens, width, heads, True)
        v = self.heads(v, tokens, width, heads, False)
        scores = self.op("Div", self.op("MatMul", q, k), self.constant(np.float32(math.sqrt(width / heads))))
        if causal:
            mask = np.triu(np.full((tokens, tokens), -1e4, np.float32), 1)
            scores = self.op("Add", scores, self.constant(mask))
        mixed = self.op("MatMul", self.op("Softmax", scores, axis=-1), v)
        joined = self.op("Transpose", mixed, perm=[0, 2, 1, 3])
        return self.op("Reshape", joined, self.constant(np.array([0, tokens, width])))


def encoder(layers=4, tokens=128, width=384, heads=12):
    """A sentence encoder: norms behind the residual sums."""
    net, x = Net(1), "x"
    for _ in range(layers):
        q, k, v = (net.linear(x, width, width) for _ in range(3))
        mixed = net.attention(q, k, v, tokens, width, heads)
        x = net.norm(net.op("Add", net.linear(mixed, width, width), x), width)
        inner = net.linear(net.gelu(net.linear(x, width, 4 * width)), 4 * width, width)
        x = net.norm(net.op("Add", inner, x), width)
    return net.model([("x", ["n", tokens, width])], x), {"x": net.samples(32, tokens, width)}


def decoder(layers=4, tokens=128, width=384, heads=6):
    """A causal decoder: one product for query, key and value, norms before them."""
    net, x = Net(2), "x"
    for _ in range(layers):
        joint = net.linear(net.norm(x, width), width, 3 * width)
        parts = [net.name("part") for _ in range(3)]
        net.nodes.append(helper.make_node("Split", [joint], parts, axis=-1, num_outputs=3))
        mixed = net.attention(*parts, tokens, width, heads, causal=True)
        x = net.op("Add", x, net.linear(mixed, width, width))
        inner = net.linear(net.gelu(net.linear(net.norm(x, width), width, 4 * width)), 4 * width, width)
        x = net.op("Add", x, inner)
    return net.model([("x", ["n", tokens, width])], net.norm(x, width)), {"x": net.samples(32, tokens, width)}


def mixer(layers=4, tokens=196, width=256):
    """Products along tokens and along channels."""
    net, x = Net(3), "x"
    for _ in range(layers):
        turned = net.op("Transpose", net.norm(x, width), perm=[0, 2, 1])
        mixed = net.linear(net.gelu(net.linear(turned, tokens, 384)), 384, tokens)
        x = net.op("Add", x, net.op("Transpose", mixed, perm=[0, 2, 1]))
        x = net.op("Add", x, net.linear(net.gelu(net.linear(net.norm(x, width), width, 1024)), 1024, width))
    return net.model([("x", ["n", tokens, width])], x), {"x": net.samples(32, tokens, width)}


def perceptron(width=1024):
    net, x = Net(4), "x"
    for _ in range(4):
        x = net.op("Relu", net.op("Gemm", x, net.weight(width, width), net.bias(width), transB=1))
    return net.model([("x", ["n", width])], x), {"x": net.samples(32, width)}


def residual(size=112):
    net, width = Net(5), 32
    x = net.op("Relu", net.conv("x", 3, width, 7, 2))
    for stride in (1, 2, 2, 2):
        out = width * stride
        inner = net.conv(net.op("Relu", net.conv(x, width, out, 3, stride)), out, out)
        side = x if stride == 1 else net.conv(x, width, out, 1, stride)
        x, width = net.op("Relu", net.op("Add", inner, side)), out
    flat = net.op("Flatten", net.op("GlobalAveragePool", x))
    y = net.op("Gemm", flat, net.weight(100, width), net.bias(100), transB=1)
    return net.model([("x", ["n", 3, size, size])], y), {"x": net.samples(32, 3, size, size)}


def inverted(size=112, activation=Net.relu6, squeeze=False):
    net, width = Net(6), 16
    x = activation(net, net.conv("x", 3, width, 3, 2))
    for stride, out in ((1, 16), (2, 24), (1, 24), (2, 40), (1, 40)):
        wide = 4 * width
        y = activation(net, net.conv(x, width, wide, 1))
        y = activation(net, net.conv(y, wide, wide, 3, stride, group=wide))
        if squeeze:
            mean = net.op("GlobalAveragePool", y)
            gate = net.conv(activation(net, net.conv(mean, wide, wide // 4, 1)), wide // 4, wide, 1)
            y = net.op("Mul", y, net.op("Sigmoid", gate))
        y = net.conv(y, wide, out, 1)
        x, width = (net.op("Add", x, y) if (stride, out) == (1, width) else y), out
    return net.model([("x", ["n", 3, size, size])], net.op("GlobalAveragePool", x)), {"x": net.samples(32, 3, size, size)}


def efficient():
    return inverted(activation=Net.silu, squeeze=True)


def convnext(size=56, width=96):
    net = Net(7)
    x = net.conv("x", 3, width, 4, 1)
    for _ in range(3):
        y = net.op("Transpose", net.conv(x, width, width, 7, group=width), perm=[0, 2, 3, 1])
        y = net.linear(net.gelu(net.linear(net.norm(y, width), width, 4 * width)), 4 * width, width)
        x = net.op("Add", x, net.op("Transpose", y, perm=[0, 3, 1, 2]))
    return net.model([("x", ["n", 3, size, size])], x), {"x": net.samples(32, 3, size, size)}


def segmenter(size=64):
    """Down and up again, with concatenations."""
    net = Net(8)
    both = lambda x, i, o: net.op("Relu", net.conv(net.op("Relu", net.conv(x, i, o)), o, o))
    first = both("x", 3, 32)
    second = both(net.op("MaxPool", first, kernel_shape=[2, 2], strides=[2, 2]), 32, 64)
    low = both(net.op("MaxPool", second, kernel_shape=[2, 2], strides=[2, 2]), 64, 128)
    for side, i, o in ((second, 128, 64), (first, 64, 32)):
        up = net.op("ConvTranspose", low, net.weight(i, o, 2, 2, fan=i), net.bias(o), kernel_shape=[2, 2], strides=[2, 2])
        low = both(net.op("Concat", up, side, axis=1), 2 * o, o)
    return net.model([("x", ["n", 3, size, size])], net.conv(low, 32, 2, 1)), {"x": net.samples(32, 3, size, size)}


def recurrent(steps=64, inputs=128, width=256):
    net = Net(9)
    x = net.op("Transpose", "x", perm=[1, 0, 2])
    for size in (inputs, width):
        w, r = net.weight(1, 4 * width, size, fan=size), net.weight(1, 4 * width, width, fan=width)
        y = net.op("LSTM", x, w, r, net.bias((1, 8 * width)), hidden_size=width)
        x = net.op("Squeeze", y, net.constant(np.array([1])))
    y = net.linear(net.op("Transpose", x, perm=[1, 0, 2]), width, 64)
    return net.model([("x", ["n", steps, inputs])], y), {"x": net.samples(32, steps, inputs)}


ALL = {f.__name__: f for f in (encoder, decoder, mixer, perceptron, residual, inverted, efficient, convnext, segmenter, recurrent)}
