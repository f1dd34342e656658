#!/usr/bin/env python3
"""Judge the conversion of N2D2 networks as their authors wrote them, with weights made up here.

    n2d2_samples.py --onnxd target/release/onnxd --models FOLDER [--match VGG] [--keep DIR] [--samples 4]

Takes every INI file of the folder (N2D2's own `models`), with the templates beside it. Each is converted
- with made-up weights (`source.random`), in floating point, with and without passes;
- again from weights files: the parameters of the model without passes, written as text in N2D2's order;
- in 8-bit integers, from those files and a few random images.
Each model must pass `onnx.checker` with full_check and load in ONNX Runtime. The three float models must agree there, and
`onnxd eval` must agree with it. The integer model must give the same integers in both, and its outputs must be the float
ones in steps: the table says with what ratio of signal to noise, after the best common scale (before a softmax, which
makes noise of everything). A file that is refused is shown with the reason. The status is 1 if a file was accepted and
then judged wrong, or if no float model came out of a file that `--expect` (comma-separated names) lists.
ONNX Runtime computes the integer model's twin without signs, see `integer_graphs.py`.
Needs numpy, ml_dtypes, onnx, onnxruntime.
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

from integer_graphs import twin_of

onnxruntime.set_default_logger_severity(4)
TEMPLATES = (".tpl",)
NOISE_MAX_DB = 10.0


class Refused(Exception):
    """The program did not convert the file; the text is its reason."""


class Wrong(Exception):
    """The program converted the file, and the judges object."""


def run(command, **more):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, **more)


def convert(onnxd, drop, out, *sets):
    command = [onnxd, "convert", drop, "--out", out]
    for item in sets:
        command += ["--set", item]
    began = time.perf_counter()
    done = run(command)
    took = time.perf_counter() - began
    # Findings leave a model.
    if done.returncode not in (0, 1):
        try:
            with open(os.path.join(out, "report.json"), encoding="utf-8") as file:
                found = json.load(file)["diagnostics"]
            errors = [d for d in found if d.get("severity") == "error"] or found
            raise Refused(f'{errors[0]["code"]} {errors[0]["message"]} (+{len(errors) - 1})')
        except (OSError, KeyError, IndexError, ValueError):
            raise Refused(done.stderr.strip().splitlines()[-1] if done.stderr else "no reason") from None
    return os.path.join(out, "model.onnx"), took


def session(path, extra=(), twin=False):
    """The model in ONNX Runtime without optimization, with more outputs."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    given = path
    if extra or twin:
        model = onnx.load(path)
        for name in extra:
            model.graph.output.append(onnx.ValueInfoProto(name=name))
        given = (twin_of(model) if twin else model).SerializeToString()
    return onnxruntime.InferenceSession(given, options, ["CPUExecutionProvider"])


def compute(path, feeds, extra=(), twin=False):
    s = session(path, extra, twin)
    names = [o.name for o in s.get_outputs()]
    return dict(zip(names, s.run(None, {i.name: feeds[i.name] for i in s.get_inputs()})))


def evaluate(onnxd, path, feeds, folder):
    given, made = os.path.join(folder, "in.npz"), os.path.join(folder, "made.npz")
    np.savez(given, **feeds)
    done = run([onnxd, "eval", path, "--inputs", given, "--out", made])
    if done.returncode != 0:
        raise Wrong("eval: " + done.stderr.strip())
    return dict(np.load(made))


def check(path):
    try:
        onnx.checker.check_model(path, full_check=True)
    except Exception as problem:  # the checker raises what it likes
        raise Wrong(f"checker: {problem}") from None


def near(what, found, expected):
    """Floats agree apart from the order of sums."""
    for name, a in expected.items():
        b = found[name]
        if a.shape != b.shape:
            raise Wrong(f"{what}: {name} has the shape {b.shape} instead of {a.shape}")
        reach = float(np.abs(a).max()) or 1.0
        if not np.isfinite(a).all() or float(np.abs(a - b).max()) > 2e-4 * reach:
            raise Wrong(f"{what}: {name} differs by {float(np.abs(a - b).max()):.3g} of {reach:.3g}")


def write_text(path, array):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="ascii") as file:
        flat = np.asarray(array, np.float32).ravel()
        for at in range(0, flat.size, 65536):
            file.write(" ".join(map(repr, flat[at:at + 65536].tolist())) + "\n")


