#!/usr/bin/env python3
"""Judge shape and type inference against ONNX's own and against the sizes that values really have.

    shape_inference.py --onnxd target/release/onnxd [--models FILE-OR-FOLDER...] [--seeds 0:100] [--no-node-tests]

Models are every node test of the standard, the models that the onnx package ships, those given, and random ones that
compute shapes (random_shapes.py). Each is judged as
it is and with a symbol in place of every size of its inputs; both without value_info and without shapes of outputs.
`onnxd print --types` says what is inferred. For every value of the main graph
- each axis is compared with `onnx.shape_inference` (strict, data propagation): same, better or worse, by operator;
- where data for the model is there or can be made, its real sizes are taken from ONNX's reference evaluator or ONNX
  Runtime: an inferred size must equal the real one, and one symbol must mean one size.
A contradiction is a fault; so is a failure of onnxd to read or infer what ONNX's checker accepts.
Needs numpy, onnx, onnxruntime.
"""
import argparse
import collections
import concurrent.futures
import fractions
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import onnx
from onnx import TensorProto, helper, shape_inference

import random_shapes

ELEMENTS_MAX = 1 << 24
# Where two symbols meet that may differ (one of them may be 1), ONNX takes the first one.
BROADCAST = {"Einsum", "Max", "Mean", "Min", "Sum"}


def type_text(text):
    """(kind, dtype, dims or None): dims are ints, symbol texts or None."""
    match = re.fullmatch(r"(\w+)(?:\[(.*)\])?", text, re.S)
    if not match:
        return (text.split("(")[0], None, None)
    dtype, dims = match.groups()
    if dims is None:
        return ("tensor", dtype, [])
    if dims == "":
        return ("tensor", dtype, None)
    found = re.findall(r'"((?:[^"\\]|\\.)*)"|([^,]+)', dims)
    sizes = []
    for quoted, plain in found:
        if quoted:
            sizes.append(quoted)
        elif re.fullmatch(r"-?\d+", plain):
            sizes.append(int(plain))
        else:
            sizes.append(None if plain == "?" else plain)
    return ("tensor", dtype, sizes)


def type_proto(t):
    kind = t.WhichOneof("value")
    if kind != "tensor_type":
        return {"sequence_type": ("seq", None, None), "optional_type": ("optional", None, None),
                "map_type": ("map", None, None), "sparse_tensor_type": ("sparse_tensor", None, None)}.get(kind)
    dtype = TensorProto.DataType.Name(t.tensor_type.elem_type).lower() if t.tensor_type.elem_type else None
    if not t.tensor_type.HasField("shape"):
        return ("tensor", dtype, None)
    dims = []
    for d in t.tensor_type.shape.dim:
        dims.append(d.dim_value if d.HasField("dim_value") else (d.dim_param or None))
    return ("tensor", dtype, dims)


def stripped(model, symbolic):
    """A copy that declares as little as it may, and the sizes that its new symbols stand for."""
    model = onnx.ModelProto.FromString(model.SerializeToString())
    del model.graph.value_info[:]
    for out in model.graph.output:
        if out.type.HasField("tensor_type"):
            out.type.tensor_type.ClearField("shape")
    sizes = {}
    if symbolic:
        for i, value in enumerate(model.graph.input):
            if not value.type.HasField("tensor_type") or not value.type.tensor_type.HasField("shape"):
                continue
            for k, dim in enumerate(value.type.tensor_type.shape.dim):
                if dim.HasField("dim_value"):
                    sizes[f"s{i}_{k}"] = dim.dim_value
                    dim.dim_param = f"s{i}_{k}"
    return model, sizes


def producers(graph):
    return {out: node for node in graph.node for out in node.output if out}


def onnx_types(model):
    try:
        inferred = shape_inference.infer_shapes(model, check_type=False, strict_mode=True, data_prop=True)
    except Exception:  # it refuses models of custom domains, and some valid ones
        try:
            inferred = shape_inference.infer_shapes(model, data_prop=True)
        except Exception:
            return {}
    g = inferred.graph
    return {v.name: type_proto(v.type) for v in [*g.value_info, *g.output]}


def our_types(onnxd, model):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "m.onnx")
        with open(path, "wb") as f:
            f.write(model.SerializeToString())
        run = subprocess.run([onnxd, "print", path, "--types", "--json"], capture_output=True, text=True, timeout=300)
        if run.returncode != 0:
            return None, run.stderr.strip()[:300]
        checked = subprocess.run([onnxd, "check", path, "--json"], capture_output=True, text=True, timeout=300)
        try:
            found = json.loads(checked.stdout)["findings"]
        except (ValueError, KeyError):
            found = [{"message": checked.stderr[:300]}]
    values = {v["name"]: type_text(v["type"]) for v in json.loads(run.stdout)["values"]
              if v["graph"] == "" and v["type"] is not None}
    return values, found


