"""Prints `signatures.txt`: `python dump_signatures.py [more.txt] > signatures.txt`, with torch and torchvision installed.

Lines are sorted by name, and the overloads of a name stand in torch's order of registration, which decides calls.
`more.txt` has lines of another version of torch: they replace the same overload, and new ones stand last.
Overloads that write to `out` and gradients are left out, because no saved model calls them.
"""

import sys

import torch
import torchvision  # noqa: F401, it registers operators

NAMESPACES = {"aten", "prim", "prims", "quantized", "_quantized", "torchvision", "onnx"}


def key(line):
    """`aten::add.Tensor` of a line."""
    return line.split("(")[0]


def name(line):
    return key(line).split(".")[0]


def wanted(schema):
    writes_out = any(a.kwarg_only and a.alias_info and a.alias_info.is_write for a in schema.arguments)
    return schema.name.split("::")[0] in NAMESPACES and "backward" not in schema.name and not writes_out


lines = {key(str(s)): str(s) for s in torch._C._jit_get_all_schemas() if wanted(s)}
for file in sys.argv[1:]:
    for line in open(file).read().splitlines():
        if wanted(torch._C.parse_schema(line)):
            lines[key(line)] = line
print("\n".join(sorted(lines.values(), key=name)))
