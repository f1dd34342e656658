"""Single operators of old opsets, with the attributes and inputs that they had then, on made-up data.

A row is `operator: [(opsets, inputs, attributes), ...]`; an input that is a tuple of ints stands for random floats of
that shape, an array in `fixed(...)` for a constant.
"""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

F = np.float32
IR = {1: 3, 6: 3, 7: 4, 8: 4, 9: 4, 10: 5, 11: 6, 12: 7, 13: 7}


class fixed:
    """A constant input."""

    def __init__(self, values, dtype=F):
        self.array = np.asarray(values, dtype)


def ints(*values):
    return fixed(values, np.int64)


def floats(*values):
    return fixed(values, F)


class plain:
    """An input with given values."""

    def __init__(self, values, dtype=F):
        self.array = np.asarray(values, dtype)


def whole(shape, low=-5, high=6, dtype=np.int32):
    return plain(np.random.default_rng(7).integers(low, high, shape), dtype)


OLD = [1, 6]
REDUCE = ["ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare"]
BROADCAST = ["Add", "Sub", "Mul", "Div"]

# operator, opsets, inputs, attributes[, number of outputs]
TABLE = [
    *[(op, [1, 6], [(2, 3, 4, 5), (3, 4)], dict(broadcast=1, axis=1)) for op in BROADCAST],
    *[(op, [1, 6], [(2, 3, 4), (3, 4)], dict(broadcast=1)) for op in BROADCAST],
    *[(op, [1, 6], [(2, 3), (2, 3)], {}) for op in BROADCAST],
    *[(op, [7, 9, 12, 13, 14], [whole((2, 3), 1), whole((3,), 1)], {}) for op in BROADCAST],
    *[(op, [14], [whole((2, 3), -9, 9, t), whole((3,), 1, 9, t)], {}) for op in BROADCAST for t in (np.int8, np.uint8, np.int16)],
    ("Pow", [1, 7, 9, 12, 13], [plain([[1, 2, 3], [4, 5, 6]]), plain([2, 2, 2]) ], {}) ,
    ("Pow", [12, 13, 15], [plain([[1, 2, 3], [4, 5, 6]]), plain([2, 1, 3], np.int64)], {}),
    ("Pow", [12, 13, 15], [plain([[1, 2, 3], [4, 5, 6]], np.int32), plain([2, 1, 3], np.int32)], {}),
    *[(op, [1], [plain(np.arange(24).reshape(2, 3, 4) % 3 > 0, bool), plain([True, False, True], bool)], dict(broadcast=1, axis=1)) for op in ("And", "Or", "Xor")],
    *[(op, [1], [(2, 3, 4), (3,)], dict(broadcast=1, axis=1)) for op in ("Greater", "Less")],
    *[(op, [7, 9, 11, 13], [(2, 3, 4), (3, 4)], {}) for op in ("Greater", "Less")],
    *[(op, [9, 11], [whole((2, 3)), whole((3,))], {}) for op in ("Greater", "Less")],
    ("Equal", [1, 7, 11], [whole((2, 3), 0, 2), whole((2, 3), 0, 2)], {}),
    ("Equal", [11, 13], [plain([1, np.nan, np.inf, 0]), plain([1, np.nan, np.inf, 2])], {}),
    *[(op, [12, 16], [plain([1, np.nan, 3, 0]), plain([1, np.nan, np.inf, 2])], {}) for op in ("GreaterOrEqual", "LessOrEqual")],
    *[(op, [1, 11, 12], [(2, 3, 4)], dict(axis=a) if a is not None else {}) for op in ("Softmax", "LogSoftmax", "Hardmax") for a in (None, 0, 1, 2)],
    *[(op, [11], [(2, 3, 4)], dict(axis=a)) for op in ("Softmax", "LogSoftmax", "Hardmax") for a in (-1, -2, -3)],
    *[(op, [13], [(2, 3, 4)], dict(axis=a)) for op in ("Softmax", "LogSoftmax", "Hardmax") for a in (-1, 0, 1)],
    *[(op, [1, 11, 13], [(2, 3, 4)], a) for op in REDUCE for a in ({}, dict(axes=[1]), dict(axes=[0, 2], keepdims=0)) if not (op == "ReduceSum" and a.get("axes"))],
    *[("ReduceSum", [1, 11, 12], [(2, 3, 4)], a) for a in (dict(axes=[1]), dict(axes=[0, 2], keepdims=0))],
    *[(op, [11, 13], [(2, 3, 4)], dict(axes=[-1])) for op in REDUCE if op != "ReduceSum"],
    ("ReduceSum", [13], [(2, 3, 4), ints(-1)], dict(keepdims=0)),
    ("ReduceSum", [13], [(2, 3, 4)], dict(noop_with_empty_axes=1)),
    *[(op, [18], [(2, 3, 4), ints(-1, 0)], {}) for op in REDUCE],
    *[(op, [12, 13], [whole((2, 3), -5, 6, np.int8)], dict(axes=[1])) for op in ("ReduceMax", "ReduceMin")],
    *[(op, [1, 11, 12, 13], [(2, 3, 4)], a) for op in ("ArgMax", "ArgMin") for a in ({}, dict(axis=1, keepdims=0))],
    *[(op, [11, 13], [(2, 3, 4)], dict(axis=-1)) for op in ("ArgMax", "ArgMin")],
    ("Squeeze", [1, 11, 12], [(1, 3, 1)], dict(axes=[0])),
    ("Squeeze", [11], [(1, 3, 1)], dict(axes=[-1])),
    ("Squeeze", [1, 11], [(1, 3, 1)], {}),
    ("Squeeze", [13, 21], [(1, 3, 1), ints(-1)], {}),
    ("Unsqueeze", [1, 11, 12], [(2, 3)], dict(axes=[0, 3])),
    ("Unsqueeze", [11], [(2, 3)], dict(axes=[-1])),
    ("Unsqueeze", [13, 21], [(2, 3), ints(-1, 0)], {}),
    ("Reshape", [1], [(2, 3, 4)], dict(shape=[0, -1])),
    ("Reshape", [5, 7, 13, 14], [(2, 3, 4), ints(0, -1)], {}),
    ("Reshape", [14], [(2, 3, 4), ints(4, 6)], dict(allowzero=1)),
    ("Split", [2, 11, 12], [(2, 6)], dict(axis=1, split=[2, 4]), 2),
    ("Split", [2, 11, 12], [(2, 6)], dict(axis=1), 3),
    ("Split", [11, 13], [(2, 6)], dict(axis=-1), 3),
    ("Split", [13, 18], [(2, 6), ints(1, 5)], dict(axis=-1), 2),
    ("Split", [18], [(2, 7)], dict(axis=1, num_outputs=3), 3),
    ("Split", [18], [(2, 6)], dict(axis=1, num_outputs=3), 3),
    ("Slice", [1, 7], [(4, 5, 6)], dict(starts=[1, 0], ends=[3, -1], axes=[0, 2])),
    ("Slice", [1], [(4, 5)], dict(starts=[1, -3], ends=[2**31 - 1, 2**31 - 1])),
    ("Slice", [10, 11, 13], [(4, 5, 6), ints(1, 0), ints(3, -1), ints(0, 2)], {}),
    ("Slice", [11, 13], [(4, 5, 6), ints(1), ints(3), ints(-1)], {}),
    ("Slice", [10, 13], [(4, 5, 6), ints(3), ints(0), ints(0), ints(-1)], {}),
    ("Slice", [10, 13], [(4, 5, 6), ints(1), ints(3), ints(0), ints(1)], {}),
    *[("Pad", [2, 7], [(2, 3, 4)], dict(pads=[0, 1, 1, 0, 1, 2], mode=m, value=v)) for m, v in (("constant", 1.5), ("constant", 0.0), ("edge", 0.0), ("reflect", 0.0))],
    ("Pad", [1], [(2, 3, 4)], dict(paddings=[0, 1, 1, 0, 1, 2])),
    ("Pad", [11, 13], [(2, 3, 4), ints(0, 1, 1, 0, 1, 2), fixed(2.5)], {}),
    ("Pad", [18, 19], [(2, 3, 4), ints(1, 2), fixed(2.5), ints(-2)], {}),
    ("Pad", [19], [(2, 3, 4), ints(0, 1, 1, 0, 1, 2), None], dict(mode="wrap")),
    ("Tile", [1], [(2, 3), fixed([2]), fixed([1])], {}),
    ("Tile", [6, 13], [(2, 3), ints(2, 1)], {}),
    ("Concat", [1], [(2, 3), (2, 3)], {}),
    ("Concat", [4, 11, 13], [(2, 3), (2, 3)], dict(axis=0)),
    ("Concat", [11, 13], [(2, 3), (2, 3)], dict(axis=-1)),
    ("Flatten", [1, 9, 11, 13], [(2, 3, 4)], dict(axis=2)),
    ("Flatten", [11, 13], [(2, 3, 4)], dict(axis=-1)),
    ("Shape", [1, 13, 15], [(2, 3, 4)], {}),
    ("Shape", [15, 19], [(2, 3, 4)], dict(start=1, end=-1)),
    ("Expand", [8, 13], [(3, 1), ints(2, 3, 4)], {}),
    ("DepthToSpace", [1, 11, 13], [(1, 8, 2, 3)], dict(blocksize=2)),
    ("DepthToSpace", [11, 13], [(1, 8, 2, 3)], dict(blocksize=2, mode="CRD")),
    ("SpaceToDepth", [1, 13], [(1, 2, 4, 6)], dict(blocksize=2)),
    ("Transpose", [1, 13], [(2, 3, 4)], dict(perm=[2, 0, 1])),
    ("Cast", [6, 9, 13, 19], [(2, 3)], dict(to=int(TensorProto.INT32))),
    ("Cast", [1], [(2, 3)], dict(to="INT32")),
    *[("Clip", [1, 6], [(4, 5)], a) for a in (dict(min=-0.5), dict(max=0.5), dict(min=-0.5, max=0.5), {})],
    *[("Clip", [11, 12, 13], [(4, 5), *a], {}) for a in ([fixed(-0.5)], [None, fixed(0.5)], [fixed(-0.5), fixed(0.5)], [()], [fixed(-0.5), ()], [])],
    ("Clip", [12, 13], [whole((4, 5)), fixed(-2, np.int32), fixed(3, np.int32)], {}),
    *[(op, [8, 12, 13], [(2, 3), (3,), (1, 3)], {}) for op in ("Sum", "Mean", "Max", "Min")],
    *[(op, [6, 8, 13], [(2, 3), (2, 3), (2, 3)], {}) for op in ("Sum", "Mean", "Max", "Min")],
    *[(op, [12, 13], [whole((2, 3)), whole((2, 3), -2, 3)], {}) for op in ("Max", "Min")],
    ("Mod", [10, 13], [whole((4, 5), -9, 10), plain([3, -3, 2, -4, 5], np.int32)], {}),
    ("Mod", [10, 13], [(4, 5), plain([3, -3, 2, -4, 5])], dict(fmod=1)),
    ("Gemm", [6], [(2, 3), (3, 4), (4,)], dict(broadcast=1, alpha=0.5)),
    ("Gemm", [7, 9, 11, 13], [(2, 3), (3, 4), (4,)], dict(beta=0.5)),
    ("Gemm", [11, 13], [(2, 3), (4, 3)], dict(transB=1)),
    ("PRelu", [6], [(2, 3, 4, 5), floats(0.1, 0.2, 0.3)], {}),
    ("PRelu", [6, 7, 9, 16], [(2, 3, 4, 5), floats(0.1)], {}),
    ("PRelu", [7, 9, 16], [(2, 3, 4, 5), fixed([[[0.1]], [[0.2]], [[0.3]]])], {}),
    *[(op, [6, 22], [(3, 4)], {}) for op in ("Elu", "Selu", "HardSigmoid", "LeakyRelu", "Softplus", "Softsign")],
    ("Selu", [1], [(3, 4)], dict(alpha=1.6732, gamma=1.0507)),
    *[(op, [1, 6, 13], [plain([0.1, 1, 2.5])], {}) for op in ("Sqrt", "Log", "Exp", "Reciprocal", "Floor", "Ceil", "Abs", "Neg", "Tanh", "Sigmoid")],
    ("Relu", [1, 6, 13, 14], [(3, 4)], {}),
    ("Relu", [14], [whole((3, 4))], {}),
    ("HardSwish", [14, 22], [(3, 4)], {}),
    ("Celu", [12], [(3, 4)], dict(alpha=2.0)),
    ("Celu", [12], [(3, 4)], {}),
    ("Mish", [18], [(3, 4)], {}),
    ("Gelu", [20], [(3, 4)], {}),
    ("Gelu", [20], [(3, 4)], dict(approximate="tanh")),
    ("Swish", [24], [(3, 4)], dict(alpha=1.5)),
    ("ThresholdedRelu", [10, 22], [plain([-np.inf, -1, 0.5, 1, 2, np.inf])], {}),
    *[("BatchNormalization", v, [(2, 3, 4, 5), floats(1, 2, 3), floats(0.1, 0.2, 0.3), floats(0, 1, 2), floats(1, 2, 3)], a)
      for v, a in (([6], dict(is_test=1)), ([7, 9, 14, 15], {}), ([7, 8], dict(spatial=1, epsilon=0.01)))],
    ("BatchNormalization", [7], [(2, 3), (3,), (3,), (3,), plain([1, 2, 3])], dict(spatial=0)),
    ("InstanceNormalization", [1, 6, 22], [(2, 3, 4), floats(1, 2, 3), floats(0, 1, 2)], {}),
    ("Dropout", [6], [(2, 3)], dict(is_test=1)),
    ("Dropout", [7, 10], [(2, 3)], dict(ratio=0.3)),
    ("Dropout", [12, 13, 22], [(2, 3), fixed(0.3)], {}),
    ("Dropout", [12, 13], [(2, 3), fixed(0.3), fixed(False, bool)], {}),
    ("LRN", [1, 13], [(2, 5, 3, 3)], dict(size=3)),
    # Without axes the checker of onnx 1.23 fails on the operator's own function body.
    ("MeanVarianceNormalization", [9, 13], [(2, 3, 4, 4)], dict(axes=[0, 2, 3])),
    ("LpNormalization", [1, 22], [(2, 3)], {}),
    ("LayerNormalization", [17], [(2, 3, 4), (4,), (4,)], {}, 3),
    ("LayerNormalization", [17], [(2, 3, 4), (3, 4)], dict(axis=1)),
    ("LayerNormalization", [17], [plain(np.arange(12).reshape(3, 4) / 7, np.float16), plain([1, 2, 3, 4], np.float16)], {}),
    ("GroupNormalization", [21], [(2, 4, 3, 3), (4,), (4,)], dict(num_groups=2)),
    ("RMSNormalization", [23], [(2, 3, 4), (4,)], {}),
    *[(op, v, [(1, 2, 7, 7)], a) for op in ("MaxPool", "AveragePool") for v, a in (
        ([1, 7, 8, 10, 11, 22], dict(kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])),
        ([7, 10, 12], dict(kernel_shape=[3, 2], auto_pad="SAME_UPPER")),
        ([10, 11], dict(kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)),
        ([10, 12, 22], dict(kernel_shape=[3, 3], strides=[3, 3], ceil_mode=1)))],
    ("AveragePool", [7, 10, 19], [(1, 2, 7, 7)], dict(kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1)),
    ("AveragePool", [19], [(1, 2, 7, 7)], dict(kernel_shape=[2, 2], dilations=[2, 2])),
    ("AveragePool", [19], [(1, 2, 7, 7)], dict(kernel_shape=[2, 2], dilations=[1, 1])),
    ("MaxPool", [8, 10, 12], [(1, 2, 7, 7)], dict(kernel_shape=[2, 2]), 2),
    ("MaxPool", [10, 12], [(1, 2, 7, 7)], dict(kernel_shape=[2, 2], dilations=[2, 2])),
    ("MaxPool", [12, 22], [whole((1, 2, 4, 4), -9, 9, np.int8)], dict(kernel_shape=[2, 2])),
    ("LpPool", [1], [(1, 2, 6, 6)], dict(kernel_shape=[2, 2], p=2.0)),
    ("LpPool", [2, 11, 18], [(1, 2, 6, 6)], dict(kernel_shape=[2, 2], p=3)),
    ("GlobalLpPool", [1], [(1, 2, 6, 6)], dict(p=2.0)),
    ("RoiAlign", [10, 16], [(1, 2, 6, 6), fixed([[0, 0, 4, 4], [1, 1, 5, 3]]), fixed([0, 0], np.int64)], dict(output_height=2, output_width=2)),
    ("RoiAlign", [16], [(1, 2, 6, 6), fixed([[0, 0, 4, 4]]), fixed([0], np.int64)], dict(output_height=2, output_width=2, coordinate_transformation_mode="output_half_pixel")),
    *[(op, [1, 11, 22], [(1, 2, 6, 6), (3, 2, 3, 3)] if op == "Conv" else [(1, 2, 4, 4), (2, 3, 3, 3)], dict(strides=[2, 2])) for op in ("Conv", "ConvTranspose")],
    ("Gather", [1, 11, 13], [(3, 4), ints(0, 2)], dict(axis=1)),
    ("Gather", [11, 13], [(3, 4), ints(-1, 2)], dict(axis=-1)),
    ("Scatter", [9], [(3, 4), fixed([[0, 1], [2, 0]], np.int64), (2, 2)], dict(axis=1)),
    ("ScatterElements", [11, 13, 16, 18], [(3, 4), fixed([[0, 1], [2, 0]], np.int64), (2, 2)], dict(axis=-1)),
    ("ScatterElements", [16, 18], [(3, 4), fixed([[0, 1], [2, 0]], np.int64), (2, 2)], dict(reduction="add")),
    ("GatherElements", [11, 13], [(3, 4), fixed([[0, 1], [2, 0]], np.int64)], dict(axis=1)),
    ("TopK", [1], [(3, 7)], dict(k=3, axis=1), 2),
    ("TopK", [10, 11, 24], [(3, 7), ints(3)], dict(axis=-1), 2),
    ("TopK", [11], [(3, 7), ints(3)], dict(axis=0, largest=0), 2),
    ("OneHot", [9, 11], [fixed([0, 2, 1], np.int64), fixed(4, np.int64), floats(-1, 2)], {}),
    ("Compress", [9, 11], [(3, 4), fixed([True, False, True], bool)], dict(axis=0)),
    ("Upsample", [7], [(1, 2, 3, 4)], dict(scales=[1.0, 1.0, 2.0, 3.0], mode="nearest")),
    ("Upsample", [7], [(1, 2, 3, 4)], dict(scales=[1.0, 1.0, 2.0, 2.0], mode="linear")),
    ("Upsample", [7], [(1, 2, 3, 4)], dict(scales=[1.0, 1.0, 1.5, 2.5], mode="nearest")),
    ("Upsample", [9], [(1, 2, 3, 4), floats(1, 1, 2, 2)], dict(mode="nearest")),
    ("Upsample", [9], [(1, 2, 3, 4), floats(1, 1, 2, 3)], dict(mode="linear")),
    ("Upsample", [1], [(1, 2, 3, 4)], dict(height_scale=2.0, width_scale=2.0)),
    *[("Resize", [10], [(1, 2, 4, 6), floats(*f)], dict(mode=m)) for m in ("nearest", "linear") for f in ((1, 1, 2, 2), (1, 1, 0.5, 0.6), (1, 1, 2, 0.5), (1, 1, 1.5, 2.5))],
    *[("Resize", [11], [(1, 2, 4, 6), floats(), floats(*f)], a) for f in ((1, 1, 2, 2), (1, 1, 0.5, 0.6), (1, 1, 3, 2.5)) for a in (
        dict(mode="nearest"), dict(mode="linear"), dict(mode="cubic"), dict(mode="linear", coordinate_transformation_mode="asymmetric"),
        dict(mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"), dict(mode="linear", coordinate_transformation_mode="align_corners"),
        dict(mode="nearest", coordinate_transformation_mode="tf_half_pixel_for_nn", nearest_mode="floor"))],
    ("Resize", [11], [(1, 2, 4, 6), floats(), floats(), ints(1, 2, 8, 9)], dict(mode="linear", coordinate_transformation_mode="asymmetric")),
    *[("Resize", [13, 18, 19], [(1, 2, 4, 6), None, floats(1, 1, 2, 2)], a) for a in (dict(mode="nearest"), dict(mode="linear", coordinate_transformation_mode="asymmetric"))],
    ("Resize", [18, 19], [(1, 2, 4, 6), None, floats(2, 2)], dict(mode="nearest", axes=[2, 3])),
    ("Resize", [18, 19], [(1, 2, 4, 6), None, None, ints(8, 12)], dict(mode="nearest", axes=[-2, -1])),
    ("GridSample", [16], [(1, 2, 4, 4), plain(np.random.default_rng(3).uniform(-1, 1, (1, 3, 3, 2)))], {}),
    ("GridSample", [16], [(1, 2, 4, 4), plain(np.random.default_rng(3).uniform(-1, 1, (1, 3, 3, 2)))], dict(mode="bicubic")),
    ("GridSample", [20, 22], [(1, 2, 4, 4), plain(np.random.default_rng(3).uniform(-1, 1, (1, 3, 3, 2)))], dict(mode="cubic")),
    ("GridSample", [20, 22], [(1, 2, 4, 4), plain(np.random.default_rng(3).uniform(-1, 1, (1, 3, 3, 2)))], dict(mode="nearest")),
    ("DFT", [17], [(1, 8, 1)], {}),
    ("DFT", [17], [(1, 4, 6, 1)], dict(axis=2, onesided=1)),
    ("DFT", [20], [(1, 8, 1), None, fixed(1, np.int64)], {}),
    ("DFT", [20], [(1, 4, 8, 1)], {}),
    ("QuantizeLinear", [10, 13, 19, 21, 23], [(2, 3, 4), fixed(0.05), fixed(3, np.uint8)], {}),
    ("QuantizeLinear", [13, 19, 21], [(2, 3, 4), floats(0.05, 0.1, 0.2), fixed([3, 0, 128], np.uint8)], dict(axis=1)),
    ("QuantizeLinear", [21, 23], [(2, 3, 4), fixed(0.05)], dict(output_dtype=int(TensorProto.INT8))),
    ("DequantizeLinear", [10, 13, 19, 21, 23], [whole((2, 3, 4), 0, 255, np.uint8), fixed(0.05), fixed(3, np.uint8)], {}),
    ("DequantizeLinear", [13, 19, 21], [whole((2, 3, 4), 0, 255, np.uint8), floats(0.05, 0.1, 0.2), fixed([3, 0, 128], np.uint8)], dict(axis=-2)),
    ("DequantizeLinear", [13, 19], [whole((2, 3, 4)), floats(0.05, 0.1, 0.2)], {}),
    *[("LSTM", v, [(5, 2, 3), (1, 16, 3), (1, 16, 4)], dict(hidden_size=4), 3) for v in ([7, 14, 22],)],
    *[("GRU", v, [(5, 2, 3), (1, 12, 3), (1, 12, 4)], dict(hidden_size=4), 2) for v in ([3, 7, 14, 22],)],
    ("RNN", [7, 14, 22], [(5, 2, 3), (1, 4, 3), (1, 4, 4)], dict(hidden_size=4), 2),
    ("ConstantOfShape", [9, 20], [ints(2, 3)], dict(value=helper.make_tensor("v", TensorProto.INT32, [1], [7]))),
    ("EyeLike", [9, 22], [(3, 4)], dict(k=1)),
    ("Trilu", [14], [(2, 3, 4)], dict(upper=0)),
    ("Trilu", [14], [(2, 3, 4), fixed(-1, np.int64)], {}),
    ("Trilu", [14], [(2, 3, 4), plain(1, np.int64)], {}),
    ("Trilu", [14], [(3, 5), plain(-2, np.int64)], dict(upper=0)),
    ("CastLike", [15, 19], [(2, 3), whole((2,))], {}),
    ("Constant", [12, 13, 19], [], dict(value_floats=[1.0, 2.0])),
    ("Constant", [12, 13], [], dict(value_int=3)),
    ("IsInf", [10, 20], [plain([1, np.inf, -np.inf, np.nan])], {}),
    ("Where", [9, 16], [plain([True, False, True], bool), (3,), (3,)], {}),
    ("NonMaxSuppression", [10, 11], [fixed([[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 5, 1, 6]]]), fixed([[[0.9, 0.75, 0.6]]]), fixed([2], np.int64), floats(0.5), floats(0.0)], {}),
    ("CumSum", [11, 14], [(2, 3), fixed(1, np.int32)], {}),
    ("Identity", [1, 13, 14, 16, 19, 21], [(2, 3)], {}),
    ("MatMul", [1, 9, 13], [(2, 3), (3, 4)], {}),
    ("GlobalAveragePool", [1, 22], [(1, 2, 4, 4)], {}),
]


