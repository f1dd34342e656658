#!/usr/bin/env python3
"""What onnxd makes of files of PyTorch, beside both exporters of torch.onnx.

    torch_peers.py --onnxd target/release/onnxd --models DIR [--names TEXT,...] [--opsets 18] [--again] [--details]
                   [--timeout 600] [--save result.json]

DIR/NAME holds `traced.pt` and `exported.pt2` of an architecture of graph_models.py, two or three sets of inputs, and
torch's outputs for them. What is missing there is made first, with random weights. The last set has another batch,
where the program allows it. The figures of the exporters are kept there, too; `--again` measures them again.

Each of the four conversions runs in a process of its own:
- `ts`: traced.pt by the TorchScript exporter (`dynamo=False`); `pt`: traced.pt by onnxd;
- `dynamo`: exported.pt2 by the new exporter (`dynamo=True, optimize=True`); `pt2`: exported.pt2 by onnxd.

CPU seconds and the peak resident set are those of the whole process and its children. For onnxd, `anon` is the largest
anonymous memory of one of its processes, which leaves out mapped files. Nodes are counted with those of sub-graphs,
after functions are inlined. `diff` is the largest difference to torch in ONNX Runtime over all sets of inputs,
relative to the largest element of the output. `--details` prints the operators in which the numbers differ.

Needs the Python of peers.sh. The exit status is 1 if a result of onnxd is not equal to torch's, fails ONNX's full
check, or has more nodes than an equal result of an exporter of torch.
"""
import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import zipfile

from graph_exports import plain_attention, randomized
from graph_models import ARCHITECTURES
from graph_size import count, difference, measured, session

EQUAL = 1e-3
PEERS = {"ts": "traced.pt", "dynamo": "exported.pt2"}
OURS = {"pt": "traced.pt", "pt2": "exported.pt2"}

# -- what runs in processes of its own: `torch_peers.py --worker NAME ARGUMENTS` --------------------------------------


def another(value):
    """Other numbers of the same kind."""
    import torch

    if value.dtype.is_floating_point:
        return torch.rand(value.shape, dtype=value.dtype, generator=torch.Generator().manual_seed(11))
    return value.flip(-1) if value.numel() and int(value.min()) != int(value.max()) else value


def longer(value):
    """The first axis with one element more."""
    import torch

    return value.index_select(0, torch.arange(value.shape[0] + 1) % value.shape[0])


def sets(made):
    """Inputs of two or three runs: as exported, other numbers, another batch."""
    first = made.inputs
    other = {name: another(value) for name, value in first.items()}
    if "pixel_values" in first and "input_ids" in first:
        # The last token of CLIP's text ends it.
        other["input_ids"] = first["input_ids"]
    batch = {name: 0 in made.dynamic.get(name, {}) for name in first}
    if not any(batch.values()):
        return [first, other]
    return [first, other, {name: longer(value) if batch[name] else value for name, value in other.items()}]


def flat(found):
    import torch

    return [found] if isinstance(found, torch.Tensor) else [t for part in found for t in flat(part)]


def keep_runs(call, runs, folder, stem):
    """What a program gives for each set of inputs; a program that fixes its batch stops at another one."""
    import numpy as np
    import torch

    for index, inputs in enumerate(runs):
        try:
            with torch.no_grad():
                outputs = flat(call(*[value.clone() for value in inputs.values()]))
        except Exception:  # noqa: BLE001 - whatever the program throws: it has no such run
            if index < 2:
                raise
            return
        arrays = {f"in_{i}": v.numpy() for i, v in enumerate(inputs.values())}
        np.savez(os.path.join(folder, f"{stem}.{index}.npz"), **arrays,
                 **{f"out_{i}": v.detach().numpy() for i, v in enumerate(outputs)})


def with_named_inputs(module, names):
    """A module whose `forward` has a parameter for each input: `torch.export` cannot run programs of `*args` again."""
    import torch

    if type(module).__name__ != "Named":
        return module
    body = {}
    exec(f"def forward(self, {', '.join(names)}): return self.inner({', '.join(names)})", body)
    outer = type("Outer", (torch.nn.Module,), {"forward": body["forward"]})()
    outer.inner = module
    return outer.eval()


def exported(module, args, made):
    """The exported program, with an open batch if torch can say it."""
    import torch

    axes = {name: {0: torch.export.Dim.AUTO} for name, found in made.dynamic.items() if 0 in found}
    shapes = tuple(axes.get(name) for name in made.inputs)
    if axes:
        try:
            program = torch.export.export(module, args, dynamic_shapes=shapes, strict=False)
            program.module()(*args)
            return program
        except Exception:  # noqa: BLE001 - sizes that torch cannot leave open
            pass
    return torch.export.export(module, args, strict=False)


