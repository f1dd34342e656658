#!/usr/bin/env python3
"""Judge the conversion of random N2D2 networks: floats against NumPy, integers against ONNX Runtime and an error bound.

    n2d2_random.py --onnxd target/release/onnxd [--seeds 0:200] [--keep DIR]

Every seed gives one network, always the same: convolutions with strides, paddings, dilations, groups and partial maps,
BatchNorm, pools, Padding, sums (with short lists of weights, too), sub-sampling, concatenations, residual branches and
fully connected layers, outputs in the middle, and channels that sections bring, with weights files and random images,
with and without sign. For each,
- the float export must give what NumPy computes from the definitions of the layers;
- integer exports with random options must pass `onnx.checker`, load in ONNX Runtime, and give the same integers there
  (in the twin without signs, see `integer_graphs.py`) and in `onnxd eval`;
- the one without equalization and clipping, with `tight_branches`, must stay within the scheme's error bound of the
  float network: one step of the input, half a step of every weight, bias and rescaling, what approximated factors add,
  and what branches of a sum lose beyond its threshold, each carried on by the magnitudes of the weights.
Needs numpy, ml_dtypes, onnx, onnxruntime.
"""
import argparse
import json
import os
import shutil
import sys
import tempfile
import traceback

import numpy as np
import onnx

from n2d2_samples import Refused, Wrong, check, compute, convert, evaluate, metadata, quantized, session, write_text

MODES = ["Floating-point", "Fixed-point16", "Fixed-point32", "Single-shift", "Double-shift"]
CLIPPING = ["None", "MSE", "KL-Divergence", "Quantile"]


class Cell:
    def __init__(self, name, kind, inputs, shape, **more):
        self.name, self.kind, self.inputs, self.shape = name, kind, inputs, shape
        self.relu, self.text, self.weights, self.bias, self.window = False, [], None, None, None
        self.blocks = self.lists = None
        self.__dict__.update(more)


