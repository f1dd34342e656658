#!/usr/bin/env python3
"""Judge the export of Neural Compressor's forms: `inc-qdq` and `inc-qlinear`, three recipes, static and dynamic.

    inc_recipes.py --onnxd target/release/onnxd --shared ../shared [--match 'digits_seq/*']

- Every result passes the checker, and its quantized sites (what is read, the product, what follows) are those of
  Neural Compressor's own files of the same network, as often. Names, numbers and the type of weights do not count.
- ONNX Runtime, without optimizations and with all, gives outputs whose distance from the float model's is at most 1 dB
  worse than Neural Compressor's figure.
- Models that are quantized already, its own files and ones with fake quantization on weights in float, keep every
  integer of their weights and, within rounding, their outputs.
Needs numpy, onnx, onnxruntime.
"""
import argparse
import collections
import fnmatch
import os
import re
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

RECIPES = ("QDQ_OP_FP32_BIAS", "QDQ_OP_INT32_BIAS", "QDQ_OP_FP32_BIAS_QDQ")
FORMATS = {"QDQ": "inc-qdq", "QLinear": "inc-qlinear"}
SHORT = {"QuantizeLinear": "Q", "DequantizeLinear": "D", "DynamicQuantizeLinear": "DQL"}
PRODUCTS = ("Conv", "Gemm", "MatMul", "QLinearConv", "QGemm", "QLinearMatMul", "MatMulInteger", "MatMulIntegerToFloat")

# Neural Compressor's SQNR in dB by network, form and recipe; where it quantizes nothing, ONNX Runtime's.
STATIC = {
    "digits_seq": {f: dict(zip(RECIPES, (37.99, 38.03, 36.35))) for f in FORMATS},
    "digits_mlp": {"QDQ": dict.fromkeys(RECIPES, 39.52), "QLinear": dict.fromkeys(RECIPES, 38.05)},
    "digits_cnn": {"QDQ": dict.fromkeys(RECIPES, 30.65), "QLinear": dict.fromkeys(RECIPES, 29.03)},
}
DYNAMIC = {"digits_seq": 41.98, "digits_mlp": 47.57, "digits_cnn": 45.77}
SLACK_DB = 1.0
# What is quantized already differs by the rounding of biases and of sums alone.
KEPT_DB = 40.0

# Optimized, ONNX Runtime adds two products of a byte in 16 bits where the processor has no instruction for sums in 32, and
# large weights saturate. What that costs is not the model's.
EXACT = "vnni" in open("/proc/cpuinfo").read()
# Also without optimizations, operators on integers saturate there.
PROCESSOR_DB = 0.0 if EXACT else 0.1
LEVELS = [onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL]
LEVELS += [onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL] if EXACT else []

Node = collections.namedtuple("Node", "op inputs outputs")