def weights_files(path, folder):
    """Writes the parameters of a model without passes as N2D2 does; gives how many layers have some.

    Only what N2D2 stores as the model does: dense and grouped kernels and matrices, outputs first. Partial connection
    maps are stored without their zeros, transposed kernels with their two leading axes exchanged.
    """
    model = onnx.load(path)
    constants = {i.name: numpy_helper.to_array(i) for i in model.graph.initializer}
    layers = 0
    for node in model.graph.node:
        values = [constants.get(i) for i in node.input[1:]]
        name = node.input[1].rsplit("_", 1)[0] if len(node.input) > 1 else ""
        if node.op_type in ("Conv", "ConvTranspose", "Gemm") and values and values[0] is not None:
            w = values[0]
            if node.op_type == "ConvTranspose":
                w = w.swapaxes(0, 1)
            connected = w.any((2, 3)) if w.ndim == 4 and node.op_type == "Conv" else np.ones(1, bool)
            # A random kernel of one number may be zero as well.
            if connected.mean() < 0.99:
                w = w[connected]
            write_text(os.path.join(folder, f"{name}_weights.syntxt"), w)
            if len(values) > 1 and values[1] is not None:
                write_text(os.path.join(folder, f"{name}_biases.syntxt"), values[1])
            layers += 1
        elif node.op_type == "BatchNormalization":
            for role, value in zip(("scales", "biases", "means", "variances"), values):
                write_text(os.path.join(folder, f"{name}_{role}.syntxt"), value)
            layers += 1
    return layers


def before_softmax(path):
    """Per output, the tensor to compare: what its softmax reads, or itself."""
    graph = onnx.load(path, load_external_data=False).graph
    maker = {o: n for n in graph.node for o in n.output}
    found = {}
    for output in graph.output:
        at = output.name
        while at in maker and maker[at].op_type in ("Softmax", "Transpose", "Reshape", "Flatten"):
            at = maker[at].input[0]
            if maker.get(at) is not None and maker[at].op_type == "Softmax":
                continue
        softmax = output.name in maker and at != output.name
        found[output.name] = at if softmax else output.name
    return found


def ratio(real, steps):
    """Signal to noise in dB, after the best common scale."""
    real, steps = real.astype(np.float64).ravel(), steps.astype(np.float64).ravel()
    if not real.any() and not steps.any():
        return 300.0
    power = float(steps @ steps)
    noise = real - steps * (float(real @ steps) / power if power else 0.0)
    return 10 * np.log10(float(real @ real) / max(float(noise @ noise), 1e-300))


def metadata(path):
    return {p.key: p.value for p in onnx.load(path, load_external_data=False).metadata_props}


def bounds(path):
    """The range that the model declares for its inputs, or that of 8-bit pictures."""
    found = re.match(r"\[(\S+), (\S+)\]", metadata(path).get("onnxd.input.range", ""))
    return tuple(map(float, found.groups())) if found else (0.0, 1.0)


def quantized(path, name, array):
    """What a program feeds to an integer model: `uint8, one step is 0.0039`."""
    kind, step = re.match(r"(?:(?:\d+) bits in )?(\w+), one step is (\S+)", metadata(path)[f"onnxd.quantization.input.{name}"]).groups()
    info = np.iinfo(kind)
    return np.clip(np.trunc(array / float(step)), info.min, info.max).astype(kind)


