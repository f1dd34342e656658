#!/usr/bin/env python3
"""Judge Neural Compressor's forms on single layers: how a Linear may be written, convolutions, shared and tied weights,
and sources that are quantized already.

    inc_graphs.py --onnxd target/release/onnxd [--match 'bias*']

Each graph is written in both forms, with all recipes, static and dynamic. Every result passes the checker, has the
operators of its recipe, and its outputs in ONNX Runtime, without optimizations, are near those of the source. QDQ and
QLinear give the same. A source that is quantized already keeps the integers of its weights and its scales bit for bit.
Needs numpy, onnx, onnxruntime.
"""
import argparse
import fnmatch
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

RECIPES = ("QDQ_OP_FP32_BIAS", "QDQ_OP_INT32_BIAS", "QDQ_OP_FP32_BIAS_QDQ")
FLOAT_DB, SAME_DB = 30.0, 60.0
# ONNX Runtime's own products of uint8 and int8 saturate on processors without instructions for them; ours do not.
SOURCE_DB = 25.0
RANDOM = np.random.default_rng(3)


def some(*dims, scale=0.3):
    return (RANDOM.normal(size=dims) * scale).astype(np.float32)


def node(op, inputs, output, **attributes):
    domain = {"domain": "com.microsoft"} if op == "QGemm" else {}
    return helper.make_node(op, inputs.split(), [output], name="n_" + output, **domain, **attributes)


def graph(nodes, constants, x=(None, 5, 16), y=(None, 5, 12), opset=14, dtype=TensorProto.FLOAT):
    held = [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()]
    ins = [helper.make_tensor_value_info("x", dtype, x)]
    outs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, y)]
    opsets = [helper.make_opsetid("", opset)]
    opsets += [helper.make_opsetid("com.microsoft", 1)] if any(n.domain for n in nodes) else []
    return helper.make_model(helper.make_graph(nodes, "g", ins, outs, held), opset_imports=opsets, ir_version=8)


def linear(bias, first=False, opset=14, scale=0.3):
    sum_of = "bias product" if first else "product bias"
    nodes = [node("MatMul", "x w", "product"), node("Add", sum_of, "y")]
    return graph(nodes, {"w": some(16, 12, scale=scale), "bias": bias}, opset=opset)


def floats():
    """Graphs in float: the model, and the products that are written as a recipe says, with bias and without."""
    found = {
        "bias": (linear(some(12)), 1, 0),
        "bias-first": (linear(some(12), first=True), 1, 0),
        "bias-1xN": (linear(some(1, 12)), 1, 0),
        "bias-scalar": (linear(some()), 1, 0),
        "bias-for-each-position": (linear(some(5, 12)), 1, 0),
        "bias-opset-11": (linear(some(12), opset=11), 1, 0),
        "no-bias": (graph([node("MatMul", "x w", "y")], {"w": some(16, 12)}), 0, 1),
        "shared-input": (
            graph(
                [node("MatMul", f"x w{i}", f"p{i}") for i in range(3)]
                + [node("Add", f"b{i} p{i}", f"s{i}") for i in range(3)]
                + [node("Concat", "s0 s1 s2", "y", axis=2)],
                {f"w{i}": some(16, 4) for i in range(3)} | {f"b{i}": some(4) for i in range(3)},
            ),
            3,
            0,
        ),
        "attention": (
            graph(
                [
                    node("MatMul", "x wq", "q"),
                    node("MatMul", "x wk", "k"),
                    node("Transpose", "k", "kt", perm=[0, 2, 1]),
                    node("MatMul", "q kt", "scores"),
                    node("Softmax", "scores", "p", axis=-1),
                    node("MatMul", "p x", "o"),
                    node("MatMul", "o wo", "y"),
                ],
                {"wq": some(16, 16), "wk": some(16, 16), "wo": some(16, 12)},
            ),
            0,
            3,
        ),
    }
    w = some(16, 16)
    twice = [node("MatMul", "x w", "p"), node("Relu", "p", "r"), node("MatMul", "r w2", "y")]
    found["same-weights"] = (graph(twice, {"w": w, "w2": w}, y=(None, 5, 16)), 0, 2)
    twice[2].input[1] = "w"
    found["weights-read-twice"] = (graph(twice, {"w": w}, y=(None, 5, 16)), 0, 2)
    embedding = [node("Gather", "table x", "e"), node("MatMul", "e w", "p"), node("Add", "p b", "y")]
    constants = {"table": some(300, 16), "w": w, "b": some(16)}
    found["embedding"] = (graph(embedding, constants, (None, 5), (None, 5, 16), dtype=TensorProto.INT64), 1, 0)
    for name, given in (("", {}), ("-transposed", {"transB": 1}), ("-scaled", {"alpha": 0.5, "beta": 2.0})):
        dims = (12, 16) if "transB" in given else (16, 12)
        gemm = graph([node("Gemm", "x w b", "y", **given)], {"w": some(*dims), "b": some(12)}, (None, 16), (None, 12))
        found["gemm" + name] = (gemm, 0, 0)
    for name, group, dims, inputs in (
        ("conv1d", 1, (8, 4, 3), "x w b"),
        ("conv-no-bias", 1, (8, 4, 3, 3), "x w"),
        ("conv-depthwise", 4, (4, 1, 3, 3), "x w b"),
    ):
        sizes = (9,) * (len(dims) - 2)
        conv = graph(
            [node("Conv", inputs, "c", group=group), node("BatchNormalization", "c s o m v", "n"), node("Relu", "n", "y")],
            {"w": some(*dims), "s": some(dims[0]) + 1, "o": some(dims[0]), "m": some(dims[0]), "v": some(dims[0]) ** 2 + 1}
            | ({"b": some(dims[0])} if "b" in inputs else {}),
            (None, 4, *sizes),
            (None, dims[0], *(7,) * len(sizes)),
        )
        found[name] = (conv, 0, 0)
    return found


