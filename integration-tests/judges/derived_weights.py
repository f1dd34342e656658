#!/usr/bin/env python3
"""Converts a network whose every weight a front-end transposes, slices, concatenates and casts, and prints the largest
anonymous memory of every process that took part; fails above 64 MiB.

    derived_weights.py ONNXD PLUGINS FOLDER [GIGABYTES]

PLUGINS is a folder with libhostile_plugins.so and libonnxd_passes_{cleanup,fusion,layout}.so, of a release build.
Needs Linux (/proc). The weights are a sparse file; the result takes half their size in FOLDER, which may be in memory
(/dev/shm), and is removed.
"""
import os
import shutil
import struct
import subprocess
import sys
import time

LIMIT_MIB = 64
LAYER_BYTES = 256 << 20


def make(folder, gigabytes):
    """Square matrices of floats, zero but for the first element, which is another one in each."""
    side = int((LAYER_BYTES // 4) ** 0.5)
    layers = max(1, round(gigabytes * (1 << 30) / LAYER_BYTES))
    with open(os.path.join(folder, "weights.bin"), "wb") as weights:
        weights.truncate(layers * LAYER_BYTES)
        for i in range(layers):
            weights.seek(i * LAYER_BYTES)
            weights.write(struct.pack("<f", i + 1.0))
    with open(os.path.join(folder, "net.derived"), "w") as network:
        network.write(f"{side} {layers}\n")
    return side, layers


def family(root):
    """The process and all below it."""
    children = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as f:
                children.setdefault(int(f.read().rsplit(")", 1)[1].split()[1]), []).append(int(pid))
        except OSError:
            pass
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found


def anonymous_mib(pid):
    try:
        with open(f"/proc/{pid}/status") as f:
            return next((int(line.split()[1]) / 1024 for line in f if line.startswith("RssAnon:")), 0)
    except OSError:
        return 0


def first_elements(path, side, layers):
    """The first element of each matrix in the data file; what is derived begins with the source's first element."""
    found = []
    with open(path, "rb") as data:
        for i in range(layers):
            data.seek(i * side * side * 2)
            found.append(struct.unpack("<e", data.read(2))[0])
    return found


def main():
    onnxd, plugins, folder = sys.argv[1:4]
    gigabytes = float(sys.argv[4]) if len(sys.argv) > 4 else 1
    os.makedirs(folder, exist_ok=True)
    side, layers = make(folder, gigabytes)
    out = os.path.join(folder, "out")
    shutil.rmtree(out, ignore_errors=True)
    environment = {**os.environ, "ONNXD_STATE_DIR": os.path.join(folder, "state"), "TMPDIR": folder,
                   "ONNXD_PLUGINS_PATH": os.path.abspath(plugins), "ONNXD_PLUGINS_BUILTIN": "false"}
    files = [os.path.join(folder, name) for name in ("net.derived", "weights.bin")]
    sets = ["--set", "export.external_data=always"]
    started = time.monotonic()
    run = subprocess.Popen([onnxd, "convert", *files, *sets, "--out", out], env=environment, stderr=subprocess.DEVNULL)
    peaks = {}
    while run.poll() is None:
        for pid in family(run.pid):
            peaks[pid] = max(peaks.get(pid, 0), anonymous_mib(pid))
        time.sleep(0.002)
    assert run.returncode == 0, f"exit status {run.returncode}"
    assert first_elements(os.path.join(out, "model.onnx.data"), side, layers) == [i + 1.0 for i in range(layers)]
    shutil.rmtree(out)
    for path in files:
        os.remove(path)
    peak = max(peaks.values())
    size = layers * LAYER_BYTES / (1 << 30)
    print(f"{size:.2f} GiB of weights, {time.monotonic() - started:.1f} s, at most {peak:.1f} MiB of anonymous memory")
    sys.exit(peak > LIMIT_MIB)


if __name__ == "__main__":
    main()
