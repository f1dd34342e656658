#!/usr/bin/env python3
"""Asks whether a conversion takes time and memory in proportion to the graph, for one operator family after the other.

    linear_time.py ONNXD FOLDER [--sizes 1000,4000,16000] [--only PATTERN]... [--skip PATTERN]...
                   [--set KEY=VALUE]... [--list]

The graphs are those of `linear_cases.py` and `linear_shapes.py` (ONNX) and `linear_sources.py` (other formats). Prints
processor time, microseconds per node and memory of every run, and the passes that took longest. It fails where a size
takes more than GROWTH_MAX times as long per node as the one before, more than MICROSECONDS_MAX per node, more than
BYTES_MAX of memory per node, or is neither converted nor refused by a diagnostic. What is made in
FOLDER stays and is used again. Needs Linux, numpy, onnx and flatbuffers.
"""
import argparse
import fnmatch
import glob
import json
import os
import shutil
import sys

from large_graphs import REFUSED, made, run
from linear_cases import links
from linear_shapes import OTHERS
from linear_sources import sources

# Time per node may grow so many times from one size to the next.
GROWTH_MAX = 2.5
# Caches and the start of the program hide what less time per node, or a shorter run, says of growth.
MICROSECONDS_MIN = 60
SECONDS_MEASURED = 0.4
SECONDS_BASE = 0.06
# Runs of what seems too slow before it is called so.
RETRIES = 4
# A node; one with sub-graphs takes most.
MICROSECONDS_MAX = 800
BASE_BYTES = 128 << 20
BYTES_MAX = 32 << 10

# What files of other front-ends leave open.
SETTINGS = {"ini": ["source.random=true"], "pt": ["export.input_shapes=[[4]]", 'export.input_dtypes=["float32"]']}


def cases():
    """Every case by name: the ending of its file, and a function from a size to a graph or the bytes of a file."""
    return {name: ("onnx", make) for name, make in (links() | OTHERS).items()} | sources()


def file_of(folder, kind, size, ending, make):
    path = os.path.join(folder, f"{kind}_{size}.{ending}")
    if ending == "onnx":
        return made(path, make, size)
    if os.path.exists(path):
        return path
    # In a child, as in `made`: what a child of a large process says of its memory is not its own.
    child = os.fork()
    if child == 0:
        with open(path + ".partial", "wb") as out:
            out.write(make(size))
        os.rename(path + ".partial", path)
        os._exit(0)
    if os.waitpid(child, 0)[1] != 0:
        raise SystemExit(f"{path} could not be made")
    return path


def converted(onnxd, folder, kind, case, size, settings):
    """Runs the conversion of a case; what `run` says of it."""
    model = file_of(folder, kind, size, *case)
    out = os.path.join(folder, "out")
    shutil.rmtree(out, ignore_errors=True)
    command = [onnxd, "convert", model, "--out", out]
    for setting in SETTINGS.get(case[0], []) + settings:
        command += ["--set", setting]
    return run(command)


def slow_passes(out, count=3):
    reports = glob.glob(os.path.join(out, "**", "report.json"), recursive=True)
    if not reports:
        return ""
    with open(reports[0]) as file:
        report = json.load(file)
    times = [(p.get("seconds", 0), p["name"]) for p in report.get("passes", [])]
    times += [(s.get("seconds", 0), s["name"]) for s in report.get("stages", [])]
    return " ".join(f"{name} {seconds:.2f}" for seconds, name in sorted(times, reverse=True)[:count] if seconds >= 0.02)


def measure(onnxd, folder, kind, case, sizes, settings):
    """Prints a row for each size and counts faults."""

    def per_node(cpu, size):
        return max(cpu - SECONDS_BASE, 0) / size * 1e6

    def seconds(size):
        return converted(onnxd, folder, kind, case, size, settings)[3]

    def growth(size, cpu, before):
        return per_node(cpu, size) / max(per_node(before[1], before[0]), MICROSECONDS_MIN)

    failures, before = 0, None
    for size in sizes:
        status, said, _, cpu, peak = converted(onnxd, folder, kind, case, size, settings)
        grown = growth(size, cpu, before) if before else 0
        # Other work makes the machine slower for a while. Two runs in a row share that, and the least counts.
        for _ in range(RETRIES):
            if cpu <= SECONDS_MEASURED or per_node(cpu, size) <= MICROSECONDS_MAX and grown <= GROWTH_MAX:
                break
            pair = seconds(before[0]) if before else 0, seconds(size)
            cpu = min(cpu, pair[1])
            if before:
                grown = min(grown, growth(size, pair[1], (before[0], pair[0])))
        faults = []
        if status != 0 and (status < 0 or not REFUSED.search(said) or "panic" in said):
            faults.append(f"NO DIAGNOSTIC: {said.strip()[-300:]}")
        if cpu > SECONDS_MEASURED and grown > GROWTH_MAX:
            faults.append(f"GROWTH {grown:.1f}")
        if cpu > SECONDS_MEASURED and per_node(cpu, size) > MICROSECONDS_MAX:
            faults.append("SLOW")
        if peak > BASE_BYTES + size * BYTES_MAX:
            faults.append("MEMORY")
        code = REFUSED.search(said) if status else None
        before, failures = (size, cpu), failures + len(faults)
        passes = slow_passes(os.path.join(folder, "out"))
        print(f"{kind:26} {size:>7} {code.group() if code else status:>5} {cpu:7.2f} s {per_node(cpu, size):7.0f} us/node "
              f"{peak / 2**20:6.0f} MiB  {passes}  {'; '.join(faults)}", flush=True)
        if "GROWTH" in str(faults) and cpu > 30:
            break
    return failures


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("onnxd")
    parser.add_argument("folder")
    parser.add_argument("--sizes", default="1000,4000,16000")
    parser.add_argument("--only", action="append")
    parser.add_argument("--skip", action="append", default=[])
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    onnxd, folder = os.path.abspath(options.onnxd), os.path.abspath(options.folder)
    os.makedirs(folder, exist_ok=True)
    failures = 0
    for kind, case in cases().items():
        matches = lambda patterns: any(fnmatch.fnmatch(kind, pattern) for pattern in patterns)
        if options.only and not matches(options.only) or matches(options.skip):
            continue
        if options.list:
            print(kind)
            continue
        failures += measure(onnxd, folder, kind, case, list(map(int, options.sizes.split(","))), options.set)
    if not options.list:
        print(f"{failures} faults")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
