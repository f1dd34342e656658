#!/usr/bin/env python3
"""What quantization costs and gives beside ONNX Runtime's own tools: same networks, same samples, one run.

    quantizers.py --onnxd target/release/onnxd --shared ../shared [--models DIR] [--match 'digits*'] [--ways 'onnxd*']
                  [--neural-compressor PYTHON] [--save table.md]

Every network of corpus/quantization, and every NAME/ with model.onnx and calib.npz below DIR, is quantized in each way
by a process of its own, with all of calib.npz: CPU seconds and the peak of memory are those of that process and its
children. What it wrote runs in ONNX Runtime on test.npz, which no way has seen (without one, on the last quarter of
calib.npz, which is then kept from all of them). SQNR is against the float network, in dB over all outputs; top-1 is
against labels where there are some, else against the float network. Both without optimizations; `all` is the SQNR
of the same file with all of them, where ONNX Runtime's own integer operators saturate on processors without VNNI.
Peers are fed up to 16 samples at a time; one with networks of more than 10 MB, which takes less memory. PYTHON is an
interpreter that has onnx-neural-compressor 1.0 with the versions it needs (onnxruntime 1.18.1, onnx 1.16.2). Files that
Neural Compressor's export wrote for a network (corpus/quantization/inc_recipes) are judged beside them, without time.

It fails where onnxd writes no model, the checker or ONNX Runtime refuses it, the form of operators on integers is
farther from the form of pairs than the distance to float minus FORMS_DB, onnxd's defaults are more than BEHIND_DB
worse than ONNX Runtime's of the same granularity, or optimizations cost what onnxd wrote more than OPTIMIZED_DB.
Started by `qemu-x86_64 -cpu Haswell python`, it judges as on a processor without VNNI: what it starts runs natively,
ONNX Runtime itself does not. Needs numpy, onnx, onnxruntime, for its weights of 4 bits onnx_ir.
"""
import argparse
import fnmatch
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime

# Both forms round at the same places; ties that fall to the other side are all that may differ.
FORMS_DB = 6.0
BEHIND_DB = 0.5
# Optimizations sum in another order, and round some values elsewhere.
OPTIMIZED_DB = 1.0

# Starts the process to be measured: its peak would otherwise begin at that of this one, which holds networks.
START = """
import json, os, subprocess, sys
child = subprocess.Popen(sys.argv[2:], stdout=open(sys.argv[1], "wb"), stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
_, status, usage = os.wait4(child.pid, 0)
print(json.dumps([os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024]))
"""

# What both peers are started with: a reader of samples.
READ = """
import sys, json, os
import numpy as np
source, samples, target, how = sys.argv[1], sys.argv[2], sys.argv[3], json.loads(sys.argv[4])
batch = 1 if os.path.getsize(source) > 10_000_000 else 16

class Samples:
    def __init__(self):
        self.rewind()

    def rewind(self):
        arrays = dict(np.load(samples))
        count = min(len(a) for a in arrays.values())
        self.rest = iter([{n: a[i:i + batch] for n, a in arrays.items()} for i in range(0, count, batch)])

    def get_next(self):
        return next(self.rest, None)
"""

PEER = READ + """
from onnxruntime import quantization as q
class Reader(Samples, q.CalibrationDataReader):
    pass

if how["mode"] == "dynamic":
    q.quantize_dynamic(source, target, per_channel=how["per_channel"], weight_type=q.QuantType.QInt8)
else:
    q.quantize_static(source, target, Reader(), quant_format=q.QuantFormat[how["form"]], per_channel=how["per_channel"],
                      activation_type=q.QuantType.QUInt8, weight_type=q.QuantType.QInt8,
                      calibrate_method=q.CalibrationMethod[how["method"]])
"""

# Of its further algorithms GPTQ and HQQ take torch.
WEIGHTS = READ + """
import onnx
from onnxruntime.quantization import matmul_nbits_quantizer as n
made = {"default": lambda: n.DefaultWeightOnlyQuantConfig(block_size=32, is_symmetric=how["symmetric"], bits=4),
        "k-quant": n.KQuantWeightOnlyQuantConfig, "RTN": n.RTNWeightOnlyQuantConfig}[how["algorithm"]]()
work = n.MatMulNBitsQuantizer(onnx.load(source), block_size=32, is_symmetric=how["symmetric"], algo_config=made)
work.process()
work.model.save_model_to_file(target)
"""

