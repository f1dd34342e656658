#!/usr/bin/env python3
"""Converts quantized TFLite models and prints, file by file, how far their outputs in ONNX Runtime are from those of
TFLite's interpreter, in steps of the output's scale: the largest difference and the share of equal outputs, against the
optimized kernels and the reference kernels. Fails where both differ by more than --most steps.

    tflite_steps.py ONNXD [--runs N] [--most STEPS] [--tensors] FILE_OR_FOLDER...

Inputs are those of `inputs*.npz` beside a file where they fit, and random ones. --tensors prints the differences of all
tensors that both models name, which tells where a difference begins. A file that is not converted fails, too, and so does
a run in which nothing is compared. Needs tensorflow, onnx, onnxruntime and numpy.
"""
import argparse
import glob
import os
import re
import subprocess
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np
import onnx
import onnxruntime
import tensorflow as tf

KERNELS = {
    "optimized": tf.lite.experimental.OpResolverType.AUTO,
    "reference": tf.lite.experimental.OpResolverType.BUILTIN_REF,
}


def interpreter(path, kernels, keep=False):
    made = tf.lite.Interpreter(
        path, experimental_op_resolver_type=KERNELS[kernels], experimental_preserve_all_tensors=keep
    )
    made.allocate_tensors()
    return made


def scale_of(made, detail):
    """The step of a tensor: its own, or that of the integers that it was dequantized from."""
    if np.issubdtype(detail["dtype"], np.integer):
        return 1.0
    tensors = {d["index"]: d for d in made.get_tensor_details()}
    for op in made._get_ops_details():
        if op["op_name"] == "DEQUANTIZE" and detail["index"] in op["outputs"]:
            scales = tensors[op["inputs"][0]]["quantization_parameters"]["scales"]
            return float(scales[0]) if len(scales) == 1 else None
    return None


def draw(rng, detail):
    shape, dtype = detail["shape"], detail["dtype"]
    if dtype == np.bool_:
        return rng.integers(0, 2, shape).astype(dtype)
    if np.issubdtype(dtype, np.integer):
        info = np.iinfo(dtype)
        quantized = len(detail["quantization_parameters"]["scales"]) == 1
        low, high = (info.min, info.max) if quantized else (0, 8)
        return rng.integers(low, high, shape, endpoint=True).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def recorded(path, details):
    """Inputs beside the file, as far as types and shapes fit."""
    for name in sorted(glob.glob(os.path.join(os.path.dirname(path), "inputs*.npz"))):
        arrays = dict(np.load(name))
        by_name = [arrays.get(d["name"]) for d in details]
        found = by_name if all(a is not None for a in by_name) else list(arrays.values())
        fits = len(found) == len(details) and all(
            a.dtype == d["dtype"] and list(a.shape) == list(d["shape"]) for a, d in zip(found, details)
        )
        if fits:
            yield found


def invoke(made, inputs):
    made.reset_all_variables()
    for detail, array in zip(made.get_input_details(), inputs):
        made.set_tensor(detail["index"], array)
    made.invoke()
    return [made.get_tensor(d["index"]) for d in made.get_output_details()]


def difference(got, want, scale):
    """Largest difference in steps, and how many of the values are equal."""
    if got.shape != want.shape:
        return float("inf"), 0, want.size
    got, want = got.astype(np.float64), want.astype(np.float64)
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    with np.errstate(invalid="ignore"):
        steps = np.where(same, 0.0, np.abs(got - want) / scale)
    # A number beside none is as far as can be.
    steps = np.where(np.isnan(steps), np.inf, steps)
    return float(steps.max(initial=0)), int((steps < 0.5).sum()), steps.size


def judge(path, model, runs, rng):
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    found = {}
    details = interpreter(path, "optimized").get_input_details()
    samples = list(recorded(path, details)) + [[draw(rng, d) for d in details] for _ in range(runs)]
    names = [i.name for i in session.get_inputs()]
    if len(names) != len(details):
        raise AssertionError(f"{len(names)} inputs, not {len(details)}")
    runs = [session.run(None, dict(zip(names, inputs))) for inputs in samples]
    for kernels in KERNELS:
        try:
            made = interpreter(path, kernels)
            wanted = [invoke(made, inputs) for inputs in samples]
        except (RuntimeError, ValueError) as why:
            found[kernels] = str(why).splitlines()[0][:60]
            continue
        worst, equal, count = 0.0, 0, 0
        details = made.get_output_details()
        for got, want in zip(runs, wanted):
            if len(got) != len(want):
                raise AssertionError(f"{len(got)} outputs, not {len(want)}")
            for detail, g, w in zip(details, got, want):
                scale = scale_of(made, detail)
                if scale is None:
                    continue
                most, same, size = difference(g, w, scale)
                worst, equal, count = max(worst, most), equal + same, count + size
        found[kernels] = (worst, 100.0 * equal / count) if count else None
    return found