def model_of(op, opset, inputs, attrs, outputs, rng):
    names, infos, inits, feeds = [], [], [], {}
    for i, given in enumerate(inputs):
        if given is None:
            names.append("")
            continue
        names.append(f"x{i}")
        array = given.array if hasattr(given, "array") else rng.standard_normal(given).astype(F)
        if isinstance(given, fixed):
            inits.append(numpy_helper.from_array(array, f"x{i}"))
            if opset >= 9:
                continue
        else:
            feeds[f"x{i}"] = array
        dtype = helper.np_dtype_to_tensor_dtype(array.dtype)
        infos.append(helper.make_tensor_value_info(f"x{i}", dtype, array.shape))
    outs = [f"y{i}" for i in range(outputs)]
    graph = helper.make_graph([helper.make_node(op, names, outs, name="node", **attrs)], "g", infos, [], inits)
    graph.output.extend(helper.make_empty_tensor_value_info(o) for o in outs)
    ir = IR.get(opset, 8 if opset < 19 else 9 if opset < 21 else 10)
    model = helper.make_model(graph, ir_version=ir, opset_imports=[helper.make_opsetid("", opset)])
    try:
        typed = onnx.shape_inference.infer_shapes(model, data_prop=True)
    except Exception:
        return None
    if not all(o.type.WhichOneof("value") for o in typed.graph.output):
        old_types = {"ArgMax": TensorProto.INT64, "ArgMin": TensorProto.INT64}
        for o in typed.graph.output:
            if not o.type.WhichOneof("value"):
                o.type.tensor_type.elem_type = old_types.get(op, infos[0].type.tensor_type.elem_type if infos else TensorProto.FLOAT)
    return typed, feeds


