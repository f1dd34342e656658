#!/usr/bin/env python3
"""Judge operators of PyTorch -> ONNX on torch's own sample inputs: torch itself says what each one gives.

    torch_operators.py --onnxd target/release/onnxd [--match REGEX] [--dtypes float32,int64] [--samples 6] [--jobs 2]
                       [--keep DIR] [--save FILE]

`op_db` of torch's tests has sample inputs for about 700 operators. Each sample becomes a module whose inputs are the
sample's tensors; numbers and texts are part of it. The module is traced and exported, both files are converted, and ONNX
Runtime must give torch's values, element types and shapes. Where an exported program has dynamic sizes, it must also hold
for doubled sizes. Results that differ from run to run are compared by element type and shape alone.

Each case ends in one way: equal, wrong (torch gives something else), refused (by onnxd), runtime (ONNX Runtime does not
run it, for want of a kernel or not). What torch itself cannot save or run is skipped. Needs numpy, onnx, onnxruntime and torch.
"""
import argparse
import collections
import json
import logging
import multiprocessing
import os
import random
import re
import shutil
import sys
import tempfile
import types
import warnings

import numpy as np

# A package for torch's own tests, which their modules import and samples do not need.
sys.modules.setdefault("expecttest", types.SimpleNamespace(TestCase=object, assert_expected_inline=None))

import torch
from torch.utils import _pytree as pytree

from torch_programs import converted, session_of

# What these give beside their first result depends on the order of equal elements, which torch leaves open.
TIES = {"kthvalue", "topk", "mode", "median", "nanmedian", "max.reduction_with_dim", "min.reduction_with_dim", "sort", "cummax", "cummin"}
# Of these also the first result.
UNORDERED = {"argsort"}
TOLERANCE = {torch.float16: (1e-2, 1e-3), torch.bfloat16: (5e-2, 1e-2), torch.float32: (1e-3, 1e-4), torch.float64: (1e-6, 1e-7)}


class Module(torch.nn.Module):
    """An operator with a sample's numbers and texts; its tensors are inputs."""

    def __init__(self, function, leaves, spec):
        super().__init__()
        self.writes = False
        self.function, self.spec = function, spec
        self.leaves = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        self.places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def forward(self, *tensors):
        leaves = list(self.leaves)
        for place, tensor in zip(self.places, tensors):
            leaves[place] = tensor.clone() if self.writes else tensor
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        results = [r for r in pytree.tree_leaves(self.function(*args, **kwargs)) if isinstance(r, torch.Tensor)]
        return tuple(r.clone() if any(r is t for t in tensors) else r for r in results)


def array(tensor):
    """An array; complex numbers are pairs on a last axis."""
    tensor = tensor.detach().resolve_conj().resolve_neg()
    tensor = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def copies(tensors):
    return [t.detach().clone() for t in tensors]


def alike(first, second):
    """Whether results are the same."""
    return len(first) == len(second) and all(
        a.shape == b.shape and np.array_equal(array(a), array(b), equal_nan=a.dtype.is_floating_point) for a, b in zip(first, second)
    )


def runs_of(model, tensors):
    """What torch gives, and whether other runs give the same."""
    results = []
    with torch.no_grad():
        for seed in range(8):
            torch.manual_seed(seed)
            results.append(model(*copies(tensors)))
            if len(results) > 1 and not alike(results[0], results[-1]):
                return results[0], False
    return results[0], True


def writes(model, tensors):
    """Whether an operator writes its inputs. Then it gets copies, as models keep nothing between runs."""
    given = copies(tensors)
    with torch.no_grad():
        model(*given)
    return any(a._version or not np.array_equal(array(a), array(b), equal_nan=b.dtype.is_floating_point) for a, b in zip(given, tensors))


def exported(model, tensors, sizes):
    shapes = (tuple({i: sizes for i in range(t.dim())} for t in tensors),)
    return torch.export.export(model, tuple(copies(tensors)), dynamic_shapes=shapes, strict=False)


