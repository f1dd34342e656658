#!/usr/bin/env python3
"""Judge conversion between opsets: ONNX's checker and ONNX Runtime say whether it kept meaning.

    opset_conversion.py --onnxd target/release/onnxd [--match '*'] [--targets 7,9,...] [--keep DIR] [--no-peer] [--verbose]

Cases are the standard's node tests, as they are and with their integer inputs as constants, and single operators of
old opsets with their attributes of then (`opset_cases.py`). Each is converted to every target with all passes off. A
conversion must
- pass `onnx.checker` with full_check, have the target as its opset, and keep names and types of inputs and outputs,
- give the same outputs as the original in ONNX Runtime without graph optimization (in ONNX's reference evaluator where
  the runtime has no kernel): equal, or within 1e-6 of the largest magnitude where operators were decomposed,
or be refused by N0505. Models that the checker or every engine refuses as they are, are left out. The same cases are given to `onnx.version_converter` for comparison.
The last lines count what was equal, close, refused, not run by any engine, and wrong; anything wrong is a failure.
"""
import argparse
import collections
import fnmatch
import multiprocessing
import os
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.backend.test.case.node import collect_testcases
from onnx.reference import ReferenceEvaluator

import opset_cases

warnings.filterwarnings("ignore")
TARGETS = [7, 9, 11, 13, 17, 18, 20, 21, 22]
NEAR = 1e-6
# Below these opsets the reference evaluator gives operators the defaults, or the meaning, of newer ones.
UNTRUSTED_BELOW = {"RoiAlign": 16, "Selu": 6, "AveragePool": 7, "BatchNormalization": 14}
RANDOM = ("Bernoulli", "RandomNormal", "RandomUniform", "Multinomial")


def opset_of(model):
    return next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), None)


def cases(match):
    seen = set()
    for test in collect_testcases(None):
        if test.name in seen or not test.data_sets or opset_of(test.model) is None:
            continue
        seen.add(test.name)
        if any(n.op_type.startswith(RANDOM) for n in test.model.graph.node) or "training" in test.name:
            continue
        inputs = test.data_sets[0][0]
        if not all(isinstance(v, np.ndarray) and v.dtype.kind in "biuf" and v.dtype.itemsize <= 8 for v in inputs):
            continue
        model = onnx.ModelProto()
        model.CopyFrom(test.model)
        model.ir_version = min(model.ir_version, 10)
        feeds = dict(zip([i.name for i in model.graph.input], inputs))
        if fnmatch.fnmatch(test.name, match):
            yield test.name, model, feeds
        fixed = frozen(model, feeds)
        if fixed is not None and fnmatch.fnmatch(test.name + "_fixed", match):
            yield test.name + "_fixed", *fixed
    for name, model, feeds in opset_cases.cases():
        if fnmatch.fnmatch(name, match):
            yield name, model, feeds


def frozen(model, feeds):
    """The model with its small inputs but the first as initializers."""
    first = model.graph.input[0].name if model.graph.input else None
    small = {k: v for k, v in feeds.items() if k != first and v.ndim <= 1}
    if not small:
        return None
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    kept = [i for i in copy.graph.input if i.name not in small]
    del copy.graph.input[:]
    copy.graph.input.extend(kept)
    copy.graph.initializer.extend(numpy_helper.from_array(v, k) for k, v in small.items())
    return copy, {k: v for k, v in feeds.items() if k not in small}


def run_runtime(model, feeds):
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def run_reference(model, feeds):
    return ReferenceEvaluator(model).run(None, feeds)


def results(model, feeds):
    """What each engine gives; an engine without a kernel is left out."""
    found = {}
    engines = [("runtime", run_runtime), ("reference", run_reference)]
    if any(opset_of(model) < UNTRUSTED_BELOW.get(n.op_type, 0) for n in model.graph.node):
        engines.pop()
    for name, run in engines:
        try:
            found[name] = run(model, feeds)
        except Exception:
            pass
    return found


def distance(got, want):
    """0 if equal, else the largest difference relative to the largest magnitude; a text if it cannot be compared."""
    worst = 0.0
    for g, w in zip(got, want):
        if w is None or isinstance(w, list):
            same = g is None if w is None else isinstance(g, list) and len(g) == len(w) and distance(g, w) == 0
            if not same:
                return "sequences differ"
            continue
        g, w = np.asarray(g), np.asarray(w)
        if g.shape != w.shape or g.dtype != w.dtype:
            return f"{g.dtype}{g.shape}, expected {w.dtype}{w.shape}"
        if g.tobytes() == w.tobytes():
            continue
        if w.dtype.kind not in "fV" and "float" not in str(w.dtype):
            if not np.array_equal(g, w):
                return "integers differ"
            continue
        unit = 1e-3 if w.dtype.itemsize == 2 else 1.0  # half precision: one unit in the last place
        g, w = g.astype(np.float64), w.astype(np.float64)
        if not np.array_equal(np.isnan(g), np.isnan(w)) or not np.array_equal(np.isinf(g), np.isinf(w)):
            return "infinities differ"
        finite = np.isfinite(w)
        if finite.any():
            scale = max(np.abs(w[finite]).max(), 1e-3)
            worst = max(worst, unit * np.abs(g - w)[finite].max() / scale)
    return worst


def checked(model):
    """What the checker finds wrong."""
    try:
        onnx.checker.check_model(model, full_check=True)
        return ""
    except Exception as e:
        return "checker: " + str(e).strip().replace("\n", " ")[:200]


