#!/usr/bin/env python3
"""Judge the integer graphs of N2D2's quantization: three ways of computing them must agree.

    n2d2_integers.py --onnxd target/release/onnxd --shared ../shared [--match 'own_*'] [--every N:K]

Every integer case of the suite n2d2-int is converted as it says. On the case's inputs the built-in executor and ONNX
Runtime (without optimizations) must give the same integers, bit for bit, for every integer value of the graph, not its
outputs alone. Real outputs (behind Softmax) may differ by rounding. The twin with `FakeQuantization=1`, converted with
the same params, may differ from the integers by one step in the outputs, or in what real outputs are computed from.
Needs numpy, onnx, onnxruntime.
"""
import argparse
import fnmatch
import json
import os
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto as T

EIGHT = (T.UINT8, T.INT8, T.UINT16, T.INT16)
INTEGERS = EIGHT + (T.INT32, T.INT64)


def convert(onnxd, corpus, drop, params, out):
    """The written model, or None and the complaint."""
    os.makedirs(out)
    copies = [os.path.join(out, "in", os.path.basename(path)) for path in drop]
    for path, copy in zip(drop, copies):
        os.makedirs(os.path.dirname(copy), exist_ok=True)
        source = os.path.join(corpus, path)
        (shutil.copytree if os.path.isdir(source) else shutil.copy)(source, copy)
    settings = os.path.join(out, "params.ini")
    with open(settings, "w") as f:
        f.write(params)
    command = [onnxd, "convert", *copies, "--params", settings, "--out", os.path.join(out, "out")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode not in (0, 1):
        return None, (done.stderr or done.stdout).strip().replace("\n", " | ")[:300]
    return onnx.load(os.path.join(out, "out", "model.onnx")), None


def types_of(model):
    graph = onnx.shape_inference.infer_shapes(model).graph
    values = [*graph.value_info, *graph.output, *graph.input]
    return {v.name: v.type.tensor_type.elem_type for v in values}


def shown(model, names):
    """The model with the values `names` as outputs, besides its own."""
    twin = onnx.ModelProto()
    twin.CopyFrom(model)
    own = {o.name for o in model.graph.output}
    types = types_of(model)
    twin.graph.output.extend(onnx.helper.make_tensor_value_info(n, types[n], None) for n in names if n not in own)
    return twin


def roots(model, types):
    """Each output, or the 8-bit values that a real output is computed from."""
    makers = {o: node for node in model.graph.node for o in node.output}
    found, waiting = [], [o.name for o in model.graph.output]
    while waiting:
        name = waiting.pop()
        if types.get(name) in EIGHT:
            found.append(name)
        elif name in makers:
            waiting.extend(n for n in makers[name].input if n)
    return sorted(set(found))


def feeds(model, path):
    """The arrays of a file in the model's types, by name or else by position."""
    with np.load(path) as arrays:
        given = {name: arrays[name] for name in arrays.files}
    constant = {i.name for i in model.graph.initializer}
    inputs = [i for i in model.graph.input if i.name not in constant]
    named = all(i.name in given for i in inputs)
    pairs = [(i, given[i.name] if named else array) for i, array in zip(inputs, given.values())]
    dtype = onnx.helper.tensor_dtype_to_np_dtype
    return {i.name: array.astype(dtype(i.type.tensor_type.elem_type)) for i, array in pairs}


def by_runtime(model, inputs):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, inputs)))


