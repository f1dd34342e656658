#!/usr/bin/env python3
"""Converts an ONNX model of several gigabytes and prints the largest anonymous memory of every process that took part.

    large_model.py ONNXD FOLDER [GIGABYTES]

Needs Linux (/proc) and numpy, onnx, onnxruntime. FOLDER needs three times the model's size; what is made there stays.
"""
import os
import subprocess
import sys
import time

import numpy as np
import onnx
from onnx import TensorProto, helper

LAYER_MB = 100


def make(folder, gigabytes):
    """A chain of MatMul and Relu with weights in one external file, each layer LAYER_MB large."""
    os.makedirs(folder, exist_ok=True)
    side = int((LAYER_MB * 1e6 / 4) ** 0.5)
    layers = int(gigabytes * 1000 / LAYER_MB)
    rng = np.random.default_rng(1)
    block = (rng.standard_normal((side, side)) / side**0.5).astype(np.float32)
    nodes, initializers, value = [], [], "x"
    with open(os.path.join(folder, "model.onnx.data"), "wb") as data:
        for i in range(layers):
            name, offset = f"w{i}", data.tell()
            block[0, 0] = i
            data.write(block.tobytes())
            tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[side, side])
            tensor.data_location = TensorProto.EXTERNAL
            for key, entry in (("location", "model.onnx.data"), ("offset", offset), ("length", block.nbytes)):
                tensor.external_data.add(key=key, value=str(entry))
            initializers.append(tensor)
            nodes.append(helper.make_node("MatMul", [value, name], [f"m{i}"], name=f"matmul{i}"))
            nodes.append(helper.make_node("Relu", [f"m{i}"], [f"r{i}"], name=f"relu{i}"))
            value = f"r{i}"
    graph = helper.make_graph(
        nodes, "large",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", side])],
        [helper.make_tensor_value_info(value, TensorProto.FLOAT, ["n", side])],
        initializers,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with open(os.path.join(folder, "model.onnx"), "wb") as out:
        out.write(model.SerializeToString())


def family(root):
    """The process and all below it."""
    children = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as f:
                children.setdefault(int(f.read().rsplit(")", 1)[1].split()[1]), []).append(int(pid))
        except OSError:
            pass
    pending, found = [root], []
    while pending:
        pid = pending.pop()
        found.append(pid)
        pending += children.get(pid, [])
    return found


def anonymous_kib(pid):
    try:
        with open(f"/proc/{pid}/status") as f:
            return next((int(line.split()[1]) for line in f if line.startswith("RssAnon")), 0)
    except OSError:
        return 0


def main():
    onnxd, folder = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    gigabytes = float(sys.argv[3]) if len(sys.argv) > 3 else 2.5
    drop, out = os.path.join(folder, "drop"), os.path.join(folder, "out")
    make(drop, gigabytes)
    start = time.monotonic()
    child = subprocess.Popen([onnxd, "convert", drop, "--out", out])
    peak = {}
    while child.poll() is None:
        for pid in family(child.pid):
            peak[pid] = max(peak.get(pid, 0), anonymous_kib(pid))
        time.sleep(0.005)
    seconds = time.monotonic() - start
    size = sum(os.path.getsize(os.path.join(out, f)) for f in os.listdir(out) if f.startswith("model.onnx"))
    print(f"exit {child.returncode}, {seconds:.1f} s, {size / 1e9:.2f} GB written")
    print("largest anonymous memory per process, MiB:", [round(kib / 1024, 1) for kib in peak.values()])
    onnx.checker.check_model(os.path.join(out, "model.onnx"), full_check=True)
    import onnxruntime as ort

    x = np.ones((1, int((LAYER_MB * 1e6 / 4) ** 0.5)), np.float32)
    results = [
        ort.InferenceSession(os.path.join(d, "model.onnx"), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
        for d in (drop, out)
    ]
    same = np.array_equal(*results)
    print("ONNX Runtime gives the same values" if same else "ONNX Runtime gives other values")
    sys.exit(0 if child.returncode == 0 and same else 1)


if __name__ == "__main__":
    main()