def made_up(value, rng, sizes):
    t = value.type.tensor_type
    dims = []
    for i, d in enumerate(t.shape.dim):
        if d.HasField("dim_value"):
            dims.append(d.dim_value)
        else:
            dims.append(sizes.setdefault(d.dim_param or f"{value.name}/{i}", 3 if d.dim_param else 2))
    if any(d < 0 for d in dims):
        dims = [max(d, 1) for d in dims]
    if int(np.prod(dims, dtype=np.float64)) > ELEMENTS_MAX:
        raise ValueError("large")
    dtype = helper.tensor_dtype_to_np_dtype(t.elem_type)
    if dtype == object or np.dtype(dtype).kind in "OSU":
        return np.full(dims, "a", object)
    if np.dtype(dtype).kind in "iu":
        return rng.integers(0, 2, dims).astype(dtype)
    if np.dtype(dtype).kind == "b":
        return rng.integers(0, 2, dims).astype(bool)
    return rng.random(dims).astype(dtype)


def every_output(model):
    """The model with all tensors of the main graph as outputs, for a run."""
    model = onnx.ModelProto.FromString(model.SerializeToString())
    have = {o.name for o in model.graph.output}
    for name in producers(model.graph):
        if name not in have:
            model.graph.output.append(onnx.ValueInfoProto(name=name))
    return model


def real_shapes(model, feeds):
    """Sizes of every tensor of the main graph, from ONNX Runtime or the reference evaluator."""
    def shapes(names, values):
        return {n: tuple(np.shape(v)) for n, v in zip(names, values) if isinstance(v, (np.ndarray, np.generic))}
    full = every_output(model)
    try:
        import onnxruntime as ort
        ort.set_default_logger_severity(4)
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = ort.InferenceSession(full.SerializeToString(), options, providers=["CPUExecutionProvider"])
        names = [o.name for o in session.get_outputs()]
        return shapes(names, session.run(names, feeds))
    except Exception:  # no kernel: the reference has them all
        from onnx.reference import ReferenceEvaluator
        names = [o.name for o in full.graph.output]
        return shapes(names, ReferenceEvaluator(full).run(names, feeds))


class Tally:
    def __init__(self):
        self.counts = collections.Counter()
        self.worse = collections.defaultdict(list)
        self.wrong = []
        self.refused = []
        self.findings = []

    def add(self, other):
        self.counts.update(other.counts)
        for op, rows in other.worse.items():
            self.worse[op].extend(rows)
        self.wrong += other.wrong
        self.refused += other.refused
        self.findings += other.findings


def compare(tally, label, op, name, ours, theirs, real):
    """One value: same, better or worse than ONNX."""
    def worse(what):
        if real is not None and theirs[0] == "tensor" and theirs[2] is not None and (
                len(theirs[2]) != len(real) or any(isinstance(b, int) and b != r for b, r in zip(theirs[2], real))):
            tally.counts["onnx wrong"] += 1
            return
        if what == "symbol" and op in BROADCAST:
            tally.counts["onnx takes the first of two symbols"] += 1
            return
        tally.counts["worse"] += 1
        tally.worse[op].append(f"{label}: {name}: onnx {theirs}, onnxd {ours} ({what})")
    if theirs is None:
        tally.counts["better" if ours else "same"] += 1
        return
    if ours is None:
        return worse("nothing")
    if ours[0] != theirs[0]:
        return worse("kind")
    if theirs[1] and ours[1] != theirs[1]:
        return worse("type")
    if theirs[2] is None:
        tally.counts["better" if ours[2] is not None else "same"] += 1
        return
    if ours[2] is None or len(ours[2]) != len(theirs[2]):
        return worse("rank")
    better = False
    for a, b in zip(ours[2], theirs[2]):
        invented = isinstance(b, str) and b.startswith("unk__")
        if isinstance(b, int) and a != b:
            return worse("size")
        if isinstance(b, str) and not invented and a is None:
            return worse("symbol")
        better |= isinstance(a, int) and not isinstance(b, int)
        better |= isinstance(a, str) and (b is None or invented)
    tally.counts["better" if better else "same"] += 1


def computed(text, symbols):
    """The number that a computed size (`floor((H+1)/(2))*W`) is for these sizes; None if one is not known."""
    names = {name: fractions.Fraction(size) for name, size in symbols.items()}
    names.update(min=min, max=max, floor=math.floor, less=lambda a, b: max(0, a - b), mod=lambda a, b: a % b)
    text = text.replace("{", "(").replace("}", ")")
    try:
        return int(eval(text, {"__builtins__": {}}, names))  # the text is what onnxd gave, in this judge's own run
    except (NameError, SyntaxError, ZeroDivisionError):
        return None


def confront(tally, label, op, name, ours, real, symbols):
    """One value: what is inferred must hold."""
    if ours is None or ours[0] != "tensor" or ours[2] is None:
        return
    tally.counts["values run"] += 1
    if len(ours[2]) != len(real):
        tally.wrong.append(f"{label}: {op} {name}: onnxd {ours[2]}, really {list(real)}")
        return
    for dim, size in zip(ours[2], real):
        expected = dim if isinstance(dim, int) else size
        if isinstance(dim, str):
            known = symbols.get(dim, computed(dim, symbols) if re.search(r"[*+(-]", dim) else None)
            tally.counts["symbols computed"] += known is not None and dim not in symbols
            expected = symbols.setdefault(dim, size) if known is None else known
        if isinstance(dim, str):
            tally.counts["symbols run"] += 1
        if expected != size:
            known = f" where {dim} is {expected}" if isinstance(dim, str) else ""
            tally.wrong.append(f"{label}: {op} {name}: onnxd {ours[2]}, really {list(real)}{known}")


