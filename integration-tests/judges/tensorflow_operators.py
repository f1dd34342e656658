#!/usr/bin/env python3
"""Judge operators of TensorFlow -> ONNX on random arguments: TensorFlow itself says what each one gives.

    tensorflow_operators.py --onnxd target/release/onnxd [--match REGEX] [--forms constants,inputs,dynamic,folded]
                            [--count 6] [--seed 0] [--batch 16] [--jobs 2] [--keep DIR] [--save FILE]

Each case is one operator of `tf.raw_ops` with attributes, element types and sizes drawn at random
(`tensorflow_arguments.py`), as a frozen graph in several forms: the first tensor is an input and the others are constants,
all are inputs, all are inputs of unknown sizes (but for those of lists of integers), all are constants. ONNX Runtime must give
TensorFlow's values, element types and shapes, as many as there are.

Cases share a file, and are converted again alone if it fails as a whole. Each case ends in one way: equal, refused (by onnxd,
with a reason), wrong, or runtime (ONNX Runtime does not run it). An error that is not a refusal, a model that the checker
rejects, and a converter that gives no answer are wrong. What TensorFlow itself refuses is skipped. `--uncovered` lists the
operators of `schema/operators.txt` without arguments here. The exit status is 1 if a case is wrong. Needs numpy, onnx, onnxruntime and tensorflow.
"""
import argparse
import collections
import json
import multiprocessing
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import numpy as np

from tensorflow_arguments import OPERATORS, RETIRED, Draw

FORMS = ["constants", "inputs", "dynamic", "folded"]
TIMEOUT_S = 240
# The number of axes of their results depends on sizes, which are then known.
BY_SIZE = {"Squeeze"}
# Relative to the number itself, and to the mean of all.
TOLERANCE = {"bfloat16": (4e-2, 1e-2), "float16": (1e-2, 2e-3), "float32": (5e-4, 2e-5), "float64": (1e-6, 1e-7)}
SCHEMA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../plugins/frontend-tensorflow/src/schema/operators.txt")


class Case:
    """One operator with arguments: a graph, what it is fed, and what it gives."""

    def __init__(self, tf, name, number, form, seed):
        self.name, self.number, self.form = name, number, form
        draw = Draw(f"{seed} {name} {number}")
        make, self.checks = OPERATORS[name]
        tensors, attributes = make(draw, name)
        self.about = f"{describe(tensors)} {attributes}"
        self.feeds, graph = {}, tf.Graph()
        with graph.as_default():
            arguments = {key: self.placed(tf, key, value) for key, value in tensors.items()}
            found = getattr(tf.raw_ops, RETIRED.get(name, name))(**arguments, **attributes, name="op")
            outputs = [t for t in tf.nest.flatten(found) if t is not None]
            ends = [tf.identity(t, name=f"out_{i}") for i, t in enumerate(outputs)]
        with tf.compat.v1.Session(graph=graph) as session:
            runs = [session.run(ends, {f"{key}:0": x for key, x in self.feeds.items()}) for _ in range(2)]
        self.wanted = [np.asarray(x) for x in runs[0]]
        if not self.checks and any(difference(np.asarray(a), plain(np.asarray(b)), "") for a, b in zip(*runs)):
            raise ValueError("TensorFlow gives other values each time")
        self.graph = graph.as_graph_def()
        for node in self.graph.node:
            node.op = name if node.name == "op" else node.op

    def placed(self, tf, key, value):
        if isinstance(value, list):
            return [self.placed(tf, f"{key}_{i}", item) for i, item in enumerate(value)]
        value = np.asarray(value)
        constant = {"folded": True, "constants": bool(self.feeds)}.get(self.form, False)
        if constant or value.dtype.kind in "OSU":
            return tf.constant(value, name=key)
        # How many integers say sizes, axes or a place decides about the number of axes of the result.
        listed = (bool(self.feeds) or key in ("shape", "dims")) and value.ndim > 0 and value.dtype.kind == "i"
        self.feeds[key] = value
        shape = list(value.shape)
        if self.form == "dynamic" and self.name not in BY_SIZE:
            shape = [None] * (value.ndim - 1) + shape[-1:] if listed else [None] * value.ndim
        return tf.compat.v1.placeholder(tf.as_dtype(value.dtype), shape, name=key)

    def into(self, graph, prefix):
        """Adds the nodes to a graph under a prefix."""
        for node in self.graph.node:
            copy = graph.node.add()
            copy.CopyFrom(node)
            copy.name = f"{prefix}/{node.name}"
            copy.input[:] = [f"^{prefix}/{i[1:]}" if i.startswith("^") else f"{prefix}/{i}" for i in node.input]
        graph.versions.CopyFrom(self.graph.versions)