COMPRESSOR = READ + """
from onnx_neural_compressor.quantization import QuantFormat, QuantType, config, quantize
if how["mode"] == "dynamic":
    asked = config.DynamicQuantConfig(per_channel=how["per_channel"], weight_type=QuantType.QInt8)
else:
    asked = config.StaticQuantConfig(Samples(), quant_format=QuantFormat[how["form"]], per_channel=how["per_channel"],
                                     activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8)
quantize(source, target, asked)
"""


def own(**keys):
    """Params of onnxd."""
    method = keys.pop("method", None)
    lines = ["[quantization]", *(f"{key} = {json.dumps(value)}" for key, value in keys.items())]
    return "\n".join(lines + ([f'[calibration]\nmethod = "{method}"'] if method else [])) + "\n"


def peer(mode="static", form="QDQ", per_channel=True, method="MinMax", script=PEER):
    return {"mode": mode, "form": form, "per_channel": per_channel, "method": method, "script": script}


def weights(rounding=None, dtype="uint4"):
    """Params of onnxd for weights of 4 bits alone, in the operators that MatMulNBitsQuantizer writes."""
    keys = {"rounding": rounding} if rounding else {}
    return own(format="QLinear", mode="weight_only", weight_type=dtype, block_size=32, **keys)


def nbits(algorithm, symmetric=False):
    return {"script": WEIGHTS, "algorithm": algorithm, "symmetric": symmetric}


WAYS = {
    "onnxd QDQ": own(format="QDQ"),
    "onnxd QDQ, per tensor": own(format="QDQ", per_channel=False),
    "onnxd QLinear": own(format="QLinear"),
    "onnxd QLinear, per tensor": own(format="QLinear", per_channel=False),
    "onnxd QDQ, percentile": own(format="QDQ", method="percentile"),
    "onnxd QDQ, entropy": own(format="QDQ", method="entropy"),
    "onnxd QDQ, mse": own(format="QDQ", method="mse"),
    "onnxd QDQ, moving average": own(format="QDQ", method="moving_average"),
    "onnxd QDQ, auto": own(format="QDQ", accuracy="auto"),
    "onnxd QDQ, auto, per tensor": own(format="QDQ", accuracy="auto", per_channel=False),
    "onnxd QLinear, auto": own(format="QLinear", accuracy="auto"),
    "onnxd dynamic": own(format="QDQ", mode="dynamic"),
    "onnxd dynamic, per tensor": own(format="QDQ", mode="dynamic", per_channel=False),
    "onnxd 4-bit weights": weights(),
    "onnxd 4-bit weights, symmetric": weights(dtype="int4"),
    "onnxd 4-bit weights, nearest": weights("nearest"),
    "onnxd 4-bit weights, GPTQ": weights("gptq"),
    "onnxd 4-bit weights, AWQ": weights("awq"),
    "ONNX Runtime 4-bit weights": nbits("default"),
    "ONNX Runtime 4-bit weights, symmetric": nbits("default", True),
    "ONNX Runtime 4-bit weights, k-quant": nbits("k-quant"),
    "ONNX Runtime 4-bit weights, RTN": nbits("RTN"),
    "ONNX Runtime QDQ": peer(),
    "ONNX Runtime QDQ, per tensor": peer(per_channel=False),
    "ONNX Runtime QOperator": peer(form="QOperator"),
    "ONNX Runtime QOperator, per tensor": peer(form="QOperator", per_channel=False),
    "ONNX Runtime QDQ, percentile": peer(method="Percentile"),
    "ONNX Runtime QDQ, percentile, per tensor": peer(method="Percentile", per_channel=False),
    "ONNX Runtime dynamic": peer(mode="dynamic"),
    "ONNX Runtime dynamic, per tensor": peer(mode="dynamic", per_channel=False),
    "Neural Compressor QDQ": peer(script=COMPRESSOR),
    "Neural Compressor QOperator": peer(form="QOperator", script=COMPRESSOR),
    "Neural Compressor dynamic": peer(mode="dynamic", script=COMPRESSOR),
}
# The same request in two forms.
FORMS = [("onnxd QDQ", "onnxd QLinear"), ("onnxd QDQ, per tensor", "onnxd QLinear, per tensor"),
         ("onnxd QDQ, auto", "onnxd QLinear, auto")]