def judge(model, converted, target, feeds, wanted):
    """A verdict and its reason."""
    if broken := checked(converted):
        return "wrong", broken
    if opset_of(converted) != target:
        return "wrong", f"its opset is {opset_of(converted)}"
    # Before IR version 4 constants had to be listed as inputs.
    listed = {t.name for t in model.graph.initializer} if model.ir_version < 4 else set()
    for old, new in ((model.graph.input, converted.graph.input), (model.graph.output, converted.graph.output)):
        sides = [[(i.name, i.type.tensor_type.elem_type) for i in side if i.name not in listed] for side in (old, new)]
        if sides[0] != sides[1]:
            return "wrong", f"{sides[0]} became {sides[1]}"
    got = results(converted, feeds)
    common = [e for e in wanted if e in got]
    if not common:
        return "not run", ""
    distances = [distance(got[e], wanted[e]) for e in common]
    # Engines have faults of their own in operators that no model uses; the better one counts where both ran.
    best = min(distances, key=lambda d: np.inf if isinstance(d, str) else d)
    if isinstance(best, str) or best > NEAR:
        return "wrong", str(best)
    return ("equal" if best == 0 else "close"), ""


def convert(onnxd, path, out, target):
    done = subprocess.run(
        [onnxd, "convert", path, "--out", out, "--set", f"export.opset={target}", "--set", "passes.profile=none"],
        capture_output=True, timeout=120, stdin=subprocess.DEVNULL)
    text = (done.stdout + done.stderr).decode(errors="replace").strip()
    if done.returncode in (0, 1):
        return onnx.load(os.path.join(out, "model.onnx")), ""
    line = next((l for l in text.splitlines() if "N0505" in l), text[:300])
    return None, line if done.returncode == 3 and "N0505" in text else f"exit {done.returncode}: {line}"


def peer_loop(pipe):
    from onnx import version_converter

    while True:
        model, target = pipe.recv()
        try:
            pipe.send(version_converter.convert_version(onnx.ModelProto.FromString(model), target).SerializeToString())
        except BaseException as e:
            pipe.send(str(e)[:100])


class Peer:
    """`onnx.version_converter` in a process of its own, because it may abort."""

    def __init__(self):
        self.process = None

    def convert(self, model, target):
        if self.process is None:
            self.pipe, other = multiprocessing.Pipe()
            self.process = multiprocessing.Process(target=peer_loop, args=(other,), daemon=True)
            self.process.start()
            other.close()
        try:
            self.pipe.send((model.SerializeToString(), target))
            answer = self.pipe.recv() if self.pipe.poll(60) else "it hangs"
        except (EOFError, OSError):
            answer = "it crashed"
        if answer in ("it hangs", "it crashed"):
            self.process.kill()
            self.process = None
        return onnx.ModelProto.FromString(answer) if isinstance(answer, bytes) else None


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--onnxd", required=True)
    args.add_argument("--match", default="*")
    args.add_argument("--targets", default=",".join(map(str, TARGETS)))
    args.add_argument("--keep")
    args.add_argument("--no-peer", action="store_true")
    args.add_argument("--verbose", action="store_true")
    args = args.parse_args()
    targets = [int(t) for t in args.targets.split(",")]
    counts, peers, refused = collections.Counter(), collections.Counter(), collections.Counter()
    peer = None if args.no_peer else Peer()
    wrong, engineless, invalid = [], 0, 0
    for name, model, feeds in cases(args.match):
        if checked(model):
            invalid += 1
            continue
        wanted = results(model, feeds)
        if not wanted:
            engineless += 1
            continue
        own = opset_of(model)
        for target in [t for t in targets if t != own]:
            way = "up" if target > own else "down"
            with tempfile.TemporaryDirectory() as work:
                path = os.path.join(work, "model.onnx")
                onnx.save(model, path)
                converted, why = convert(args.onnxd, path, os.path.join(work, "out"), target)
            if converted is None:
                verdict = "refused" if why.startswith("N0505") or "N0505" in why and not why.startswith("exit") else "wrong"
            else:
                verdict, why = judge(model, converted, target, feeds, wanted)
            counts[way, verdict] += 1
            if verdict == "refused":
                refused[" ".join(sorted({n.op_type for n in model.graph.node}))[:60], way] += 1
            if verdict == "wrong":
                wrong.append(f"{name}: {own} -> {target}: {why}")
                print("WRONG", wrong[-1], flush=True)
                if args.keep and converted is not None:
                    os.makedirs(args.keep, exist_ok=True)
                    onnx.save(converted, os.path.join(args.keep, f"{name}_{own}_{target}.onnx"))
            if args.verbose:
                print(f"{verdict:8} {name}: {own} -> {target} {why}", flush=True)
            if peer is not None:
                other = peer.convert(model, target)
                verdict = "refused" if other is None else judge(model, other, target, feeds, wanted)[0]
                peers[way, verdict] += 1
    verdicts = ["equal", "close", "not run", "refused", "wrong"]
    for who, found in (("onnxd", counts), ("onnx.version_converter", peers)):
        for way in ("up", "down"):
            line = ", ".join(f"{found[way, v]} {v}" for v in verdicts)
            if sum(found[way, v] for v in verdicts):
                print(f"{who:23} {way:5} {line}")
    most = ", ".join(f"{op} {way} {n}" for (op, way), n in refused.most_common(40))
    print(f"refused most: {most}")
    print(f"{engineless} cases that no engine runs and {invalid} that the checker refuses were left out")
    print(f"{len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
