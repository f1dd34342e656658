#!/usr/bin/env python3
"""The built-in executor's time beside ONNX Runtime's, on one thread: the architectures that people convert most.

    speed_executor.py --onnxd target/release/onnxd [--rounds 5] [--runs 3] [--only NAME,...] [--most 1.5] [--keep DIR]

Builds the models below, of real widths with fewer blocks, with drawn weights. In each round both engines run the same
model and the same sample, each in a process of its own, ONNX Runtime with all optimizations. Prints the median of the
rounds' shortest times, the median of the rounds' ratios, and the largest distance of the outputs relative to the
largest output. Fails if outputs are further apart than 1e-3 of that, or, with --most, if a ratio is larger. The ratios
hold for one machine: compare them with those of another program on the same one. Needs numpy, onnx, onnxruntime.
"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import helper

import speed
from speed_architectures import Net


class Net20(Net):
    """With Gelu as one operator, as exporters have written it since opset 20."""

    def gelu(self, x):
        return self.op("Gelu", x)

    def model(self, inputs, output):
        model = super().model(inputs, output)
        model.opset_import[0].version = 20
        return model


def attend(net, x, tokens, width, heads, causal):
    joint = net.linear(net.norm(x, width), width, 3 * width)
    parts = [net.name("part") for _ in range(3)]
    net.nodes.append(helper.make_node("Split", [joint], parts, axis=-1, num_outputs=3))
    mixed = net.attention(*parts, tokens, width, heads, causal=causal)
    return net.op("Add", x, net.linear(mixed, width, width))


def convnext(net=Net20):
    """Two stages of convnext-tiny at 224 x 224."""
    net, width, size = net(1), 96, 56
    x = net.op("Conv", "x", net.weight(width, 3, 4, 4), net.bias(width), kernel_shape=[4, 4], strides=[4, 4])
    for stage in range(2):
        if stage:
            turned = net.op("Transpose", x, perm=[0, 2, 3, 1])
            x = net.op("Transpose", net.norm(turned, width), perm=[0, 3, 1, 2])
            x = net.op("Conv", x, net.weight(2 * width, width, 2, 2), net.bias(2 * width), kernel_shape=[2, 2],
                       strides=[2, 2])
            width *= 2
        for _ in range(3):
            y = net.op("Transpose", net.conv(x, width, width, 7, group=width), perm=[0, 2, 3, 1])
            y = net.linear(net.gelu(net.linear(net.norm(y, width), width, 4 * width)), 4 * width, width)
            y = net.op("Mul", y, net.bias(width))
            x = net.op("Add", x, net.op("Transpose", y, perm=[0, 3, 1, 2]))
    return net.model([("x", ["n", 3, 4 * size, 4 * size])], x), {"x": net.samples(1, 3, 4 * size, 4 * size)}


def convnext_erf():
    """The same with Gelu written out, as in older exports."""
    return convnext(Net)


def lstm(kind="LSTM", gates=4):
    """Two layers of 256 over 100 steps, a batch of four."""
    net, x, width = Net(2), "x", 256
    for size in (128, width):
        w, r = net.weight(1, gates * width, size, fan=size), net.weight(1, gates * width, width, fan=width)
        more = {"linear_before_reset": 1} if kind == "GRU" else {}
        y = net.op(kind, x, w, r, net.bias((1, 2 * gates * width)), hidden_size=width, **more)
        x = net.op("Squeeze", y, net.constant(np.array([1])))
    return net.model([("x", [100, 4, 128])], x), {"x": net.samples(100, 4, 128)}


def gru():
    return lstm("GRU", 3)


def vit(layers=4, width=384, heads=6):
    """Four blocks of ViT-S/16."""
    net, tokens = Net(3), 196
    x = net.op("Conv", "x", net.weight(width, 3, 16, 16), net.bias(width), kernel_shape=[16, 16], strides=[16, 16])
    x = net.op("Transpose", net.op("Reshape", x, net.constant(np.array([0, width, tokens]))), perm=[0, 2, 1])
    x = net.op("Add", x, net.bias((1, tokens, width)))
    for _ in range(layers):
        x = attend(net, x, tokens, width, heads, False)
        x = net.op("Add", x, net.linear(net.gelu(net.linear(net.norm(x, width), width, 4 * width)), 4 * width, width))
    return net.model([("x", ["n", 3, 224, 224])], net.norm(x, width)), {"x": net.samples(1, 3, 224, 224)}


def gpt2(layers=3, width=768, heads=12, tokens=128):
    """Three blocks of GPT-2 over 128 tokens, with Gelu by the hyperbolic tangent, written out."""
    net, x = Net(4), "x"
    for _ in range(layers):
        x = attend(net, x, tokens, width, heads, True)
        h = net.linear(net.norm(x, width), width, 4 * width)
        cube = net.op("Mul", net.op("Pow", h, net.constant(np.float32(3))), net.constant(np.float32(0.044715)))
        inner = net.op("Mul", net.op("Add", h, cube), net.constant(np.float32(np.sqrt(2 / np.pi))))
        gate = net.op("Add", net.op("Tanh", inner), net.constant(np.float32(1)))
        h = net.op("Mul", net.op("Mul", h, net.constant(np.float32(0.5))), gate)
        x = net.op("Add", x, net.linear(h, 4 * width, width))
    return net.model([("x", ["n", tokens, width])], net.norm(x, width)), {"x": net.samples(1, tokens, width)}


# Output channels, stride of the first block and number of blocks, of MobileNetV2 and EfficientNet-B0.
STAGES = [(16, 1, 1), (24, 2, 2), (32, 2, 3), (64, 2, 4), (96, 1, 3), (160, 2, 3), (320, 1, 1)]
SCALED = [(16, 1, 1, 3), (24, 2, 2, 3), (40, 2, 2, 5), (80, 2, 3, 3), (112, 1, 3, 5), (192, 2, 4, 5), (320, 1, 1, 3)]


def inverted(stages, activation, squeeze):
    net, width = Net(5), 32
    x = activation(net, net.conv("x", 3, width, 3, 2))
    for number, (out, first, count, kernel) in enumerate(stages):
        for block in range(count):
            stride, wide = first if block == 0 else 1, width * (6 if number else 1)
            y = activation(net, net.conv(x, width, wide, 1)) if number else x
            y = activation(net, net.conv(y, wide, wide, kernel, stride, group=wide))
            if squeeze:
                few, mean = max(1, width // 4), net.op("GlobalAveragePool", y)
                gate = net.conv(activation(net, net.conv(mean, wide, few, 1)), few, wide, 1)
                y = net.op("Mul", y, net.op("Sigmoid", gate))
            y = net.conv(y, wide, out, 1)
            x, width = (net.op("Add", x, y) if (stride, out) == (1, width) else y), out
    x = net.op("Flatten", net.op("GlobalAveragePool", activation(net, net.conv(x, width, 1280, 1))))
    y = net.op("Gemm", x, net.weight(1000, 1280), net.bias(1000), transB=1)
    return net.model([("x", ["n", 3, 224, 224])], y), {"x": net.samples(1, 3, 224, 224)}


def mobilenetv2():
    return inverted([(*stage, 3) for stage in STAGES], Net.relu6, False)


def efficientnet():
    return inverted(SCALED, Net.silu, True)


def resnet50():
    net, width = Net(6), 64
    x = net.op("Relu", net.conv("x", 3, width, 7, 2))
    x = net.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    for stage, count in enumerate((3, 4, 6, 3)):
        few = 64 << stage
        for block in range(count):
            stride = 2 if stage and block == 0 else 1
            y = net.op("Relu", net.conv(x, width, few, 1))
            y = net.conv(net.op("Relu", net.conv(y, few, few, 3, stride)), few, 4 * few, 1)
            side = x if block else net.conv(x, width, 4 * few, 1, stride)
            x, width = net.op("Relu", net.op("Add", y, side)), 4 * few
    x = net.op("Flatten", net.op("GlobalAveragePool", x))
    y = net.op("Gemm", x, net.weight(1000, width), net.bias(1000), transB=1)
    return net.model([("x", ["n", 3, 224, 224])], y), {"x": net.samples(1, 3, 224, 224)}


ALL = [convnext, convnext_erf, lstm, gru, vit, efficientnet, gpt2, mobilenetv2, resnet50]


def distance(args, model, inputs, sample, scratch):
    """The largest distance of outputs, relative to the largest output."""
    import onnxruntime
    found = os.path.join(scratch, "out.npz")
    done = subprocess.run([args.onnxd, "eval", model, "--inputs", inputs, "--threads", "1", "--out", found],
                          capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{model}: {done.stderr.strip()[-400:]}")
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    [wanted], archive = session.run(None, sample), np.load(found)
    [name] = archive.files
    return float(np.abs(archive[name] - wanted).max() / np.abs(wanted).max())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--onnxd", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--most", type=float)
    parser.add_argument("--keep", help="a folder for the models and samples")
    args = parser.parse_args()
    wanted, failed = [n for n in args.only.split(",") if n], []
    unknown = set(wanted) - {f.__name__ for f in ALL}
    if unknown:
        sys.exit(f"no model is called {', '.join(sorted(unknown))}")
    print(f"{'model':14} {'onnxd ms':>9} {'peer ms':>8} {'ratio':>6} {'distance':>9}", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.keep or scratch
        os.makedirs(folder, exist_ok=True)
        for build in (f for f in ALL if not wanted or f.__name__ in wanted):
            model, inputs = (os.path.join(folder, build.__name__ + end) for end in (".onnx", ".npz"))
            graph, sample = build()
            onnx.save(graph, model)
            np.savez(inputs, **sample)
            apart = distance(args, model, inputs, sample, scratch)
            rounds = []
            for _ in range(args.rounds):
                own, peer = speed.ours(args, model, inputs, 1), speed.peer(args, model, inputs, 1, "all")
                rounds.append((own["min_ms"], peer["min_ms"], own["min_ms"] / peer["min_ms"]))
            own, peer, ratio = (statistics.median(column) for column in zip(*rounds))
            print(f"{build.__name__:14} {own:9.1f} {peer:8.1f} {ratio:6.2f} {apart:9.1e}", flush=True)
            if not apart <= 1e-3 or (args.most and ratio > args.most):
                failed.append(build.__name__)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
