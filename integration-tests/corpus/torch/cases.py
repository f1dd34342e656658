"""The modules of the cases; `models.py` has those of torch.onnx's document."""

import io
import json
import pickle
import struct
import zipfile
from typing import Dict, List, NamedTuple, Tuple

import torch
from models import MODELS
from torch import Tensor, nn


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Linear(4 * 4 * 4, 5)

    def forward(self, x):
        x = torch.max_pool2d(torch.relu(self.norm(self.conv(x))), 2)
        return torch.softmax(self.head(torch.flatten(x, 1)), 1)


class LoopAndCondition(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x, n: int):
        for i in range(n):
            if bool(x.sum() > 0):
                x = self.layer(x)
            else:
                x = x + i
        if x.size(0) > 1:
            x = x * 2.0
        return x


class RecurrentLoop(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x, h):
        outputs: list[torch.Tensor] = []
        for i in range(x.size(0)):
            h = torch.tanh(self.layer(x[i]) + self.layer(h))
            outputs.append(h)
        return torch.stack(outputs), h


class InPlace(nn.Module):
    def forward(self, x):
        y = x.clone()
        y[0] = 1.0
        y[:, 1:3] += 2.0
        y.view(-1)[5] = 7.0
        y.t()[0].mul_(3.0)
        y[y > 6.0] = -1.0
        return y, y.sum(1)


class Lstm(nn.Module):
    """The example of the FAQ of torch.onnx."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(input_size=3, hidden_size=4, num_layers=2, batch_first=True)

    def forward(self, x):
        return self.lstm(x)[0]


class Cond(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: self.layer(x), lambda x: x - 1.0, (x,))


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(10, 4)
        self.inner = nn.Linear(4, 4)
        self.head = nn.Linear(4, 10, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, x):
        return self.head(torch.tanh(self.inner(self.embedding(x))))


class Pair(NamedTuple):
    sum: Tensor
    difference: Tensor


class Records(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tuple[Pair, Tensor]:
        pair = Pair(x + y, x - y)
        return pair, pair.sum * pair.difference


class Dicts(nn.Module):
    def forward(self, x: Tensor) -> Dict[str, Tensor]:
        out: Dict[str, Tensor] = {}
        names: List[str] = ["low", "high"]
        for i, name in enumerate(names):
            out[name] = x + float(i)
        out["both"] = out["low"] * out["high"]
        return out


class Integers(nn.Module):
    def forward(self, x: Tensor, n: int) -> Tuple[Tensor, Tensor, Tensor]:
        rounded = torch.div(x, 3, rounding_mode="floor")
        return rounded, x % 4 - (x // -2), x / 2 + n // 3 + (-n) % 4


class Counted(nn.Module):
    """The loop of torch.onnx's document, called from a traced module."""

    def forward(self, x, n):
        return counted(x, n)


@torch.jit.script
def counted(x, n):
    for i in range(int(n)):
        x = x + i
    return x


class Lists(nn.Module):
    """Slices of lists and texts, forwards and backwards."""

    def forward(self, x):
        rows: List[Tensor] = list(x.unbind(0))
        slices = [rows[::-1], rows[-2::-2], rows[1:100:2], rows[-1:-4:-1], rows[2:-9:-1], rows[-3:], rows[1:1]]
        word = "abcdef"[-2:0:-2]
        sums = [torch.stack(part + [x[0]]).cumsum(0) for part in slices]
        if word == "ec":
            sums.append(x + 1)
        return sums


class Stream(nn.Module):
    """A causal convolution over pieces of a signal, with a cache, a running mean, and a count as a number."""

    steps: int

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(3, 4, 3)
        self.register_buffer("cache", torch.zeros(1, 3, 2))
        self.register_buffer("mean", torch.ones(4))
        self.steps = 0

    def forward(self, x):
        y = torch.cat([self.cache, x], 2)
        self.cache.copy_(y[:, :, -2:])
        z = self.conv(y)
        self.mean.mul_(0.9).add_(z.mean([0, 2]), alpha=0.1)
        self.steps += 1
        if self.steps > 3:
            z = z - self.mean[:, None]
        return z


class StreamOfTensors(Stream):
    """The same without the number, which traces and exported programs fix."""

    def forward(self, x):
        y = torch.cat([self.cache, x], 2)
        self.cache[:, :, :] = y[:, :, -2:]
        z = self.conv(y)
        self.mean.mul_(0.9).add_(z.mean([0, 2]), alpha=0.1)
        return z - self.mean[:, None]


class EncoderMask(nn.Module):
    """In evaluation, torch makes tensors of several lengths of padded ones: what is padded is 0 at the end."""

    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)

    def forward(self, x, mask):
        return self.encoder(x, None, mask)


