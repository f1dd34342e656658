#!/usr/bin/env python3
"""Judge TorchScript -> ONNX on random programs: torch itself says what each one gives.

    torch_programs.py --onnxd target/release/onnxd [--seeds 0:200] [--keep DIR]

Every seed gives one function, always the same: arithmetic, views and writes into them, conditions and loops that depend
on tensors or on numbers, lists, tuples and dicts, early exits. It is scripted and converted, and ONNX Runtime must give
what torch gives, for inputs that take different paths. Needs numpy, onnx, onnxruntime and torch.
"""
import argparse
import importlib.util
import os
import random
import subprocess
import sys
import tempfile
import traceback

import numpy as np
import onnx
import onnxruntime
import torch

HEAD = """import torch
from typing import List, Dict, Optional, Tuple

class Program(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("w", torch.arange(12, dtype=torch.float32).reshape(3, 4) / 7 - 0.5)

    def forward(self, x: torch.Tensor, y: torch.Tensor, n: torch.Tensor):
"""


class Writer:
    """Writes the body of a function. Tensors are of shape [3, 4] unless a comment says otherwise."""

    def __init__(self, seed):
        self.r = random.Random(seed)
        self.lines, self.indent, self.count = [], 2, 0
        self.tensors, self.writable, self.numbers, self.lists = ["x", "y"], [], ["k"], []
        self.depth, self.branches = 0, False

    def put(self, text):
        self.lines.append("    " * self.indent + text)

    def new(self, stem="t"):
        self.count += 1
        return f"{stem}{self.count}"

    def pick(self, items):
        return self.r.choice(items)

    def expression(self):
        a, b, r = self.pick(self.tensors), self.pick(self.tensors), self.r
        c = round(r.uniform(-1.5, 1.5), 2)
        return self.pick([
            f"{a} + {b}", f"{a} * {c}", f"{a} - {b} * {c}", f"torch.relu({a})", f"torch.sigmoid({a})", f"{a} * self.w",
            f"torch.where({a} > {c}, {a}, {b})", f"{a} / ({b}.abs() + 1)", f"torch.clamp({a}, min={c})", f"{a}.t().t() + 0.5",
            f"torch.cat([{a}[:, 2:], {b}[:, :2]], 1)", f"torch.stack([{a}, {b}]).sum(0)", f"{a}.roll(1, 0)", f"{a}.flip(1)",
            f"{a}.view(4, 3).t().contiguous().view(3, 4)" if a != "x" else f"{a}.reshape(2, 6).reshape(3, 4)",
            f"{a} @ {b}.t() @ {b}", f"{a}.softmax(1)", f"{a} - {a}.mean(1, keepdim=True)", f"{a}[{r.randrange(3)}] + {b}",
            f"{a}.max(1, keepdim=True)[0] - {b}", f"torch.cumsum({a}, 0)", f"{a}.masked_fill({b} < {c}, {c})",
            f"{a}.permute(1, 0).reshape(3, 4)", f"{a}.unsqueeze(0).expand(2, 3, 4).sum(0)", f"{a}.index_select(1, torch.tensor([3, 1, 0, 2]))",
            f"{a} * {self.pick(self.numbers)}", f"{a}.gather(1, torch.tensor([[0, 1, 2, 3]] * 3))", f"{a}.pow(2)",
        ])

    def assign(self):
        name = self.new() if self.depth == 0 or self.r.random() < 0.3 else None
        source = self.expression()
        inner = [t for t in self.tensors if t not in "xy"]
        if name is None and inner:
            name = self.pick(inner)
            self.put(f"{name} = {source}")
            self.writable = [w for w in self.writable if w != name]
            return
        name = name or self.new()
        self.put(f"{name} = {source}")
        self.tensors.append(name)

    def fresh(self):
        name = self.new("m")
        self.put(f"{name} = ({self.expression()}).clone()")
        self.tensors.append(name)
        self.writable.append(name)

    def write(self):
        if not self.writable:
            return self.fresh()
        m, r = self.pick(self.writable), self.r
        other, c = self.pick(self.tensors), round(r.uniform(-2, 2), 2)
        i, j = r.randrange(3), r.randrange(4)
        self.put(self.pick([
            f"{m}[{i}] = {c}", f"{m}[:, {j}] += {c}", f"{m}[{i}] = {other}[{r.randrange(3)}] * 2", f"{m}.add_({other})", f"{m}.mul_({c})",
            f"{m}[{m} > {c}] = {c}", f"{m}[1:, ::2] = {other}[1:, ::2] + 1", f"{m}.t()[{j}].mul_({c})", f"{m}.view(-1)[{r.randrange(12)}] = {c}",
            f"{m}.relu_()", f"{m}[-1].fill_({c})", f"{m}.view(2, 6)[1].add_({c})", f"{m}[:, 1:3].copy_({other}[:, 1:3])",
            f"{m}.transpose(0, 1).sub_({c})", f"{m}[0].unsqueeze(0).mul_({c})", f"{m}.select(1, {j}).zero_()", f"{m}.masked_fill_({other} > 0.3, {c})",
            f"{m}.clamp_(-1.0, 1.0)", f"{m}.narrow(1, 1, 2).neg_()", f"{m}.index_put_((torch.tensor([{i}]), torch.tensor([{j}])), torch.tensor([{c}]))",
        ]))

    def view(self):
        if not self.writable:
            return self.fresh()
        m, v = self.pick(self.writable), self.new("v")
        self.put(f"{v} = " + self.pick([f"{m}[1:]", f"{m}.t()", f"{m}.view(-1)", f"{m}[:, 1]", f"{m}.unsqueeze(1)"]))
        other = self.pick(self.writable)
        self.put(f"{other}.add_(0.25)")
        if self.r.random() < 0.6:
            self.put(f"{v}.mul_(-0.5)")
        name = self.new()
        self.put(f"{name} = {self.pick(self.tensors)} + {v}.sum()")
        self.tensors.append(name)

    def number(self):
        k = self.new("k")
        a = self.pick(self.numbers)
        self.put(f"{k} = {a} " + self.pick(["+ 1", "* 2", "- 1", "// 2", "% 3", "+ x.size(0)", "+ x.dim()"]))
        self.numbers.append(k)

    def condition(self):
        t, k = self.pick(self.tensors), self.pick(self.numbers)
        c = round(self.r.uniform(-1, 1), 2)
        return self.pick([
            f"bool({t}.sum() > {c})", f"{k} > 2", f"{k} % 2 == 0", f"bool(({t} > {c}).any())", f"{k} < 3 and bool({t}.mean() < {c})",
            f"not bool({t}.max() < {c})", "x.size(0) == 3", f"{k} == 1 or {k} == 4",
        ])

    def inside(self, statements):
        before = list(self.tensors), list(self.writable), list(self.numbers), list(self.lists)
        self.indent += 1
        self.depth += 1
        for _ in range(statements):
            self.statement()
        self.indent -= 1
        self.depth -= 1
        self.tensors, self.writable, self.numbers, self.lists = before

    def branch(self):
        self.branches = True
        inner = [t for t in self.tensors if t not in "xy"]
        self.put(f"if {self.condition()}:")
        self.inside(self.r.randrange(1, 3))
        if self.r.random() < 0.7:
            self.put("else:")
            self.inside(self.r.randrange(1, 3))
        # What an arm gave another value may be written to in one arm alone.
        self.writable = []

    def loop(self):
        self.branches = True
        i, k = self.new("i"), self.pick(self.numbers)
        kind = self.r.randrange(4)
        if kind == 0:
            self.put(f"for {i} in range({self.r.randrange(1, 4)}):")
        elif kind == 1:
            self.put(f"for {i} in range({k}):")
        elif kind == 2:
            self.put(f"{i} = 0")
            self.put(f"while {i} < {k} and {i} < 5:")
        else:
            self.put(f"{i} = 0")
            t = self.pick([t for t in self.tensors])
            self.put(f"while {i} < 4 and bool({t}.sum() < {round(self.r.uniform(-2, 8), 1)}):")
        self.numbers.append(i)
        if kind >= 2:
            self.put(f"    {i} = {i} + 1")
        self.inside(self.r.randrange(1, 3))
        if self.r.random() < 0.25:
            self.put(f"    if {self.condition()}:")
            self.put("        " + self.pick(["break", "continue"]))
        self.numbers.remove(i)
        self.writable = []

    def list(self):
        name = self.new("l")
        self.put(f"{name}: List[torch.Tensor] = []")
        if self.r.random() < 0.5:
            for _ in range(self.r.randrange(1, 4)):
                self.put(f"{name}.append({self.expression()})")
        else:
            self.put(f"{name}.append({self.pick(self.tensors)} * 1)")
            self.put(f"for {self.new('i')} in range({self.pick(self.numbers + ['3'])}):")
            self.put(f"    {name}.append({name}[-1] + {self.pick(self.tensors)})")
        result = self.new()
        self.put(f"{result} = " + self.pick([f"torch.stack({name}).sum(0)", f"torch.cat({name}, 0).sum(0).unsqueeze(0) + {self.pick(self.tensors)}", f"{name}[-1] - {name}[0]"]))
        self.tensors.append(result)

    def pair(self):
        d, name = self.new("d"), self.new()
        self.put(f'{d} = {{"a": {self.pick(self.tensors)}, "b": {self.expression()}}}')
        self.put(f'{d}["a"] = {d}["b"] + 1')
        self.put(f'{name} = {d}["a"] * {d}["b"]')
        self.tensors.append(name)

    def optional(self):
        self.branches = True
        o, name = self.new("o"), self.new()
        self.put(f"{o}: Optional[torch.Tensor] = None")
        self.put(f"if {self.condition()}:")
        self.put(f"    {o} = {self.expression()}")
        self.put(f"if {o} is not None:")
        self.put(f"    {name} = {o} + 1")
        self.put("else:")
        self.put(f"    {name} = {self.pick(self.tensors)}")
        self.tensors.append(name)

    def statement(self):
        choices = [self.assign] * 5 + [self.fresh, self.number] + [self.write] * 3
        if self.depth == 0:
            choices += [self.view, self.list, self.pair, self.optional]
        if self.depth < 2:
            choices += [self.branch, self.loop]
        self.pick(choices)()

    def program(self):
        self.put("k = int(n)")
        self.fresh()
        for _ in range(self.r.randrange(4, 9)):
            self.statement()
        results = self.r.sample(self.tensors, min(2, len(self.tensors)))
        self.put(f"return {', '.join(results)}, {self.pick(self.numbers)}")
        return HEAD + "\n".join(self.lines) + "\n"


