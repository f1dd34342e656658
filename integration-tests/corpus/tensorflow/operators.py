"""Operators of graphs with arguments of the odder kind: the first tensor is an input of the network, others are constants."""

import numpy as np

NAN, INF = float("nan"), float("inf")


def f32(*values):
    return np.float32(values)


def counted(*sizes):
    """Numbers from zero on, with a sign that changes."""
    n = int(np.prod(sizes))
    return (np.arange(n) * np.where(np.arange(n) % 3, 1, -1)).reshape(sizes).astype(np.float32)


GRID = counted(3, 4)
VECTOR = f32(0.5, -1.0)
SPEC = {"begin": np.int32([0, 1]), "end": np.int32([3, 4]), "strides": np.int32([2, 1])}
KEY = {"key": np.uint64([1234567890123]), "counter": np.uint64([2**63 + 5, 2**40 - 1]), "alg": np.int32(1)}
NORM = {"scale": VECTOR, "offset": VECTOR, "mean": f32(1.0, 2.0), "variance": f32(3.0, 0.5)}
CONV = {"filter": counted(2, 2, 2, 3), "strides": [1, 1, 1, 1], "padding": "SAME"}
PICTURE = counted(1, 3, 4, 2)
PADS = np.int32([[0, 0], [1, 2], [0, 1], [0, 0]])

# Names in `tf.raw_ops`, and arguments. Lists say which results are compared, where TensorFlow leaves others open.
OPERATORS = [
    ("Relu6", {"features": np.uint8([0, 5, 200])}),
    ("SegmentProd", {"data": f32(2.0, 3.0, 4.0), "segment_ids": np.int32([0, 0, 2])}),
    ("SegmentMax", {"data": f32(2.0, 3.0, 4.0), "segment_ids": np.int32([0, 0, 2])}),
    ("FusedBatchNormV3", {"x": PICTURE, **NORM, "exponential_avg_factor": 0.25}, [0, 1, 2]),
    ("FusedBatchNormV2", {"x": PICTURE, **NORM, "epsilon": 0.1}, [0, 1, 2, 3, 4]),
    ("ResizeBicubic", {"images": PICTURE.astype(np.float64), "size": np.int32([6, 8])}),
    ("InTopKV2", {"predictions": f32([1, 2, 3], [INF, 0, 1], [1, 1, 1], [3, 2, NAN]), "targets": np.int64([1, 2, 7, 0]), "k": np.int64(2)}),
    ("InTopK", {"predictions": f32([1, 2, 3], [4, 0, 1], [1, 1, 1]), "targets": np.int32([1, 0, -1]), "k": 2}),
    ("IsFinite", {"x": np.float16([1, INF, -INF, NAN])}),
    ("ArgMax", {"input": np.uint16([[3, 60000, 7]]), "dimension": np.int32(-1)}),
    ("PadV2", {"input": np.float32(4), "paddings": np.zeros([0, 2], np.int32), "constant_values": np.float32(1)}),
    ("Pad", {"input": np.int16([[1, -2]]), "paddings": np.int32([[1, 0], [0, 2]])}),
    ("Bincount", {"arr": np.zeros([0], np.int32), "size": np.int32(3), "weights": np.zeros([0], np.float32)}),
    ("ResizeArea", {"images": counted(1, 4, 1, 2), "size": np.int32([3, 2]), "align_corners": True}),
    ("ScatterNd", {"indices": np.int32([[1], [1], [0]]), "updates": np.float16([1, 2, 3]), "shape": np.int32([3])}),
    ("SelectV2", {"condition": np.bool_([True, False]), "t": np.uint16([60000, 1]), "e": np.uint16([7, 5])}),
    ("Maximum", {"x": np.uint16([3, 60000]), "y": np.uint16([4, 5])}),
    ("SpaceToDepth", {"input": np.int32(counted(1, 2, 2, 1)), "block_size": 2}),
    ("DepthToSpace", {"input": np.bool_(counted(1, 1, 1, 4)), "block_size": 2}),
    ("Einsum", {"inputs": [GRID, counted(4)], "equation": "ij,j->iij"}),
    ("Einsum", {"inputs": [counted(2, 3)], "equation": "...i->i...i"}),
    ("TensorStridedSliceUpdate", {"input": GRID, **SPEC, "value": counted(2, 3) * 10}),
    ("TensorStridedSliceUpdate", {"input": GRID, **SPEC, "value": counted(4) * 10, "shrink_axis_mask": 1, "begin_mask": 2, "end_mask": 2}),
    ("UniqueWithCountsV2", {"x": np.int32([[1, 2], [1, 2], [0, 2]]), "axis": np.int64([0])}),
    ("DataFormatDimMap", {"x": np.int32([0, 1, 2, 3, -1])}),
    ("DataFormatVecPermute", {"x": np.int32([7, 8, 9, 10])}),
    ("DataFormatVecPermute", {"x": np.int32([[7, 8], [9, 10]]), "src_format": "NCHW", "dst_format": "NHWC"}),
    ("FusedPadConv2D", {"input": PICTURE, "paddings": PADS, "mode": "SYMMETRIC", **CONV}),
    ("FusedResizeAndPadConv2D", {"input": PICTURE, "size": np.int32([5, 6]), "paddings": PADS, "mode": "REFLECT", **CONV}),
    ("StatelessRandomUniform", {"seed": np.int32([-3, 70000]), "shape": np.int32([3, 2])}),
    ("StatelessRandomNormalV2", {**KEY, "shape": np.int32([7])}),
    ("StatelessRandomUniformIntV2", {**KEY, "shape": np.int32([5]), "minval": np.int64(-7), "maxval": np.int64(2**40)}),
]


def build(tf):
    """The graph of all, with its inputs and results by name."""
    graph, inputs, outputs = tf.Graph(), {}, []
    with graph.as_default():
        for number, (op, arguments, *chosen) in enumerate(OPERATORS):
            name, given, first = f"{op}_{number}", {}, True
            for key, value in arguments.items():
                if isinstance(value, np.ndarray | np.generic) and first:
                    inputs[f"{name}_{key}:0"] = value
                    given[key] = tf.compat.v1.placeholder(value.dtype, value.shape, f"{name}_{key}")
                    first = False
                elif isinstance(value, list) and isinstance(value[0], np.ndarray):
                    inputs |= {f"{name}_{i}:0": item for i, item in enumerate(value)}
                    given[key] = [tf.compat.v1.placeholder(item.dtype, item.shape, f"{name}_{i}") for i, item in enumerate(value)]
                else:
                    given[key] = tf.constant(value) if isinstance(value, np.ndarray | np.generic) else value
            found = tf.nest.flatten(getattr(tf.raw_ops, op)(**given, name=name))
            for i in chosen[0] if chosen else range(len(found)):
                outputs.append(tf.identity(found[i], f"{name}_result_{i}").name)
    return graph, inputs, outputs