def by_onnxd(onnxd, model, inputs, work):
    paths = [os.path.join(work, name) for name in ("m.onnx", "in.npz", "out.npz")]
    onnx.save(model, paths[0])
    np.savez(paths[1], **inputs)
    command = [onnxd, "eval", paths[0], "--inputs", paths[1], "--out", paths[2]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise AssertionError("onnxd eval: " + (done.stderr or done.stdout).strip().replace("\n", " | ")[:300])
    with np.load(paths[2]) as arrays:
        return {name: arrays[name] for name in arrays.files}


def steps(a, b):
    """Largest difference of two arrays of integers, whatever type holds them."""
    if a.size != b.size:
        raise AssertionError(f"shapes {a.shape} and {b.shape}")
    return int(np.abs(a.astype(np.int64).ravel() - b.astype(np.int64).ravel()).max(initial=0))


def judge(onnxd, corpus, case, work):
    """A complaint or None, and what was seen."""
    seen = {"integers": 0, "twin": 0}
    model, why = convert(onnxd, corpus, case["drop"], case["params"], os.path.join(work, "own"))
    if model is None:
        return f"not converted: {why}", seen
    types = types_of(model)
    names = sorted({o for node in model.graph.node for o in node.output if types.get(o) in INTEGERS})
    inputs = feeds(model, os.path.join(corpus, case["inputs"]))
    wide = shown(model, names)
    ours, theirs = by_onnxd(onnxd, wide, inputs, work), by_runtime(wide, inputs)
    for name, wanted in theirs.items():
        found = ours[name]
        if found.dtype != wanted.dtype or found.shape != wanted.shape:
            return f"{name}: {found.dtype}{found.shape} where {wanted.dtype}{wanted.shape} is expected", seen
        if found.dtype.kind == "f":
            if not np.allclose(found, wanted, rtol=1e-5, atol=1e-6):
                return f"{name}: differs by {np.abs(found - wanted).max():.3g}", seen
        elif not np.array_equal(found, wanted):
            differ = int((found != wanted).sum())
            return f"{name}: {differ} of {found.size} integers differ, by {steps(found, wanted)} at most", seen
        seen["integers"] += found.size
    params = case["params"].replace("FakeQuantization=0", "FakeQuantization=1")
    twin, why = convert(onnxd, corpus, case["drop"], params, os.path.join(work, "fake"))
    if twin is None:
        return f"the twin is not converted: {why}", seen
    held = types_of(twin)
    last = [name for name in roots(model, types) if name in held]
    if not last:
        return "the twin has none of the names that outputs are computed from", seen
    floats = by_runtime(shown(twin, last), feeds(twin, os.path.join(corpus, case["inputs"])))
    for name in last:
        seen["twin"] = max(seen["twin"], steps(np.rint(floats[name]), theirs[name]))
    if seen["twin"] > 1:
        return f"the twin differs by {seen['twin']} steps", seen
    return None, seen


def cases_of(shared, match):
    """Integer cases with inputs; several that convert the same count once."""
    with open(os.path.join(shared, "acceptance", "cases", "n2d2-int.json")) as f:
        cases = json.load(f)
    chosen = {}
    for case in cases:
        params = case.get("params") or ""
        integer = "FakeQuantization=0" in params and "ImplicitCasting=0" in params
        if integer and case.get("inputs") and case.get("expect", "ok") == "ok" and fnmatch.fnmatch(case["id"], match):
            chosen.setdefault((tuple(case["drop"]), params), case)
    return list(chosen.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--onnxd", required=True)
    parser.add_argument("--shared", default="../shared")
    parser.add_argument("--match", default="*", help="ids of cases")
    parser.add_argument("--every", default="1", metavar="N[:K]", help="every Nth case only, from the Kth on")
    options = parser.parse_args()
    onnxd, failed, integers, apart = os.path.abspath(options.onnxd), 0, 0, 0
    corpus = os.path.join(options.shared, "corpus")
    step, _, first = options.every.partition(":")
    cases = cases_of(options.shared, options.match)[int(first or 0) % int(step) :: int(step)]
    for case in cases:
        with tempfile.TemporaryDirectory(prefix="n2d2-") as work:
            try:
                why, seen = judge(onnxd, corpus, case, work)
            except Exception as e:  # whatever a runtime refuses is a finding
                why, seen = f"{type(e).__name__}: {e}"[:400], {"integers": 0, "twin": 0}
        integers += seen["integers"]
        apart += seen["twin"] > 0
        if why:
            failed += 1
            print(f"FAIL {case['id']}: {why}", flush=True)
    print(f"  {integers} integers compared, {apart} twins one step apart")
    print(f"{len(cases)} graphs, {failed} with failures")
    sys.exit(1 if failed or not cases else 0)


if __name__ == "__main__":
    main()