class Sample:
    """One file, in a folder of its own."""

    def __init__(self, onnxd, ini, folder, samples):
        self.onnxd, self.folder, self.samples = onnxd, folder, samples
        self.drop = os.path.join(folder, "drop")
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(self.drop)
        shutil.copy(ini, self.drop)
        here = os.path.dirname(ini)
        for name in os.listdir(here):
            if name.endswith(TEMPLATES):
                shutil.copy(os.path.join(here, name), self.drop)
        self.row = {"float": "-", "files": "-", "int8": "-", "dB": "-", "s": "-", "shapes": "", "reason": ""}

    def path(self, name):
        return os.path.join(self.folder, name)

    def judge(self):
        self.row["float"] = "refused"
        plain, took = convert(self.onnxd, self.drop, self.path("plain"), "source.random=true", "passes.profile=none")
        self.row["s"] = f"{took:.1f}"
        self.row["float"] = "WRONG"
        check(plain)
        graph = session(plain)
        sizes = {i.name: [self.samples] + list(i.shape[1:]) for i in graph.get_inputs()}
        rng = np.random.default_rng(len(self.drop))
        low, high = bounds(plain)
        feeds = {name: rng.uniform(low, high, size).astype(np.float32) for name, size in sizes.items()}
        expected = compute(plain, feeds)
        outputs = ", ".join("x".join(map(str, v.shape[1:])) for v in expected.values())
        self.row["shapes"] = ", ".join("x".join(map(str, s[1:])) for s in sizes.values()) + " -> " + outputs
        tuned, _ = convert(self.onnxd, self.drop, self.path("float"), "source.random=true")
        check(tuned)
        near("with passes", compute(tuned, feeds), expected)
        one = {name: value[:1] for name, value in feeds.items()}
        near("eval", evaluate(self.onnxd, tuned, one, self.folder), {k: v[:1] for k, v in expected.items()})
        self.row["float"] = "ok"
        self.from_files(plain, feeds, expected)
        self.integers(tuned, feeds)

    def from_files(self, plain, feeds, expected):
        self.row["files"] = "WRONG"
        layers = weights_files(plain, os.path.join(self.drop, "weights"))
        found, _ = convert(self.onnxd, self.drop, self.path("files"))
        near("from weights files", compute(found, feeds), expected)
        self.row["files"] = str(layers)

    def integers(self, tuned, feeds):
        self.row["int8"] = "refused"
        np.savez(os.path.join(self.drop, "calib.npz"), **feeds)
        path, took = convert(self.onnxd, self.drop, self.path("int8"), "nbbits=8")
        self.row["s"] += f" + {took:.1f}"
        self.row["int8"] = "WRONG"
        ratios = self.ratios(tuned, path, feeds)
        self.row["dB"] = ",".join(f"{r:.0f}" for r in ratios)
        if min(ratios) < NOISE_MAX_DB:
            raise Wrong(f"the integers have {min(ratios):.1f} dB")
        self.row["int8"] = "ok"

    def ratios(self, tuned, path, feeds):
        """Judges an integer model, and gives its outputs' ratios of signal to noise."""
        check(path)
        given = {i.name: quantized(path, i.name, feeds[i.name]) for i in session(path).get_inputs()}
        real_at, step_at = before_softmax(tuned), before_softmax(path)
        steps = compute(path, given, [v for v in step_at.values() if v not in step_at], twin=True)
        real = compute(tuned, feeds, [v for v in real_at.values() if v not in real_at])
        made = evaluate(self.onnxd, path, {k: v[:1] for k, v in given.items()}, self.folder)
        for name, value in made.items():
            if value.dtype.kind in "iu" and not np.array_equal(value, steps[name][:1]):
                raise Wrong(f"eval gives other integers for {name} than ONNX Runtime")
        return [ratio(real[real_at[name]], steps[step_at[name]]) for name in real_at]


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--onnxd", required=True)
    options.add_argument("--models", required=True)
    options.add_argument("--match", default="")
    options.add_argument("--expect", default="")
    options.add_argument("--samples", type=int, default=4)
    options.add_argument("--keep")
    given = options.parse_args()
    onnxd = os.path.abspath(given.onnxd)
    place = given.keep or tempfile.mkdtemp()
    expected, bad = set(filter(None, given.expect.split(","))), []
    for name in sorted(os.listdir(given.models)):
        if not name.endswith(".ini") or given.match not in name:
            continue
        sample = Sample(onnxd, os.path.join(given.models, name), os.path.join(place, name[:-4]), given.samples)
        try:
            sample.judge()
        except Refused as reason:
            sample.row["reason"] = str(reason)
        except Wrong as reason:
            sample.row["reason"] = "WRONG " + str(reason)
            bad.append(name)
        if sample.row["float"] != "ok" and name in expected:
            bad.append(name)
        r = sample.row
        print(f'{name:48} float {r["float"]:8} files {r["files"]:6} int8 {r["int8"]:8} {r["dB"]:>9} dB '
              f'{r["s"]:>12} s  {r["shapes"]}  {r["reason"][:300]}', flush=True)
        if not given.keep:
            shutil.rmtree(sample.folder, ignore_errors=True)
    print("wrong:", ", ".join(sorted(set(bad))) or "none")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