def sources():
    """Graphs that are quantized already."""
    w = some(16, 12)
    steps = (np.abs(w).max(0) / 127).astype(np.float32)
    integers = np.rint(w / steps).astype(np.int8)
    common = {"sw": steps, "zw": np.zeros(12, np.int8), "b": some(12)}
    found = {}
    for name, scale, zero in (
        ("trained-uint8", 0.031, np.uint8(37)),
        ("trained-7-bits", 0.05, np.uint8(64)),
        ("trained-int8", 0.03, np.int8(-5)),
    ):
        nodes = [
            node("QuantizeLinear", "x sx zx", "xq"),
            node("DequantizeLinear", "xq sx zx", "xd"),
            node("QuantizeLinear", "w sw zw", "wq", axis=1),
            node("DequantizeLinear", "wq sw zw", "wd", axis=1),
            node("MatMul", "xd wd", "p"),
            node("Add", "p b", "s"),
            node("MatMul", "s w2", "y"),
        ]
        found[name] = graph(nodes, common | {"sx": np.float32(scale), "zx": zero, "w": w, "w2": some(12, 12)})
        held = graph(nodes[:2] + nodes[3:], common | {"sx": np.float32(scale), "zx": zero, "wq": integers, "w2": some(12, 12)})
        found[name + "-held"] = held
    gemm = [node("QuantizeLinear", "x sx zx", "xq")]
    gemm += [node("QGemm", "xq sx zx wq sw zw bq sy zy", "yq"), node("DequantizeLinear", "yq sy zy", "y")]
    constants = {"sx": np.float32(0.03), "zx": np.uint8(120), "sy": np.float32(0.04), "zy": np.uint8(127), "wq": integers}
    constants |= {"bq": np.rint(some(12) / (0.03 * steps)).astype(np.int32), "sw": steps, "zw": common["zw"]}
    found["qgemm"] = graph(gemm, constants, (None, 16), (None, 12))
    return found


def convert(onnxd, folder, drop, params):
    with open(os.path.join(folder, "params.toml"), "w") as f:
        f.write(params)
    out = tempfile.mkdtemp(dir=folder)
    command = [onnxd, "convert", *drop, "--params", f.name, "--out", os.path.join(out, "out")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode not in (0, 1):
        raise AssertionError(f"exit {done.returncode}: {done.stderr.strip()[-200:]}")
    path = os.path.join(out, "out", "model.onnx")
    onnx.checker.check_model(path, full_check=True)
    return path


def run(path, x):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]