def worker_make(name, folder):
    import torch

    torch.manual_seed(7)
    torch.backends.mha.set_fastpath_enabled(False)
    made = ARCHITECTURES[name][0]()
    module = with_named_inputs(randomized(made.module), list(made.inputs))
    args, runs = tuple(made.inputs.values()), sets(made)
    about = {"dynamic": [n for n, axes in made.dynamic.items() if 0 in axes], "inputs": list(made.inputs),
             "shapes": [list(v.shape) for v in args], "dtypes": [str(v.dtype).split(".")[1] for v in args]}
    for stem in ("exported", "traced"):
        try:
            with torch.no_grad():
                if stem == "exported":
                    program = exported(module, args, made)
                    torch.export.save(program, os.path.join(folder, "exported.pt2"))
                    call = program.module()
                else:
                    plain_attention(made.module, 18)
                    call = torch.jit.trace(module, args, check_trace=False)
                    call.save(os.path.join(folder, "traced.pt"))
            keep_runs(call, runs, folder, stem)
        except Exception as problem:  # noqa: BLE001 - whatever torch throws: the model has one file less
            about[f"no {stem}"] = f"{type(problem).__name__} {problem}".strip().splitlines()[0][:300]
    with open(os.path.join(folder, "about.json"), "w") as file:
        json.dump(about, file)


def import_operators(path):
    """Operators of torchvision are known after its import, which takes time: only where the code names them."""
    with zipfile.ZipFile(path) as archive:
        if any(b"ops.torchvision" in archive.read(name) for name in archive.namelist() if name.endswith(".py")):
            import torchvision  # noqa: F401


def worker_ts(folder, target, opset):
    import torch

    about = json.load(open(os.path.join(folder, "about.json")))
    import_operators(os.path.join(folder, "traced.pt"))
    module = torch.jit.load(os.path.join(folder, "traced.pt"))
    args = tuple(torch.from_numpy(value) for value in run_of(folder, "traced", 0)[0])
    open_axes = {name: {0: "batch"} for name in about["dynamic"]} if has_run(folder, "traced", 2) else None
    torch.onnx.export(module, args, target, dynamo=False, opset_version=int(opset), input_names=about["inputs"],
                      dynamic_axes=open_axes)


def worker_dynamo(folder, target, opset):
    import torch

    program = torch.export.load(os.path.join(folder, "exported.pt2"))
    torch.onnx.export(program, (), target, dynamo=True, optimize=True, opset_version=int(opset), external_data=False,
                      verbose=False)


def run_path(folder, stem, index):
    return os.path.join(folder, f"{stem}.{index}.npz")


def has_run(folder, stem, index):
    return os.path.exists(run_path(folder, stem, index))


def run_of(folder, stem, index):
    import numpy as np

    arrays = dict(np.load(run_path(folder, stem, index)))
    return [[arrays[k] for k in sorted(arrays, key=lambda k: int(k.split("_")[1])) if k.startswith(kind)]
            for kind in ("in_", "out_")]


def nodes(model):
    import onnx

    if model.functions:
        model = onnx.inliner.inline_local_functions(model)
    return count(model)


def worker_judge(folder, stem, path):
    import onnx

    found = {}
    model = onnx.load(path, load_external_data=False)
    found["operators"] = nodes(model)
    try:
        onnx.checker.check_model(path, full_check=True)
    except Exception as problem:  # noqa: BLE001 - any complaint of the checker is a result here
        found["check"] = str(problem).strip().splitlines()[0][:300]
    try:
        run = session(path, False, 1)
        given = [value.name for value in run.get_inputs()]
        all_names = json.load(open(os.path.join(folder, "about.json")))["inputs"]
        found["runs"], found["difference"] = 0, 0.0
        for index in range(3):
            if not has_run(folder, stem, index):
                continue
            inputs, expected = run_of(folder, stem, index)
            # An input that nothing reads is missing in some results; the others keep their order.
            names = all_names if set(given) <= set(all_names) else given
            feed = {name: value for name, value in zip(names, inputs) if name in given}
            one = difference(expected, run.run(None, feed))
            found["difference"] = one if isinstance(one, str) else max(found["difference"], one)
            found["runs"] += 1
            if isinstance(one, str):
                break
    except Exception as problem:  # noqa: BLE001 - any failure of the runtime is a result here
        found["difference"] = f"does not run: {str(problem).strip().splitlines()[0][:300]}"
    print(json.dumps(found))


