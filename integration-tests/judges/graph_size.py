#!/usr/bin/env python3
"""What onnxd makes of exports, beside OnnxSlim, onnxsim and ONNX Runtime's basic optimizations, in one run.

    graph_size.py --onnxd target/release/onnxd --exports DIR [--models TEXT,...] [--tools TEXT,...] [--opsets 13,17]
                  [--set KEY=VALUE ...] [--no-export] [--no-time] [--keep DIR] [--timeout 300] [--save result.json]

DIR holds NAME.onnx and NAME.npz. Exports of graph_exports.py that are missing there are made first, unless --no-export
is given, so that a second run needs no torch. Models of one's own may lie in DIR, too.

Each tool runs in a process of its own. Its CPU time and peak memory are those of that process and of its children. A
result is run in ONNX Runtime without optimizations beside the export (equal: the largest difference, relative to the
largest element of the output), and with all optimizations for the time (median of runs in turn). Nodes are counted with
those of sub-graphs and local functions. `--opsets` asks onnxd for these opsets, too, and prints what it refuses.

Needs the Python of peers.sh. It prints figures and judges one thing: the exit status is 1 if a result of onnxd is not
equal to its export or if onnxd gave none.
"""
import argparse
import collections
import glob
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time

# The process that measures imports no large library: peak memory of a child begins with that of its parent.

HERE = os.path.dirname(os.path.abspath(__file__))
TOOLS = ["onnxd", "onnxslim", "onnxsim", "ort_basic"]
EQUAL = 1e-4

# -- what runs in processes of its own: `graph_size.py --worker NAME ARGUMENTS` ---------------------------------------


def worker_onnxslim(source, target):
    import onnxslim

    onnxslim.slim(source, target)


def worker_onnxsim(source, target):
    import onnx
    import onnxsim

    model, same = onnxsim.simplify(onnx.load(source))
    if not same:
        sys.exit("onnxsim's own check failed")
    onnx.save(model, target)