def feeds(seed):
    r = np.random.default_rng(seed)
    for n in [0, 1, 2, 3, 5]:
        yield [r.normal(size=(3, 4)).astype(np.float32), r.normal(size=(3, 4)).astype(np.float32) + 0.3, np.array(n, np.int64)]


def module_of(path):
    spec = importlib.util.spec_from_file_location(os.path.basename(path)[:-3], path)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded.Program().eval()


def expected(model, feed):
    with torch.no_grad():
        return [np.asarray(o) for o in model(*[torch.from_numpy(a.copy()) for a in feed])]


def converted(onnxd, path, params, folder):
    """The model that a file becomes, checked, or None and why there is none."""
    out = os.path.join(folder, "out_" + os.path.basename(path))
    given = ["--params", params] if params else []
    run = subprocess.run([onnxd, "convert", path, *given, "--out", out], capture_output=True, text=True, timeout=120)
    if run.returncode:
        lines = [l for l in (run.stdout + run.stderr).splitlines() if " N0" in l or l.startswith("N0")]
        return None, f"exit {run.returncode}: " + " | ".join(lines)[:400]
    file = os.path.join(out, "model.onnx")
    onnx.checker.check_model(file, full_check=True)
    return file, None


def session_of(file):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])


def judge(onnxd, path, model, folder, seed):
    """What is wrong with the conversion of a file; None if nothing is."""
    params = path + ".toml"
    with open(params, "w") as f:
        f.write('[export]\ninput_shapes = [[3, 4], [3, 4], []]\ninput_dtypes = ["float32", "float32", "int64"]\n')
    file, why = converted(onnxd, path, params, folder)
    if why:
        return why
    session = session_of(file)
    names = [i.name for i in session.get_inputs()]
    for feed in feeds(seed):
        want = expected(model, feed)
        try:
            found = session.run(None, dict(zip(names, feed)))
        except Exception as why:
            return f"n={feed[2]}: {str(why)[:300]}"
        for i, (a, b) in enumerate(zip(want, found)):
            if a.shape != b.shape or not np.allclose(a, b, 1e-3, 1e-4, equal_nan=True):
                return f"n={feed[2]}: output {i} differs, shapes {a.shape} and {b.shape}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--onnxd", required=True)
    parser.add_argument("--seeds", default="0:100")
    parser.add_argument("--keep")
    options = parser.parse_args()
    first, last = map(int, options.seeds.split(":"))
    passed = failed = skipped = 0
    for seed in range(first, last):
        folder = tempfile.mkdtemp(prefix="torch_programs_")
        source = os.path.join(folder, f"program_{seed}.py")
        with open(source, "w") as f:
            f.write(Writer(seed).program())
        try:
            model = module_of(source)
            for feed in feeds(seed):
                expected(model, feed)
            scripted = torch.jit.script(model)
        except Exception as why:  # torch does not take it, or it fails for some input
            skipped += 1
            if options.keep:
                print(f"seed {seed}: skipped: {str(why)[-150:]!r}")
            continue
        path = os.path.join(folder, "scripted.pt")
        scripted.save(path)
        try:
            why = judge(options.onnxd, path, model, folder, seed)
        except Exception:
            why = traceback.format_exc(limit=1)[-300:]
        if why is None:
            passed += 1
        else:
            failed += 1
            print(f"seed {seed}: {why}")
            if options.keep:
                subprocess.run(["cp", "-r", folder, os.path.join(options.keep, f"seed_{seed}")])
        subprocess.run(["rm", "-rf", folder])
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
