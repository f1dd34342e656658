"""Graphs that `linear_time.py` measures: chains and fans of one operator family each, of any size.

A chain applies the family to its own result. A fan has one value that all nodes read.
"""
import numpy as np
import onnx
from onnx import TensorProto, helper
from large_graphs import add, info

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def typed(name, dtype):
    """A number of another type than float."""
    return helper.make_tensor_value_info(name, dtype, [])


class Maker:
    """A graph under construction. Its input `x` and all that the families compute have the shape of the family."""

    def __init__(self, shape, dtype=FLOAT, own=True):
        self.graph, self.count, self.own, self.known = onnx.GraphProto(name="g"), 0, own, {}
        self.graph.input.append(helper.make_tensor_value_info("x", dtype, shape))
        self.shape, self.dtype, self.random = shape, dtype, np.random.default_rng(1)

    def nodes(self, op, inputs, count, **attributes):
        self.count += 1
        names = [f"v{self.count}_{k}" if count > 1 else f"v{self.count}" for k in range(count)]
        node = add(self.graph, op, inputs, names, name=f"node_{self.count}")
        node.attribute.extend(helper.make_attribute(key, value) for key, value in attributes.items())
        return names

    def node(self, op, *inputs, **attributes):
        return self.nodes(op, inputs, 1, **attributes)[0]

    def constant(self, value, shared=False):
        """An initializer; a shared one is made once."""
        value = np.asarray(value)
        key = (value.dtype.str, value.shape, value.tobytes())
        if shared and key in self.known:
            return self.known[key]
        self.count += 1
        name = self.known[key] = f"c{self.count}"
        dtype = helper.np_dtype_to_tensor_dtype(value.dtype)
        self.graph.initializer.add(name=name, data_type=dtype, dims=value.shape, raw_data=value.tobytes())
        return name

    def f(self, *shape):
        """Numbers of their own, whose products stay finite along a chain."""
        return self.constant(np.exp2(self.random.uniform(-0.25, 0.25, shape)).astype(np.float32))

    def g(self, *shape):
        """Numbers that all nodes share."""
        return self.constant(np.full(shape, 1.25, np.float32), shared=True)

    def i(self, *values):
        return self.constant(np.array(values, np.int64), shared=True)

    def s(self, value):
        return self.constant(np.array(value), shared=True)

    def done(self, last, shape=None, dtype=None):
        self.graph.output.append(helper.make_tensor_value_info(last, dtype or self.dtype, shape or self.shape))
        return self.graph


def every(period, op, m, v, k):
    """An operator in between that no fusion takes."""
    return m.node(op, v) if k % period == period - 1 else v


def qdq(m, v, k):
    scale, zero = m.s(np.float32(0.1)), m.s(np.int8(0))
    return m.node("DequantizeLinear", m.node("QuantizeLinear", v, scale, zero), scale, zero)


def own_qdq(m, v, k):
    scale, zero = m.f(), m.constant(np.int8(k % 5))
    return m.node("DequantizeLinear", m.node("QuantizeLinear", v, scale, zero), scale, zero)


def norm(m, v, k):
    apart = m.node("Sub", v, m.node("ReduceMean", v, axes=[-1]))
    square = m.node("ReduceMean", m.node("Pow", apart, m.s(np.float32(2))), axes=[-1])
    return m.node("Div", apart, m.node("Sqrt", m.node("Add", square, m.s(np.float32(1e-5)))))


def gelu(m, v, k):
    erf = m.node("Add", m.node("Erf", m.node("Div", v, m.s(np.float32(2**0.5)))), m.s(np.float32(1)))
    return m.node("Mul", m.node("Mul", v, erf), m.s(np.float32(0.5)))


def shape_chain(m, v, k):
    rows = m.node("Gather", m.node("Shape", v), m.s(np.int64(0)), axis=0)
    rows = m.node("Unsqueeze", rows, m.i(0))
    return m.node("Relu", m.node("Reshape", v, m.node("Concat", rows, m.i(-1), axis=0)))


def batch_norm(m, v):
    return m.node("BatchNormalization", v, m.f(2), m.f(2), m.f(2), m.f(2))


def split_concat(m, v, k):
    a, b = m.nodes("Split", [v], 2, axis=0)
    return m.node("Concat", *((b, a) if k % 2 else (a, b)), axis=0)


def slice_of(m, v, first, last, axis):
    return m.node("Slice", v, m.i(first), m.i(last), m.i(axis))