RIVALS = [("onnxd QDQ", "ONNX Runtime QDQ"), ("onnxd QDQ, per tensor", "ONNX Runtime QDQ, per tensor"),
          ("onnxd dynamic", "ONNX Runtime dynamic"), ("onnxd 4-bit weights", "ONNX Runtime 4-bit weights"),
          ("onnxd QDQ", "Neural Compressor QDQ"), ("onnxd dynamic", "Neural Compressor dynamic")]


def measured(command, log):
    """Exit status, CPU seconds and peak MiB of a process with its children."""
    done = subprocess.run([sys.executable, "-I", "-S", "-c", START, log, *command], capture_output=True, text=True,
                          check=True, timeout=3600)
    return json.loads(done.stdout)


def quantize(programs, how, network, work):
    """The written file or a complaint, and what it cost."""
    log = os.path.join(work, "log")
    if isinstance(how, str):
        params, out = os.path.join(work, "params.toml"), os.path.join(work, "out")
        with open(params, "w") as f:
            f.write(how)
        sources = [network["model"], network["calib"]]
        status, *cost = measured([programs["onnxd"], "convert", *sources, "--params", params, "--out", out], log)
        target, fine = os.path.join(out, "model.onnx"), status in (0, 1)
    else:
        target = os.path.join(work, "model.onnx")
        command = [programs[how["script"]], "-c", how["script"], network["model"], network["calib"], target,
                   json.dumps({**how, "script": None})]
        status, *cost = measured(command, log)
        fine = status == 0
    if fine:
        return target, None, cost
    with open(log, errors="replace") as f:
        return None, " | ".join(f.read().strip().splitlines()[-3:])[:300], cost