def scan_8():
    """A running sum over two sequences of a batch."""
    info = helper.make_tensor_value_info
    nodes = [helper.make_node("Add", ["s", "v"], ["t"]), helper.make_node("Identity", ["t"], ["o"])]
    body = helper.make_graph(nodes, "body", [info("s", 1, [2]), info("v", 1, [2])], [info("t", 1, [2]), info("o", 1, [2])])
    node = helper.make_node("Scan", ["", "s0", "x"], ["last", "all"], num_scan_inputs=1, body=body)
    ins = [info("s0", 1, [2, 2]), info("x", 1, [2, 3, 2])]
    graph = helper.make_graph([node], "g", ins, [info("last", 1, [2, 2]), info("all", 1, [2, 3, 2])])
    model = helper.make_model(graph, ir_version=4, opset_imports=[helper.make_opsetid("", 8)])
    rng = np.random.default_rng(5)
    return "old_Scan", model, {"s0": rng.standard_normal((2, 2)).astype(F), "x": rng.standard_normal((2, 3, 2)).astype(F)}


def nested():
    """A branch that reads constants and values of the graph around it."""
    info = helper.make_tensor_value_info
    for opset in (11, 12, 13, 17):
        old = opset < 13
        squeeze = helper.make_node("Squeeze", ["x"] if old else ["x", "axes"], ["t"], **(dict(axes=[0]) if old else {}))
        then = helper.make_graph([squeeze, helper.make_node("Softmax", ["t"], ["a"], axis=1 if old else -1)], "then", [], [info("a", 1, [3, 4])])
        other = helper.make_graph([helper.make_node("ReduceMean", ["x"], ["b"], axes=[0], keepdims=0)], "else", [], [info("b", 1, [3, 4])])
        node = helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other)
        inits = [] if old else [numpy_helper.from_array(np.array([0], np.int64), "axes")]
        graph = helper.make_graph([node], "g", [info("c", 9, []), info("x", 1, [1, 3, 4])], [info("y", 1, [3, 4])], inits)
        model = helper.make_model(graph, ir_version=7, opset_imports=[helper.make_opsetid("", opset)])
        x = np.random.default_rng(opset).standard_normal((1, 3, 4)).astype(F)
        for c in (True, False):
            yield f"old_If_{opset}_{c}", model, {"c": np.array(c), "x": x}