def saved(model, tensors, folder, number):
    """Files of a module, by form, with the inputs that they take. Exported programs have dynamic sizes where torch can say them."""
    files = {}
    path = os.path.join(folder, f"{number}_traced.pt")
    try:
        torch.jit.trace(model, tuple(copies(tensors)), check_trace=False).save(path)
        files["traced"] = path, [tensors]
    except Exception:
        pass
    path = os.path.join(folder, f"{number}_exported.pt2")
    for sizes in (torch.export.Dim.AUTO, torch.export.Dim.STATIC):
        try:
            program = exported(model, tensors, sizes)
            torch.export.save(program, path)
        except Exception:
            continue
        other = doubled(program, model, tensors)
        files["exported" if other is None else "dynamic"] = path, [tensors, *([other] if other else [])]
        break
    return files


def difference(want, found, values):
    """How a result differs from torch's; None if it does not."""
    want = torch.view_as_real(want.resolve_conj()) if want.is_complex() else want
    if found.dtype.name != str(want.dtype).removeprefix("torch."):
        return f"elements of {found.dtype.name}, not {want.dtype}"
    if tuple(want.shape) != found.shape:
        return f"shape {found.shape}, not {tuple(want.shape)}"
    if not values:
        return None
    a, b = array(want), found.astype(np.float32) if want.dtype == torch.bfloat16 else found
    if want.dtype in TOLERANCE:
        rtol, atol = TOLERANCE[want.dtype]
        finite = np.abs(a[np.isfinite(a)])
        atol *= max(1.0, finite.mean() if finite.size else 1.0)
        equal = np.isclose(a, b, rtol, atol, equal_nan=True)
    else:
        equal = a == b
    if np.all(equal):
        return None
    at = tuple(np.argwhere(~equal)[0]) if a.ndim else ()
    return f"{np.sum(~equal)} of {a.size} values differ, first {b[at]}, not {a[at]}"


def judged(name, onnxd, path, model, feeds, folder):
    """How a file's conversion ends, and why."""
    params = path + ".toml"
    with open(params, "w") as f:
        if path.endswith(".pt"):
            shapes, dtypes = [list(t.shape) for t in feeds[0]], [str(t.dtype).removeprefix("torch.") for t in feeds[0]]
            f.write(f"[export]\ninput_shapes = {shapes}\ninput_dtypes = {dtypes}\n")
    file, why = converted(onnxd, path, params, folder)
    if file is None:
        return "refused", why
    try:
        session = session_of(file)
    except Exception as error:
        return "runtime", str(error)[:300]
    names = [i.name for i in session.get_inputs()]
    for tensors in feeds:
        want, same = runs_of(model, tensors)
        if len(names) != len(tensors):
            return "wrong", f"{len(names)} inputs, not {len(tensors)}"
        try:
            found = session.run(None, dict(zip(names, map(array, tensors))))
        except Exception as error:
            return "runtime", f"{[tuple(t.shape) for t in tensors]}: {str(error)[:300]}"
        if len(found) != len(want):
            return "wrong", f"{len(found)} results, not {len(want)}"
        # Random operators of training are left out, also where they give the same each time.
        same = same and not re.search("empty|resize|dropout", name)
        for i, (a, b) in enumerate(zip(want, found)):
            ties = (i > 0 and name in TIES or name in UNORDERED) and not tensors[0].dtype.is_floating_point
            why = difference(a, np.asarray(b), same and not ties)
            if why:
                return "wrong", f"result {i} for {[tuple(t.shape) for t in tensors]}: {why}"
    return "equal", None


def doubled(program, model, tensors):
    """Inputs of other sizes that the program says it takes, if the module takes them too."""
    symbols = [n.meta["val"] for n in program.graph.nodes if n.op == "placeholder" and n.name in program.graph_signature.user_inputs]
    known, new = {}, []
    for tensor, meta in zip(tensors, symbols):
        out = tensor.detach().clone()
        ascending = out.dim() > 0 and torch.equal(out, out.sort(-1)[0])
        for axis, size in enumerate(meta.shape):
            if isinstance(size, int) or not re.fullmatch(r"s\d+", str(size)):
                continue
            bounds = program.range_constraints.get(size.node.expr)
            if tensor.shape[axis] == 0 or bounds is not None and bounds.upper < 2 * tensor.shape[axis]:
                return None
            known[str(size)] = True
            other = out.flip(axis)
            out = torch.cat([out, other * 1.01 + 0.003 if out.dtype.is_floating_point else other], axis)
        new.append(out.sort(-1)[0] if ascending else out)
    if not known:
        return None
    try:
        # What torch decided while it exported the program may be wrong for other sizes.
        (module, same), (own, _) = runs_of(model, new), runs_of(program.module(), new)
        return None if same and any(difference(a, array(b), True) for a, b in zip(module, own)) else new
    except Exception:
        return None