def worker_ort_basic(source, target):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = target
    options.intra_op_num_threads = 1
    onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def count(model):
    """Nodes for each operator, with those of sub-graphs and functions."""
    found = collections.Counter()

    def walk(nodes):
        for node in nodes:
            found[f"{node.domain}.{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type] += 1
            for attribute in node.attribute:
                for graph in [attribute.g] if attribute.HasField("g") else attribute.graphs:
                    walk(graph.node)

    walk(model.graph.node)
    for function in model.functions:
        walk(function.node)
    return dict(sorted(found.items()))


def session(path, optimized, threads):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    level = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimized else level.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def difference(expected, got):
    """The largest difference relative to the largest element; a text if outputs cannot be compared."""
    import numpy as np

    worst = 0.0
    for one, other in zip(expected, got):
        if one.shape != other.shape or one.dtype != other.dtype:
            return f"{one.dtype}{list(one.shape)} is {other.dtype}{list(other.shape)}"
        if not one.size:
            continue
        one, other = one.astype(np.float64), other.astype(np.float64)
        if not np.array_equal(np.isfinite(one), np.isfinite(other)):
            return "other elements are not finite"
        finite = np.isfinite(one)
        if finite.any():
            worst = max(worst, float(np.abs(one - other)[finite].max() / max(np.abs(one[finite]).max(), 1e-6)))
    return worst


def worker_judge(task):
    """Counts, compares and times the export and all results. Prints JSON."""
    import numpy as np
    import onnx

    task = json.loads(task)
    feed = dict(np.load(task["inputs"]))
    found, sessions, expected = {}, {}, None
    for name, path in task["models"].items():
        row = found[name] = {"operators": count(onnx.load(path, load_external_data=False))}
        row["nodes"] = sum(row["operators"].values())
        try:
            outputs = session(path, False, task["threads"]).run(None, feed)
            expected = outputs if name == "export" else expected
            row["difference"] = difference(expected, outputs) if expected else "the export does not run"
        except Exception as problem:  # noqa: BLE001 - any failure of the runtime is a result here
            row["difference"] = f"does not run: {str(problem)[:300]}"
            continue
        try:
            sessions[name] = session(path, True, task["threads"])
        except Exception as problem:  # noqa: BLE001 - the runtime cannot optimize its own result a second time
            row["not_optimized"] = str(problem)[:300]
    if task["seconds"]:
        times = {name: [] for name in sessions}
        for each in sessions.values():
            each.run(None, feed)
        end = time.perf_counter() + task["seconds"]
        while sessions and (time.perf_counter() < end or len(times["export"]) < 5) and len(times["export"]) < 200:
            for name, each in sessions.items():
                start = time.perf_counter()
                each.run(None, feed)
                times[name].append((time.perf_counter() - start) * 1e3)
        for name, all_ in times.items():
            found[name]["median_ms"] = statistics.median(all_)
    print(json.dumps(found))


# -- processes --------------------------------------------------------------------------------------------------------


def measured(command, timeout):
    """Runs a command to its end or its time limit. CPU time and peak memory include its children's."""
    with tempfile.TemporaryFile() as log:
        child = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        late = threading.Timer(timeout, os.killpg, (child.pid, 9))
        late.start()
        started = time.monotonic()
        _, status, usage = os.wait4(child.pid, 0)
        late.cancel()
        wall = time.monotonic() - started
        log.seek(0)
        said = log.read().decode(errors="replace")
    found = {"cpu_s": usage.ru_utime + usage.ru_stime, "wall_s": wall, "peak_mib": usage.ru_maxrss / 1024}
    code = os.waitstatus_to_exitcode(status)
    if code:
        found["failed"] = f"stopped after {timeout} s" if wall >= timeout else f"status {code}: {said.strip()[-600:]}"
    return found


def worker(name, *arguments):
    return [sys.executable, os.path.abspath(__file__), "--worker", name, *arguments]


def convert(args, source, folder, more=()):
    settings = [part for setting in [*args.set, *more] for part in ("--set", setting)]
    row = measured([args.onnxd, "convert", source, "--out", folder, *settings], args.timeout)
    # Status 1 is a result with findings.
    if row.get("failed", "").startswith("status 1:"):
        del row["failed"]
    return row


def run_tool(args, tool, source, folder):
    os.makedirs(folder)
    target = os.path.join(folder, "model.onnx")
    if tool == "onnxd":
        os.rmdir(folder)
        row = convert(args, source, folder)
    else:
        row = measured(worker(tool, source, target), args.timeout)
    if "failed" not in row and not os.path.exists(target):
        row["failed"] = "no model"
    if "failed" not in row:
        row["bytes"] = os.path.getsize(target) + sum(map(os.path.getsize, glob.glob(os.path.join(folder, "*.data"))))
    return target, row


def judge(args, source, results):
    task = {"inputs": source[: -len(".onnx")] + ".npz", "models": {"export": source, **results},
            "threads": args.threads, "seconds": 0 if args.no_time else args.seconds}
    done = subprocess.run(worker("judge", json.dumps(task)), capture_output=True, text=True, timeout=args.timeout * 4)
    if done.returncode:
        sys.exit(f"{source}: {done.stderr.strip()[-600:]}")
    return json.loads(done.stdout)


def refusals(args, source, scratch):
    """What onnxd says if it cannot write the model in another opset."""
    found = {}
    for opset in args.opsets:
        folder = os.path.join(scratch, f"opset{opset}")
        row = convert(args, source, folder, [f"export.opset={opset}"])
        if "failed" in row:
            lines = [line.strip() for line in row["failed"].splitlines() if "N0" in line or "error" in line]
            found[str(opset)] = lines or [row["failed"]]
    return found


# -- figures ----------------------------------------------------------------------------------------------------------


def measure(args, name, scratch):
    source = os.path.join(args.exports, f"{name}.onnx")
    kept = os.path.join(args.keep or scratch, name)
    rows, results = {"export": {"bytes": os.path.getsize(source)}}, {}
    subprocess.run(["rm", "-rf", kept], check=True)
    for tool in args.tools:
        target, rows[tool] = run_tool(args, tool, source, os.path.join(kept, tool))
        if "failed" not in rows[tool]:
            results[tool] = target
    for tool, row in judge(args, source, results).items():
        rows[tool].update(row)
    row = {"model": name, "tools": rows}
    if args.opsets:
        row["refused"] = refusals(args, source, os.path.join(scratch, name, "opsets"))
    if not args.keep:
        subprocess.run(["rm", "-rf", kept], check=True)
    return row


def equal(row):
    return isinstance(row.get("difference"), float) and row["difference"] <= EQUAL


def cell(row, key, text, width):
    return f"{text.format(row[key]) if key in row else '-':>{width}}"


def print_row(row, tools):
    export = row["tools"]["export"]
    print(f"{row['model']:38} export    {cell(export, 'nodes', '{}', 6)} {export['bytes'] / 2**20:8.2f} "
          f"{'':7} {'':7} {cell(export, 'median_ms', '{:.2f}', 9)}", flush=True)
    for tool in tools:
        found = row["tools"][tool]
        verdict = found.get("failed") or ("equal" if equal(found) else str(found.get("difference")))
        size = f"{found['bytes'] / 2**20:8.2f}" if "bytes" in found else f"{'-':>8}"
        print(f"{'':38} {tool:9} {cell(found, 'nodes', '{}', 6)} {size} {cell(found, 'cpu_s', '{:.2f}', 7)} "
              f"{cell(found, 'peak_mib', '{:.0f}', 7)} {cell(found, 'median_ms', '{:.2f}', 9)} "
              f"{verdict.splitlines()[-1][:80]}", flush=True)
    for opset, lines in row.get("refused", {}).items():
        print(f"{'':38} opset {opset} refused: {lines[0][:150]}", flush=True)


def summary(rows, tools):
    """Lines that compare onnxd with its peers over all models where they gave an equal result."""
    peers = [tool for tool in tools if tool != "onnxd"]
    ours = [row["tools"]["onnxd"] for row in rows if "onnxd" in row["tools"]]
    lines = [f"{len(rows)} models"]
    for tool in tools:
        found = [row["tools"][tool] for row in rows]
        lines.append(f"{tool:9} equal {sum(map(equal, found)):4}, failed {sum('failed' in f for f in found):3}, "
                     f"CPU {sum(f['cpu_s'] for f in found):8.1f} s, nodes {sum(f.get('nodes', 0) for f in found)}")
    if "onnxd" not in tools or not peers:
        return lines
    least = near = compared = 0
    ratios = []
    for row, own in zip(rows, ours):
        best = min((row["tools"][p]["nodes"] for p in peers if equal(row["tools"][p])), default=None)
        if best is None or "nodes" not in own:
            continue
        compared += 1
        least += own["nodes"] <= best
        near += own["nodes"] <= best * 1.05
        if "median_ms" in own and "median_ms" in row["tools"]["export"]:
            ratios.append(own["median_ms"] / row["tools"]["export"]["median_ms"])
    lines.append(f"nodes of onnxd at most the least of its peers in {least} of {compared}, within 5 % of it in {near}")
    if ratios:
        lines.append(f"time of onnxd's result to that of the export: median {statistics.median(ratios):.2f}, "
                     f"largest {max(ratios):.2f}")
    refused = collections.Counter(opset for row in rows for opset in row.get("refused", {}))
    lines.extend(f"opset {opset}: {n} refused" for opset, n in sorted(refused.items()))
    return lines


def make_missing(args):
    command = [sys.executable, os.path.join(HERE, "graph_exports.py"), "--exports", args.exports]
    listed = subprocess.run([*command, "--list"], capture_output=True, text=True, check=True).stdout.split()
    absent = [n for n in listed if wanted(args, n) and not os.path.exists(os.path.join(args.exports, f"{n}.onnx"))]
    if absent:
        # Some exporters fail on some models. The figures are of what is there.
        subprocess.run([*command, *absent], stderr=subprocess.DEVNULL)


def wanted(args, name):
    return not args.models or any(text in name for text in args.models)


def arguments():
    comma = lambda text: [part for part in text.split(",") if part]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--onnxd", required=True)
    parser.add_argument("--exports", required=True)
    parser.add_argument("--models", type=comma, default=[], help="texts, one of which is in the name")
    parser.add_argument("--tools", type=comma, default=TOOLS)
    parser.add_argument("--opsets", type=comma, default=[])
    parser.add_argument("--set", action="append", default=[], help="a param for onnxd")
    parser.add_argument("--no-export", action="store_true")
    parser.add_argument("--no-time", action="store_true")
    parser.add_argument("--seconds", type=float, default=3, help="of inference for each model")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=300, help="seconds for a tool and a model")
    parser.add_argument("--keep", help="folder for the results")
    parser.add_argument("--save", help="file for all figures as JSON")
    return parser.parse_args()


def main():
    if sys.argv[1:2] == ["--worker"]:
        return globals()[f"worker_{sys.argv[2]}"](*sys.argv[3:])
    args = arguments()
    args.onnxd = os.path.abspath(args.onnxd)
    if not args.no_export:
        make_missing(args)
    found = sorted(os.path.basename(path)[: -len(".onnx")] for path in glob.glob(os.path.join(args.exports, "*.onnx")))
    print(f"{'model':38} {'tool':9} {'nodes':>6} {'MiB':>8} {'CPU s':>7} {'MiB':>7} {'median ms':>9}", flush=True)
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        for name in filter(lambda n: wanted(args, n), found):
            rows.append(measure(args, name, scratch))
            print_row(rows[-1], args.tools)
            if args.save:
                with open(args.save, "w") as file:
                    json.dump(rows, file, indent=1)
    print("\n".join(summary(rows, args.tools)))
    return 0 if "onnxd" not in args.tools or all(equal(row["tools"]["onnxd"]) for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
