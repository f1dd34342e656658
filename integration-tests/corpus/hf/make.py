"""Writes `llama`: a small sharded checkpoint with bfloat16 weights, and what NumPy computes of it by the formulas of
Llama. Needs NumPy alone: `python3 make.py`."""

import json
from pathlib import Path

import numpy as np

WORDS, HIDDEN, HEADS, KEYS, HEAD, INNER, LAYERS = 16, 8, 2, 1, 4, 12, 2
HERE = Path(__file__).parent / "llama"
random = np.random.default_rng(7)


def bfloat16(x):
    """The upper halves of float32 numbers."""
    return (np.asarray(x, "<f4").view("<u4") >> 16).astype("<u2")


def weight(*dims, spread=0.5, around=0.0):
    """What a checkpoint in bfloat16 holds, as float32."""
    bits = bfloat16(random.normal(around, spread, dims))
    return (bits.astype("<u4") << 16).view("<f4")


def weights():
    held = {"model.embed_tokens.weight": weight(WORDS, HIDDEN), "lm_head.weight": weight(WORDS, HIDDEN)}
    for n in range(LAYERS):
        layer = f"model.layers.{n}."
        held[layer + "self_attn.q_proj.weight"] = weight(HEADS * HEAD, HIDDEN)
        held[layer + "self_attn.k_proj.weight"] = weight(KEYS * HEAD, HIDDEN)
        held[layer + "self_attn.v_proj.weight"] = weight(KEYS * HEAD, HIDDEN)
        held[layer + "self_attn.o_proj.weight"] = weight(HIDDEN, HEADS * HEAD)
        held[layer + "mlp.gate_proj.weight"] = weight(INNER, HIDDEN)
        held[layer + "mlp.up_proj.weight"] = weight(INNER, HIDDEN)
        held[layer + "mlp.down_proj.weight"] = weight(HIDDEN, INNER)
        for norm in ["input_layernorm", "post_attention_layernorm"]:
            held[f"{layer}{norm}.weight"] = weight(HIDDEN, spread=0.1, around=1.0)
    held["model.norm.weight"] = weight(HIDDEN, spread=0.1, around=1.0)
    return held


def rms(x, w):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w


def turned(x):
    """Heads [tokens, heads, HEAD], by their places."""
    inverse = 10000.0 ** (-np.arange(0, HEAD, 2) / HEAD)
    angles = np.arange(len(x))[:, None, None] * inverse
    first, second = x[..., : HEAD // 2], x[..., HEAD // 2 :]
    cos, sin = np.cos(angles), np.sin(angles)
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], -1)


def outputs(w, ids):
    """Logits, and keys and values of each layer for the cache."""
    caches = {}
    x = w["model.embed_tokens.weight"].astype("f8")[ids]
    for n in range(LAYERS):
        of = lambda name: w[f"model.layers.{n}.{name}.weight"].astype("f8")
        h = rms(x, of("input_layernorm"))
        q = turned((h @ of("self_attn.q_proj").T).reshape(len(ids), HEADS, HEAD))
        k = turned((h @ of("self_attn.k_proj").T).reshape(len(ids), KEYS, HEAD))
        v = (h @ of("self_attn.v_proj").T).reshape(len(ids), KEYS, HEAD)
        for part, cache in [("key", k), ("value", v)]:
            caches[f"present.{n}.{part}"] = cache.transpose(1, 0, 2)
        mixed = []
        for head in range(HEADS):
            key = head // (HEADS // KEYS)
            scores = q[:, head] @ k[:, key].T / np.sqrt(HEAD)
            scores[np.triu_indices(len(ids), 1)] = -np.inf
            shares = np.exp(scores - scores.max(-1, keepdims=True))
            mixed.append(shares / shares.sum(-1, keepdims=True) @ v[:, key])
        x = x + np.concatenate(mixed, -1) @ of("self_attn.o_proj").T
        h = rms(x, of("post_attention_layernorm"))
        gate = h @ of("mlp.gate_proj").T
        x = x + (gate / (1 + np.exp(-gate)) * (h @ of("mlp.up_proj").T)) @ of("mlp.down_proj").T
    x = rms(x, w["model.norm.weight"].astype("f8"))
    return {"logits": x @ w["lm_head.weight"].astype("f8").T} | caches


def write(file, held):
    header, data = {}, b""
    for name, x in held.items():
        part = bfloat16(x).tobytes()
        at = [len(data), len(data) + len(part)]
        header[name] = {"dtype": "BF16", "shape": list(x.shape), "data_offsets": at}
        data += part
    text = json.dumps(header).encode()
    (HERE / "model" / file).write_bytes(len(text).to_bytes(8, "little") + text + data)


def main():
    (HERE / "model").mkdir(parents=True, exist_ok=True)
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": WORDS, "hidden_size": HIDDEN,
        "num_attention_heads": HEADS, "num_key_value_heads": KEYS, "head_dim": HEAD, "intermediate_size": INNER,
        "num_hidden_layers": LAYERS, "max_position_embeddings": 32, "rms_norm_eps": 1e-5, "torch_dtype": "bfloat16",
    }
    (HERE / "model" / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    (HERE / "model" / "tokenizer.json").write_text('{"version": "1.0"}\n')
    held = weights()
    names = sorted(held)
    shards = {f"model-0000{i + 1}-of-00002.safetensors": names[i::2] for i in range(2)}
    for file, part in shards.items():
        write(file, {name: held[name] for name in part})
    index = {"metadata": {"total_size": sum(2 * x.size for x in held.values())},
             "weight_map": {name: file for file, part in shards.items() for name in part}}
    (HERE / "model" / "model.safetensors.index.json").write_text(json.dumps(index, indent=1) + "\n")
    ids = np.array([3, 1, 4, 1, 5, 9, 2])
    inputs = {"input_ids": ids[None], "attention_mask": np.ones((1, len(ids)), "<i8")}
    for n in range(LAYERS):
        for part in ["key", "value"]:
            inputs[f"past_key_values.{n}.{part}"] = np.zeros((1, KEYS, 0, HEAD), "<f4")
    np.savez(HERE / "expected.inputs.npz", **inputs)
    given = outputs(held, ids)
    np.savez(HERE / "expected.outputs.npz", **{name: x[None].astype("<f4") for name, x in given.items()})


if __name__ == "__main__":
    main()
