#!/usr/bin/env python3
"""Judge random operators: ONNX Runtime draws from converted models with the means and variances of the standard.

    random_numbers.py --onnxd target/release/onnxd [--seed 0]

Each operator of the standard that draws gets models with several parameters and element types. Their mean and variance
must be those of the distribution to six standard errors. What ONNX Runtime has no kernel for is counted, not judged.
Needs numpy, onnx, onnxruntime.
"""
import argparse
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

COUNT = 200_000
SIGMAS = 6
TYPES = {"float": TensorProto.FLOAT, "double": TensorProto.DOUBLE, "float16": TensorProto.FLOAT16}
ARRAYS = {"float": np.float32, "double": np.float64, "float16": np.float16}


def uniform(low, high):
    return (low + high) / 2, (high - low) ** 2 / 12, low, high


def normal(mean, std):
    return mean, std**2, -np.inf, np.inf


def coin(p, one=1.0):
    return p * one, p * (1 - p) * one**2, 0.0, one


def cases():
    """Name, nodes, inputs, initializers, element type of the output, and what is expected of it."""
    for name, dtype in TYPES.items():
        x = np.zeros(COUNT, ARRAYS[name])
        node = helper.make_node
        yield f"RandomUniform {name}", [node("RandomUniform", [], ["y"], dtype=dtype, low=-1.0, high=3.0, shape=[COUNT])], {}, {}, dtype, uniform(-1, 3)
        yield f"RandomNormal {name}", [node("RandomNormal", [], ["y"], dtype=dtype, mean=2.0, scale=3.0, shape=[COUNT])], {}, {}, dtype, normal(2, 3)
        yield f"RandomUniformLike {name}", [node("RandomUniformLike", ["x"], ["y"], low=-1.0, high=3.0)], {"x": x}, {}, dtype, uniform(-1, 3)
        yield f"RandomNormalLike {name}", [node("RandomNormalLike", ["x"], ["y"], mean=2.0, scale=3.0)], {"x": x}, {}, dtype, normal(2, 3)
        for p in (0.0, 0.1, 0.5, 0.8, 1.0):
            # As the type holds it.
            given = np.full(COUNT, p, ARRAYS[name])
            held = float(given[0])
            for to in (dtype, TensorProto.BOOL, TensorProto.INT64):
                nodes = [node("Bernoulli", ["x"], ["y"], dtype=to)]
                yield f"Bernoulli {name} {p} to {TensorProto.DataType.Name(to)}", nodes, {"x": given}, {}, to, coin(held)
            if p == 1.0:
                continue
            ratio = {"r": np.array(p, ARRAYS[name]), "t": np.array(True)}
            kept = 1 - float(ratio["r"])
            nodes = [node("Dropout", ["x", "r", "t"], ["y"])]
            yield f"Dropout {name} {p}", nodes, {"x": x + 1}, ratio, dtype, coin(kept, 1 / kept)
            nodes = [node("Dropout", ["x", "r", "t"], ["z", "y"])]
            yield f"Dropout {name} {p}, mask", nodes, {"x": x + 1}, ratio, TensorProto.BOOL, coin(kept)
        chances = np.log(np.tile(np.array([[0.1, 0.2, 0.7]]), (100, 1))).astype(ARRAYS[name])
        nodes = [node("Multinomial", ["x"], ["y"], sample_size=COUNT // 100, dtype=TensorProto.INT64)]
        yield f"Multinomial {name}", nodes, {"x": chances}, {}, TensorProto.INT64, (1.6, 0.44, 0, 2)


def model(nodes, inputs, constants, dtype):
    of = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "g", [of(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in inputs.items()],
        [of("y", dtype, None)], [numpy_helper.from_array(a, n) for n, a in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def wrong(drawn, expected):
    mean, var, low, high = expected
    x = drawn.astype(np.float64).ravel()
    slack = 1e-3 * max(1.0, abs(mean))
    if abs(x.mean() - mean) > SIGMAS * np.sqrt(var / x.size) + slack * (drawn.dtype == np.float16):
        return f"the mean is {x.mean():.5f}, not {mean:.5f}"
    fourth = 3 * var**2
    if abs(x.var() - var) > SIGMAS * np.sqrt(fourth / x.size) + slack:
        return f"the variance is {x.var():.5f}, not {var:.5f}"
    room = 2e-3 * max(1.0, abs(high)) if np.isfinite(high) else 0.0
    if x.min() < low - room or x.max() > high + room:
        return f"numbers from {x.min()} to {x.max()}, not {low} to {high}"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--onnxd", required=True)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    onnxruntime.set_seed(args.seed)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    passed, failed, without = 0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for name, nodes, inputs, constants, dtype, expected in cases():
            path, out = os.path.join(folder, "net.onnx"), os.path.join(folder, "out")
            onnx.save(model(nodes, inputs, constants, dtype), path)
            done = subprocess.run([args.onnxd, "convert", path, "--out", out, "--set", "passes.disable=[\"remove-dropout\"]"],
                                  capture_output=True, text=True)
            if done.returncode not in (0, 1):
                print(f"{name}: {done.stderr.strip().splitlines()[-1]}")
                failed += 1
                continue
            written = os.path.join(out, "model.onnx")
            onnx.checker.check_model(written, full_check=True)
            try:
                drawn = onnxruntime.InferenceSession(written, options).run(["y"], inputs)[0]
            except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
                without += 1
                continue
            why = wrong(drawn, expected)
            failed += why is not None
            passed += why is None
            if why:
                print(f"{name}: {why}")
    print(f"{passed} passed, {failed} failed, {without} without a kernel in ONNX Runtime {onnxruntime.__version__}")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
