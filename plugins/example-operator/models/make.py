#!/usr/bin/env python3
"""Writes the models of this folder with torch: modules that use operators which `torch.library` declares.

    make.py FOLDER

`custom.pt` and `custom.pt2` are one network, and `custom.npz` has an input with torch's outputs. `warped.pt` and
`warped.pt2` have an operator that stays in a domain of its own. `swished.pt` and `swished.pt2` have the operator of a
plugin in C, and `gated.pt` and `gated.pt2` one that becomes a local function.
"""

import re
import sys
import zipfile

import numpy as np
import torch
from torch.nn import functional as F

OPERATORS = {
    "gelu_tanh(Tensor x) -> Tensor": lambda x: F.gelu(x, approximate="tanh"),
    "hard_shrink(Tensor x, float lambd=0.5) -> Tensor": lambda x, lambd=0.5: F.hardshrink(x, lambd),
    "split_sign(Tensor x) -> (Tensor, Tensor)": lambda x: (x.clamp(min=0), x.clamp(max=0)),
    "warp(Tensor x, float[] by) -> Tensor": lambda x, by: x * by[0] + by[1],
    "gated(Tensor x) -> Tensor": lambda x: x * torch.sigmoid(x),
    "swish(Tensor x, float beta=1.0) -> Tensor": lambda x, beta=1.0: x * torch.sigmoid(beta * x),
}

library = torch.library.Library("my", "DEF")
for declaration, function in OPERATORS.items():
    library.define(declaration)
    library.impl(declaration.split("(")[0], function, "CompositeExplicitAutograd")
    library.impl(declaration.split("(")[0], function, "Meta")


class Custom(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(2, 3))

    def forward(self, x):
        x = torch.ops.my.gelu_tanh(F.linear(x, self.weight))
        above, below = torch.ops.my.split_sign(x)
        return torch.ops.my.hard_shrink(x, 0.3), torch.relu(above) - below


class Warped(torch.nn.Module):
    def forward(self, x):
        return torch.relu(torch.ops.my.warp(x, [2.0, 0.5]))


class Swished(torch.nn.Module):
    def forward(self, x):
        return torch.relu(torch.ops.my.swish(x, 1.5))


class Gated(torch.nn.Module):
    def forward(self, x):
        return torch.relu(torch.ops.my.gated(torch.ops.my.gated(x)))


def without_paths(path):
    """Leaves out where the source code of the module is."""
    with zipfile.ZipFile(path) as archive:
        members = [(name, archive.read(name)) for name in archive.namelist()]
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members:
            if name.endswith(".json"):
                data = re.sub(rb'File \\"[^"]*/', rb'File \\"', data)
            if not name.endswith(".debug_pkl"):
                archive.writestr(zipfile.ZipInfo(name), data)


def write(module, x, path):
    torch.jit.save(torch.jit.script(module), path + ".pt")
    torch.export.save(torch.export.export(module, (x,)), path + ".pt2")
    without_paths(path + ".pt")
    without_paths(path + ".pt2")


torch.manual_seed(1)
x = 2 * torch.randn(4, 3)
custom = Custom().eval()
write(custom, x, sys.argv[1] + "/custom")
write(Warped().eval(), x, sys.argv[1] + "/warped")
write(Swished().eval(), x, sys.argv[1] + "/swished")
write(Gated().eval(), x, sys.argv[1] + "/gated")
y = custom(x)
np.savez(sys.argv[1] + "/custom.npz", x=x.numpy(), y0=y[0].detach().numpy(), y1=y[1].detach().numpy())
