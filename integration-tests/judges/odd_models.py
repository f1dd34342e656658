#!/usr/bin/env python3
"""Judge conversions of models that are odd but legal, and of models that contradict themselves.

    odd_models.py --onnxd target/release/onnxd [--match 'saved_*'] [--every N:K] [--keep DIR]

Every function of odd_cases.py gives one or more models. A legal model must convert; what comes out must pass
`onnx.checker` with full_check (unless the case names what keeps every file of its kind from it) and give in ONNX Runtime, or in
ONNX's reference evaluator where ONNX Runtime has no kernel, what the original gives. `onnxd eval` must give the same for the original.
A model that contradicts itself must be refused with the code that the case names, by `check` and by `convert`.
Needs numpy, onnx, onnxruntime, ml_dtypes.
"""
import argparse
import fnmatch
import json
import pathlib
import subprocess
import sys
import tempfile
import traceback

import numpy as np
import onnx
import onnxruntime
from onnx.reference import ReferenceEvaluator

import odd_cases

RTOL, ATOL = 1e-4, 1e-5
onnxruntime.set_default_logger_severity(4)


class Wrong(Exception):
    pass


def onnxd(program, *arguments):
    run = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, timeout=120)
    return run.returncode, run.stdout + run.stderr


def inputs_of(model, case):
    """Arrays, or lists of them, for the inputs without initializer."""
    rng = np.random.default_rng(len(case.name))
    known = {t.name for t in model.graph.initializer} | {t.values.name for t in model.graph.sparse_initializer}
    return {i.name: case.feeds.get(i.name, None) if i.name in case.feeds else made_up(i.type, rng)
            for i in model.graph.input if i.name not in known}


def made_up(kind, rng):
    if kind.HasField("sequence_type"):
        return [made_up(kind.sequence_type.elem_type, rng) for _ in range(3)]
    if kind.HasField("optional_type"):
        return made_up(kind.optional_type.elem_type, rng)
    tensor = kind.tensor_type
    dims = [d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else 2 for d in tensor.shape.dim]
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    if dtype == object:
        return np.array([f"s{i}" for i in range(int(np.prod(dims)))], dtype=object).reshape(dims)
    if dtype == bool:
        return rng.integers(0, 2, dims).astype(bool)
    if np.issubdtype(dtype, np.integer):
        return rng.integers(0, 5, dims).astype(dtype)
    return rng.standard_normal(dims).astype(dtype)


def reference(path, feeds):
    """What another program gives, and its name; `None` if none runs the model."""
    try:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        return session.run(None, feeds), "ONNX Runtime"
    except Exception as refusal:  # its classes are not public
        why = refusal
    try:
        model = onnx.load(path)
        onnx.checker.check_model(model)
        return ReferenceEvaluator(model).run(None, feeds), "the reference evaluator"
    except Exception:
        return None, str(why)


def same(found, wanted, what):
    if isinstance(wanted, list):
        if not isinstance(found, list) or len(found) != len(wanted):
            raise Wrong(f"{what}: {len(found)} elements, expected {len(wanted)}")
        for i, (f, w) in enumerate(zip(found, wanted)):
            same(f, w, f"{what}.{i}")
        return
    if wanted is None or found is None:
        if not (wanted is None and found is None):
            raise Wrong(f"{what}: {found} instead of {wanted}")
        return
    found, wanted = np.asarray(found), np.asarray(wanted)
    if found.shape != wanted.shape:
        raise Wrong(f"{what}: shape {found.shape}, expected {wanted.shape}")
    if wanted.dtype.kind in "OUST":
        if found.astype(str).tolist() != wanted.astype(str).tolist():
            raise Wrong(f"{what}: {found} instead of {wanted}")
        return
    kind = np.complex128 if wanted.dtype.kind == "c" else np.float64
    if not np.allclose(found.astype(kind), wanted.astype(kind), RTOL, ATOL, equal_nan=True):
        raise Wrong(f"{what}: {found} instead of {wanted}")


def near(found, wanted, what, least_db):
    found, wanted = np.asarray(found).astype(np.float64), np.asarray(wanted).astype(np.float64)
    noise = np.sum((found - wanted) ** 2)
    db = 10 * np.log10(np.sum(wanted ** 2) / noise) if noise > 0 else np.inf
    if found.shape != wanted.shape or not db >= least_db:
        raise Wrong(f"{what}: {db:.1f} dB, shape {found.shape} for {wanted.shape}")