class Maker:
    """A random network: `cells` in order, the first is the environment."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.signed, self.brought, self.float_only = self.chance(0.4), self.chance(0.2), False
        self.env = Cell("sp", "env", [], (self.int(1, 3), self.int(5, 10), self.int(5, 10)))
        self.cells = [self.env]
        at = self.conv(self.env)
        for _ in range(self.int(1, 6)):
            at = self.step(at)
        if self.chance(0.5):
            at = self.fc(self.fc(at, True) if self.chance(0.4) else at, self.chance(0.2))
        used = {i for c in self.cells for i in c.inputs}
        inner = self.pick([None] * 4 + self.cells[1:])
        self.targets = [c for c in self.cells[1:] if c.name not in used or c is inner]

    def chance(self, p):
        return self.rng.random() < p

    def pick(self, items):
        return items[int(self.rng.integers(len(items)))]

    def int(self, low, high):
        return int(self.rng.integers(low, high + 1))

    def floats(self, *shape):
        return self.rng.standard_normal(shape).astype(np.float32)

    def add(self, kind, inputs, shape, **more):
        stem = self.pick(["l", "net.", "Layer_", "a/"])
        cell = Cell(f"{stem}{len(self.cells)}", kind, [i.name for i in inputs], shape, **more)
        self.cells.append(cell)
        return cell

    def step(self, at):
        if min(at.shape[1:]) < 3:
            return self.pick([self.conv, self.batch_norm, self.residual, self.concat])(at)
        pool = [self.pool]
        return self.pick([self.conv] * 4 + [self.summed] + pool * 2 + [self.batch_norm, self.padding, self.residual, self.concat])(at)

    def conv(self, *inputs, outputs=None, same=False, relu=None):
        channels, (height, width) = sum(i.shape[0] for i in inputs), inputs[0].shape[1:]
        kernel = (1, 1) if same else (self.int(1, min(3, height)), self.int(1, min(3, width)))
        dilation = [2 if 2 * k - 1 <= n and self.chance(0.2) else 1 for k, n in zip(kernel, (height, width))]
        stride = (1, 1) if same else (self.pick([1, 1, 2]), self.pick([1, 1, 2]))
        pad = (0, 0) if same else (self.int(0, kernel[0] - 1), self.int(0, kernel[1] - 1))
        outputs = outputs or self.int(1, 6)
        connected, text = self.map(inputs, channels, outputs)
        if "Groups" in text or "PerGroup" in text:
            outputs = connected.shape[0]
        size = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, p, d, k, s in zip((height, width), pad, dilation, kernel, stride)]
        weights = self.floats(outputs, channels, *kernel) * connected[:, :, None, None]
        weights *= np.sqrt(2 / max(1, connected.sum(1).max() * kernel[0] * kernel[1])) * 10 ** self.rng.uniform(-0.5, 0.5)
        cell = self.add("Conv", inputs, (outputs, *size), weights=weights.astype(np.float32), connected=connected)
        cell.window = (kernel, stride, pad, dilation)
        cell.relu = self.chance(0.6) if relu is None else relu
        cell.text = [f"NbOutputs={outputs}", f"KernelDims={kernel[1]} {kernel[0]}", f"StrideDims={stride[1]} {stride[0]}",
                     f"PaddingDims={pad[1]} {pad[0]}", f"DilationDims={dilation[1]} {dilation[0]}"] + text.splitlines()
        cell.text.append("ActivationFunction=" + ("Rectifier" if cell.relu else "Linear"))
        if self.chance(0.8):
            cell.bias = self.floats(outputs) * np.float32(0.1)
        else:
            cell.text.append("ConfigSection=plain")
        return cell

    def summed(self, at):
        """A convolution whose results are summed in blocks."""
        cell = self.conv(at, relu=True)
        cell.blocks, (channels, *plane) = (self.int(1, 3), self.int(1, 3)), cell.shape
        cell.shape = (channels, *(-(-n // b) for n, b in zip(plane, cell.blocks)))
        cell.text.append(f"SubSampleDims={cell.blocks[1]} {cell.blocks[0]}")
        return cell

    def map(self, inputs, channels, outputs):
        """A connection map `[outputs, channels]`, and how the file says it."""
        kind = self.pick(["full"] * 3 + ["depthwise", "groups", "matrix"]) if len(inputs) == 1 else "full"
        if kind == "depthwise":
            return np.eye(channels, dtype=bool), "Mapping.ChannelsPerGroup=1"
        if kind == "groups" and channels % 2 == 0:
            half = self.int(1, 3)
            return np.kron(np.eye(2, dtype=bool), np.ones((half, channels // 2), bool)), "Mapping.NbGroups=2"
        if kind == "matrix":
            matrix = self.rng.random((outputs, channels)) < 0.6
            matrix[np.arange(outputs), self.rng.integers(channels, size=outputs)] = True
            parent = "env" if inputs[0] is self.env else inputs[0].name
            rows = " ".join(str(int(v)) for v in matrix.T.ravel())
            return matrix, f"Mapping({parent})={rows}"
        return np.ones((outputs, channels), bool), ""

    def pool(self, at):
        kernel = (self.int(1, 3), self.int(1, 3))
        stride = (self.int(1, 2), self.int(1, 2))
        pad = tuple(self.int(0, k - 1) if self.chance(0.3) else 0 for k in kernel)
        size = [(n + 2 * p - k) // s + 1 for n, p, k, s in zip(at.shape[1:], pad, kernel, stride)]
        cell = self.add(self.pick(["Max", "Average"]), [at], (at.shape[0], *size), window=(kernel, stride, pad, (1, 1)))
        cell.text = [f"NbOutputs={at.shape[0]}", f"PoolDims={kernel[1]} {kernel[0]}", f"StrideDims={stride[1]} {stride[0]}",
                     f"PaddingDims={pad[1]} {pad[0]}", f"Pooling={cell.kind}", "Mapping.Size=1"]
        return cell

    def batch_norm(self, at):
        if self.chance(0.7) or at.kind == "BatchNorm":
            at = self.conv(at, relu=False)
        channels = at.shape[0]
        cell = self.add("BatchNorm", [at], at.shape, relu=self.chance(0.5))
        cell.norm = {"scales": self.floats(channels) * 0.3 + 1, "biases": self.floats(channels) * 0.2,
                     "means": self.floats(channels) * 0.2, "variances": self.rng.uniform(0.3, 2, channels)}
        cell.norm = {key: np.float32(value) for key, value in cell.norm.items()}
        cell.text = [f"NbOutputs={channels}", "ActivationFunction=" + ("Rectifier" if cell.relu else "Linear")]
        return cell

    def padding(self, at):
        pads = [self.int(0, 2) for _ in range(4)]
        shape = (at.shape[0], at.shape[1] + pads[0] + pads[1], at.shape[2] + pads[2] + pads[3])
        keys = ("TopPadding", "BottomPadding", "LeftPadding", "RightPadding")
        text = [f"NbOutputs={at.shape[0]}"] + [f"{k}={v}" for k, v in zip(keys, pads)]
        return self.add("Padding", [at], shape, pads=pads, text=text)

    def residual(self, at):
        other = self.conv(at, outputs=at.shape[0], same=True, relu=self.chance(0.2))
        if other.shape != at.shape:
            return other
        inputs = [other, at]
        if self.chance(0.4):
            third = self.conv(at, outputs=at.shape[0], same=True, relu=self.chance(0.2))
            inputs += [third] if third.shape == at.shape else []
        cell = self.add("Sum", inputs, at.shape, relu=self.chance(0.5))
        cell.text = [f"NbOutputs={at.shape[0]}", "Operation=Sum"] + ["ActivationFunction=Rectifier"] * cell.relu
        if self.chance(0.15):
            self.coefficients(cell)
        return cell

    def coefficients(self, cell):
        """Weights and shifts; lists that are too short go on with ones and zeros."""
        self.float_only = True
        mode = self.pick(["PerLayer", "PerInput", "PerChannel"])
        count = cell.shape[0] if mode == "PerChannel" else len(cell.inputs)
        given = [self.floats(self.int(0, count)).round(3) for _ in range(2)]
        cell.lists = [np.full(count, default, np.float64) for default in (1, 0)]
        for values, own in zip(cell.lists, given):
            values[:len(own)] = own
        cell.per_channel = mode == "PerChannel"
        cell.text += [f"CoeffMode={mode}"]
        cell.text += [f"{key}={' '.join(map(str, own))}" for key, own in zip(("Weights", "Shifts"), given) if len(own)]

    def concat(self, at):
        branch = [self.conv(at, same=True) for _ in range(self.int(1, 2))]
        return self.conv(*(branch + [at] if self.chance(0.5) or len(branch) == 1 else branch))

    def fc(self, at, relu):
        count, outputs = int(np.prod(at.shape)), self.int(1, 8)
        weights = self.floats(outputs, count) * np.float32(np.sqrt(2 / count))
        text = [f"NbOutputs={outputs}", "ActivationFunction=" + ("Rectifier" if relu else "Linear")]
        return self.add("Fc", [at], (outputs, 1, 1), weights=weights, bias=self.floats(outputs) * np.float32(0.1), relu=relu, text=text)

    def write(self, folder):
        c, h, w = self.env.shape
        lines = ["DefaultModel=Frame", "[sp]", f"SizeX={w}", f"SizeY={h}", "BatchSize=2"]
        lines += [] if self.brought else [f"NbChannels={c}"]
        for at in range(c if self.brought else 0):
            lines += [f"[sp.ChannelTransformation-{at}]", "Type=ChannelExtractionTransformation", "CSChannel=Green"]
        for at in range(c if self.signed and self.brought else 1 if self.signed else 0):
            name = [f"[sp.ChannelOnTheFlyTransformation-{at}]", f"Channel={at}"] if self.brought else ["[sp.Transformation]"]
            lines += [*name, "Type=RangeAffineTransformation", "FirstOperator=Minus", "FirstValue=127.5",
                      "SecondOperator=Divides", "SecondValue=127.5"]
        types = {"Max": "Pool", "Average": "Pool", "Sum": "ElemWise"}
        for cell in self.cells[1:]:
            lines += [f"[{cell.name}]", "Input=" + ",".join(cell.inputs), "Type=" + types.get(cell.kind, cell.kind)] + cell.text
            self.write_weights(cell, os.path.join(folder, "weights", cell.name))
        lines += [f"[{cell.name}.Target]" for cell in self.targets] + ["[plain]", "NoBias=1"]
        with open(os.path.join(folder, "net.ini"), "w", encoding="ascii") as file:
            file.write("\n".join(lines) + "\n")

    @staticmethod
    def write_weights(cell, path):
        if cell.weights is not None:
            write_text(path + "_weights.syntxt", cell.weights[cell.connected] if cell.kind == "Conv" else cell.weights)
            if cell.bias is not None:
                write_text(path + "_biases.syntxt", cell.bias)
        for role, value in (cell.norm if cell.kind == "BatchNorm" else {}).items():
            write_text(f"{path}_{role}.syntxt", value)


def windows(x, window, fill):
    """Every position of a window: pairs of its offset and what lies there, `[n, c, oh, ow]`."""
    kernel, stride, pad, dilation = window
    x = np.pad(x, ((0, 0), (0, 0), (pad[0], pad[0]), (pad[1], pad[1])), constant_values=fill)
    size = [(n - d * (k - 1) - 1) // s + 1 for n, d, k, s in zip(x.shape[2:], dilation, kernel, stride)]
    for ky in range(kernel[0]):
        for kx in range(kernel[1]):
            y, z = ky * dilation[0], kx * dilation[1]
            yield (ky, kx), x[:, :, y:y + (size[0] - 1) * stride[0] + 1:stride[0], z:z + (size[1] - 1) * stride[1] + 1:stride[1]]


def weighted(cell, weights, x):
    if cell.kind == "Fc":
        return np.einsum("oi,ni->no", weights, x.reshape(len(x), -1))[:, :, None, None]
    parts = (np.einsum("oc,nchw->nohw", weights[:, :, ky, kx], at) for (ky, kx), at in windows(x, cell.window, 0))
    return sum(parts)


def block_sums(cell, x):
    """The sums of blocks; those at the end have what is left."""
    for axis, size in zip((2, 3), cell.blocks or ()):
        x = np.add.reduceat(x, np.arange(0, x.shape[axis], size), axis)
    return x


def channels(values):
    return np.asarray(values, np.float64)[None, :, None, None]


def gain(cell):
    n = {k: v.astype(np.float64) for k, v in cell.norm.items()}
    g = n["scales"] / np.sqrt(n["variances"] + 1e-5)
    return g, n["biases"] - n["means"] * g


def forward(cell, inputs):
    """What the cell computes before its activation, in double precision."""
    x = np.concatenate(inputs, 1) if cell.kind in ("Conv", "Fc") else inputs[0]
    if cell.kind in ("Conv", "Fc"):
        y = block_sums(cell, weighted(cell, cell.weights.astype(np.float64), x))
        return y if cell.bias is None else y + channels(cell.bias)
    if cell.kind == "BatchNorm":
        g, b = gain(cell)
        return x * channels(g) + channels(b)
    if cell.kind == "Sum" and cell.lists:
        w, s = (list(map(channels, [v] * len(inputs))) if cell.per_channel else v for v in cell.lists)
        return sum(w * x + s for w, x, s in zip(w, inputs, s))
    if cell.kind == "Sum":
        return sum(inputs)
    if cell.kind == "Padding":
        return pad(cell, x)
    parts = [at for _, at in windows(x, cell.window, -np.inf if cell.kind == "Max" else 0)]
    return np.max(parts, 0) if cell.kind == "Max" else sum(parts) / len(parts)


def pad(cell, x):
    top, bottom, left, right = cell.pads
    return np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))


def reference(net, images):
    values, raw = {"sp": images.astype(np.float64)}, {}
    for cell in net.cells[1:]:
        raw[cell.name] = forward(cell, [values[i] for i in cell.inputs])
        values[cell.name] = np.maximum(raw[cell.name], 0) if cell.relu else raw[cell.name]
    return values, raw


class Bound:
    """How far the integers may be from the reference, element by element."""

    def __init__(self, net, images, path, options):
        self.net, self.options = net, options
        self.values, self.raw = reference(net, images)
        self.signed_levels = 2 ** (options["bits"] - 1) - 1
        self.shift = options["mode"].endswith("shift")
        with open(os.path.join(os.path.dirname(path), "report.json"), encoding="utf-8") as file:
            said = json.load(file)["quantization"]["tensors"]
        self.listed = {t["name"]: (t["scales"][0], "uint" in t["type"]) for t in said}
        self.readers = {c.name: sum(i == c.name for d in net.cells for i in d.inputs) for c in net.cells}
        self.targets = {t.name for t in net.targets}
        for cell in reversed(net.cells[1:]):
            self.hand_over(cell)
        self.steps, self.errors = {}, {}

    def hand_over(self, cell):
        """A pool of one element is nothing: what it reads is rescaled under its name."""
        alone = len(cell.inputs) == 1 and self.readers[cell.inputs[0]] == 1 and cell.inputs[0] not in self.targets
        nothing = cell.window and cell.window[:3] == ((1, 1), (1, 1), (0, 0))
        if cell.kind in ("Max", "Average") and nothing and alone and cell.name in self.listed:
            self.listed.setdefault(cell.inputs[0], self.listed[cell.name])

    def run(self):
        self.steps["sp"] = self.listed["env"][0]
        self.errors["sp"] = np.full(self.values["sp"].shape, self.steps["sp"])
        norms = [c for c in self.net.cells if c.kind == "BatchNorm"]
        gone = {before.name for before in map(self.fused, norms) if before}
        for cell in self.net.cells[1:]:
            if cell.name not in gone:
                self.cell(cell)
        return self.errors

    def fused(self, cell):
        """The convolution that a normalization becomes part of."""
        before = next(c for c in self.net.cells if c.name == cell.inputs[0])
        alone = self.readers[before.name] == 1 and before.name not in self.targets
        return before if before.kind in ("Conv", "Fc") and not before.relu and alone else None

    def branches(self, cell):
        """Errors of the inputs, in the common step of branches."""
        errors = [self.errors[i] for i in cell.inputs]
        step = max(self.steps[i] for i in cell.inputs)
        if len(cell.inputs) == 1:
            return errors, step
        reach = max(np.abs(self.values[i]).max() for i in cell.inputs)
        if cell.kind == "Sum" and not cell.relu:
            reach = np.abs(self.values[cell.name]).max()
        step = max(step, reach / self.signed_levels)
        lost = [np.maximum(np.abs(self.values[i]) - reach, 0) for i in cell.inputs]
        return [e + 0.5 * step + more for e, more in zip(errors, lost)], step

    def cell(self, cell):
        if cell.kind == "BatchNorm" and self.fused(cell):
            before = self.fused(cell)
            errors, step = self.branches(before)
            g, b = gain(cell)
            weights = before.weights.astype(np.float64) * g.reshape(-1, *[1] * (before.weights.ndim - 1))
            x = np.concatenate([self.values[i] for i in before.inputs], 1)
            error = self.sum(before, weights, x, np.concatenate(errors, 1), step)
        elif cell.kind in ("Conv", "Fc"):
            errors, step = self.branches(cell)
            x = np.concatenate([self.values[i] for i in cell.inputs], 1)
            error = self.sum(cell, cell.weights.astype(np.float64), x, np.concatenate(errors, 1), step)
            if cell.blocks not in (None, (1, 1)):
                error = block_sums(cell, error)
        elif cell.kind == "BatchNorm":
            (e,), step = self.branches(cell)
            g = np.abs(gain(cell)[0])
            half = 0.5 * self.weight_steps(g[:, None])
            error = e * channels(g) + (np.abs(self.values[cell.inputs[0]]) + e) * channels(half) + step * channels(half)
        else:
            return self.other(cell)
        self.settle(cell, error + self.factor(cell, error))

    def weight_steps(self, weights):
        """Of every output; a shift makes up for its gain in the weights, which may be halved."""
        own = np.abs(weights).reshape(len(weights), -1).max(1)
        most = own.max() or 1.0
        own = np.maximum(own, min(most, 0.1)) if self.options["per_output"] else np.full(len(own), most)
        return own / self.signed_levels * (2 if self.shift else 1)

    def sum(self, cell, weights, x, errors, step):
        half = 0.5 * self.weight_steps(weights)
        used = cell.connected[:, :, None, None] * np.ones(weights.shape) if cell.kind == "Conv" else np.ones(weights.shape)
        used = used * half.reshape(-1, *[1] * (weights.ndim - 1))
        return weighted(cell, np.abs(weights), errors) + weighted(cell, used, np.abs(x) + errors) + step * channels(half)

    def factor(self, cell, error):
        """What an approximated factor adds."""
        share = {"Floating-point": 1e-6, "Fixed-point16": 1e-3, "Fixed-point32": 1e-6}.get(self.options["mode"], 0.022)
        return share * (np.abs(self.raw[cell.name]) + error)

    def settle(self, cell, error):
        """Rescaled: half a step, and what saturation takes."""
        step, unsigned = self.listed[cell.name]
        top = step * (2 ** self.options["bits"] - 1 if unsigned else self.signed_levels)
        # A threshold is stored with the precision of float32.
        lost = np.maximum(np.abs(self.values[cell.name]) - top * (1 + 1e-5), 0)
        self.errors[cell.name], self.steps[cell.name] = error + 0.5 * step * (1 + 1e-4) + lost, step

    def other(self, cell):
        errors, step = self.branches(cell)
        self.steps[cell.name] = step
        if cell.kind == "Sum":
            error = sum(errors)
            if cell.relu:
                return self.settle(cell, error + self.factor(cell, error))
        elif cell.kind == "Padding":
            error = pad(cell, errors[0])
        else:
            parts = [at for _, at in windows(errors[0], cell.window, 0)]
            error = np.max(parts, 0) if cell.kind == "Max" else sum(parts) / len(parts) + step
        self.errors[cell.name] = error
        if cell.name in self.listed:
            self.settle(cell, error)


def same_integers(onnxd, path, feeds, folder):
    check(path)
    given = {i.name: quantized(path, i.name, feeds[i.name]) for i in session(path).get_inputs()}
    steps, made = compute(path, given, twin=True), evaluate(onnxd, path, given, folder)
    for name, value in made.items():
        if not np.array_equal(value, steps[name]):
            raise Wrong(f"eval gives other integers for {name} than ONNX Runtime")
    return steps


def judge(onnxd, seed, folder):
    net, drop = Maker(seed), os.path.join(folder, "drop")
    os.makedirs(drop)
    net.write(drop)
    images = net.rng.uniform(-1 if net.signed else 0, 1, (3, *net.env.shape)).astype(np.float32)
    expected, _ = reference(net, images)
    path, _ = convert(onnxd, drop, os.path.join(folder, "float"))
    check(path)
    for name, value in compute(path, {"env": images}).items():
        want = expected[name].reshape(value.shape)
        if np.abs(value - want).max() > 1e-5 * (1 + np.abs(want).max()) * 4:
            raise Wrong(f"float: {name} differs by {np.abs(value - want).max():.3g} of {np.abs(want).max():.3g}")
    if net.float_only:
        return 0.0
    np.savez(os.path.join(drop, "calib.npz"), env=images)
    options = {"bits": net.int(4, 8), "mode": net.pick(MODES), "per_output": net.chance(0.5)}
    sets = [f'nbbits={options["bits"]}', f'act-rescaling-mode={options["mode"]}']
    sets += ["act-rescale-per-output=1"] * options["per_output"] + ["no-unsigned=1"] * net.chance(0.3)
    exact = ["act-clipping-mode=None", "no-cle=1", "quantization.n2d2.tight_branches=true"]
    path, _ = convert(onnxd, drop, os.path.join(folder, "exact"), *sets, *exact)
    steps = same_integers(onnxd, path, {"env": images}, folder)
    errors, facts, worst = Bound(net, images, path, options).run(), metadata(path), 0.0
    for name, value in steps.items():
        real = value * float(facts[f"onnxd.quantization.output.{name}"].rsplit(" ", 1)[1])
        share = np.abs(real - expected[name].reshape(real.shape)) / errors[name].reshape(real.shape)
        worst = max(worst, share.max())
        if share.max() > 1:
            raise Wrong(f"{sets}: {name} is {share.max():.3g} times its bound from the float network")
    sets += [f"act-clipping-mode={net.pick(CLIPPING)}"] + ["no-cle=1"] * net.chance(0.3)
    path, _ = convert(onnxd, drop, os.path.join(folder, "any"), *sets)
    same_integers(onnxd, path, {"env": images}, folder)
    return worst


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--onnxd", required=True)
    options.add_argument("--seeds", default="0:200")
    options.add_argument("--keep")
    given = options.parse_args()
    place, onnxd = given.keep or tempfile.mkdtemp(), os.path.abspath(given.onnxd)
    first, last = map(int, given.seeds.split(":"))
    bad, shares = [], []
    for seed in range(first, last):
        folder = os.path.join(place, str(seed))
        shutil.rmtree(folder, ignore_errors=True)
        try:
            shares.append(judge(onnxd, seed, folder))
        except (Refused, Wrong) as reason:
            print(f"{seed}: {type(reason).__name__}: {reason}", flush=True)
            bad.append(seed)
        except Exception:  # a fault of the judge, or a runtime that refuses
            print(f"{seed}: {traceback.format_exc()}", flush=True)
            bad.append(seed)
        if not given.keep:
            shutil.rmtree(folder, ignore_errors=True)
    middle = float(np.median(shares)) if shares else 0.0
    print(f"{last - first} networks, {len(bad)} wrong; largest error in shares of the bound: median {middle:.2f}, most {max(shares, default=0):.2f}")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
