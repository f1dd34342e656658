#!/usr/bin/env python3
"""How often networks in integers choose the class that they choose in float, beside N2D2's own integers.

    n2d2_top1.py --onnxd target/release/onnxd --shared ../shared [--match 'mnist*'] [--bits 8]

Every network of the corpus that N2D2 itself ran in integers is converted in each of the five modes of rescaling, and
computed by ONNX Runtime on the inputs that N2D2 quantized. A column shows the share of samples (of positions, where an
output has several) whose largest value stands at the same place as in float, and in parentheses N2D2's own share in a
run of the same mode, if there is one. Few samples are there, so one that differs shows as several percent. It prints
figures and fails only where nothing can be converted or computed.
Needs numpy, onnx, onnxruntime.
"""
import argparse
import fnmatch
import glob
import os
import sys
import tempfile

import numpy as np

from n2d2_integers import by_runtime, convert, feeds

MODES = {
    "Floating-point": "int8_float*",
    "Fixed-point16": "int8_fixed16*",
    "Fixed-point32": "int8_fixed32*",
    "Single-shift": "int8_single*",
    "Double-shift": "int8_double*",
}
PARAMS = "calib=-1\nnbbits={bits}\nact-rescaling-mode={mode}\nImplicitCasting=0\nFakeQuantization=0\n"
# Runs with other options than the mode's defaults say nothing about the mode.
OTHER = ("nocle", "unsigned", "act", "q99", "implicit", "fake")


def classes(array):
    """The place of the largest value along the channels, for each sample and position."""
    array = np.asarray(array)
    return array.reshape(array.shape[0], array.shape[1], -1).argmax(1) if array.ndim > 1 else array.argmax(0)


def agreement(found, floats):
    """Over all outputs by position, or None where shapes do not fit."""
    same, count = 0, 0
    for a, b in zip(found, floats):
        if np.size(a) != np.size(b):
            return None
        equal = classes(np.reshape(a, np.shape(b))) == classes(b)
        same, count = same + int(equal.sum()), count + equal.size
    return same / count if count else None


def arrays(path):
    with np.load(path) as found:
        return [found[name] for name in found.files]


def own_share(network, pattern):
    """N2D2's own agreement in its plainest run of a mode."""
    runs = sorted(glob.glob(os.path.join(network, "runs", pattern)), key=lambda r: (len(os.path.basename(r)), r))
    for run in runs:
        if not any(word in os.path.basename(run) for word in OTHER):
            return agreement(arrays(os.path.join(run, "outputs.npz")), arrays(os.path.join(run, "float.npz")))
    return None


def our_share(onnxd, corpus, name, params, run):
    drop = [os.path.join("n2d2", name, f) for f in sorted(os.listdir(os.path.join(corpus, "n2d2", name)))]
    kept = ("net.ini", "weights", "net_state", "calib.npz")
    drop = [path for path in drop if os.path.basename(path) in kept or path.endswith(".tpl")]
    with tempfile.TemporaryDirectory(prefix="top1-") as work:
        model, why = convert(onnxd, corpus, drop, params, os.path.join(work, "own"))
        if model is None:
            raise AssertionError(why)
        found = by_runtime(model, feeds(model, os.path.join(run, "inputs.npz")))
    return agreement(found.values(), arrays(os.path.join(run, "float.npz")))


def percent(share):
    return "-" if share is None else f"{100 * share:.1f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--onnxd", required=True)
    parser.add_argument("--shared", default="../shared")
    parser.add_argument("--match", default="*", help="names of networks")
    parser.add_argument("--bits", type=int, default=8)
    options = parser.parse_args()
    onnxd, failed, count = os.path.abspath(options.onnxd), 0, 0
    corpus = os.path.join(options.shared, "corpus")
    print("| network | samples | " + " | ".join(MODES) + " |")
    print("| --- | ---: |" + " ---: |" * len(MODES))
    for network in sorted(glob.glob(os.path.join(corpus, "n2d2", options.match))):
        name = os.path.basename(network)
        runs = sorted(glob.glob(os.path.join(network, "runs", "int8_float*")))
        if not runs:
            continue
        run, row = runs[0], []
        for mode, pattern in MODES.items():
            count += 1
            try:
                ours = our_share(onnxd, corpus, name, PARAMS.format(mode=mode, bits=options.bits), run)
            except Exception as e:  # whatever a runtime refuses is a finding
                failed += 1
                print(f"FAIL {name} {mode}: {type(e).__name__}: {e}"[:400], flush=True)
                ours = None
            theirs = own_share(network, pattern)
            row.append(percent(ours) + (f" ({percent(theirs)})" if theirs is not None else ""))
        samples = len(arrays(os.path.join(run, "inputs.npz"))[0])
        print(f"| {name} | {samples} | " + " | ".join(row) + " |", flush=True)
    print(f"{count} conversions, {failed} with failures")
    sys.exit(1 if failed or not count else 0)


if __name__ == "__main__":
    main()