def near(got, want, least):
    noise = float(np.sum((got.astype(np.float64) - want) ** 2))
    db = 10 * np.log10(float(np.sum(want.astype(np.float64) ** 2)) / noise) if noise else 999.0
    assert db >= least, f"{db:.1f} dB, wanted {least}"
    return db


def operators(path):
    return [n.op_type for n in onnx.load(path).graph.node]


def constants(path, *types):
    held = [numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer]
    return sorted(v.tobytes() for v in held if v.dtype in types)


def judge_float(onnxd, folder, model, biased, plain):
    dims = [8 if d.dim_value == 0 else d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    whole = model.graph.input[0].type.tensor_type.elem_type == TensorProto.INT64
    x = RANDOM.integers(0, 300, dims) if whole else RANDOM.normal(size=dims).astype(np.float32)
    drop = [os.path.join(folder, "model.onnx"), os.path.join(folder, "calib.npz")]
    onnx.save(model, drop[0])
    np.savez(drop[1], x=x)
    want, worst = run(drop[0], x), 999.0
    products = sum(n.op_type in ("MatMul", "Gemm") and n.input[1] in {t.name for t in model.graph.initializer} for n in model.graph.node)
    for recipe in RECIPES:
        found = {}
        for form in ("QDQ", "QLinear"):
            path = convert(onnxd, folder, drop, f'[quantization.inc]\nquant_format = "{form}"\nrecipe = "{recipe}"\n')
            found[form] = run(path, x)
            worst = min(worst, near(found[form], want, FLOAT_DB))
            ops = operators(path)
            integer = biased if recipe == RECIPES[1] else 0
            assert ops.count("MatMulInteger") == integer, f"{form} {recipe}: {ops}"
            if form == "QLinear":
                rounded = plain if recipe == RECIPES[2] else 0
                assert ops.count("QLinearMatMul") == rounded, f"{form} {recipe}: {ops}"
                assert ops.count("MatMulIntegerToFloat") == biased + plain - integer - rounded, f"{form} {recipe}: {ops}"
        near(found["QLinear"], found["QDQ"], SAME_DB)
    path = convert(onnxd, folder, drop[:1], '[quantization]\nmode = "dynamic"\n[quantization.inc]\nquant_format = "QDQ"\n')
    worst = min(worst, near(run(path, x), want, FLOAT_DB))
    assert operators(path).count("MatMulInteger") == products, operators(path)
    return worst


def judge_source(onnxd, folder, model):
    dims = [8 if d.dim_value == 0 else d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    x, source = RANDOM.normal(size=dims).astype(np.float32), os.path.join(folder, "model.onnx")
    onnx.save(model, source)
    want, worst = run(source, x), 999.0
    scales = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer if t.name in ("sx", "sw", "sy")}
    for recipe in RECIPES:
        for form in ("QDQ", "QLinear"):
            settings = f'[quantization]\nmode = "qat"\n[quantization.inc]\nquant_format = "{form}"\nrecipe = "{recipe}"\n'
            path = convert(onnxd, folder, [source], settings)
            worst = min(worst, near(run(path, x), want, SOURCE_DB))
            held = constants(path, np.float32)
            kept = [name for name, value in scales.items() if value.tobytes() not in held]
            # With integers added, both scales are one factor.
            assert kept in ([], ["sw"] if "MatMulInteger" in operators(path) else []), f"{kept} changed"
            floats = sum(n.op_type == "MatMul" and n.input[1] == "w2" for n in model.graph.node)
            assert not floats or "MatMul" in operators(path), "a product in float became one of integers"
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--onnxd", required=True)
    parser.add_argument("--match", default="*")
    args = parser.parse_args()
    cases = {name: (judge_float, *given) for name, given in floats().items()}
    cases |= {name: (judge_source, model) for name, model in sources().items()}
    passed = failed = 0
    for name, (judge, *given) in cases.items():
        if not fnmatch.fnmatch(name, args.match):
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                said, good = f"{judge(os.path.abspath(args.onnxd), folder, *given):.1f} dB", True
            except Exception as e:
                said, good = f"{type(e).__name__}: {e}"[:300], False
        passed, failed = passed + good, failed + (not good)
        print(f"{'ok  ' if good else 'FAIL'} {name} {said}", flush=True)
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed or not passed else 0)


main()
