"""Makes the archives of these cases, and what torch itself computes with them.

    python make.py [CASE...]

A case gets `net.pt` (TorchScript) or `net.pt2` (an exported program), and as `expected.inputs.npz` and
`expected.outputs.npz` the inputs and torch's outputs. A module that keeps state between calls gets `calls.npz` instead:
the input and the output of each call. Archives name no folder of the machine they were made on.
The cases `old-...` hold files of older versions of torch, and `torchao-...` those of torchao 0.14.1, which this script
does not make. `conv-bf16` and others that are not in `cases.py` hold files on which the program was wrong.
"""

import io
import json
import os
import pickle
import re
import sys
import zipfile

import numpy as np
import torch
from cases import CASES, REFUSED

HERE = os.path.dirname(os.path.abspath(__file__))


def anonymous(text):
    """Paths end with what follows the folder of packages, or with their last part."""
    return re.sub(r"(?<![\w.])/[^\s\"':,()\\]*?(?:site-packages/|([^/\s\"':,()\\]+\.py))", lambda m: m[1] or "", text)


def renamed(value):
    if isinstance(value, str):
        return anonymous(value)
    if isinstance(value, (tuple, list)):
        return type(value)(renamed(part) for part in value)
    return value


def packed(data, debug):
    """The archive without paths; without its table of places, unless `debug`."""
    source, target = zipfile.ZipFile(io.BytesIO(data)), io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for info in source.infolist():
            content = source.read(info)
            if info.filename.endswith(".debug_pkl"):
                if not debug:
                    continue
                content = pickle.dumps(renamed(pickle.loads(content)), protocol=2)
            elif info.filename.endswith(".json"):
                content = anonymous(content.decode()).encode()
            elif "sample_inputs" in info.filename:
                continue
            entry = zipfile.ZipInfo(info.filename)
            entry.compress_type = zipfile.ZIP_STORED if "/data/" in info.filename else zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return target.getvalue()


def flat(result):
    if isinstance(result, torch.Tensor):
        return [result]
    if isinstance(result, dict):
        return [t for part in result.values() for t in flat(part)]
    if isinstance(result, (tuple, list)):
        return [t for part in result for t in flat(part)]
    return [torch.tensor(result)]


def written(folder, name, data):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "wb") as file:
        file.write(data)
    print(f"{os.path.basename(folder)}/{name}: {len(data)} bytes")


def arrays(folder, name, tensors, prefix):
    named = {f"{prefix}{i}": t.detach().numpy() for i, t in enumerate(tensors)}
    np.savez_compressed(os.path.join(folder, name), **named)


def stream(folder, module, inputs, calls):
    """Several calls of a module, each with inputs of its own."""
    named = {}
    with torch.no_grad():
        for i in range(calls):
            (x,) = inputs()
            named[f"x{i}"], named[f"y{i}"] = x.numpy().copy(), module(x).numpy().copy()
    np.savez_compressed(os.path.join(folder, "calls.npz"), **named)


def make(case, how, build, inputs, dynamic=None, debug=False, calls=0):
    torch.manual_seed(0)
    module = build()
    module.train(False)
    given = inputs()
    buffer = io.BytesIO()
    if how == "traced" and calls:
        # A tracer runs the module, which writes its buffers.
        before = {name: t.clone() for name, t in module.state_dict().items()}
    if how == "exported":
        program = torch.export.export(module, given, dynamic_shapes=dynamic)
        torch.export.save(program, buffer)
    else:
        check = {"check_trace": False} if calls else {}
        script = torch.jit.trace(module, given, **check) if how == "traced" else torch.jit.script(module)
        if how == "traced" and calls:
            module.load_state_dict(before)
        torch.jit.save(script, buffer)
    folder = os.path.join(HERE, case)
    written(folder, "net.pt2" if how == "exported" else "net.pt", packed(buffer.getvalue(), debug))
    if debug:
        return
    if calls:
        stream(folder, module, inputs, calls)
    else:
        arrays(folder, "expected.inputs.npz", flat(given), "input")
        with torch.no_grad():
            arrays(folder, "expected.outputs.npz", flat(module(*(t.clone() for t in given))), "output")
    shapes = [list(t.shape) for t in given]
    words = {torch.float32: "float32", torch.int64: "int64", torch.bool: "bool", torch.int32: "int32"}
    params = ['mutations = "outputs"'] if calls else []
    if how != "exported":
        dtypes = [words[t.dtype] for t in given]
        params = [f"input_shapes = {json.dumps(shapes)}", f"input_dtypes = {json.dumps(dtypes)}"] + params
    if params:
        with open(os.path.join(folder, "params.toml"), "w") as file:
            file.write("\n".join(["[export]"] + params) + "\n")


if __name__ == "__main__":
    wanted = sys.argv[1:]
    for case, row in CASES.items():
        if not wanted or case in wanted:
            make(case, **row)
    for case, (name, data) in REFUSED.items():
        if not wanted or case in wanted:
            written(os.path.join(HERE, case), name, data())