def flat(feeds):
    """As `onnxd eval` reads them: the elements of a sequence as NAME.0, NAME.1 and so on."""
    arrays = {}
    for name, value in feeds.items():
        items = {f"{name}.{i}": x for i, x in enumerate(value)} if isinstance(value, list) else {name: value}
        arrays.update({n: x.astype(str) if x.dtype == object else x for n, x in items.items()})
    return arrays


def evaluate(program, path, feeds, names, folder):
    source, target = folder / "in.npz", folder / "out.npz"
    np.savez(source, **flat(feeds))
    status, said = onnxd(program, "eval", path, "--inputs", source, "--out", target)
    if status:
        raise Wrong(f"eval: {said.strip()}")
    found = np.load(target)
    def of(name):
        if name in found:
            return found[name]
        parts = []
        while f"{name}.{len(parts)}" in found:
            parts.append(found[f"{name}.{len(parts)}"])
        return parts
    return [of(name) for name in names]


def accepted(program, case, path, folder):
    model = onnx.load(path)
    feeds = inputs_of(model, case)
    wanted, by = reference(path, feeds)
    if wanted is None:
        raise Wrong(f"no other program runs the original: {by}")
    given = [path]
    if case.sqnr_db:
        rng = np.random.default_rng(1)
        kept = {n: rng.standard_normal((32, *x.shape[1:])).astype(np.float32) for n, x in feeds.items()}
        np.savez(folder / "calib.npz", **kept)
        given.append(folder / "calib.npz")
    status, said = onnxd(program, "convert", *given, "--out", folder / "out", *case.settings)
    if status not in (0, case.status):
        raise Wrong(f"convert gives {status}: {said.strip()}")
    written = folder / "out" / "model.onnx"
    try:
        onnx.checker.check_model(str(written), full_check=True)
    except Exception as refusal:
        if not (case.refused_by_checker and case.refused_by_checker in str(refusal)):
            raise Wrong(f"the checker: {refusal}") from None
    feeds = {i.name: feeds[i.name] for i in onnx.load(written).graph.input if i.name in feeds}
    found, told = reference(written, feeds)
    if found is None:
        raise Wrong(f"what was written does not run: {told}")
    if told != by and told != "ONNX Runtime":
        raise Wrong(f"only {told} runs what was written, {by} ran the original")
    names = [o.name for o in model.graph.output]
    for name, f, w in zip(names, found, wanted, strict=True):
        what = f"`{name}` of what was written"
        near(f, w, what, case.sqnr_db) if case.sqnr_db else same(f, w, what)
    # NumPy's files hold none of the standard's small types.
    plain = lambda x: isinstance(x, list) or x is not None and np.asarray(x).dtype.kind != "V" and np.asarray(x).dtype.isbuiltin
    if case.evaluates and all(map(plain, [*feeds.values(), *wanted])):
        feeds = inputs_of(model, case)
        for name, f, w in zip(names, evaluate(program, path, feeds, names, folder), wanted, strict=True):
            same(f, w, f"`{name}` of eval")
    report = (folder / "out" / "report.json").read_text()
    for text in case.notes:
        if text not in json.dumps(json.loads(report), ensure_ascii=False):
            raise Wrong(f"the report does not say \"{text}\"")


def refused(program, case, path, folder):
    wanted, by = reference(path, {})
    if wanted:
        raise Wrong(f"{by} runs it")
    for command in (["check", path], ["convert", path, "--out", folder / "out"]):
        status, said = onnxd(program, *command)
        if status == 0 or case.code not in said:
            raise Wrong(f"{command[0]} gives {status} without {case.code}: {said.strip()}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--onnxd", required=True)
    parser.add_argument("--match", default="*")
    parser.add_argument("--every", default="1", metavar="N[:K]", help="every Nth case only, from the Kth on")
    parser.add_argument("--keep", type=pathlib.Path)
    options = parser.parse_args()
    step, _, first = options.every.partition(":")
    passed = failed = 0
    for number, case in enumerate(odd_cases.all_cases()):
        if number % int(step) != int(first or 0) % int(step) or not fnmatch.fnmatch(case.name, options.match):
            continue
        with tempfile.TemporaryDirectory() as scratch:
            folder = (options.keep or pathlib.Path(scratch)) / case.name
            folder.mkdir(parents=True, exist_ok=True)
            try:
                path = case.write(folder)
                (refused if case.code else accepted)(options.onnxd, case, path, folder)
                passed += 1
            except Wrong as wrong:
                failed += 1
                print(f"FAIL {case.name}: {str(wrong)[:600]}")
            except Exception:
                failed += 1
                print(f"FAIL {case.name}: {traceback.format_exc()}")
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