def judge(onnxd, label, model, real):
    """As declared and with symbols; `real` has the sizes of tensors as far as they are known."""
    tally = Tally()
    sizes_of_inputs = real.pop(None, {})
    for symbolic in (False, True):
        variant, sizes = stripped(model, symbolic)
        at = f"{label}{' (symbols)' if symbolic else ''}"
        ours, findings = our_types(onnxd, variant)
        tally.counts["models"] += 1
        if ours is None:
            tally.refused.append(f"{at}: {findings}")
            continue
        # What runs cannot contradict itself.
        if real:
            tally.findings += [f"{at}: {f.get('message')}" for f in findings if f.get("code", "N0215") == "N0215"]
        theirs = onnx_types(variant)
        symbols = dict(sizes_of_inputs, **sizes)
        for name, node in producers(variant.graph).items():
            compare(tally, at, node.op_type, name, ours.get(name), theirs.get(name), real.get(name))
            if name in real:
                confront(tally, at, node.op_type, name, ours.get(name), real[name], symbols)
    return tally


def node_tests():
    from onnx.backend.test.case.node import collect_testcases
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = collect_testcases(None)
    for case in cases:
        if case.model is None:
            continue
        outputs = case.data_sets[0][1] if case.data_sets else []
        real = {o.name: tuple(np.shape(v)) for o, v in zip(case.model.graph.output, outputs)
                if isinstance(v, (np.ndarray, np.generic))}
        yield case.name, case.model, real


def files(paths):
    """Models in files, with the sizes that a run of them finds."""
    found = []
    for path in paths:
        if os.path.isdir(path):
            found += sorted(os.path.join(at, n) for at, _, names in os.walk(path) for n in names if n.endswith(".onnx"))
        else:
            found.append(path)
    for path in found:
        try:
            model = onnx.load(path)
        except Exception as error:
            print(f"passed over: {path}: {str(error).splitlines()[0][:120]}")
            continue
        yield path, model, None


def run(model, sizes):
    rng = np.random.default_rng(0)
    fixed = {t.name for t in model.graph.initializer}
    feeds = {v.name: made_up(v, rng, sizes) for v in model.graph.input if v.name not in fixed}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        real = real_shapes(model, feeds)
    real[None] = sizes
    return real


def one(onnxd, case):
    label, model, real = case
    missed = collections.Counter()
    sizes = real if real is None else real.pop("symbols", None)
    if real is None or sizes is not None:
        try:
            real = run(model, dict(sizes or {}))
        except Exception as error:
            missed["not run"] += 1
            missed[f"not run: {type(error).__name__} {str(error)[:60]}"] += 1
            real = {}
    tally = judge(onnxd, label, model, real)
    tally.counts.update(missed)
    return tally


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--onnxd", required=True)
    parser.add_argument("--models", nargs="*", default=[])
    parser.add_argument("--seeds", default="0:0", help="FIRST:END of the random models")
    parser.add_argument("--no-node-tests", action="store_true")
    parser.add_argument("--only", default="", help="only cases whose name contains this")
    parser.add_argument("--verbose", action="store_true", help="every value that is worse, not three per operator")
    args = parser.parse_args()
    shipped = os.path.join(os.path.dirname(onnx.__file__), "backend", "test", "data")
    cases = [] if args.no_node_tests else [*node_tests(), *files(
        os.path.join(shipped, n) for n in sorted(os.listdir(shipped)) if n != "node")]
    cases += files(args.models)
    first, last = map(int, args.seeds.split(":"))
    cases += ((name, model, {"symbols": sizes}) for name, model, sizes in random_shapes.models(range(first, last)))
    total = Tally()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        chosen = [c for c in cases if args.only in c[0]]
        for tally in pool.map(lambda case: one(args.onnxd, case), chosen):
            total.add(tally)
    for title, rows in [("contradictions", total.wrong), ("findings about models that run", total.findings),
                        ("refused", total.refused)]:
        for row in rows[:60]:
            print(f"{title}: {row}")
    for op, rows in sorted(total.worse.items(), key=lambda r: -len(r[1])):
        print(f"worse: {op}: {len(rows)}")
        for row in rows if args.verbose else rows[:3]:
            print(f"    {row}")
    for key, n in sorted(total.counts.items()):
        print(f"{key}: {n}")
    print(f"worse: {total.counts['worse']}, contradictions: {len(total.wrong)}, "
          f"findings about models that run: {len(total.findings)}, refused: {len(total.refused)}")
    return 1 if total.wrong or total.findings or total.refused or total.counts["worse"] else 0


if __name__ == "__main__":
    sys.exit(main())