def describe(tensors):
    def one(value):
        return [one(item) for item in value] if isinstance(value, list) else f"{np.asarray(value).dtype.name}{list(np.shape(value))}"
    return {key: one(value) for key, value in tensors.items()}


def plain(array):
    """An array as ONNX Runtime has it: complex numbers are pairs on a last axis."""
    if array.dtype.kind == "c":
        return np.stack([array.real, array.imag], -1)
    return array


def difference(want, found, checks):
    """How a result differs from TensorFlow's; None if it does not."""
    want = plain(want)
    if want.dtype.name != found.dtype.name:
        return f"elements of {found.dtype}, not {want.dtype}"
    if checks == "anything":
        return None
    if want.shape != found.shape:
        return f"shape {found.shape}, not {want.shape}"
    if checks == "shapes":
        return None
    if want.dtype.name in TOLERANCE:
        a, b = want.astype(np.float64), found.astype(np.float64)
        rtol, atol = TOLERANCE[want.dtype.name]
        rtol, atol = (rtol * 20, atol * 20) if "rough" in checks else (rtol, atol)
        finite = np.abs(a[np.isfinite(a)])
        atol *= max(1.0, finite.mean()) if finite.size and finite.mean() < 1e30 else 1.0
        equal = np.isclose(a, b, rtol, atol, equal_nan=True)
    else:
        a, b = want, found
        equal = a == b
    if np.all(equal):
        return None
    at = tuple(np.argwhere(~equal)[0]) if a.ndim else ()
    return f"{np.sum(~equal)} of {a.size} values differ, first {b[at]}, not {a[at]}, at {tuple(map(int, at))}"


