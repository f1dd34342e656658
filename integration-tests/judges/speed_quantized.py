#!/usr/bin/env python3
"""Run time in ONNX Runtime of float models and of what onnxd and ONNX Runtime's own tool quantize them to, in one run.

    speed_quantized.py --onnxd target/release/onnxd [--only NAME,...] [--rounds 9] [--threads 1] [--save result.json]

For each of ten architectures (`speed_architectures.py`): the float model, QDQ, QLinear and dynamic QDQ of onnxd, and the
QDQ of ONNX Runtime's `quantize_static`, all with ONNX Runtime's default optimizations. Rounds alternate between them; the
median of a round's runs counts, and the median of the rounds. Prints milliseconds, ratios to float, SQNR in dB on
samples that calibrated nothing, and the verdict of onnxd. Fails where a form of onnxd is slower than float and the
receipt says nothing, or where its QDQ is more than 5 % slower than the best QDQ. Needs numpy, onnx and onnxruntime.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
import onnxruntime

import speed_architectures

FORMS = {"QDQ": ["format=QDQ"], "QLinear": ["format=QLinear"], "dynamic": ["format=QDQ", "mode=dynamic"]}
CALIBRATING = 24
SLOWER = 1.05


def converted(onnxd, folder, form, sets):
    out = os.path.join(folder, form)
    command = [onnxd, "convert", os.path.join(folder, "net.onnx"), os.path.join(folder, "calib.npz"), "--out", out]
    for text in sets:
        command += ["--set", f"quantization.{text}"]
    done = subprocess.run(command, capture_output=True, text=True)
    model = os.path.join(out, "model.onnx")
    if not os.path.exists(model):
        sys.exit(f"{form}: {done.stderr[-600:]}")
    with open(os.path.join(out, "receipt.txt")) as f:
        return model, f.read()


def theirs(folder, samples):
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    class Reader(CalibrationDataReader):
        def __init__(self):
            count = len(next(iter(samples.values())))
            self.rest = iter([{k: a[i:i + 1] for k, a in samples.items()} for i in range(count)])

        def get_next(self):
            return next(self.rest, None)

    target = os.path.join(folder, "theirs.onnx")
    quantize_static(os.path.join(folder, "net.onnx"), target, Reader(), quant_format=QuantFormat.QDQ, per_channel=True,
                    activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8)
    return target


def session(path, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 4
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def timed(run, least_s=0.05):
    """The median of runs in milliseconds."""
    times, end = [], time.perf_counter() + least_s
    while time.perf_counter() < end or len(times) < 3:
        start = time.perf_counter()
        run()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def sqnr(reference, found):
    noise = sum(float(((a.astype(np.float64) - b) ** 2).sum()) for a, b in zip(reference, found))
    signal = sum(float((a.astype(np.float64) ** 2).sum()) for a in reference)
    return 10 * np.log10(signal / noise) if noise else np.inf


def measured(args, name, folder):
    model, samples = speed_architectures.ALL[name]()
    onnx.save(model, os.path.join(folder, "net.onnx"))
    known = {key: array[:CALIBRATING] for key, array in samples.items()}
    np.savez(os.path.join(folder, "calib.npz"), **known)
    made = {"float": (os.path.join(folder, "net.onnx"), "")}
    for form, sets in FORMS.items():
        made[form] = converted(args.onnxd, folder, form, sets)
    made["theirs"] = (theirs(folder, known), "")
    runs, db = {}, {}
    others = [{key: array[i:i + 1] for key, array in samples.items()} for i in range(CALIBRATING, 32)]
    reference = None
    for form, (path, _) in made.items():
        one = session(path, args.threads)
        found = [one.run(None, feed)[0] for feed in others]
        reference = reference or found
        db[form] = sqnr(reference, found)
        runs[form] = lambda one=one: one.run(None, others[0])
    times = {form: [] for form in runs}
    for _ in range(args.rounds):
        for form, run in runs.items():
            times[form].append(timed(run))
    return {form: {"ms": statistics.median(times[form]), "db": float(db[form]), "receipt": made[form][1]} for form in made}


def faults(found):
    best = min(found["QDQ"]["ms"], found["theirs"]["ms"])
    for form in FORMS:
        if found[form]["ms"] > SLOWER * found["float"]["ms"] and "slower" not in found[form]["receipt"]:
            yield f"{form} is slower than float, and the receipt does not say so"
    if found["QDQ"]["ms"] > SLOWER * best:
        yield f"QDQ takes {found['QDQ']['ms'] / best:.2f} of the best"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--onnxd", required=True)
    parser.add_argument("--only")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--save")
    args = parser.parse_args()
    names = args.only.split(",") if args.only else list(speed_architectures.ALL)
    failed, results = 0, {}
    print(f"{'':11}" + "".join(f"{form:>24}" for form in ["float", *FORMS, "theirs"]))
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            found = results[name] = measured(args, name, folder)
        base = found["float"]["ms"]
        cell = lambda f: f"{f['ms']:8.2f} ms {f['ms'] / base:5.2f} {f['db']:5.1f}"
        print(f"{name:11}" + "".join(f"{cell(figures):>24}" for figures in found.values()))
        wrong = list(faults(found))
        failed += bool(wrong)
        for text in wrong:
            print(f"    {text}")
    if args.save:
        with open(args.save, "w") as f:
            json.dump(results, f, indent=1)
    print(f"{len(names) - failed} passed, {failed} failed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
