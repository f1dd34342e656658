#!/usr/bin/env python3
"""Time and memory of the built-in executor beside ONNX Runtime, in one run, alternating.

    speed.py --onnxd target/release/onnxd --models DIR [--runs 5] [--rounds 2] [--batches 1,8] [--threads 1,2]
             [--only NAME,...] [--save result.json]

DIR holds NAME/model.onnx with a dynamic batch axis and NAME/calib.npz with samples along it. Each model is run as it
is (ONNX Runtime: all optimizations) and as the int8 QDQ model that ONNX Runtime's quantize_static makes of it (ONNX
Runtime: all optimizations, which turn it into integer kernels; and none, which is the same arithmetic as ours). Every
round runs every engine in a process of its own; the shortest time counts. Prints milliseconds, the ratio to ONNX
Runtime, and the peak of memory of the processes. Needs numpy, onnx, onnxruntime; it judges nothing.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

PEER = """
import json, sys, time
import numpy as np, onnxruntime
model, inputs, threads, optimized, runs = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4] == "all", int(sys.argv[5])
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = threads
level = onnxruntime.GraphOptimizationLevel
options.graph_optimization_level = level.ORT_ENABLE_ALL if optimized else level.ORT_DISABLE_ALL
session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
feed = dict(np.load(inputs))
session.run(None, feed)
times = []
for _ in range(runs):
    start = time.perf_counter()
    session.run(None, feed)
    times.append((time.perf_counter() - start) * 1e3)
# Not getrusage, whose figure is inherited from the process that started this one.
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps({"min_ms": min(times), "peak_rss_bytes": int(peak.split()[1]) * 1024}))
"""


def last_json(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{command[:3]}: {done.stderr.strip()[-400:]}")
    return json.loads(done.stdout)


def ours(args, model, inputs, threads):
    return last_json([args.onnxd, "eval", model, "--inputs", inputs, "--threads", str(threads), "--bench", str(args.runs)])


def peer(args, model, inputs, threads, level):
    return last_json([sys.executable, "-c", PEER, model, inputs, str(threads), level, str(args.runs)])


def quantized(source, samples, target):
    """The QDQ model of ONNX Runtime's own tool: int8, weights per channel."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    class Reader(CalibrationDataReader):
        def __init__(self):
            self.rest = iter([{name: array[:4] for name, array in samples.items()}])

        def get_next(self):
            return next(self.rest, None)

    quantize_static(source, target, Reader(), quant_format=QuantFormat.QDQ, per_channel=True,
                    activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8)


def measure(args, model, inputs, threads, levels):
    best = {}
    for _ in range(args.rounds):
        found = {"onnxd": ours(args, model, inputs, threads)}
        found.update({f"peer, {level}": peer(args, model, inputs, threads, level) for level in levels})
        for name, figures in found.items():
            kept = best.setdefault(name, dict(figures))
            kept["min_ms"] = min(kept["min_ms"], figures["min_ms"])
            kept["peak_rss_bytes"] = max(kept["peak_rss_bytes"], figures["peak_rss_bytes"])
    return best


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--onnxd", required=True)
    parser.add_argument("--models", required=True)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--batches", default="1,8")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--only", default="")
    parser.add_argument("--save")
    args = parser.parse_args()
    wanted = [n for n in args.only.split(",") if n]
    names = [n for n in sorted(os.listdir(args.models)) if os.path.exists(os.path.join(args.models, n, "model.onnx"))]
    rows = []
    header = f"{'model':24} {'batch':>5} {'threads':>7} {'onnxd ms':>9} {'peer ms':>8} {'ratio':>6} {'unoptimized':>11} {'ratio':>6} {'onnxd MiB':>9} {'peer MiB':>8}"
    print(header, flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        for name in names:
            if wanted and name not in wanted:
                continue
            folder = os.path.join(args.models, name)
            samples = dict(np.load(os.path.join(folder, "calib.npz")))
            forms = {"fp32": os.path.join(folder, "model.onnx"), "int8 QDQ": os.path.join(scratch, f"{name}.onnx")}
            quantized(forms["fp32"], samples, forms["int8 QDQ"])
            for form, model in forms.items():
                for batch in map(int, args.batches.split(",")):
                    inputs = os.path.join(scratch, "inputs.npz")
                    np.savez(inputs, **{n: a[:batch] for n, a in samples.items()})
                    for threads in map(int, args.threads.split(",")):
                        levels = ["all", "off"] if form != "fp32" else ["all"]
                        best = measure(args, model, inputs, threads, levels)
                        own, fast, same = best["onnxd"], best["peer, all"], best.get("peer, off")
                        row = {"model": f"{name} {form}", "batch": batch, "threads": threads, **{k: v for k, v in best.items()}}
                        row["ratio"] = own["min_ms"] / fast["min_ms"]
                        rows.append(row)
                        plain = f"{same['min_ms']:11.1f} {own['min_ms'] / same['min_ms']:6.2f}" if same else f"{'':11} {'':6}"
                        mib = [f["peak_rss_bytes"] / 2**20 for f in (own, fast)]
                        print(f"{row['model']:24} {batch:5} {threads:7} {own['min_ms']:9.1f} {fast['min_ms']:8.1f} "
                              f"{row['ratio']:6.2f} {plain} {mib[0]:9.0f} {mib[1]:8.0f}", flush=True)
    if args.save:
        with open(args.save, "w") as f:
            json.dump(rows, f, indent=1)


if __name__ == "__main__":
    main()
