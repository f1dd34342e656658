"""Writes `gguf`: a small Llama in two files of GGUF with weights in blocks, and what NumPy computes of it by the
formulas of Llama. Needs NumPy alone: `python3 make_gguf.py`."""

import struct
from pathlib import Path

import numpy as np

import make

make.HIDDEN, make.HEADS, make.KEYS, make.HEAD, make.INNER = 32, 4, 2, 8, 64
HERE = Path(__file__).parent / "gguf"
random = np.random.default_rng(11)
TEXT, LIST, U16, U32, F32, I32 = 8, 9, 2, 4, 6, 5
WORDS = ["a", "b", "c", "d", "e", "f", "g", "h", "\u0120", "ab", "cd", "\u0120ab", "i", "j", "k", "<end>"]


def text(words):
    words = words.encode()
    return struct.pack("<Q", len(words)) + words


def value(kind, x):
    if kind == TEXT:
        return text(x)
    if kind == LIST:
        inner, values = x
        return struct.pack("<IQ", inner, len(values)) + b"".join(value(inner, v) for v in values)
    return struct.pack("<" + {U16: "H", U32: "I", F32: "f", I32: "i"}[kind], x)


def halves(rows, blocks):
    """Scales of blocks, which float16 has exactly."""
    return (random.integers(1, 64, (rows, blocks)) / 1024).astype("<f2")


def in_blocks(kind, rows, columns):
    """Bytes of blocks of this type, and the numbers that they mean."""
    blocks = columns // 32
    d, m = halves(rows, blocks), -8 * halves(rows, blocks)
    most = {"Q4_0": (0, 16), "Q4_1": (0, 16), "Q8_0": (-128, 128)}[kind]
    q = random.integers(*most, (rows, blocks, 32))
    if kind == "Q8_0":
        d = (d.astype("f4") / 16).astype("<f2")
    scale = d.astype("f4")[..., None]
    nibbles = (q[..., :16] | q[..., 16:] << 4).astype("u1")
    bytes_of = lambda x: x[..., None].view("u1").reshape(rows, blocks, 2)
    if kind == "Q4_0":
        parts, numbers = [bytes_of(d), nibbles], (q - 8) * scale
    elif kind == "Q4_1":
        parts, numbers = [bytes_of(d), bytes_of(m), nibbles], q * scale + m.astype("f4")[..., None]
    else:
        parts, numbers = [bytes_of(d), q.astype("i1").view("u1")], q * scale
    return np.concatenate(parts, -1).tobytes(), numbers.reshape(rows, columns).astype("f4")


TYPES = {"F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q8_0": 8}


def tensors():
    """Tensors of the file: name, type, sizes and bytes; and the weights of the family."""
    held, weights = [], {}

    def add(name, kind, rows, columns, family, heads=0):
        if kind == "F32":
            numbers = random.normal(0, 0.4, (rows, columns)).astype("<f4")
            data = numbers.tobytes()
        elif kind == "F16":
            numbers = random.normal(0, 0.4, (rows, columns)).astype("<f2")
            data, numbers = numbers.tobytes(), numbers.astype("f4")
        else:
            data, numbers = in_blocks(kind, rows, columns)
        held.append((name, kind, [rows, columns], data))
        if heads:
            # Pairs that turn lie side by side in the file.
            numbers = numbers.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)
        weights[family] = numbers

    def norm(name, family):
        numbers = random.normal(1, 0.1, make.HIDDEN).astype("<f4")
        held.append((name, "F32", [make.HIDDEN], numbers.tobytes()))
        weights[family] = numbers

    hidden, inner, heads = make.HIDDEN, make.INNER, make.HEADS * make.HEAD
    add("token_embd.weight", "Q8_0", make.WORDS, hidden, "model.embed_tokens.weight")
    for n in range(make.LAYERS):
        layer, blk = f"model.layers.{n}.", f"blk.{n}."
        norm(blk + "attn_norm.weight", layer + "input_layernorm.weight")
        add(blk + "attn_q.weight", "Q8_0", heads, hidden, layer + "self_attn.q_proj.weight", make.HEADS)
        add(blk + "attn_k.weight", "Q4_0", heads // 2, hidden, layer + "self_attn.k_proj.weight", make.KEYS)
        add(blk + "attn_v.weight", "Q4_1", heads // 2, hidden, layer + "self_attn.v_proj.weight")
        add(blk + "attn_output.weight", "F16", hidden, heads, layer + "self_attn.o_proj.weight")
        norm(blk + "ffn_norm.weight", layer + "post_attention_layernorm.weight")
        add(blk + "ffn_gate.weight", "Q4_1", inner, hidden, layer + "mlp.gate_proj.weight")
        add(blk + "ffn_up.weight", "Q4_0", inner, hidden, layer + "mlp.up_proj.weight")
        add(blk + "ffn_down.weight", "Q8_0", hidden, inner, layer + "mlp.down_proj.weight")
    norm("output_norm.weight", "model.norm.weight")
    add("output.weight", "F32", make.WORDS, hidden, "lm_head.weight")
    return held, weights


def write(file, keys, held):
    head = b"GGUF" + struct.pack("<IQQ", 3, len(held), len(keys))
    for key, (kind, x) in keys.items():
        head += text(key) + struct.pack("<I", kind) + value(kind, x)
    data = b""
    for name, kind, dims, part in held:
        head += text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims[::-1], TYPES[kind], len(data))
        data += part + bytes(-len(part) % 32)
    (HERE / file).write_bytes(head + bytes(-len(head) % 32) + data)


def main():
    HERE.mkdir(parents=True, exist_ok=True)
    held, weights = tensors()
    sizes = {"context_length": 32, "embedding_length": make.HIDDEN, "block_count": make.LAYERS,
             "feed_forward_length": make.INNER, "attention.head_count": make.HEADS,
             "attention.head_count_kv": make.KEYS, "rope.dimension_count": make.HEAD}
    keys = {"general.architecture": (TEXT, "llama"), "general.name": (TEXT, "small")}
    keys |= {f"llama.{key}": (U32, size) for key, size in sizes.items()}
    keys |= {
        "llama.attention.layer_norm_rms_epsilon": (F32, 1e-5), "tokenizer.ggml.model": (TEXT, "gpt2"),
        "tokenizer.ggml.pre": (TEXT, "llama-bpe"), "tokenizer.ggml.tokens": (LIST, (TEXT, WORDS)),
        "tokenizer.ggml.token_type": (LIST, (I32, [1] * 15 + [3])),
        "tokenizer.ggml.merges": (LIST, (TEXT, ["a b", "c d", "\u0120 ab"])),
        "tokenizer.ggml.eos_token_id": (U32, 15),
    }
    split = lambda number: {"split.no": (U16, number), "split.count": (U16, 2),
                            "split.tensors.count": (I32, len(held))}
    write("model-00001-of-00002.gguf", keys | split(0), held[:9])
    write("model-00002-of-00002.gguf", split(1), held[9:])
    ids = np.array([3, 1, 4, 1, 5, 9, 2])
    inputs = {"input_ids": ids[None], "attention_mask": np.ones((1, len(ids)), "<i8")}
    for n in range(make.LAYERS):
        for part in ["key", "value"]:
            inputs[f"past_key_values.{n}.{part}"] = np.zeros((1, make.KEYS, 0, make.HEAD), "<f4")
    np.savez(HERE / "expected.inputs.npz", **inputs)
    given = make.outputs(weights, ids)
    np.savez(HERE / "expected.outputs.npz", **{name: x[None].astype("<f4") for name, x in given.items()})


if __name__ == "__main__":
    main()