# -- processes --------------------------------------------------------------------------------------------------------


def worker(name, *arguments):
    return [sys.executable, os.path.abspath(__file__), "--worker", name, *arguments]


def descendants(pid):
    found, rest = [], [pid]
    while rest:
        one = rest.pop()
        found.append(one)
        try:
            with open(f"/proc/{one}/task/{one}/children") as file:
                rest.extend(int(child) for child in file.read().split())
        except OSError:
            pass
    return found


def anonymous(pid):
    """The anonymous memory of a process in MiB."""
    try:
        with open(f"/proc/{pid}/status") as file:
            return next((int(line.split()[1]) / 1024 for line in file if line.startswith("RssAnon")), 0)
    except OSError:
        return 0


def watched(command, timeout):
    """`measured`, with the largest anonymous memory of a process below this one."""
    most, done = [0], threading.Event()

    def watch():
        while not done.wait(0.002):
            most[0] = max([most[0], *map(anonymous, descendants(os.getpid())[1:])])

    thread = threading.Thread(target=watch)
    thread.start()
    row = measured(command, timeout)
    done.set()
    thread.join()
    return {**row, "anon_mib": most[0]}


def judged(folder, source, path, row):
    if "failed" in row or not os.path.exists(path):
        row.setdefault("failed", "no model")
        return row
    files = (file for file in os.scandir(os.path.dirname(path)) if file.name.endswith((".onnx", ".data")))
    row["bytes"] = sum(file.stat().st_size for file in files)
    done = subprocess.run(worker("judge", folder, source.split(".")[0], path), capture_output=True, text=True)
    row.update(json.loads(done.stdout) if done.returncode == 0 else {"failed": done.stderr.strip()[-300:]})
    row["nodes"] = sum(row.get("operators", {}).values())
    return row


def peer(args, folder, tool, opset):
    kept = os.path.join(folder, f"{tool}{opset}.json")
    if os.path.exists(kept) and not args.again:
        return json.load(open(kept))
    target = os.path.join(folder, f"{tool}{opset}", "model.onnx")
    os.makedirs(os.path.dirname(target), exist_ok=True)
    row = judged(folder, PEERS[tool], target, measured(worker(tool, folder, target, str(opset)), args.timeout))
    with open(kept, "w") as file:
        json.dump(row, file)
    return row


def ours(args, folder, tool, opset, scratch):
    about = json.load(open(os.path.join(folder, "about.json")))
    settings = [f"export.opset={opset}"]
    if tool == "pt":
        free = about["dynamic"] if has_run(folder, "traced", 2) else []
        shapes = [["batch", *shape[1:]] if name in free else shape
                  for name, shape in zip(about["inputs"], about["shapes"])]
        settings += [f"export.input_shapes={json.dumps(shapes)}", f"export.input_dtypes={json.dumps(about['dtypes'])}",
                     f"export.input_names={json.dumps(about['inputs'])}"]
    target = os.path.join(args.keep or scratch, f"{os.path.basename(folder)}.{tool}{opset}")
    subprocess.run(["rm", "-rf", target], check=True)
    command = [args.onnxd, "convert", os.path.join(folder, OURS[tool]), "--out", target]
    row = watched(command + [part for setting in settings for part in ("--set", setting)], args.timeout)
    # Status 1 is a result with findings.
    if row.get("failed", "").startswith("status 1:"):
        del row["failed"]
    return judged(folder, OURS[tool], os.path.join(target, "model.onnx"), row)


# -- figures ----------------------------------------------------------------------------------------------------------


def equal(row):
    return isinstance(row.get("difference"), float) and row["difference"] <= EQUAL and "check" not in row


def best_peer(tools):
    return min((tools[p] for p in PEERS if equal(tools.get(p, {}))), key=lambda r: r["nodes"], default=None)


def make(args, name):
    folder = os.path.join(args.models, name)
    if not os.path.exists(os.path.join(folder, "about.json")):
        os.makedirs(folder, exist_ok=True)
        row = measured(worker("make", name, folder), args.timeout)
        if "failed" in row:
            print(f"{name}: not made: {row['failed'].splitlines()[-1][:200]}", flush=True)
            return None
    return folder


def measure(args, name, opset, scratch):
    folder = make(args, name)
    if not folder:
        return None
    tools = {}
    for tool, source in {**PEERS, **OURS}.items():
        if has_run(folder, source.split(".")[0], 0):
            tools[tool] = peer(args, folder, tool, opset) if tool in PEERS else ours(args, folder, tool, opset, scratch)
    return {"model": name, "opset": opset, "tools": tools}


