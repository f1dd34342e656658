"""A TFLite model of MediaPipe's custom operators, and what their kernels compute, in NumPy."""

import struct

import flatbuffers
import numpy as np
from flatbuffers import flexbuffers
from tensorflow.lite.python import schema_py_generated as schema

NAMES = ["Convolution2DTransposeBias", "MaxPoolingWithArgmax2D", "MaxUnpooling2D", "TransformTensorBilinear", "TransformLandmarks"]


def build(arrays):
    """Pictures `x` that are spread, pooled, put back and moved by the matrix `m`; and points `p` that it moves, too."""
    model = schema.ModelT()
    model.version = 3
    model.operatorCodes, model.buffers, tensors, operators = [], [schema.BufferT()], [], []
    for name in NAMES:
        code = schema.OperatorCodeT()
        code.builtinCode, code.deprecatedBuiltinCode, code.customCode, code.version = 32, 32, name, 2
        model.operatorCodes.append(code)

    def tensor(name, shape, data=None):
        found = schema.TensorT()
        found.name, found.shape, found.type, found.hasRank = name, list(shape), 0, True
        if data is not None:
            buffer = schema.BufferT()
            buffer.data = list(data.astype(np.float32).tobytes())
            model.buffers.append(buffer)
            found.buffer = len(model.buffers) - 1
        tensors.append(found)
        return len(tensors) - 1

    def operator(name, inputs, outputs, options):
        found = schema.OperatorT()
        found.opcodeIndex, found.inputs, found.outputs = NAMES.index(name), inputs, outputs
        found.customOptions = list(options)
        operators.append(found)

    x, m, p = tensor("x", [1, 4, 4, 2]), tensor("m", [1, 16]), tensor("p", [1, 5, 3])
    w, bias = tensor("w", arrays["w"].shape, arrays["w"]), tensor("b", arrays["b"].shape, arrays["b"])
    spread, most, at = tensor("spread", [1, 8, 8, 3]), tensor("most", [1, 4, 4, 3]), tensor("at", [1, 4, 4, 3])
    back, moved, points = tensor("back", [1, 8, 8, 3]), tensor("moved", [1, 6, 5, 3]), tensor("points", [1, 5, 3])
    pool = struct.pack("<6i", 1, 2, 2, 2, 2, 0)
    operator("Convolution2DTransposeBias", [x, w, bias], [spread], struct.pack("<4i", 1, 2, 2, 0))
    operator("MaxPoolingWithArgmax2D", [spread], [most, at], pool)
    operator("MaxUnpooling2D", [most, at], [back], pool)
    builder = flexbuffers.Builder()
    with builder.Map():
        builder.Key("output_size")
        builder.TypedVectorFromElements([6, 5])
    operator("TransformTensorBilinear", [back, m], [moved], builder.Finish())
    operator("TransformLandmarks", [p, m], [points], b"")
    graph = schema.SubGraphT()
    graph.tensors, graph.operators, graph.inputs, graph.outputs, graph.name = tensors, operators, [x, m, p], [moved, points, at], "main"
    model.subgraphs = [graph]
    data = flatbuffers.Builder(1024)
    data.Finish(model.Pack(data), file_identifier=b"TFL3")
    return bytes(data.Output())


def computed(x, m, p, arrays):
    w, b = arrays["w"], arrays["b"]
    # A filter of 3 and a step of 2: one cell is too many, behind.
    spread = np.zeros((9, 9, 3), np.float32)
    for y in range(4):
        for c in range(4):
            spread[2 * y:2 * y + 3, 2 * c:2 * c + 3] += np.einsum("i,okli->klo", x[0, y, c], w)
    spread = spread[:8, :8] + b
    windows = spread.reshape(4, 2, 4, 2, 3).transpose(0, 2, 1, 3, 4).reshape(4, 4, 4, 3)
    index = windows.argmax(2)
    most = windows.max(2)
    back = np.zeros((8, 8, 3), np.float32)
    for y, c, o in np.ndindex(4, 4, 3):
        back[2 * y + index[y, c, o] // 2, 2 * c + index[y, c, o] % 2, o] = most[y, c, o]
    rows = m.reshape(4, 4)[:2].astype(np.float64)
    moved = np.zeros((6, 5, 3), np.float32)
    for y, c in np.ndindex(6, 5):
        tx, ty = (row[0] * (c + 0.5) + row[1] * (y + 0.5) + row[3] - 0.5 for row in rows)
        if 0 <= tx <= 7 and 0 <= ty <= 7:
            fx, fy = int(tx), int(ty)
            near = lambda y, x: back[min(y, 7), min(x, 7)]
            upper = (1 - tx + fx) * near(fy, fx) + (tx - fx) * near(fy, fx + 1)
            lower = (1 - tx + fx) * near(fy + 1, fx) + (tx - fx) * near(fy + 1, fx + 1)
            moved[y, c] = (1 - ty + fy) * upper + (ty - fy) * lower
    first = p[0, :, :2] @ rows[:, :2].T + rows[:, 3]
    points = np.concatenate([first, p[0, :, 2:]], 1)[None].astype(np.float32)
    return [moved[None], points, (index + 0.1)[None].astype(np.float32)]