def run(path, inputs, optimized):
    """The outputs of a model, batch by batch."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    level = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimized else level.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    count = min(len(array) for array in inputs.values())
    parts = [session.run(None, {n: a[i:i + 8] for n, a in inputs.items()}) for i in range(0, count, 8)]
    return [np.concatenate(part) for part in zip(*parts)]


def sqnr_db(wanted, found):
    signal = sum(float(np.sum(np.square(w, dtype=np.float64))) for w in wanted)
    noise = sum(float(np.sum(np.square(w.astype(np.float64) - f))) for w, f in zip(wanted, found))
    return 10 * np.log10(signal / noise) if noise else float("inf")


def load(folder, work):
    """A network, its samples for calibration, and those that are kept apart, with what float makes of them."""
    network = {"name": os.path.basename(folder), "model": os.path.join(folder, "model.onnx")}
    # One name for onnxd, which takes calibration data by it.
    network["calib"] = os.path.join(work, "calib.npz")
    test = os.path.join(folder, "test.npz")
    samples, kept = dict(np.load(os.path.join(folder, "calib.npz"))), None
    if os.path.exists(test):
        shutil.copy(os.path.join(folder, "calib.npz"), network["calib"])
        kept = dict(np.load(test))
    else:
        count = min(len(array) for array in samples.values()) * 3 // 4
        np.savez(network["calib"], **{name: array[:count] for name, array in samples.items()})
        kept = {name: array[count:] for name, array in samples.items()}
    network["inputs"] = {name: kept[name] for name in samples}
    network["float"] = run(network["model"], network["inputs"], False)
    network["labels"] = kept.get("labels", network["float"][0].reshape(len(network["float"][0]), -1).argmax(1))
    return network


def figures(path, network):
    """SQNR, top-1, SQNR with optimizations, bytes, and the outputs."""
    found = run(path, network["inputs"], False)
    top1 = float((found[0].reshape(len(found[0]), -1).argmax(1) == network["labels"]).mean())
    optimized = run(path, network["inputs"], True)
    folder = os.path.dirname(path)
    beside = [f for f in os.listdir(folder) if f.startswith("model.onnx")]
    size = sum(os.path.getsize(os.path.join(folder, f)) for f in beside) if len(beside) > 1 else os.path.getsize(path)
    return {"db": sqnr_db(network["float"], found), "top1": top1, "all": sqnr_db(network["float"], optimized),
            "kb": size / 1000, "outputs": found}


def row(name, found, cost):
    cpu, peak = [f"{cost[0]:.2f}", f"{cost[1]:.0f}"] if cost else ["-", "-"]
    return (f"| {name} | {found['db']:.2f} | {100 * found['top1']:.2f} | {found['all']:.2f} | {cpu} | {peak} "
            f"| {found['kb']:.1f} |")


def judge(results):
    """What is wrong with the results of one network."""
    for a, b in FORMS:
        if a in results and b in results:
            apart = sqnr_db(results[a]["outputs"], results[b]["outputs"])
            if apart < results[a]["db"] + FORMS_DB:
                yield f"{a} and {b} are {apart:.1f} dB apart, and {results[a]['db']:.1f} dB from float"
    for name, found in results.items():
        # With weights of 4 bits ONNX Runtime makes integers of activations, too.
        if name.startswith("onnxd") and "4-bit" not in name and found["all"] < found["db"] - OPTIMIZED_DB:
            yield f"{name}: {found['db']:.2f} dB, with optimizations {found['all']:.2f} dB"
    for ours, theirs in RIVALS:
        both = ours in results and theirs in results
        # A network in which a tool finds nothing to quantize is none to compare.
        if both and results[ours]["db"] < results[theirs]["db"] - BEHIND_DB and np.isfinite(results[theirs]["db"]):
            yield f"{ours}: {results[ours]['db']:.2f} dB, {theirs}: {results[theirs]['db']:.2f} dB"


def table(programs, network, ways, say):
    """All ways of one network; the complaints."""
    results, complaints = {}, []
    say(f"\n### {network['name']}\n\n| way | SQNR dB | top-1 % | all, dB | CPU s | peak MiB | kB |\n"
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name, how in ways.items():
        with tempfile.TemporaryDirectory(prefix="quantizers-") as work:
            try:
                path, why, cost = quantize(programs, how, network, work)
                if why is None and isinstance(how, str):
                    onnx.checker.check_model(path, full_check=True)
                if why is None:
                    results[name] = figures(path, network)
                    say(row(name, results[name], cost))
            except Exception as e:  # whatever the checker or the runtime refuses is a finding
                why = f"{type(e).__name__}: {e}"[:300]
        if why is not None:
            say(f"| {name} | - | - | - | - | - | - |")
            # What a peer cannot do is shown and no fault of ours.
            complaints += [f"{name}: {why}"] if isinstance(how, str) else []
    return results, complaints + list(judge(results))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--onnxd", required=True)
    parser.add_argument("--shared", default="../shared")
    parser.add_argument("--models", help="folder of further networks")
    parser.add_argument("--match", default="*", help="names of networks")
    parser.add_argument("--ways", default="*", help="names of ways")
    parser.add_argument("--neural-compressor", metavar="PYTHON", help="interpreter that has it")
    parser.add_argument("--save", help="writes the tables there, too")
    options = parser.parse_args()
    programs = {"onnxd": os.path.abspath(options.onnxd), PEER: sys.executable, WEIGHTS: sys.executable,
                COMPRESSOR: options.neural_compressor}
    lines, failed, count = [], 0, 0
    corpus = os.path.join(options.shared, "corpus", "quantization")

    def say(text):
        lines.append(text)
        print(text, flush=True)

    ways = {name: how for name, how in WAYS.items()
            if fnmatch.fnmatch(name, options.ways) and (isinstance(how, str) or programs[how["script"]])}
    folders = [f for base in (corpus, options.models) if base for f in sorted(glob.glob(os.path.join(base, options.match)))]
    for folder in folders:
        if not all(os.path.exists(os.path.join(folder, f)) for f in ("model.onnx", "calib.npz")):
            continue
        with tempfile.TemporaryDirectory(prefix="quantizers-") as work:
            network = load(folder, work)
            results, complaints = table(programs, network, ways, say)
            for path in sorted(glob.glob(os.path.join(corpus, "inc_recipes", f"{network['name']}_static_*.onnx"))):
                name = os.path.basename(path)[len(network["name"]) + len("_static_"):-len(".onnx")]
                say(row(f"Neural Compressor 2.1 {name.replace('_', ' ', 1)}", figures(path, network), None))
        count += len(results)
        failed += len(complaints)
        for complaint in complaints:
            print(f"FAIL {network['name']}: {complaint}", flush=True)
    if options.save:
        with open(options.save, "w") as f:
            f.write("\n".join(lines) + "\n")
    print(f"{count} quantized models, {failed} findings")
    sys.exit(1 if failed or not count else 0)


if __name__ == "__main__":
    main()
