"""Writes `llama-packed`: the checkpoint of make.py with weights of 4 bits as compressed-tensors packs them, and what
NumPy computes of it. Needs NumPy alone: `python3 quantized.py`."""

import json
from pathlib import Path

import numpy as np

import make

HERE = Path(__file__).parent / "llama-packed"
GROUP = 4


def words(codes):
    """Rows of codes as words of 32 bits, the first code lowest."""
    rows = np.pad(codes, [(0, 0), (0, -codes.shape[1] % 8)]).reshape(len(codes), -1, 8).astype("<u4")
    return (rows << np.arange(0, 32, 4, dtype="<u4")).sum(-1, dtype="<u4").view("<i4")


def packed(weight, groups):
    """The tensors of a layer whose inputs belong to these groups, and the numbers that they stand for."""
    count = groups.max() + 1
    low = np.stack([weight[:, groups == g].min(-1) for g in range(count)], -1)
    high = np.stack([weight[:, groups == g].max(-1) for g in range(count)], -1)
    low, high = np.minimum(low, 0), np.maximum(high, 0)
    scale = ((make.bfloat16((high - low) / 15).astype("<u4") + 1) << 16).view("<f4")
    zero = np.clip(np.rint(-low / scale), 0, 15).astype(int)
    codes = np.clip(np.rint(weight / scale[:, groups]) + zero[:, groups], 0, 15).astype(int)
    tensors = {
        "weight_packed": words(codes), "weight_scale": scale, "weight_zero_point": words(zero.T).T,
        "weight_shape": np.array(weight.shape, "<i8"), "weight_g_idx": groups.astype("<i4"),
    }
    return tensors, ((codes - zero[:, groups]) * scale[:, groups]).astype("<f4")


def write(held):
    header, data = {}, b""
    for name, x in held.items():
        word = {"f": "BF16", "i": f"I{8 * x.itemsize}"}[x.dtype.kind]
        part = (make.bfloat16(x) if word == "BF16" else np.ascontiguousarray(x)).tobytes()
        header[name] = {"dtype": word, "shape": list(x.shape), "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    text = json.dumps(header).encode()
    (HERE / "model" / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)


def main():
    (HERE / "model").mkdir(parents=True, exist_ok=True)
    of_make = make.HERE
    config = json.loads((of_make / "model" / "config.json").read_text())
    scheme = {"num_bits": 4, "type": "int", "symmetric": False, "strategy": "group", "group_size": GROUP,
              "actorder": "group"}
    config["quantization_config"] = {
        "quant_method": "compressed-tensors", "format": "pack-quantized", "ignore": ["lm_head"],
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": scheme}},
    }
    (HERE / "model" / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    held, real = {}, {}
    for name, weight in make.weights().items():
        real[name] = weight
        if "_proj" not in name:
            held[name] = weight
            continue
        # Inputs of `down_proj` are in no order.
        groups = np.arange(weight.shape[1]) // GROUP
        groups = groups[::-1] if "down" not in name else groups[np.arange(len(groups)) * 5 % len(groups)]
        tensors, real[name] = packed(weight, groups if "q_proj" not in name else np.sort(groups))
        held |= {name.replace("weight", role): x for role, x in tensors.items()}
    write(held)
    ids = np.array([3, 1, 4, 1, 5, 9, 2])
    inputs = {"input_ids": ids[None], "attention_mask": np.ones((1, len(ids)), "<i8")}
    for n in range(make.LAYERS):
        for part in ["key", "value"]:
            inputs[f"past_key_values.{n}.{part}"] = np.zeros((1, make.KEYS, 0, make.HEAD), "<f4")
    np.savez(HERE / "expected.inputs.npz", **inputs)
    given = make.outputs(real, ids)
    np.savez(HERE / "expected.outputs.npz", **{name: x[None].astype("<f4") for name, x in given.items()})


if __name__ == "__main__":
    main()
