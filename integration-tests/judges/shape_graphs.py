#!/usr/bin/env python3
"""Judge what passes make of random models that compute shapes (random_shapes.py), for many sizes of their inputs.

    shape_graphs.py --onnxd target/release/onnxd [--seeds 0:300] [--keep DIR]

Each model is converted with the default passes. The result must pass `onnx.checker` with full_check, must not have more
nodes, and must give what the model gives in ONNX Runtime without graph optimization, wherever the model runs: at the
sizes that it was made for, and at others, 0 and 1 among them. Prints how many nodes are left.
Needs numpy, onnx, onnxruntime.
"""
import argparse
import collections
import os
import sys
import tempfile

import numpy as np
import onnx

import random_shapes
from random_graphs import checked, convert, differ, session

SIZES = [0, 1, 2, 3, 4, 5, 6]
TRIES = 12
OUTPUTS = 4


def feeds_of(model, rng, sizes):
    feeds = {}
    for i in model.graph.input:
        dims = [sizes.get(d.dim_param, d.dim_value) for d in i.type.tensor_type.shape.dim]
        feeds[i.name] = rng.standard_normal(dims).astype(np.float32)
    return feeds


def outcome(runner, feeds):
    try:
        return runner.run(None, feeds)
    except Exception as e:
        return str(e)[-200:]


def more_outputs(model, rng):
    """A few inner values as outputs, whose shapes are not declared."""
    typed = list(onnx.shape_inference.infer_shapes(model).graph.value_info)
    for i in rng.permutation(len(typed))[:OUTPUTS]:
        code = typed[i].type.tensor_type.elem_type
        model.graph.output.append(onnx.helper.make_tensor_value_info(typed[i].name, code, None))


def judge(onnxd, model, sizes, work, counts, rng):
    path, out = os.path.join(work, "model.onnx"), os.path.join(work, "out")
    onnx.save(model, path)
    report, why = convert(onnxd, path, out, [])
    if why:
        return why
    made = os.path.join(out, "model.onnx")
    why = checked(made)
    if why:
        return f"checker: {why}"
    before, after = len(model.graph.node), len(onnx.load(made).graph.node)
    counts["nodes before"] += sum(n.op_type != "Constant" for n in model.graph.node)
    counts["nodes after"] += after
    for p in report["passes"]:
        counts["rewrites " + p["name"]] += p.get("rewrites", 0)
    if after > before:
        return f"{before} nodes became {after}"
    old, new = session(path), session(made)
    for sizes in [sizes] + [{s: int(rng.choice(SIZES)) for s in "BST"} for _ in range(TRIES)]:
        feeds = feeds_of(model, rng, sizes)
        want, got = outcome(old, feeds), outcome(new, feeds)
        if isinstance(want, str):
            counts["runs that fail before"] += 1
            continue
        counts["runs compared"] += 1
        if isinstance(got, str):
            return f"at {sizes}: does not run: {got}"
        for info, g, w in zip(model.graph.output, got, want):
            why = differ(g, w, 1e-5)
            if why:
                return f"at {sizes}: {info.name}: {why}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--onnxd", required=True)
    parser.add_argument("--seeds", default="0:300", help="first:end")
    parser.add_argument("--keep", help="folder for the models that fail")
    options = parser.parse_args()
    onnxd, counts, failed = os.path.abspath(options.onnxd), collections.Counter(), 0
    first, end = map(int, options.seeds.split(":"))
    for seed, (name, model, sizes) in zip(range(first, end), random_shapes.models(range(first, end))):
        rng = np.random.default_rng(seed)
        more_outputs(model, rng)
        with tempfile.TemporaryDirectory(prefix="shapes-") as work:
            why = judge(onnxd, model, sizes, work, counts, rng)
        counts["models"] += 1
        if why:
            failed += 1
            print(f"FAIL {name} {why}", flush=True)
            if options.keep:
                os.makedirs(options.keep, exist_ok=True)
                onnx.save(model, os.path.join(options.keep, f"{name}.onnx"))
    for key in sorted(counts):
        print(f"  {key}: {counts[key]}")
    print(f"{failed} with failures")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