def function():
    """A local function with its own import."""
    info = helper.make_tensor_value_info
    for opset in (12, 13, 17, 18):
        imports = [helper.make_opsetid("", opset), helper.make_opsetid("own", 1)]
        reduce = helper.make_node("ReduceMean", ["v"], ["m"], axes=[-1]) if opset < 18 else helper.make_node("ReduceMean", ["v", "axes"], ["m"])
        axes = helper.make_node("Constant", [], ["axes"], value_ints=[-1])
        body = [axes] * (opset >= 18) + [reduce, helper.make_node("Sub", ["v", "m"], ["w"])]
        f = helper.make_function("own", "Centre", ["v"], ["w"], body, imports)
        graph = helper.make_graph([helper.make_node("Centre", ["x"], ["y"], domain="own")], "g", [info("x", 1, [3, 4])], [info("y", 1, [3, 4])])
        model = helper.make_model(graph, ir_version=8, opset_imports=imports, functions=[f])
        yield f"old_function_{opset}", model, {"x": np.random.default_rng(opset).standard_normal((3, 4)).astype(F)}


def cases():
    for number, row in enumerate(TABLE):
        op, opsets, inputs, attrs, *rest = row
        for opset in opsets:
            made = model_of(op, opset, inputs, attrs, rest[0] if rest else 1, np.random.default_rng(number))
            if made is None:
                print(f"the row {op} {opset} {attrs} is not valid")
                continue
            yield f"old_{op}_{opset}_{number}", *made
    yield scan_8()
    yield from nested()
    yield from function()