def tensors(onnxd, path, rng):
    """Differences of all tensors by name, against the reference kernels. Rewrites would give them other names."""
    with tempfile.TemporaryDirectory() as out:
        done = [onnxd, "convert", path, "--stop-after-rewrite", "0", "--out", out]
        subprocess.run(done, capture_output=True)
        graph = onnx.load(os.path.join(out, "model.onnx"))
    made = interpreter(path, "reference", keep=True)
    inputs = next(iter(recorded(path, made.get_input_details())), None)
    invoke(made, inputs or [draw(rng, d) for d in made.get_input_details()])
    inputs = [made.get_tensor(d["index"]) for d in made.get_input_details()]
    listed = {o.name for o in graph.graph.output}
    names = [o for n in graph.graph.node for o in n.output if o and o not in listed]
    graph.graph.output.extend(onnx.ValueInfoProto(name=n) for n in names)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(graph.SerializeToString(), options, providers=["CPUExecutionProvider"])
    got = dict(zip(
        [o.name for o in session.get_outputs()],
        session.run(None, {i.name: a for i, a in zip(session.get_inputs(), inputs)}),
    ))
    alike = {}
    for name, array in got.items():
        alike.setdefault(re.sub(r"(_[0-9]+)?(_relaid)?$", "", name), []).append(array)
    for detail in made.get_tensor_details():
        name = detail["name"].split(";")[0]
        want = made.get_tensor(detail["index"])
        if len(detail["quantization_parameters"]["scales"]) != 1 or want.size == 0:
            continue
        fits = [a for a in alike.get(name, []) if a.size == want.size and a.dtype == want.dtype]
        if fits:
            # Channels may come first.
            first = [a.transpose(0, 2, 3, 1) if a.ndim == 4 and a.shape != want.shape else a for a in fits]
            found = [difference(a.reshape(want.shape), want, 1.0) for a in first]
            most, same, size = min(found)
            print(f"    {most:6.1f} steps {100.0 * same / size:6.1f} % equal  {name}")


def main():
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("onnxd")
    asked.add_argument("paths", nargs="+")
    asked.add_argument("--runs", type=int, default=4)
    asked.add_argument("--most", type=float, default=2.0)
    asked.add_argument("--tensors", action="store_true")
    asked = asked.parse_args()
    files = []
    for path in asked.paths:
        inside = glob.glob(os.path.join(path, "**", "*.tflite"), recursive=True)
        files += sorted(inside) if os.path.isdir(path) else [path]
    failed = compared = 0
    for path in files:
        rng = np.random.default_rng(7)
        with tempfile.TemporaryDirectory() as out:
            done = subprocess.run([asked.onnxd, "convert", path, "--out", out], capture_output=True)
            model = os.path.join(out, "model.onnx")
            label = os.path.join(os.path.basename(os.path.dirname(path)), os.path.basename(path))
            if not os.path.exists(model):
                print(f"{label}: not converted (exit {done.returncode})")
                failed += 1
                continue
            try:
                found = judge(path, model, asked.runs, rng)
            except Exception as why:  # a model that does not run is a result too
                print(f"{label}: does not run: {str(why).splitlines()[0][:150]}")
                failed += 1
                continue
            figures = [f for f in found.values() if isinstance(f, tuple)]
            if not figures and all(f is None for f in found.values()):
                continue
            texts = [
                f"{k} {f[0]:.1f} steps, {f[1]:.1f} % equal" if isinstance(f, tuple) else f"{k} {f}"
                for k, f in found.items()
            ]
            bad = all(f[0] > asked.most for f in figures)
            failed += bad
            compared += bool(figures)
            print(f"{label}: {'; '.join(texts)}{'  FAR' if bad else ''}", flush=True)
            if asked.tensors:
                tensors(asked.onnxd, path, rng)
    print(f"{compared} files compared; {failed} are not converted, do not run, or differ by more than {asked.most:g} steps")
    return 0 if compared and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