class OnnxOperators(nn.Module):
    """Operators that a program names in ONNX's words."""

    def forward(self, x, cos, sin, positions, keep):
        y = torch.onnx.ops.rotary_embedding(x, cos, sin, positions, interleaved=True)
        return torch.onnx.ops.attention(x, x, y, keep)[0]


class Unsupported(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def forward(self, x):
        values, vectors = torch.linalg.eig(x)
        return self.inner(x), torch.lu_solve(x, x, torch.ones(3, dtype=torch.int32)), values


class Inner(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.linalg.svdvals(torch.relu(x))


def floats(*sizes):
    return lambda: tuple(torch.randn(size) for size in sizes)


def whole(*sizes, most=10):
    return lambda: tuple(torch.randint(0, most, size) for size in sizes)


def row(how, build, inputs, **more):
    return {"how": how, "build": build, "inputs": inputs, **more}


BATCH = torch.export.Dim("batch", min=2, max=64)

CASES = {
    "traced-cnn": row("traced", Cnn, floats((2, 1, 8, 8))),
    "scripted-cnn": row("scripted", Cnn, floats((2, 1, 8, 8))),
    "exported-cnn": row("exported", Cnn, floats((2, 1, 8, 8)), dynamic=({0: BATCH},)),
    "loop-and-condition": row("scripted", LoopAndCondition, lambda: (torch.randn(2, 3), torch.tensor(3))),
    "recurrent-loop": row("scripted", RecurrentLoop, floats((5, 2, 3), (2, 3))),
    "loop-traced": row("traced", Counted, lambda: (torch.ones(2, 3, dtype=torch.int64), torch.tensor(5))),
    "in-place": row("scripted", InPlace, floats((3, 4))),
    "in-place-exported": row("exported", InPlace, floats((3, 4))),
    "faq-lstm": row("scripted", Lstm, floats((2, 5, 3))),
    "exported-cond": row("exported", Cond, floats((2, 4))),
    "tied-weights": row("traced", Tied, whole((2, 3))),
    "tied-weights-exported": row("exported", Tied, whole((2, 3))),
    "outputs-named-tuple": row("scripted", Records, floats((2, 3), (2, 3))),
    "outputs-dict": row("scripted", Dicts, floats((2, 3))),
    "integers": row("scripted", Integers, lambda: (torch.arange(-6, 6), torch.tensor(7))),
    "lists": row("scripted", Lists, floats((5, 2))),
    "stream": row("scripted", Stream, floats((1, 3, 5)), calls=10),
    "stream-traced": row("traced", StreamOfTensors, floats((1, 3, 5)), calls=10),
    "stream-exported": row("exported", StreamOfTensors, floats((1, 3, 5)), calls=10),
    "encoder-mask": row(
        "scripted", EncoderMask, lambda: (torch.randn(2, 4, 8), torch.arange(4) >= torch.tensor([[4], [2]]))),
    "onnx-operators": row(
        "exported", OnnxOperators,
        lambda: (torch.randn(1, 2, 3, 4), torch.rand(5, 2), torch.rand(5, 2), torch.tensor([[0, 3, 4]]), torch.randn(3, 3))),
    "unsupported": row("scripted", Unsupported, floats((3, 3)), debug=True),
    "unsupported-exported": row("exported", Unsupported, floats((3, 3)), debug=True),
    **{f"model-{name}": row("scripted", *of) for name, of in MODELS.items()},
}


def saved(thing):
    def data():
        torch.manual_seed(0)
        buffer = io.BytesIO()
        torch.save(thing(), buffer)
        return buffer.getvalue()

    return data


def safetensors():
    header = json.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    return struct.pack("<Q", len(header)) + header + struct.pack("<2f", 1.0, 2.0)


def archive(**members):
    def data():
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as file:
            for name, content in members.items():
                file.writestr(zipfile.ZipInfo("net/" + name.replace("__", "/")), content)
        return buffer.getvalue()

    return data


REFUSED = {
    "refused-state-dict": ("net.pt", saved(lambda: nn.Linear(2, 2).state_dict())),
    "refused-module": ("net.pt", saved(lambda: nn.Linear(2, 2))),
    "refused-safetensors": ("net.pt", safetensors),
    "refused-mobile": ("net.pt", archive(**{"data.pkl": pickle.dumps((), 2), "bytecode.pkl": pickle.dumps((), 2)})),
    "refused-package": ("net.pt", archive(**{"python_version": b"3.12", ".data__version": b"6", "a.py": b"x = 1\n"})),
}
