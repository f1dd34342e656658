#!/usr/bin/env python3
"""Which sums of 8-bit products saturate in ONNX Runtime on this processor, and which products round what they read.

    saturation.py
    qemu-x86_64 -cpu Haswell python saturation.py     # as on a processor without VNNI

Every product of one kind is run with all optimizations on large weights and activations, and held against exact sums.
It fails where a product is off that core/ir/src/runtime.rs, which warns in receipts, takes for exact on a processor
without VNNI, and the other way round under --without-vnni. Needs numpy, onnx, onnxruntime.
"""
import argparse
import sys

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

# Rounding of an output to 8 bits is below this share of the largest result, saturation above.
OFF = 0.02
RANDOM = np.random.default_rng(1)
U8, I8, U16 = np.uint8, np.int8, np.uint16


def run(nodes, constants, x, dtype, options=()):
    """The first output, for an input of NumPy's type `dtype`."""
    types = [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), x.shape)]
    values = [v if isinstance(v, TensorProto) else numpy_helper.from_array(np.asarray(v), n) for n, v in constants.items()]
    output = helper.make_tensor_value_info("y", TensorProto.INT32 if nodes[-1].op_type.endswith("Integer") else 1, None)
    graph = helper.make_graph(nodes, "g", types, [output], values)
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    session = onnxruntime.SessionOptions()
    session.intra_op_num_threads, session.log_severity_level = 1, 4
    for key, value in options:
        session.add_session_config_entry(key, value)
    model = helper.make_model(graph, opset_imports=imports, ir_version=10).SerializeToString()
    found = onnxruntime.InferenceSession(model, session, providers=["CPUExecutionProvider"])
    return found.run(None, {"x": x.astype(dtype)})[0].astype(np.float64)


def weights(dtype, shape):
    """Mostly large positive ones: as integers, and what they stand for."""
    real = RANDOM.integers(-127, 128, shape)
    real = np.where(RANDOM.random(shape) < 0.7, np.abs(real), real)
    return (real if dtype == I8 else real + 128).astype(dtype), real


def node(op, inputs, output, **attributes):
    domain = "com.microsoft" if op in ("QGemm", "MatMulIntegerToFloat", "DynamicQuantizeMatMul") else ""
    return helper.make_node(op, inputs, [output], domain=domain, **attributes)


def cases():
    """Name, whether runtime.rs takes it for exact, and how far it is off."""
    for op in ("MatMul", "Gemm", "Conv", "depthwise Conv"):
        conv = op.endswith("Conv")
        groups = 8 if op.startswith("depthwise") else 1
        shape = (64, 32) if not conv else (8, 8 // groups, 3, 3)
        x = RANDOM.random((1, 8, 8, 8) if conv else (4, 64)) * 0.3 + 0.7
        group = {"group": groups} if conv else {}
        for a in (U8, I8, U16):
            for b in (I8, U8):
                w, real = weights(b, shape)
                low, high = np.iinfo(a).min, np.iinfo(a).max
                step = 1 / (high - low)
                q = np.clip(np.rint(x / step) + low, low, high)
                plain = op.split()[-1]
                exact = run([node(plain, ["x", "w"], "y", **group)], {"w": real.astype(np.float32)}, (q - low) * step, np.float32)
                scale = np.float32(np.abs(exact).max() * 2 / (high - low))
                middle = np.array((high - low) // 2 + low + 1, a)
                constants = {"w": w, "xs": np.float32(step), "xz": np.array(low, a), "ws": np.float32(1), "ys": scale,
                             "wz": np.array(0 if b == I8 else 128, b), "yz": middle}
                pairs = [node("QuantizeLinear", ["x", "xs", "xz"], "xq"), node("DequantizeLinear", ["xq", "xs", "xz"], "xf"),
                         node("DequantizeLinear", ["w", "ws", "wz"], "wf"), node(plain, ["xf", "wf"], "f", **group),
                         node("QuantizeLinear", ["f", "ys", "yz"], "q"), node("DequantizeLinear", ["q", "ys", "yz"], "y")]
                kind = f"{np.dtype(a)} by {np.dtype(b)}"
                large = b == I8 and a != U16 and groups == 1
                for option in ([], [("session.x64quantprecision", "1")]):
                    name = f"pairs, {op}, {kind}{', x64quantprecision' if option else ''}"
                    yield name, not large or bool(option), lambda: (run(pairs, constants, x, np.float32, option), exact)
                if a == U16:
                    continue
                sums = exact / step
                linear = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"]
                back = node("DequantizeLinear", ["q", "ys", "yz"], "y")
                if conv:
                    forms = [("ConvInteger", [node("ConvInteger", ["x", "w", "xz", "wz"], "y", **group)], sums, True),
                             ("QLinearConv", [node("QLinearConv", linear, "q", **group), back], exact, not large or a == I8)]
                    forms = forms if (a, b) != (I8, U8) else []  # there is no kernel of both
                else:
                    exactly = not large or a == I8
                    forms = [("MatMulInteger", [node("MatMulInteger", ["x", "w", "xz", "wz"], "y")], sums, exactly),
                             ("QLinearMatMul", [node("QLinearMatMul", linear, "q"), back], exact, exactly),
                             ("MatMulIntegerToFloat", [node("MatMulIntegerToFloat", ["x", "w", "xs", "ws", "xz", "wz"], "y")],
                              exact, exactly),
                             ("QGemm", [node("QGemm", ["x", "xs", "xz", "w", "ws", "wz"], "y")], exact, exactly)]
                    forms = forms if op == "MatMul" and (a, b) != (I8, U8) else []
                for name, nodes, wanted, exactly in forms:
                    yield f"{name}{' depthwise' if groups > 1 else ''}, {kind}", exactly, \
                        lambda: (run(nodes, constants, q, a), wanted)


def rounding():
    """How far weights of 8 bits in blocks are off, without and with the option that keeps inputs in float."""
    w, real = weights(I8, (64, 32))
    x = RANDOM.normal(size=(16, 64))
    nodes = [node("DequantizeLinear", ["w", "s"], "f", axis=0, block_size=32), node("MatMul", ["x", "f"], "y")]
    constants = {"w": w, "s": np.full((2, 32), 1, np.float32)}
    for level in ("4", "1"):
        option = [("session.qdq_matmulnbits_accuracy_level", level)] if level != "4" else []
        found, exact = run(nodes, constants, x, np.float32, option), x.astype(np.float32).astype(np.float64) @ real
        yield level, 10 * np.log10(np.square(exact).sum() / np.square(exact - found).sum())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--without-vnni", action="store_true", help="demands that what saturates without VNNI does so")
    without_vnni, failed, count = parser.parse_args().without_vnni, 0, 0
    for name, exact, make in cases():
        found, wanted = make()
        off = np.abs(found - wanted).max() / np.abs(wanted).max()
        wrong = off > OFF if exact else without_vnni and off <= OFF
        print(f"{'FAIL' if wrong else 'ok'} {name}: off by {off:.1e}{'' if off <= OFF else ', saturates'}", flush=True)
        failed, count = failed + wrong, count + 1
    levels = dict(rounding())
    print(f"weights of 8 bits in blocks: {levels['4']:.0f} dB, with accuracy level 1 {levels['1']:.0f} dB")
    failed += not levels["4"] < 60 < levels["1"]
    print(f"{count + 1} cases, {failed} findings")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