def cell(row, key, text, width):
    return f"{text.format(row[key]) if key in row else '-':>{width}}"


def print_row(row, details):
    best = best_peer(row["tools"])
    for index, (tool, found) in enumerate(row["tools"].items()):
        said = found.get("failed") or found.get("check") or found.get("difference")
        lines = [line for line in str(said).splitlines() if " input: " in line] or str(said).splitlines()
        verdict = f"{said:.0e} in {found['runs']} runs" if isinstance(said, float) else lines[-1][:120]
        other = row["tools"].get({"pt": "ts", "pt2": "dynamo"}.get(tool), {})
        times = f"{other['cpu_s'] / found['cpu_s']:5.0f}x" if "cpu_s" in other and "cpu_s" in found else f"{'':6}"
        more = tool in OURS and best and found.get("nodes", 0) > best["nodes"]
        print(f"{row['model'] if not index else '':30} {row['opset']} {tool:6} {cell(found, 'nodes', '{}', 6)}"
              f"{'+' if more else ' '} {found.get('bytes', 0) / 2**20:7.2f} {cell(found, 'cpu_s', '{:.2f}', 7)} "
              f"{times} {cell(found, 'peak_mib', '{:.0f}', 6)} {cell(found, 'anon_mib', '{:.0f}', 5)} "
              f" {verdict}", flush=True)
        if more and details:
            apart = collections.Counter(found["operators"])
            apart.subtract(best["operators"])
            print(f"{'':36}{' '.join(f'{k} {v:+}' for k, v in sorted(apart.items()) if v)}", flush=True)


def summary(rows):
    lines = [f"{len(rows)} models and opsets"]
    for tool in [*PEERS, *OURS]:
        found = [row["tools"][tool] for row in rows if tool in row["tools"]]
        lines.append(f"{tool:6} files {len(found):4}, equal {sum(map(equal, found)):4}, "
                     f"CPU {sum(f['cpu_s'] for f in found):8.1f} s, "
                     f"largest peak {max((f['peak_mib'] for f in found), default=0):.0f} MiB")
    for tool in OURS:
        both = [(row["tools"][tool], best_peer(row["tools"])) for row in rows if tool in row["tools"]]
        both = [(own["nodes"], best["nodes"]) for own, best in both if best and "nodes" in own]
        lines.append(f"{tool:6} nodes at most the best peer's in {sum(a <= b for a, b in both)} of {len(both)}: "
                     f"{sum(a for a, _ in both)} for {sum(b for _, b in both)}")
    return lines


def wrong(row):
    best = best_peer(row["tools"])
    return any(not equal(row["tools"][t]) or best and row["tools"][t]["nodes"] > best["nodes"]
               for t in OURS if t in row["tools"])


def arguments():
    comma = lambda text: [part for part in text.split(",") if part]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--onnxd", required=True)
    parser.add_argument("--models", required=True, help="folder of the models, made where missing")
    parser.add_argument("--names", type=comma, default=[], help="texts, one of which is in the name")
    parser.add_argument("--opsets", type=comma, default=["18"])
    parser.add_argument("--again", action="store_true", help="measure the exporters of torch again")
    parser.add_argument("--details", action="store_true", help="print operators of which there are more")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for a tool and a model")
    parser.add_argument("--keep", help="folder for the results of onnxd")
    parser.add_argument("--save", help="file for all figures as JSON")
    return parser.parse_args()


def main():
    if sys.argv[1:2] == ["--worker"]:
        return globals()[f"worker_{sys.argv[2]}"](*sys.argv[3:])
    args = arguments()
    args.onnxd, started = os.path.abspath(args.onnxd), time.time()
    print(f"{'model':30} opset  {'nodes':>8} {'MiB':>8} {'CPU s':>7} {'':6} {'peak':>6} {'anon':>5}  diff", flush=True)
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        for name in (n for n in ARCHITECTURES if not args.names or any(text in n for text in args.names)):
            for opset in args.opsets:
                row = measure(args, name, opset, scratch)
                if row:
                    rows.append(row)
                    print_row(row, args.details)
                if args.save:
                    with open(args.save, "w") as file:
                        json.dump(rows, file, indent=1)
    print("\n".join([*summary(rows), f"{time.time() - started:.0f} s"]))
    return 1 if any(map(wrong, rows)) else 0


if __name__ == "__main__":
    sys.exit(main())