def samples_of(op, dtype, limit):
    found = list(op.sample_inputs("cpu", dtype, requires_grad=False))
    step = max(1, len(found) / limit)
    for number in sorted({int(i * step) for i in range(limit) if int(i * step) < len(found)}):
        sample = found[number]
        leaves, spec = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        plain = all(t.layout == torch.strided and not t.is_quantized for t in tensors)
        if tensors and plain and not any(callable(leaf) and not isinstance(leaf, torch.dtype) for leaf in leaves):
            yield number, leaves, spec, copies(tensors)


def judge_operator(task):
    """All that is found of one operator: rows of operator, element type, sample, form, end and reason."""
    op, dtype, options = operators()[task[0]], task[1], OPTIONS
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    name = f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name
    rows = []

    def row(number, form, end, why):
        rows.append((name, str(dtype).removeprefix("torch."), number, form, end, why))

    try:
        torch.manual_seed(0)
        samples = list(samples_of(op, dtype, options.samples))
    except Exception as error:
        return [(name, str(dtype), 0, "-", "skipped", str(error)[:150])]
    for number, leaves, spec, tensors in samples:
        folder = tempfile.mkdtemp(prefix="torch_operators_")
        try:
            model = Module(op.op, leaves, spec).eval()
            model.writes = writes(model, tensors)
            if not runs_of(model, tensors)[0]:
                continue
            files = saved(model, tensors, folder, number)
            if not files:
                row(number, "-", "skipped", "torch cannot save it")
            for form, (path, feeds) in files.items():
                end, why = judged(op.name, options.onnxd, path, model, feeds, folder)
                row(number, form, end, why)
                if end != "equal" and options.keep:
                    shutil.copy(path, os.path.join(options.keep, f"{name}_{rows[-1][1]}_{os.path.basename(path)}"))
        except Exception as error:
            row(number, "-", "skipped", f"{type(error).__name__}: {str(error)[:150]}")
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return rows


OPTIONS = None


def operators():
    from torch.testing._internal import common_methods_invocations as samples
    # Random operators stay random.
    samples.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)
    return samples.op_db


def summary(rows):
    """Counts of cases by end, and of operators: equal in all, refused in all, wrong in any."""
    ends = collections.Counter(end for *_, end, _ in rows)
    by_name = collections.defaultdict(set)
    for name, _, _, _, end, _ in rows:
        by_name[name].add(end)
    tried = {n: e - {"skipped"} for n, e in by_name.items() if e - {"skipped"}}
    whole = sum(e == {"equal"} for e in tried.values())
    refused = sum(e == {"refused"} for e in tried.values())
    wrong = sum("wrong" in e for e in tried.values())
    cases = ", ".join(f"{ends[e]} {e}" for e in ("equal", "refused", "wrong", "runtime", "skipped"))
    return f"cases: {cases}\noperators: {len(tried)} tried, {whole} equal in all, {refused} refused in all, {wrong} wrong in some"


def main():
    global OPTIONS
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--onnxd", required=True)
    parser.add_argument("--match", default="")
    parser.add_argument("--dtypes", default="float32,int64")
    parser.add_argument("--samples", type=int, default=6)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep")
    parser.add_argument("--save", help="writes all findings as JSON")
    OPTIONS = parser.parse_args()
    dtypes = [getattr(torch, d) for d in OPTIONS.dtypes.split(",")]
    tasks = [
        (i, dtype) for i, op in enumerate(operators()) if re.search(OPTIONS.match, op.name)
        for dtype in dtypes if dtype in op.dtypes
    ]
    random.Random(0).shuffle(tasks)
    rows = []
    with multiprocessing.get_context("fork").Pool(OPTIONS.jobs, maxtasksperchild=20) as pool:
        for found in pool.imap_unordered(judge_operator, tasks):
            rows += found
            for name, dtype, number, form, end, why in found:
                if end not in ("equal", "skipped"):
                    print(f"{end}: {name} {dtype} {number} {form}: {why}", flush=True)
    print(summary(rows))
    if OPTIONS.save:
        with open(OPTIONS.save, "w") as f:
            json.dump(rows, f, indent=0)
    sys.exit(any(row[4] == "wrong" for row in rows))


if __name__ == "__main__":
    main()