def convert(onnxd, drop, params, out):
    """The path of the written model, or None and the complaint."""
    os.makedirs(os.path.join(out, "in"))
    copies = [shutil.copy(path, os.path.join(out, "in")) for path in drop]
    settings = os.path.join(out, "params.toml")
    with open(settings, "w") as f:
        f.write(params)
    command = [onnxd, "convert", *copies, "--params", settings, "--out", os.path.join(out, "out")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode not in (0, 1):
        return None, (done.stderr or done.stdout).strip().replace("\n", " | ")[:300]
    return os.path.join(out, "out", "model.onnx"), None


def of_model(model):
    """Nodes and the names of constants."""
    nodes = [Node(n.op_type, list(n.input), list(n.output)) for n in model.graph.node]
    constants = {t.name for t in model.graph.initializer}
    constants |= {n.outputs[0] for n in nodes if n.op == "Constant"}
    return nodes, constants


def of_text(path):
    """The same of a listing, `Op(a, w<float32[2]>) -> y`."""
    nodes, constants = [], set()
    for line in open(path):
        found = re.match(r"(?:[\w.]+[.:])?(\w+)\((.*)\) -> (.*?)(  \{.*\})?$", line.rstrip("\n"))
        if not found:
            continue
        inputs = []
        for text in re.findall(r"(?:[^,<]|<[^>]*>)+", found[2]):
            name, *constant = text.strip().split("<", 1)
            inputs.append(name)
            constants |= {name} if constant else set()
        nodes.append(Node(found[1], inputs, [o.strip() for o in found[3].split(",")]))
    return nodes, constants


def sites(nodes, constants):
    """How often each form of a product with weights occurs."""
    producer = {o: n for n in nodes for o in n.outputs if o}
    readers = collections.defaultdict(list)
    for n in nodes:
        for i in n.inputs:
            readers[i].append(n)

    def constant(name):
        by = producer.get(name)
        return name in constants or (by is not None and by.op == "DequantizeLinear" and by.inputs[0] in constants)

    def weight(n):
        return n.inputs[3] if n.op.startswith("QLinear") or n.op == "QGemm" else n.inputs[1]

    found = collections.Counter()
    for n in nodes:
        if n.op not in PRODUCTS or not constant(weight(n)):
            continue
        before, at = [], producer.get(n.inputs[0])
        while at is not None and at.op in SHORT:
            before.insert(0, SHORT[at.op])
            at = producer.get(at.inputs[0])
            # What an earlier product computed in integers has no Q of its own.
            if before[0] in ("Q", "DQL"):
                break
        after, at = [], n
        while True:
            following = readers[at.outputs[0]]
            ops = {r.op for r in following}
            if len(ops) != 1 or after[-1:] == ["D"]:
                break
            step = following[0]
            others = [i for i in step.inputs if i != at.outputs[0]]
            paired = step.op in ("QuantizeLinear", "DequantizeLinear", "Cast")
            summed = step.op in ("Add", "Mul") and len(following) == 1 and all(constant(i) for i in others)
            # A bias is added once; what is scaled is what was converted.
            if not paired and not (summed and (step.op not in after) and (step.op == "Add" or "Cast" in after)):
                break
            after.append(SHORT.get(step.op, step.op))
            at = step
        # A pair is between other operators only as a whole, and what follows it belongs to the next site.
        if after[-1:] == ["Q"]:
            after.pop()
        found[" ".join([*before, n.op, *after])] += 1
    return found


def outputs(path, feeds, level):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = level
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return session.run(None, {i.name: feeds[i.name] for i in session.get_inputs()})[0]


def db(got, want):
    a, b = got.astype(np.float64), want.astype(np.float64)
    noise = float(np.sum((a - b) ** 2))
    return 10 * np.log10(float(np.sum(b * b)) / noise) if noise else 999.0


def worst_db(path, feeds, want, levels=LEVELS):
    return min(db(outputs(path, feeds, level), want) for level in levels)


def centered(integers):
    """Weights minus their zero point, whichever of the two types of a byte they have."""
    wide = integers.astype(np.int64)
    return wide - 128 if integers.dtype == np.uint8 else wide


def weights(model):
    """The integers of all matrices and kernels, in any order."""
    held = [numpy_helper.to_array(t) for t in model.graph.initializer]
    return sorted(centered(w).tobytes() for w in held if w.dtype in (np.int8, np.uint8) and w.ndim > 1)


def fake_quantized(path, to):
    """The model with weights in float that the graph rounds while it runs, as training leaves it."""
    model = onnx.load(path)
    graph = model.graph
    held = {t.name: t for t in graph.initializer}
    for n in list(graph.node):
        if n.op_type != "DequantizeLinear" or n.input[0] not in held:
            continue
        q = numpy_helper.to_array(held[n.input[0]])
        if q.dtype != np.int8 or q.ndim < 2:
            continue
        s = numpy_helper.to_array(held[n.input[1]])
        axis = next((a.i for a in n.attribute if a.name == "axis"), 1)
        shape = [-1 if i == axis else 1 for i in range(q.ndim)]
        float_name = n.input[0] + "_trained"
        # Not quite on the grid, as learned weights are.
        drift = np.random.default_rng(1).uniform(-0.4, 0.4, q.shape)
        w = ((q + np.where(np.abs(q) < 127, drift, 0)) * s.reshape(shape if s.size > 1 else [1] * q.ndim)).astype(np.float32)
        graph.initializer.remove(held[n.input[0]])
        graph.initializer.append(numpy_helper.from_array(w, float_name))
        rounds = helper.make_node("QuantizeLinear", [float_name, *n.input[1:]], [n.input[0]], axis=axis)
        graph.node.insert(0, rounds)
    onnx.save(model, to)


class Judge:
    def __init__(self, onnxd, corpus, work, match):
        self.onnxd, self.corpus, self.work, self.match = onnxd, corpus, work, match
        self.passed, self.failed = 0, 0

    def case(self, name, drop, params, verdict):
        """Converts and asks `verdict(path)` for a figure and a complaint."""
        if not fnmatch.fnmatch(name, self.match):
            return None
        path, why = convert(self.onnxd, drop, params, os.path.join(self.work, name.replace("/", "_")))
        figure = ""
        if why is None:
            try:
                onnx.checker.check_model(path, full_check=True)
                figure, why = verdict(path)
            except Exception as e:
                why = f"{type(e).__name__}: {e}"[:300]
        self.passed, self.failed = self.passed + (why is None), self.failed + (why is not None)
        print(f"{'ok  ' if why is None else 'FAIL'} {name} {figure} {why or ''}", flush=True)
        return path

    def float_model(self, net):
        folder = os.path.join(self.corpus, net)
        held = dict(np.load(os.path.join(folder, "test.npz")))
        drop = [os.path.join(folder, "model.onnx"), os.path.join(folder, "calib.npz")]
        return drop, held, held["float_output"]

    def static(self, net, form, recipe):
        drop, feeds, want = self.float_model(net)
        inc = os.path.join(self.corpus, "inc_recipes", f"{net}_static_{form}_{recipe}.txt")
        # Recipes have no effect on networks without MatMul, of which there is one listing for each form.
        if not os.path.exists(inc):
            inc = os.path.join(self.corpus, "inc_recipes", f"{net}_static_{form}_{RECIPES[0]}.txt")
        wanted = sites(*of_text(inc))
        least = STATIC[net][form][recipe] - SLACK_DB

        def verdict(path):
            found = sites(*of_model(onnx.load(path)))
            if found != wanted:
                return "", f"sites {dict(found)}, Neural Compressor's {dict(wanted)}"
            ratio = worst_db(path, feeds, want)
            return f"{ratio:.2f} dB", None if ratio >= least else f"wanted {least:.2f} dB"

        params = f'[quantization.inc]\nquant_format = "{form}"\nrecipe = "{recipe}"\n'
        return self.case(f"{net}/static-{form}-{recipe}", drop, params, verdict)

    def dynamic(self, net, form):
        drop, feeds, want = self.float_model(net)
        least = DYNAMIC[net] - SLACK_DB

        def verdict(path):
            nodes, constants = of_model(onnx.load(path))
            floats = [n.op for n in nodes if n.op in ("MatMul", "Gemm") and n.inputs[1] in constants]
            if floats or not any(n.op == "DynamicQuantizeLinear" for n in nodes):
                return "", f"stay in float: {floats}"
            ratio = worst_db(path, feeds, want)
            return f"{ratio:.2f} dB", None if ratio >= least else f"wanted {least:.2f} dB"

        params = f'[quantization]\nformat = "{FORMATS[form]}"\nmode = "dynamic"\n'
        self.case(f"{net}/dynamic-{form}", drop[:1], params, verdict)

    def carried(self, name, source, feeds, form, recipe, want, least, before=None):
        """A model that is quantized already; `before` holds the integers that it is to have."""

        def verdict(path):
            if weights(onnx.load(path)) != weights(onnx.load(before or source)):
                return "", "the integers of the weights differ"
            ratio = worst_db(path, feeds, want)
            return f"{ratio:.2f} dB", None if ratio >= least - PROCESSOR_DB else f"wanted {least:.2f} dB"

        params = f'[quantization]\nformat = "{FORMATS[form]}"\nmode = "qat"\nrecipe = "{recipe}"\n'
        self.case(f"{name}-{form}-{recipe}", [source], params, verdict)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--onnxd", required=True)
    parser.add_argument("--shared", required=True)
    parser.add_argument("--match", default="*")
    args = parser.parse_args()
    corpus = os.path.join(args.shared, "corpus", "quantization")
    with tempfile.TemporaryDirectory() as work:
        judge = Judge(os.path.abspath(args.onnxd), corpus, work, args.match)
        written = {}
        for net in STATIC:
            for form in FORMATS:
                for recipe in RECIPES:
                    written[net, form, recipe] = judge.static(net, form, recipe)
                judge.dynamic(net, form)
        own = os.path.join(corpus, "inc_recipes")
        files = sorted(f for f in os.listdir(own) if f.endswith(".onnx"))
        feeds = dict(np.load(os.path.join(corpus, "digits_seq", "test.npz")))
        for file in files:
            of = max((r for r in RECIPES if r in file), key=len)
            least = STATIC["digits_seq"]["QDQ"][of] - SLACK_DB
            for form in FORMATS:
                for recipe in RECIPES:
                    given = (f"inc/{file[:-5]}", os.path.join(own, file), feeds, form, recipe)
                    judge.carried(*given, feeds["float_output"], least)
        for net in STATIC:
            before = written[net, "QDQ", RECIPES[0]]
            if before is None:
                continue
            trained = os.path.join(work, f"{net}_trained.onnx")
            fake_quantized(before, trained)
            feeds = dict(np.load(os.path.join(corpus, net, "test.npz")))
            # Both are computed in float.
            want = outputs(before, feeds, LEVELS[0])
            for form in FORMATS:
                judge.carried(f"trained/{net}", trained, feeds, form, RECIPES[0], want, KEPT_DB, before)
        print(f"{judge.passed} passed, {judge.failed} failed")
        sys.exit(1 if judge.failed or not judge.passed else 0)


main()
