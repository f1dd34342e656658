"""Writes `t5`: a small encoder with its decoder, and what NumPy computes of them by the formulas of T5, in a first call
and a step. Needs NumPy alone: `python3 make_t5.py`."""

import json
from math import log
from pathlib import Path

import numpy as np

WORDS, HIDDEN, HEADS, HEAD, INNER, BUCKETS, FURTHEST = 16, 8, 2, 3, 12, 8, 10
HERE = Path(__file__).parent / "t5"
random = np.random.default_rng(11)


def weight(*dims, spread=0.5, around=0.0):
    return random.normal(around, spread, dims).astype("<f4")


def weights():
    held = {"shared.weight": weight(WORDS, HIDDEN)}
    for stack, kinds in [("encoder", ["SelfAttention"]), ("decoder", ["SelfAttention", "EncDecAttention"])]:
        for n in range(2 if stack == "decoder" else 1):
            block = f"{stack}.block.{n}.layer."
            for i, kind in enumerate(kinds):
                for part in "qkv":
                    held[f"{block}{i}.{kind}.{part}.weight"] = weight(HEADS * HEAD, HIDDEN)
                held[f"{block}{i}.{kind}.o.weight"] = weight(HIDDEN, HEADS * HEAD)
            mlp = f"{block}{len(kinds)}.DenseReluDense."
            held[mlp + "wi_0.weight"], held[mlp + "wi_1.weight"] = weight(INNER, HIDDEN), weight(INNER, HIDDEN)
            held[mlp + "wo.weight"] = weight(HIDDEN, INNER)
            for i in range(len(kinds) + 1):
                held[f"{block}{i}.layer_norm.weight"] = weight(HIDDEN, spread=0.1, around=1.0)
        held[f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"] = weight(BUCKETS, HEADS)
        held[f"{stack}.final_layer_norm.weight"] = weight(HIDDEN, spread=0.1, around=1.0)
    return held


def bucket(far, both_ways):
    """Of a key that is so far ahead."""
    buckets, first, distance = BUCKETS, 0, max(-far, 0)
    if both_ways:
        buckets, distance = BUCKETS // 2, abs(far)
        first = buckets if far > 0 else 0
    exact = buckets // 2
    if distance < exact:
        return first + distance
    return first + min(exact + int(log(distance / exact) / log(FURTHEST / exact) * (buckets - exact)), buckets - 1)


class T5:
    def __init__(self, held):
        self.held = held

    def __getitem__(self, name):
        return self.held[f"{name}.weight"].astype("f8")

    def norm(self, x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * self[name]

    def bias(self, stack, queries, keys, both_ways):
        table = self[f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias"]
        return np.array([[table[bucket(k - q, both_ways)] for k in keys] for q in queries]).transpose(2, 0, 1)

    def heads(self, x, name):
        return (x @ self[name].T).reshape(len(x), HEADS, HEAD).transpose(1, 0, 2)

    def attention(self, x, name, keys, values, bias):
        scores = self.heads(x, name + ".q") @ keys.transpose(0, 2, 1) + bias
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = shares / shares.sum(-1, keepdims=True) @ values
        return mixed.transpose(1, 0, 2).reshape(len(x), HEADS * HEAD) @ self[name + ".o"].T

    def mlp(self, x, name):
        gate = x @ self[name + ".wi_0"].T
        gate = 0.5 * gate * (1 + np.tanh(np.sqrt(2 / np.pi) * (gate + 0.044715 * gate**3)))
        return gate * (x @ self[name + ".wi_1"].T) @ self[name + ".wo"].T

    def encoder(self, ids, mask):
        x, block = self["shared"][ids], "encoder.block.0.layer."
        places = range(len(ids))
        bias = self.bias("encoder", places, places, True) + np.where(mask, 0, -np.inf)
        h = self.norm(x, block + "0.layer_norm")
        own = block + "0.SelfAttention"
        x = x + self.attention(h, own, self.heads(h, own + ".k"), self.heads(h, own + ".v"), bias)
        x = x + self.mlp(self.norm(x, block + "1.layer_norm"), block + "1.DenseReluDense")
        return self.norm(x, "encoder.final_layer_norm")

    def decoder(self, ids, states, mask):
        """All tokens at once: logits, and both caches of each layer."""
        x, caches, places = self["shared"][ids], {}, range(len(ids))
        later = np.triu(np.full((len(ids), len(ids)), -np.inf), 1)
        bias = self.bias("decoder", places, places, False) + later
        for n in range(2):
            block = f"decoder.block.{n}.layer."
            for i, (kind, of) in enumerate([("SelfAttention", "decoder"), ("EncDecAttention", "encoder")]):
                h, name = self.norm(x, f"{block}{i}.layer_norm"), f"{block}{i}.{kind}"
                read = states if i else h
                keys, values = self.heads(read, name + ".k"), self.heads(read, name + ".v")
                caches[f"{n}.{of}.key"], caches[f"{n}.{of}.value"] = keys, values
                x = x + self.attention(h, name, keys, values, np.where(mask, 0, -np.inf) if i else bias)
            x = x + self.mlp(self.norm(x, block + "2.layer_norm"), block + "2.DenseReluDense")
        x = self.norm(x, "decoder.final_layer_norm") * HIDDEN**-0.5
        return x @ self["shared"].T, caches


def write(held):
    header, data = {}, b""
    for name, x in sorted(held.items()):
        at = [len(data), len(data) + x.nbytes]
        header[name] = {"dtype": "F32", "shape": list(x.shape), "data_offsets": at}
        data += x.tobytes()
    text = json.dumps(header).encode()
    (HERE / "model" / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)


def save(name, inputs, outputs):
    single = lambda held: {key: x[None].astype("<f4") if x.dtype == "f8" else x for key, x in held.items()}
    np.savez(HERE / f"expected.{name}.inputs.npz", **single(inputs))
    np.savez(HERE / f"expected.{name}.outputs.npz", **single(outputs))


def main():
    (HERE / "model").mkdir(parents=True, exist_ok=True)
    config = {
        "architectures": ["T5ForConditionalGeneration"], "model_type": "t5", "vocab_size": WORDS, "d_model": HIDDEN,
        "num_heads": HEADS, "d_kv": HEAD, "d_ff": INNER, "num_layers": 1, "num_decoder_layers": 2,
        "relative_attention_num_buckets": BUCKETS, "relative_attention_max_distance": FURTHEST,
        "feed_forward_proj": "gated-gelu", "is_encoder_decoder": True, "decoder_start_token_id": 0,
    }
    (HERE / "model" / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    held = weights()
    write(held)
    t5, ids, tokens = T5(held), np.array([3, 1, 4, 1, 5, 9, 2, 6, 0]), np.array([0, 7, 2, 5])
    mask = np.array([1] * 8 + [0])
    states = t5.encoder(ids, mask)
    save("encoder", {"input_ids": ids[None], "attention_mask": mask[None]}, {"last_hidden_state": states})
    logits, caches = t5.decoder(tokens, states, mask)
    _, before = t5.decoder(tokens[:3], states, mask)
    common = {"encoder_attention_mask": mask[None], "encoder_hidden_states": states}
    none = np.zeros((HEADS, 0, HEAD))
    past = lambda caches: {f"past_key_values.{name}": x for name, x in caches.items()}
    first = {"input_ids": tokens[None, :3]} | common | past({name: none for name in caches})
    given = {"logits": logits[:3]} | {f"present.{name}": x for name, x in before.items()}
    save("first", first | {"use_cache_branch": np.array([False])}, given)
    step = {"input_ids": tokens[None, 3:]} | common | past(before) | {"use_cache_branch": np.array([True])}
    empty = np.zeros((0, HEADS, 0, HEAD), "<f4")
    kept = {f"present.{name}": empty if ".encoder." in name else x for name, x in caches.items()}
    save("step", step, {"logits": logits[3:]} | kept)


main()