def halves(m, v, k):
    return m.node("Concat", slice_of(m, v, 2, 4, 0), slice_of(m, v, 0, 2, 0), axis=0)


def dropout(m, v, k):
    return m.nodes("Dropout", [v], 2)[0]


def where(m, v, k):
    return m.node("Where", m.node("Greater", v, m.s(np.float32(0))), v, m.g(4))


def equal_where(m, v, k):
    return m.node("Where", m.node("Not", m.node("Less", v, m.f(4))), v, m.node("Neg", v))


def constant_node(m, v, k):
    made = m.node("Constant", value=onnx.numpy_helper.from_array(np.full(4, k + 0.5, np.float32)))
    return m.node("Add", v, made)


def conv(m, v, bias=True, width=1):
    weights = [m.f(2, 2, width, width)] + ([m.f(2)] if bias else [])
    return m.node("Conv", v, *weights, pads=[width // 2] * 4)


def mish(m, v, k):
    return m.node("Mul", v, m.node("Tanh", m.node("Softplus", v)))


def hard_swish(m, v, k):
    six = m.node("Clip", m.node("Add", v, m.s(np.float32(3))), m.s(np.float32(0)), m.s(np.float32(6)))
    return m.node("Div", m.node("Mul", v, six), m.s(np.float32(6)))


def softmax(m, v, k):
    apart = m.node("Exp", m.node("Sub", v, m.node("ReduceMax", v, axes=[-1])))
    return m.node("Div", apart, m.node("ReduceSum", apart, m.i(-1)))


def attention(m, v, k):
    q, kk = (m.node("MatMul", v, m.f(4, 4)) for _ in range(2))
    scores = m.node("MatMul", q, m.node("Transpose", kk, perm=[0, 2, 1]))
    return m.node("MatMul", m.node("Softmax", m.node("Mul", scores, m.s(np.float32(0.5))), axis=-1), v)


def fixed_loop(m, v, k):
    body = onnx.GraphProto(name=f"body{k}")
    body.input.extend([typed(f"i{k}", INT64), typed(f"c{k}", BOOL), info(f"a{k}", (4,))])
    add(body, "Identity", [f"c{k}"], [f"d{k}"])
    add(body, "Add", [f"a{k}", "x"], [f"b{k}"])
    body.output.extend([typed(f"d{k}", BOOL), info(f"b{k}", (4,))])
    return m.node("Loop", m.s(np.int64(2)), "", v, body=body)


def fixed_if(m, v, k):
    branches = {}
    for branch, op in (("then_branch", "Relu"), ("else_branch", "Neg")):
        body = branches[branch] = onnx.GraphProto(name=f"{branch}{k}")
        add(body, op, [v], [f"{branch}{k}_out"])
        body.output.append(info(f"{branch}{k}_out", (4,)))
    return m.node("If", m.s(np.bool_(k % 2 == 0)), **branches)


def other_way(a, b, k):
    """The sizes that come after the others."""
    return (b, a) if k % 2 == 0 else (a, b)


def padded(m, v):
    return m.node("Pad", v, m.i(0, 0, 1, 1, 0, 0, 1, 1))


def product(m, v):
    """A matrix product with a bias."""
    return m.node("Add", m.node("MatMul", v, m.f(4, 4)), m.f(4))


def doubled(m, v):
    return m.node("Resize", v, "", m.s(np.array([1, 1, 2, 2], np.float32)))


CHANNELS = (1, 2, 4, 4)
# Family: the shape of what it works on, and a link of the chain: from the maker, the value before and a number.
LINKS = {
    "add_own": ((4,), lambda m, v, k: m.node("Add", v, m.f(4))),
    "add_shared": ((4,), lambda m, v, k: m.node("Add", v, m.g(4))),
    "add_left": ((4,), lambda m, v, k: m.node("Add", m.f(4), v)),
    "add_twice": ((4,), lambda m, v, k: m.node("Add", v, v)),
    "add_first": ((4,), lambda m, v, k: m.node("Add", v, "x")),
    "add_channels": (CHANNELS, lambda m, v, k: m.node("Add", v, m.f(2, 1, 1))),
    "sub_own": ((4,), lambda m, v, k: m.node("Sub", v, m.f(4))),
    "sub_from": ((4,), lambda m, v, k: m.node("Sub", m.f(4), v)),
    "mul_own": ((4,), lambda m, v, k: m.node("Mul", v, m.f(4))),
    "mul_shared": ((4,), lambda m, v, k: m.node("Mul", v, m.g(4))),
    "mul_scalar": ((4,), lambda m, v, k: m.node("Mul", v, m.f())),
    "mul_twice": ((4,), lambda m, v, k: m.node("Mul", v, v)),
    "mul_first": ((4,), lambda m, v, k: m.node("Mul", v, "x")),
    "div_own": ((4,), lambda m, v, k: m.node("Div", v, m.f(4))),
    "div_from": ((4,), lambda m, v, k: m.node("Div", m.f(4), v)),
    "mul_add": ((4,), lambda m, v, k: m.node("Add", m.node("Mul", v, m.f(4)), m.f(4))),
    "mul_add_channels": (CHANNELS, lambda m, v, k: m.node("Add", m.node("Mul", v, m.f(2, 1, 1)), m.f(2, 1, 1))),
    "mul_relu": ((4,), lambda m, v, k: m.node("Relu", m.node("Mul", v, m.f(4)))),
    "pow": ((4,), lambda m, v, k: m.node("Pow", v, m.s(np.float32(2)))),
    "relu": ((4,), lambda m, v, k: m.node("Relu", v)),
    "neg": ((4,), lambda m, v, k: m.node("Neg", v)),
    "abs": ((4,), lambda m, v, k: m.node("Abs", v)),
    "floor": ((4,), lambda m, v, k: m.node("Floor", v)),
    "sigmoid": ((4,), lambda m, v, k: m.node("Sigmoid", v)),
    "clip": ((4,), lambda m, v, k: m.node("Clip", v, m.f(), m.s(np.float32(k + 9)))),
    "clip_relu": ((4,), lambda m, v, k: m.node("Relu", m.node("Clip", v, m.s(np.float32(-1)), m.s(np.float32(k + 9))))),
    "max": ((4,), lambda m, v, k: m.node("Max", v, m.f(4))),
    "max_min": ((4,), lambda m, v, k: m.node("Min", m.node("Max", v, m.f()), m.s(np.float32(k + 9)))),
    "sum": ((4,), lambda m, v, k: m.node("Sum", v, m.f(4), v)),
    "mean": ((4,), lambda m, v, k: m.node("Mean", v, m.f(4))),
    "where": ((4,), where),
    "equal_where": ((4,), equal_where),
    "identity": ((4,), lambda m, v, k: every(2, "Relu", m, m.node("Identity", v), k)),
    "dropout": ((4,), dropout),
    "cast": ((4,), lambda m, v, k: m.node("Cast", v, to=(TensorProto.DOUBLE, FLOAT)[k % 2])),
    "cast_down": ((4,), lambda m, v, k: m.node("Cast", m.node("Cast", v, to=TensorProto.FLOAT16), to=FLOAT)),
    "constant_node": ((4,), constant_node),
    "conv": (CHANNELS, lambda m, v, k: conv(m, v)),
    "conv_plain": (CHANNELS, lambda m, v, k: conv(m, v, bias=False, width=3)),
    "conv_bn_relu": (CHANNELS, lambda m, v, k: m.node("Relu", batch_norm(m, conv(m, v)))),
    "conv_add": (CHANNELS, lambda m, v, k: m.node("Add", conv(m, v), m.f(2, 1, 1))),
    "conv_mul_add": (CHANNELS, lambda m, v, k: m.node("Add", m.node("Mul", conv(m, v), m.f(2, 1, 1)), m.f(2, 1, 1))),
    "conv_pad": (CHANNELS, lambda m, v, k: m.node("Conv", padded(m, v), m.f(2, 2, 3, 3))),
    "conv_residual": (CHANNELS, lambda m, v, k: m.node("Add", v, conv(m, v))),
    "conv_transposed": ((1, 4, 4, 2), lambda m, v, k: m.node(
        "Transpose", conv(m, m.node("Transpose", v, perm=[0, 3, 1, 2])), perm=[0, 2, 3, 1])),
    "conv_transposed_add": ((1, 4, 4, 2), lambda m, v, k: m.node("Relu", m.node("Add", m.node(
        "Transpose", conv(m, m.node("Transpose", v, perm=[0, 3, 1, 2])), perm=[0, 2, 3, 1]), m.f(2)))),
    "conv_transposed_residual": ((1, 4, 4, 2), lambda m, v, k: m.node("Add", v, m.node(
        "Transpose", conv(m, m.node("Transpose", v, perm=[0, 3, 1, 2])), perm=[0, 2, 3, 1]))),
    "transposed_branches": ((1, 4, 4, 2), lambda m, v, k: m.node("Add", m.node("Relu", v), m.node(
        "Transpose", m.node("MaxPool", m.node("Transpose", "x", perm=[0, 3, 1, 2]), kernel_shape=[1, 1 + k % 2],
                            pads=[0, 0, 0, k % 2]), perm=[0, 2, 3, 1]))),
    "conv_transpose": (CHANNELS, lambda m, v, k: m.node("ConvTranspose", v, m.f(2, 2, 1, 1))),
    "batch_norm": (CHANNELS, lambda m, v, k: batch_norm(m, v)),
    "instance_norm": (CHANNELS, lambda m, v, k: m.node("InstanceNormalization", v, m.f(2), m.f(2))),
    "layer_norm": ((2, 4), lambda m, v, k: m.node("LayerNormalization", v, m.f(4), m.f(4))),
    "layer_norm_parts": ((2, 4), norm),
    "layer_norm_affine": ((2, 4), lambda m, v, k: m.node("Add", m.node("Mul", norm(m, v, k), m.f(4)), m.f(4))),
    "max_pool": (CHANNELS, lambda m, v, k: m.node("MaxPool", v, kernel_shape=[3, 3], pads=[1] * 4)),
    "pad": ((4,), lambda m, v, k: m.node("Pad", v, m.i(*((1, 0) if k % 2 == 0 else (-1, 0))))),
    "pad_back": ((4,), lambda m, v, k: slice_of(m, m.node("Pad", v, m.i(1, 0)), 1, 5, 0)),
    "matmul": ((4, 4), lambda m, v, k: m.node("MatMul", v, m.f(4, 4))),
    "matmul_left": ((4, 4), lambda m, v, k: m.node("MatMul", m.f(4, 4), v)),
    "matmul_add": ((4, 4), lambda m, v, k: product(m, v)),
    "matmul3_add": ((2, 3, 4), lambda m, v, k: product(m, v)),
    "matmul3_add_relu": ((2, 3, 4), lambda m, v, k: m.node("Relu", product(m, v))),
    "matmul_twice": ((4, 4), lambda m, v, k: m.node("MatMul", v, v)),
    "gemm": ((4, 4), lambda m, v, k: m.node("Gemm", v, m.f(4, 4), m.f(4))),
    "gemm_transposed": ((4, 4), lambda m, v, k: m.node("Gemm", m.node("Transpose", v, perm=[1, 0]), m.f(4, 4))),
    "gemm_mul": ((4, 4), lambda m, v, k: m.node("Mul", m.node("Gemm", v, m.f(4, 4), m.f(4)), m.f())),
    "einsum": ((4, 4), lambda m, v, k: m.node("Einsum", v, m.f(4, 4), equation="ij,jk->ik")),
    "reshape": ((4, 6), lambda m, v, k: m.node("Reshape", v, m.i(*other_way(4, 6, k)))),
    "reshape_relu": ((4, 6), lambda m, v, k: m.node("Relu", m.node("Reshape", v, m.i(*other_way(4, 6, k))))),
    "flatten": ((4, 6), lambda m, v, k: m.node("Flatten", v, axis=1)),
    "squeeze": ((4, 6), lambda m, v, k: m.node("Squeeze" if k % 2 else "Unsqueeze", v, m.i(0))),
    "squeeze_relu": ((4, 6), lambda m, v, k: m.node("Relu", m.node("Squeeze" if k % 2 else "Unsqueeze", v, m.i(0)))),
    "transpose": ((2, 3, 4), lambda m, v, k: m.node("Transpose", v, perm=[1, 0, 2])),
    "transpose_relu": ((3, 3, 3), lambda m, v, k: m.node("Relu", m.node("Transpose", v, perm=[1, 2, 0]))),
    "transpose_reshape": ((4, 4, 4), lambda m, v, k:
                          m.node("Reshape", m.node("Transpose", v, perm=[1, 2, 0]), m.i(4, 4, 4))),
    "transpose_reshape_apart": ((4, 6), lambda m, v, k:
                                m.node("Reshape", m.node("Transpose", v, perm=[1, 0]), m.i(4, 6))),
    "transpose_add": ((3, 3), lambda m, v, k: m.node("Add", m.node("Transpose", v, perm=[1, 0]), v)),
    "transpose_matmul": ((4, 4), lambda m, v, k: m.node("MatMul", m.node("Transpose", v, perm=[1, 0]), m.f(4, 4))),
    "concat_slice": ((4, 2), lambda m, v, k: slice_of(m, m.node("Concat", v, m.f(1, 2), axis=0), 1, 5, 0)),
    "concat_grows": ((1,), lambda m, v, k: m.node("Concat", v, m.f(1), axis=0)),
    "split_concat": ((4, 2), split_concat),
    "split_first": ((4, 2), lambda m, v, k: m.node("Tile", m.nodes("Split", [v], 2, axis=0)[k % 2], m.i(2, 1))),
    "halves": ((4, 2), halves),
    "slice": ((4, 2), lambda m, v, k: slice_of(m, v, 0, 4, k % 2)),
    "slice_tile": ((4, 2), lambda m, v, k: slice_of(m, m.node("Tile", v, m.i(2, 2)), 1, 5, 0) if k == 0 else
                   m.node("Pad", slice_of(m, slice_of(m, v, 1, 4, 0), 0, 1, 1), m.i(1, 0, 0, 1))),
    "gather": ((4, 2), lambda m, v, k: m.node("Gather", v, m.i(1, 0, 3, 2), axis=0)),
    "gather_unsqueeze": ((4, 2), lambda m, v, k: m.node("Expand", m.node("Unsqueeze", m.node(
        "Gather", v, m.s(np.int64(k % 4)), axis=0), m.i(0)), m.i(4, 2))),
    "expand": ((4, 2), lambda m, v, k: m.node("Expand", v, m.i(4, 2))),
    "tile": ((4, 2), lambda m, v, k: m.node("Tile", v, m.i(1, 1))),
    "shape": (("N", "M"), shape_chain),
    "shape_known": ((4, 2), shape_chain),
    "shape_numbers": ((4, 2), lambda m, v, k: m.node("ConstantOfShape", m.node("Shape", v))),
    "qdq": ((4,), qdq),
    "own_qdq": ((4,), own_qdq),
    "qdq_relu": ((4,), lambda m, v, k: m.node("Relu", qdq(m, v, k))),
    "qdq_matmul": ((4, 4), lambda m, v, k: m.node("MatMul", own_qdq(m, v, k), m.f(4, 4))),
    "reduce": ((4,), lambda m, v, k: m.node("ReduceMean", v, axes=[0], keepdims=1)),
    "softmax": ((2, 4), lambda m, v, k: m.node("Softmax", v, axis=-1)),
    "softmax_parts": ((2, 4), softmax),
    "gelu": ((4,), gelu),
    "mish": ((4,), mish),
    "hard_swish": ((4,), hard_swish),
    "swish": ((4,), lambda m, v, k: m.node("Mul", v, m.node("Sigmoid", v))),
    "attention": ((2, 3, 4), attention),
    "resize": (CHANNELS, lambda m, v, k: m.node(
        "AveragePool", doubled(m, v), kernel_shape=[2, 2], strides=[2, 2])),
    "loops": ((4,), fixed_loop),
    "ifs": ((4,), fixed_if),
}


def chain(family, n):
    """At least `n` nodes, each behind the one before."""
    shape, link = LINKS[family]
    m, last, k = Maker(shape), "x", 0
    while len(m.graph.node) < n:
        last, k = link(m, last, k), k + 1
    # Whatever the shape has become: what the output is, inference says.
    m.graph.output.append(onnx.ValueInfoProto(name=last, type=onnx.TypeProto(
        tensor_type=onnx.TypeProto.Tensor(elem_type=FLOAT if family != "cast" or k % 2 == 0 else TensorProto.DOUBLE))))
    return m.graph


def fan(family, n):
    """One value that all links read, and what they give in one sum after the other."""
    shape, link = LINKS[family]
    m, ends, k = Maker(shape), [], 0
    while len(m.graph.node) < n:
        ends.append(link(m, "x", k))
        k += 1
    last = m.node("Max", *ends) if k < 1000 else None
    for start in range(0, len(ends), 1000):
        last = m.node("Max", *([last] if last else []), *ends[start:start + 1000])
    m.graph.output.append(onnx.ValueInfoProto(name=last, type=onnx.TypeProto(
        tensor_type=onnx.TypeProto.Tensor(elem_type=FLOAT))))
    return m.graph


# A fan of these has links of different types or shapes, or is the same as another one.
NO_FANS = {"add_first", "mul_first", "cast", "reshape", "reshape_relu", "squeeze", "squeeze_relu", "pad", "slice_tile"}


def links():
    """Every case by name, as a function from a size to a graph."""
    found = {f"chain_{family}": (lambda n, family=family: chain(family, n)) for family in LINKS}
    fans = [family for family in LINKS if family not in NO_FANS]
    return found | {f"fan_{family}": (lambda n, family=family: fan(family, n)) for family in fans}
