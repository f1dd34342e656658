"""Writes `vit`: a small classifier of pictures with float16 weights, and what NumPy computes of it by the formulas of
ViT. Needs NumPy alone: `python3 make_vit.py`."""

import json
import math
from pathlib import Path

import numpy as np

SIZE, PATCH, CHANNELS, HIDDEN, HEADS, INNER, LAYERS, LABELS = 8, 4, 3, 8, 2, 12, 2, 3
HERE = Path(__file__).parent / "vit"
random = np.random.default_rng(11)


def weight(*dims, spread=0.5, around=0.0):
    return random.normal(around, spread, dims).astype("<f2")


def linear(name, inputs, outputs):
    return {f"{name}.weight": weight(outputs, inputs), f"{name}.bias": weight(outputs, spread=0.2)}


def norm(name):
    return {f"{name}.weight": weight(HIDDEN, spread=0.1, around=1.0), f"{name}.bias": weight(HIDDEN, spread=0.1)}


def weights():
    patches = "vit.embeddings.patch_embeddings.projection"
    held = {
        "vit.embeddings.cls_token": weight(1, 1, HIDDEN),
        "vit.embeddings.position_embeddings": weight(1, 1 + (SIZE // PATCH) ** 2, HIDDEN),
        f"{patches}.weight": weight(HIDDEN, CHANNELS, PATCH, PATCH, spread=0.1),
        f"{patches}.bias": weight(HIDDEN, spread=0.2),
    }
    for n in range(LAYERS):
        layer = f"vit.encoder.layer.{n}."
        held |= norm(layer + "layernorm_before") | norm(layer + "layernorm_after")
        for part in ["attention.query", "attention.key", "attention.value", "output.dense"]:
            held |= linear(f"{layer}attention.{part}", HIDDEN, HIDDEN)
        held |= linear(layer + "intermediate.dense", HIDDEN, INNER) | linear(layer + "output.dense", INNER, HIDDEN)
    return held | norm("vit.layernorm") | linear("classifier", HIDDEN, LABELS)


def logits(w, picture):
    """Of one picture [channels, height, width]."""
    of = lambda name: w[name].astype("f8")
    dense = lambda x, name: x @ of(name + ".weight").T + of(name + ".bias")
    erf = np.vectorize(math.erf)

    def normed(x, name):
        spread = np.sqrt(x.var(-1, keepdims=True) + 1e-12)
        return (x - x.mean(-1, keepdims=True)) / spread * of(name + ".weight") + of(name + ".bias")

    kernel = of("vit.embeddings.patch_embeddings.projection.weight")
    corners = [(top, left) for top in range(0, SIZE, PATCH) for left in range(0, SIZE, PATCH)]
    patches = np.array([picture[:, top : top + PATCH, left : left + PATCH] for top, left in corners])
    patches = np.einsum("pchw,ochw->po", patches, kernel) + of("vit.embeddings.patch_embeddings.projection.bias")
    x = np.concatenate([of("vit.embeddings.cls_token")[0], patches]) + of("vit.embeddings.position_embeddings")[0]
    for n in range(LAYERS):
        layer = f"vit.encoder.layer.{n}."
        h = normed(x, layer + "layernorm_before")
        parts = ["query", "key", "value"]
        q, k, v = [dense(h, f"{layer}attention.attention.{part}").reshape(len(x), HEADS, -1) for part in parts]
        scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(HIDDEN // HEADS)
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = np.einsum("hqk,khd->qhd", shares / shares.sum(-1, keepdims=True), v).reshape(len(x), -1)
        x = x + dense(mixed, layer + "attention.output.dense")
        h = dense(normed(x, layer + "layernorm_after"), layer + "intermediate.dense")
        x = x + dense(h * (1 + erf(h / np.sqrt(2))) / 2, layer + "output.dense")
    return dense(normed(x, "vit.layernorm")[0], "classifier")


def main():
    (HERE / "model").mkdir(parents=True, exist_ok=True)
    config = {
        "architectures": ["ViTForImageClassification"], "model_type": "vit", "hidden_size": HIDDEN,
        "num_attention_heads": HEADS, "num_hidden_layers": LAYERS, "intermediate_size": INNER, "image_size": SIZE,
        "patch_size": PATCH, "num_channels": CHANNELS, "torch_dtype": "float16",
        "id2label": {str(n): f"LABEL_{n}" for n in range(LABELS)},
    }
    (HERE / "model" / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    (HERE / "model" / "preprocessor_config.json").write_text('{"size": 8}\n')
    held, header, data = weights(), {}, b""
    for name, x in held.items():
        at = [len(data), len(data) + x.nbytes]
        header[name] = {"dtype": "F16", "shape": list(x.shape), "data_offsets": at}
        data += x.tobytes()
    text = json.dumps(header).encode()
    (HERE / "model" / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)
    pictures = random.normal(size=(2, CHANNELS, SIZE, SIZE)).astype("<f4")
    np.savez(HERE / "expected.inputs.npz", pixel_values=pictures)
    given = np.array([logits(held, picture.astype("f8")) for picture in pictures])
    np.savez(HERE / "expected.outputs.npz", logits=given.astype("<f4"))


main()