def converted(onnxd, cases, folder):
    """The model of some cases in one file, or the lines that onnxd says."""
    from tensorflow.core.framework import graph_pb2
    graph = graph_pb2.GraphDef()
    for i, case in enumerate(cases):
        case.into(graph, f"c{i}")
    path, out = os.path.join(folder, "net.pb"), os.path.join(folder, "out")
    with open(path, "wb") as f:
        f.write(graph.SerializeToString())
    shutil.rmtree(out, ignore_errors=True)
    try:
        run = subprocess.run([onnxd, "convert", path, "--out", out], capture_output=True, text=True, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return None, [f"onnxd gives no answer in {TIMEOUT_S} seconds"]
    file = os.path.join(out, "model.onnx")
    if os.path.exists(file):
        return file, []
    lines = [line for line in (run.stdout + run.stderr).splitlines() if re.match(r"\s*N\d{4} ", line)]
    return None, lines or [f"exit {run.returncode}: {run.stderr[-300:]}"]


def apart(onnxd, cases, folder, why):
    """Ends of cases whose common file fails: of each half."""
    if len(cases) == 1:
        return [why]
    half = len(cases) // 2
    return ends_of(onnxd, cases[:half], folder) + ends_of(onnxd, cases[half:], folder)


def ends_of(onnxd, cases, folder):
    """How each case ends, and why."""
    import onnx
    import onnxruntime
    if not cases:
        return []
    file, lines = converted(onnxd, cases, folder)
    if file is None:
        named = collections.defaultdict(list)
        for line in lines:
            for i in re.findall(r"\bc(\d+)/", line)[:1]:
                named[int(i)].append(line)
        if not named:
            return apart(onnxd, cases, folder, ("wrong" if not is_refusal(lines) else "refused", " | ".join(lines)[:400]))
        rest = iter(ends_of(onnxd, [c for i, c in enumerate(cases) if i not in named], folder))
        ended = lambda lines: ("refused" if is_refusal(lines) else "wrong", " | ".join(lines)[:400])
        return [ended(named[i]) if i in named else next(rest) for i in range(len(cases))]
    try:
        onnx.checker.check_model(file, full_check=True)
    except Exception as error:
        return apart(onnxd, cases, folder, ("wrong", f"checker: {str(error)[:300]}"))
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    feeds = {f"c{i}/{key}": plain(x) for i, case in enumerate(cases) for key, x in case.feeds.items()}
    try:
        session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        return apart(onnxd, cases, folder, ("runtime", str(error)[:300]))
    names = {i.name.removesuffix(":0"): i.name for i in session.get_inputs()}
    if set(names) != set(feeds):
        return apart(onnxd, cases, folder, ("wrong", f"inputs {sorted(set(names) ^ set(feeds))} are missing or surplus"))
    outputs = [o.name.removesuffix(":0") for o in session.get_outputs()]
    wanted = [f"c{i}/out_{k}" for i, case in enumerate(cases) for k in range(len(case.wanted))]
    if sorted(outputs) != sorted(wanted):
        return apart(onnxd, cases, folder, ("wrong", f"outputs {sorted(set(outputs) ^ set(wanted))} are missing or surplus"))
    try:
        found = dict(zip(outputs, session.run(None, {names[key]: x for key, x in feeds.items()})))
    except Exception as error:
        return apart(onnxd, cases, folder, ("runtime", str(error)[:300]))
    return [compared(case, [np.asarray(found[f"c{i}/out_{k}"]) for k in range(len(case.wanted))]) for i, case in enumerate(cases)]


def is_refusal(lines):
    return all(re.match(r"\s*N\d{4} (unsupported|input)\b", line) for line in lines)


def compared(case, found):
    for k, (want, got) in enumerate(zip(case.wanted, found)):
        checks = case.checks[k] if isinstance(case.checks, list) else case.checks
        why = difference(want, got, checks)
        if why:
            return "wrong", f"result {k}: {why}"
    return "equal", None


OPTIONS = None


def judge_batch(tasks):
    import tensorflow as tf
    folder, rows, cases = tempfile.mkdtemp(prefix="tensorflow_operators_"), [], []
    for name, number, form in tasks:
        try:
            cases.append(Case(tf, name, number, form, OPTIONS.seed))
        except Exception as error:
            said = [line for line in str(error).splitlines() if not re.match(r" *(File|Graph execution|Detected|Original|\t|\[\[|$)", line)]
            rows.append((name, number, form, "skipped", f"{type(error).__name__}: {' '.join(said)[:200]}", ""))
    try:
        ends = ends_of(OPTIONS.onnxd, cases, folder)
        for i, (case, (end, _)) in enumerate(zip(cases, ends)):
            if end == "wrong":
                # Once more, alone.
                ends[i] = ends_of(OPTIONS.onnxd, [case], folder)[0]
        for case, (end, why) in zip(cases, ends):
            rows.append((case.name, case.number, case.form, end, why, case.about))
            if end != "equal" and OPTIONS.keep:
                with open(os.path.join(OPTIONS.keep, f"{case.name}_{case.number}_{case.form}.pb"), "wb") as f:
                    f.write(case.graph.SerializeToString())
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return rows


def begin(options):
    global OPTIONS
    OPTIONS = options
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def summary(rows):
    lines = []
    for form in OPTIONS.forms.split(","):
        ends = collections.Counter(row[3] for row in rows if row[2] == form)
        lines.append(f"{form}: " + ", ".join(f"{ends[e]} {e}" for e in ("equal", "refused", "wrong", "runtime", "skipped")))
    by_name = collections.defaultdict(set)
    for row in rows:
        by_name[row[0]].add(row[3])
    tried = {name: ends - {"skipped"} for name, ends in by_name.items() if ends - {"skipped"}}
    whole, wrong = sum(e == {"equal"} for e in tried.values()), sum("wrong" in e for e in tried.values())
    lines.append(f"operators: {len(tried)} tried, {whole} equal in all, {wrong} wrong in some, {len(by_name) - len(tried)} skipped in all")
    return "\n".join(lines)


def main():
    global OPTIONS
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--onnxd", required=True)
    parser.add_argument("--match", default="", help="operators whose name has a match")
    parser.add_argument("--forms", default=",".join(FORMS))
    parser.add_argument("--count", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", help="writes the graphs of cases that are not equal")
    parser.add_argument("--save", help="writes all findings as JSON")
    parser.add_argument("--uncovered", action="store_true", help="lists operators without arguments here, and ends")
    OPTIONS = parser.parse_args()
    if OPTIONS.uncovered:
        with open(SCHEMA) as f:
            print("\n".join(name for name in (line.split("(")[0] for line in f) if name not in OPERATORS))
        return
    if OPTIONS.keep:
        os.makedirs(OPTIONS.keep, exist_ok=True)
    names = [name for name in OPERATORS if re.search(OPTIONS.match, name)]
    tasks = [(name, i, form) for name in names for i in range(OPTIONS.count) for form in OPTIONS.forms.split(",")]
    random.Random(0).shuffle(tasks)
    batches = [tasks[i:i + OPTIONS.batch] for i in range(0, len(tasks), OPTIONS.batch)]
    rows = []
    with multiprocessing.get_context("spawn").Pool(OPTIONS.jobs, initializer=begin, initargs=(OPTIONS,)) as pool:
        for found in pool.imap_unordered(judge_batch, batches):
            rows += found
            for name, number, form, end, why, about in found:
                if end not in ("equal", "skipped"):
                    print(f"{end}: {name} {number} {form}: {why} [{about}]", flush=True)
    print(summary(rows))
    if OPTIONS.save:
        with open(OPTIONS.save, "w") as f:
            json.dump(sorted(rows), f, indent=0)
    sys.exit(any(row[3] == "wrong" for row in rows))


if __name__ == "__main__":
    main()
