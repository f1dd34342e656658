"""Writes `sentence`: a small folder of sentence-transformers (BERT, mean of its tokens, a dense layer, length 1), and
what NumPy computes of it. Needs NumPy alone: `python3 make_sentence.py`."""

import json
from math import erf
from pathlib import Path

import numpy as np

WORDS, HIDDEN, HEADS, INNER, LAYERS, PLACES, OUT = 16, 8, 2, 12, 2, 12, 4
MODEL = Path(__file__).parent / "sentence" / "model"
random = np.random.default_rng(11)


def weight(*dims, spread=0.5, around=0.0):
    return random.normal(around, spread, dims).astype("<f4")


def weights():
    held = {}
    for table, rows in [("word", WORDS), ("position", PLACES), ("token_type", 2)]:
        held[f"embeddings.{table}_embeddings.weight"] = weight(rows, HIDDEN)
    norms, linears = ["embeddings.LayerNorm"], []
    for n in range(LAYERS):
        layer = f"encoder.layer.{n}."
        linears += [(f"{layer}attention.self.{part}", HIDDEN, HIDDEN) for part in ["query", "key", "value"]]
        linears += [(f"{layer}attention.output.dense", HIDDEN, HIDDEN)]
        linears += [(f"{layer}intermediate.dense", HIDDEN, INNER), (f"{layer}output.dense", INNER, HIDDEN)]
        norms += [f"{layer}attention.output.LayerNorm", f"{layer}output.LayerNorm"]
    for name, inputs, outputs in linears:
        held[name + ".weight"], held[name + ".bias"] = weight(outputs, inputs), weight(outputs)
    for name in norms:
        held[name + ".weight"], held[name + ".bias"] = weight(HIDDEN, spread=0.1, around=1.0), weight(HIDDEN)
    return held


def hidden(w, ids, types, length):
    """Vectors of the tokens of one text, and of the padding behind its `length` tokens."""
    linear = lambda x, name: x @ w[name + ".weight"].astype("f8").T + w[name + ".bias"]
    gelu = np.vectorize(lambda x: x * (1 + erf(x / 2**0.5)) / 2)

    def norm(x, name):
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-12)
        return x * w[name + ".weight"] + w[name + ".bias"]

    table = lambda name: w[f"embeddings.{name}_embeddings.weight"].astype("f8")
    x = table("word")[ids] + table("position")[: len(ids)] + table("token_type")[types]
    x = norm(x, "embeddings.LayerNorm")
    size = HIDDEN // HEADS
    for n in range(LAYERS):
        layer = f"encoder.layer.{n}."
        q, k, v = [linear(x, f"{layer}attention.self.{part}") for part in ["query", "key", "value"]]
        mixed = []
        for at in range(0, HIDDEN, size):
            scores = q[:, at : at + size] @ k[:, at : at + size].T / np.sqrt(size)
            scores[:, length:] = -np.inf
            shares = np.exp(scores - scores.max(-1, keepdims=True))
            mixed.append(shares / shares.sum(-1, keepdims=True) @ v[:, at : at + size])
        mixed = linear(np.concatenate(mixed, -1), layer + "attention.output.dense")
        x = norm(x + mixed, layer + "attention.output.LayerNorm")
        inner = gelu(linear(x, layer + "intermediate.dense"))
        x = norm(x + linear(inner, layer + "output.dense"), layer + "output.LayerNorm")
    return x


def write(file, held):
    header, data = {}, b""
    for name, x in held.items():
        at = [len(data), len(data) + x.nbytes]
        header[name] = {"dtype": "F32", "shape": list(x.shape), "data_offsets": at}
        data += x.tobytes()
    text = json.dumps(header).encode()
    file.write_bytes(len(text).to_bytes(8, "little") + text + data)


def settings(file, content):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content, indent=1) + "\n")


def main():
    settings(MODEL / "config.json", {
        "architectures": ["BertModel"], "model_type": "bert", "vocab_size": WORDS, "hidden_size": HIDDEN,
        "num_attention_heads": HEADS, "intermediate_size": INNER, "num_hidden_layers": LAYERS,
        "max_position_embeddings": PLACES, "type_vocab_size": 2, "hidden_act": "gelu", "layer_norm_eps": 1e-12,
    })
    kinds = ["Transformer", "Pooling", "Dense", "Normalize"]
    module = lambda n, kind: {"idx": n, "name": str(n), "path": f"{n}_{kind}" if n else "",
                              "type": f"sentence_transformers.models.{kind}"}
    settings(MODEL / "modules.json", [module(n, kind) for n, kind in enumerate(kinds)])
    settings(MODEL / "sentence_bert_config.json", {"max_seq_length": PLACES, "do_lower_case": False})
    settings(MODEL / "1_Pooling" / "config.json", {
        "word_embedding_dimension": HIDDEN, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True,
    })
    settings(MODEL / "2_Dense" / "config.json", {
        "in_features": HIDDEN, "out_features": OUT, "bias": True,
        "activation_function": "torch.nn.modules.activation.Tanh",
    })
    (MODEL / "tokenizer.json").write_text('{"version": "1.0"}\n')
    held = weights()
    dense = {"linear.weight": weight(OUT, HIDDEN), "linear.bias": weight(OUT)}
    write(MODEL / "model.safetensors", held)
    write(MODEL / "2_Dense" / "model.safetensors", dense)
    ids = np.array([[3, 1, 4, 1, 5, 9, 2], [2, 7, 1, 8, 0, 0, 0]])
    lengths = [7, 4]
    mask = (np.arange(7) < np.array(lengths)[:, None]).astype("<i8")
    types = np.array([[0, 0, 0, 1, 1, 1, 1], [0, 0, 1, 1, 0, 0, 0]])
    tokens, vectors = [], []
    for row, length in enumerate(lengths):
        tokens.append(hidden(held, ids[row], types[row], length))
        x = tokens[-1][:length].mean(0)
        x = np.tanh(x @ dense["linear.weight"].astype("f8").T + dense["linear.bias"])
        vectors.append(x / np.linalg.norm(x))
    inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}
    np.savez(MODEL.parent / "expected.inputs.npz", **inputs)
    outputs = {"token_embeddings": tokens, "sentence_embedding": vectors}
    outputs = {name: np.array(x).astype("<f4") for name, x in outputs.items()}
    np.savez(MODEL.parent / "expected.outputs.npz", **outputs)


main()
