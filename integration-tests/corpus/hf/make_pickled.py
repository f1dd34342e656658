"""Makes the case `llama-pickled`: the checkpoint of `llama` in two files as `torch.save` writes them.

Needs NumPy and no torch: Python's own pickle writes the same operations, with classes of the same names. One weight is
stored transposed, and one is a part of a larger storage, which torch writes as views.

    python make_pickled.py
"""

import collections
import json
import pathlib
import pickle
import shutil
import struct
import sys
import types
import zipfile

HERE = pathlib.Path(__file__).parent
CASE = HERE / "llama-pickled"


def module(name, **members):
    """A stand-in for a module of torch."""
    made = types.ModuleType(name)
    for key, value in members.items():
        value.__module__, value.__qualname__, value.__name__ = name, key, key
        setattr(made, key, value)
    sys.modules[name] = made
    return made


def rebuild(*_):
    raise NotImplementedError


# Types by their words in safetensors: bytes of an element, and the class of a storage.
NAMES = {"F32": (4, "FloatStorage"), "F16": (2, "HalfStorage"), "BF16": (2, "BFloat16Storage")}
torch = module("torch", **{name: type(name, (), {}) for _, name in NAMES.values()})
_rebuild_tensor_v2 = module("torch._utils", _rebuild_tensor_v2=rebuild)._rebuild_tensor_v2


class Storage:
    """Elements of a type under a key."""

    def __init__(self, key, word, elements):
        self.key, self.word, self.elements = key, word, elements


class Tensor:
    """A view of a storage."""

    def __init__(self, storage, offset, sizes, strides):
        self.of = (storage, offset, tuple(sizes), tuple(strides), False, collections.OrderedDict())

    def __reduce_ex__(self, _):
        return _rebuild_tensor_v2, self.of


class Pickler(pickle.Pickler):
    """Storages are named, and not written."""

    def persistent_id(self, value):
        if isinstance(value, Storage):
            size, name = NAMES[value.word]
            return "storage", getattr(torch, name), value.key, "cpu", len(value.elements) // size
        return None


def save(path, tensors):
    """Writes what `torch.save` does: each tensor is name, type, sizes and bytes."""
    state, storages = collections.OrderedDict(), []
    for name, word, sizes, data in tensors:
        strides = [1] * len(sizes)
        for axis in reversed(range(len(sizes) - 1)):
            strides[axis] = strides[axis + 1] * sizes[axis + 1]
        offset, size = 0, NAMES[word][0]
        if name.endswith("layers.0.self_attn.q_proj.weight"):
            rows, columns = sizes
            numbers = [data[size * i : size * (i + 1)] for i in range(rows * columns)]
            data = b"".join(numbers[row * columns + column] for column in range(columns) for row in range(rows))
            strides = [1, rows]
        elif name.endswith("layers.0.input_layernorm.weight"):
            data, offset = bytes(3 * size) + data + bytes(size), 3
        storage = Storage(str(len(storages)), word, data)
        storages.append(storage)
        state[name] = Tensor(storage, offset, sizes, strides)
    with zipfile.ZipFile(path, "w") as archive, open(path.with_suffix(".pkl"), "w+b") as file:
        Pickler(file, protocol=2).dump(state)
        file.seek(0)
        add(archive, f"{path.stem}/data.pkl", file.read())
        add(archive, f"{path.stem}/byteorder", b"little")
        for storage in storages:
            add(archive, f"{path.stem}/data/{storage.key}", storage.elements)
        add(archive, f"{path.stem}/version", b"3\n")
    path.with_suffix(".pkl").unlink()


def add(archive, name, data):
    """A stored member that is the same on each day."""
    archive.writestr(zipfile.ZipInfo(name), data)


def tensors(path):
    """Names, types, sizes and bytes in a file of safetensors."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    for name, entry in header.items():
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        yield name, entry["dtype"], entry["shape"], data[begin:end]


def main():
    model = CASE / "model"
    shutil.rmtree(CASE, ignore_errors=True)
    model.mkdir(parents=True)
    source = HERE / "llama" / "model"
    for file in ["config.json", "tokenizer.json"]:
        shutil.copy(source / file, model)
    for file in ["expected.inputs.npz", "expected.outputs.npz"]:
        shutil.copy(HERE / "llama" / file, CASE)
    index = {"metadata": {}, "weight_map": {}}
    for number in [1, 2]:
        name = f"pytorch_model-0000{number}-of-00002.bin"
        found = list(tensors(source / f"model-0000{number}-of-00002.safetensors"))
        save(model / name, found)
        index["weight_map"].update({tensor: name for tensor, *_ in found})
    (model / "pytorch_model.bin.index.json").write_text(json.dumps(index, indent=1) + "\n")


if __name__ == "__main__":
    main()
