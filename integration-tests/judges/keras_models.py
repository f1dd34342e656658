#!/usr/bin/env python3
"""Judge Keras models -> ONNX on all of keras.applications with random weights: Keras itself says what they give.

    keras_models.py --onnxd target/release/onnxd [--keras 3|2] [--match REGEX] [--formats keras,h5] [--peer]
                    [--limit PARAMETERS] [--keep DIR] [--save FILE]

Each model is made with random weights, also for what training would have counted, and saved as `.keras` and `.h5`. ONNX
Runtime must give Keras' values on two pictures, as far as pictures that differ in the last bits give the same.
`--peer` converts the model with tf2onnx, too: its numbers of nodes and Transposes stand beside onnxd's. `--keras 2`
takes tf_keras. Needs keras, tensorflow, numpy, onnx and onnxruntime, and tf2onnx for `--peer`.
"""
import argparse
import collections
import inspect
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import zlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np
import onnx
import onnxruntime as ort

# The largest difference that rounding may excuse, relative to the largest number.
NOISE_MAX = 0.02


def makers(module):
    """The functions that make a model, once each."""
    found = {}
    for group in sorted(vars(module)):
        for name, maker in sorted(vars(getattr(module, group)).items() if inspect.ismodule(getattr(module, group)) else []):
            if name[0].isupper() and inspect.isfunction(maker) and "weights" in inspect.signature(maker).parameters:
                found.setdefault(name, maker)
    return found


def randomized(model, seed):
    """Weights that keep numbers of all layers near 1, and are no defaults."""
    rng = np.random.default_rng(seed)
    for weight in model.weights:
        name, shape = weight.name.split("/")[-1].split(":")[0], tuple(weight.shape)
        if "variance" in name:
            value = rng.uniform(0.5, 1.5, shape)
        elif "gamma" in name:
            value = rng.uniform(0.8, 1.2, shape)
        elif "mean" in name or "beta" in name or "bias" in name:
            value = rng.normal(0, 0.1, shape)
        elif "kernel" in name and len(shape) > 1:
            depthwise = "depthwise" in name
            reach = np.prod(shape[:-2]) if depthwise else np.prod(shape[:-1])
            value = rng.normal(0, 1, shape) * np.sqrt(1.5 / reach)
        else:
            continue
        weight.assign(value.astype("float32"))
    return model


def session_of(path):
    options = ort.SessionOptions()
    options.log_severity_level = 3
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def counted(path):
    nodes = onnx.load(path, load_external_data=False).graph.node
    return len(nodes), sum(node.op_type == "Transpose" for node in nodes)


def onnxd(args, source, folder):
    """Where the model is, and CPU seconds and peak memory of the conversion."""
    out = os.path.join(folder, "out")
    shutil.rmtree(out, ignore_errors=True)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ran = subprocess.run([args.onnxd, "convert", source, "--out", out], capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if ran.returncode:
        lines = [line for line in (ran.stdout + ran.stderr).splitlines() if re.match(r"[A-Z]\d{4}", line)]
        raise RuntimeError(f"refused: {lines[:3]}")
    return os.path.join(out, "model.onnx"), cpu


def judged(args, name, maker, folder):
    """One line for each format."""
    options = {"weights": None}
    if "classifier_activation" in inspect.signature(maker).parameters:
        options["classifier_activation"] = "linear"
    model = maker(**options)
    if args.limit and model.count_params() > args.limit:
        return []
    randomized(model, zlib.crc32(name.encode()))
    shape = [2 if n is None else n for n in model.inputs[0].shape]
    picture = np.random.default_rng(1).uniform(0, 255, [2] + shape[1:]).astype("float32")
    wanted = np.asarray(model(picture, training=False))
    # Random weights may blow up what rounding changes: Keras itself says how much.
    again = np.asarray(model(picture * np.float32(1 + 1e-6), training=False))
    noise = float(np.abs(again - wanted).max() / max(1e-6, np.abs(wanted).max()))
    peer = None
    if args.peer:
        import tf2onnx
        import tensorflow as tf
        spec = [tf.TensorSpec([None] + shape[1:], tf.float32, name="picture")]
        made, _ = tf2onnx.convert.from_function(tf.function(lambda x: model(x, training=False)), spec, opset=18, large_model=False)
        peer = len(made.graph.node), sum(node.op_type == "Transpose" for node in made.graph.node)
    lines = []
    for ending in args.formats.split(","):
        source = os.path.join(folder, f"{name}.{ending}")
        model.save(source)
        line = {"model": name, "format": ending, "parameters": model.count_params(), "peer": peer, "noise": noise}
        try:
            path, line["cpu"] = onnxd(args, source, folder)
            line["nodes"] = counted(path)
            session = session_of(path)
            got = session.run(None, {session.get_inputs()[0].name: picture})[0]
            line["error"] = float(np.abs(got - wanted).max() / max(1e-6, np.abs(wanted).max()))
            right = got.shape == wanted.shape and line["error"] < max(args.tolerance, min(10 * noise, NOISE_MAX))
            line["verdict"] = "right" if right else "WRONG"
            if not right and 10 * noise > NOISE_MAX:
                line["verdict"] = "no judgement: rounding alone changes the numbers"
            if not np.isfinite(wanted).all() or np.abs(wanted).max() < 1e-6:
                line["verdict"] = "no judgement: numbers vanish or overflow"
        except Exception as e:
            line["verdict"] = f"FAILED: {e}"[:400]
        lines.append(line)
        print(json.dumps(line), flush=True)
        if args.keep and line["verdict"] != "right":
            shutil.copy(source, args.keep)
        os.remove(source)
    return lines


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--onnxd", required=True)
    parser.add_argument("--keras", type=int, default=3)
    parser.add_argument("--match", default="")
    parser.add_argument("--formats", default="keras,h5")
    parser.add_argument("--limit", type=int, default=0)
    parser.add_argument("--tolerance", type=float, default=1e-3)
    parser.add_argument("--peer", action="store_true")
    parser.add_argument("--keep")
    parser.add_argument("--save")
    args = parser.parse_args()
    if args.keras == 2:
        import tf_keras as keras
    else:
        import keras
    lines = []
    for name, maker in makers(keras.applications).items():
        if re.search(args.match, name):
            with tempfile.TemporaryDirectory() as folder:
                lines += judged(args, name, maker, folder)
            keras.backend.clear_session()
    verdicts = collections.Counter(line["verdict"].split(":")[0] for line in lines)
    more = [f"{line['model']}.{line['format']}" for line in lines
            if line["peer"] and "nodes" in line and any(a > b for a, b in zip(line["nodes"], line["peer"]))]
    print(dict(verdicts), "more nodes or Transposes than the peer:", more)
    if args.save:
        with open(args.save, "w") as file:
            json.dump(lines, file, indent=1)
    sys.exit(any(line["verdict"] != "right" for line in lines))


if __name__ == "__main__":
    main()
