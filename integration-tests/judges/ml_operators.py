#!/usr/bin/env python3
"""Judge the executor's kernels of `ai.onnx.ml` and of the standard's operators on strings: ONNX Runtime computes the same random cases.

    ml_operators.py --onnxd target/release/onnxd [--cases 40] [--seed 0] [--only Scaler,...]

Every operator gets random attributes, element types, labels, numbers of classes and edge cases (empty strings, no match, NaN, all stop words).
Integers and strings must agree exactly, floats to a millionth of the largest element, those of iterations and rational approximations to the operator's
tolerance. Cases that ONNX Runtime refuses are counted, not judged. Needs numpy, onnx, onnxruntime.
"""
import argparse
import collections
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

ML = "ai.onnx.ml"
TRANSFORMS = ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT"]
WORDS = ["", "a", "b", "A", "the", "The", "THE", "cat", "Straße", "ÄPFEL", "äpfel", "İstanbul", "ﬁ", "naïve", "日本", "x y", " lead", "trail ", "a,b", "a,,b", "😀", "Σίσυφος"]
CASES = {}
Case = collections.namedtuple("Case", "inputs attrs outputs version domain tolerance")


def case(op, outputs=1, version=3, domain=ML, tolerance=1e-6):
    def add(f):
        def make(r):
            found = f(r)
            inputs, attrs = found[:2]
            return Case(inputs, attrs, outputs, found[2] if len(found) > 2 else version, domain, tolerance)
        CASES[op] = make
        return f
    return add


class Dice:
    def __init__(self, seed):
        self.g = np.random.default_rng(seed)

    def n(self, low, high):
        return int(self.g.integers(low, high + 1))

    def one(self, *of):
        return of[self.n(0, len(of) - 1)]

    def chance(self, p):
        return self.g.random() < p

    def features(self, rows=None, columns=None, dtypes=(np.float32, np.float64, np.int64, np.int32), spread=3.0):
        rows, columns = rows or self.n(1, 6), columns or self.n(1, 5)
        dtype = self.one(*dtypes)
        x = self.g.normal(size=(rows, columns)) * spread
        return (np.rint(x) if np.dtype(dtype).kind == "i" or self.chance(0.3) else x).astype(dtype)

    def floats(self, n, spread=1.0):
        return [float(np.float32(v)) for v in self.g.normal(size=n) * spread]

    def words(self, n):
        return [self.one(*WORDS) for _ in range(n)]

    def labels(self, n, ints="classlabels_ints"):
        return {"classlabels_strings": [f"c{i}" for i in range(n)]} if self.chance(0.5) else {ints: [int(v) for v in self.g.permutation(20)[:n] - 5]}


@case("ArrayFeatureExtractor")
def _(r):
    x = r.features(dtypes=(np.float32, np.float64, np.int64, np.int32))
    if r.chance(0.3):
        x = np.array(r.words(x.size), object).reshape(x.shape)
    return [x, np.array([r.n(0, x.shape[1] - 1) for _ in range(r.n(1, 4))], np.int64)], {}


@case("Binarizer")
def _(r):
    return [r.features(dtypes=(np.float32,))], {"threshold": float(np.float32(r.one(0.0, 1.0, -0.5)))}


@case("CategoryMapper")
def _(r):
    n = r.n(1, 6)
    attrs = {"cats_strings": [str(w) for w in r.g.permutation(WORDS)[:n]], "cats_int64s": [int(v) for v in r.g.permutation(9)[:n] - 3]}
    if r.chance(0.5):
        attrs.update(default_int64=77, default_string="none")
    x = np.array(r.words(5), object) if r.chance(0.5) else np.arange(-4, 8, dtype=np.int64).reshape(3, 4)
    return [x], attrs


@case("FeatureVectorizer")
def _(r):
    rows, count = r.n(1, 4), r.n(1, 3)
    dtype = r.one(np.float32, np.float64, np.int64, np.int32)
    return [r.features(rows, dtypes=(dtype,)) for _ in range(count)], {"inputdimensions": [r.n(1, 5) for _ in range(count)]}


@case("Imputer")
def _(r):
    x = r.features(dtypes=(np.float32, np.int64))
    n = r.one(1, x.shape[1])
    if x.dtype == np.int64:
        return [x], {"imputed_value_int64s": [r.n(-9, 9) for _ in range(n)], "replaced_value_int64": r.n(-1, 1)}
    gone = r.one(0.0, float("nan"), 1.0)
    x[r.g.random(x.shape) < 0.3] = gone
    return [x], {"imputed_value_floats": r.floats(n), "replaced_value_float": gone}


@case("LabelEncoder")
def _(r):
    version = r.one(1, 2, 2, 4, 4)
    if version == 1:
        x = np.array(r.words(6), object) if r.chance(0.5) else np.arange(-2, 6, dtype=np.int64)
        return [x], {"classes_strings": [str(w) for w in r.g.permutation(WORDS)[: r.n(1, 5)]], "default_int64": -7, "default_string": "none"}, 1
    kinds = {"strings": np.array(r.words(6), object), "int64s": np.arange(-3, 5, dtype=np.int64), "floats": np.array([0.0, -0.0, 1.5, np.nan, 3.0, -2.0], np.float32)}
    own = lambda kind, n: {"strings": r.words(n), "int64s": [r.n(-3, 4) for _ in range(n)], "floats": [r.one(0.0, 1.5, 3.0, -2.0, *([float("nan")] if version == 4 else [])) for _ in range(n)]}[kind]
    pairs = [("strings", "int64s"), ("int64s", "strings"), ("floats", "strings"), ("strings", "floats"), ("int64s", "floats"), ("floats", "int64s"), ("int64s", "int64s"), ("floats", "floats"), ("strings", "strings")]
    source, to = r.one(*pairs)
    n = r.n(1, 5)
    keys = list(dict.fromkeys(own(source, n))) if r.chance(0.8) else own(source, n)
    values = own(to, len(keys))
    attrs = {f"keys_{source}": keys, f"values_{to}": values}
    if version == 4 and r.chance(0.4):
        typed = {"strings": TensorProto.STRING, "int64s": TensorProto.INT64, "floats": TensorProto.FLOAT}
        raw = lambda kind, list_: [v.encode() for v in list_] if kind == "strings" else list_
        attrs = {"keys_tensor": helper.make_tensor("k", typed[source], [len(keys)], raw(source, keys)), "values_tensor": helper.make_tensor("v", typed[to], [len(keys)], raw(to, values)),
                 "default_tensor": helper.make_tensor("d", typed[to], [1], raw(to, own(to, 1)))}
    elif r.chance(0.5):
        attrs.update(default_string="none", default_int64=-9, default_float=0.25)
    return [kinds[source]], attrs, version


@case("LinearClassifier", outputs=2, tolerance=1e-3)
def _(r):
    x = r.features()
    classes = r.n(2, 4)
    rows = 1 if classes == 2 and r.chance(0.5) else classes
    return [x], {"coefficients": r.floats(rows * x.shape[1], 0.4), "intercepts": r.floats(rows, 0.3), "post_transform": r.one(*TRANSFORMS[: 4 if rows == 1 else 5]), **r.labels(classes)}


@case("LinearRegressor", tolerance=1e-3)
def _(r):
    x = r.features(dtypes=(np.float32,))
    targets = r.n(1, 3)
    attrs = {"coefficients": r.floats(targets * x.shape[1], 0.4), "targets": targets, "post_transform": r.one(*TRANSFORMS)}
    if r.chance(0.8):
        attrs["intercepts"] = r.floats(targets)
    return [x], attrs


@case("Normalizer")
def _(r):
    x = r.features()
    if r.chance(0.2):
        x[0] = 0
    return [x], {"norm": r.one("MAX", "L1", "L2")}


@case("OneHotEncoder")
def _(r):
    if r.chance(0.5):
        return [np.array(r.words(6), object).reshape(r.one((6,), (2, 3)))], {"cats_strings": [str(w) for w in r.g.permutation(WORDS)[: r.n(1, 8)]], "zeros": r.n(0, 1)}
    return [r.features(dtypes=(np.float32, np.float64, np.int64), spread=2)], {"cats_int64s": [int(v) for v in r.g.permutation(7)[: r.n(1, 6)] - 3], "zeros": r.n(0, 1)}


@case("Scaler")
def _(r):
    x = r.features()
    n = r.one(1, x.shape[1])
    return [x], {"offset": r.floats(n), "scale": r.floats(n)}


@case("SVMRegressor", tolerance=1e-4)
def _(r):
    x = r.features(dtypes=(np.float32,), spread=1)
    kind = r.one("LINEAR", "POLY", "RBF", "SIGMOID")
    n = r.n(1, 5)
    attrs = {"kernel_type": kind, "kernel_params": [0.3, 0.5, float(r.one(2, 3))], "rho": r.floats(1), "one_class": r.n(0, 1) if r.chance(0.3) else 0, "coefficients": r.floats(n), "support_vectors": r.floats(n * x.shape[1]), "n_supports": n}
    if r.chance(0.2):
        attrs.update(n_supports=0, support_vectors=[], coefficients=r.floats(x.shape[1]))
    return [x], {k: v for k, v in attrs.items() if v != []}


@case("SVMClassifier", outputs=2, tolerance=2e-3)
def _(r):
    x = r.features(spread=1)
    classes = r.n(2, 4)
    attrs = {"kernel_type": r.one("LINEAR", "POLY", "RBF", "SIGMOID"), "kernel_params": [0.3, 0.5, float(r.one(2, 3))], **r.labels(classes)}
    attrs["post_transform"] = r.one(*TRANSFORMS[: 4 if classes == 2 else 5])
    pairs = classes * (classes - 1) // 2
    if r.chance(0.25):
        attrs.update(coefficients=[abs(v) if r.chance(0.9) else v for v in r.floats(classes * x.shape[1])], rho=r.floats(1))
        return [x], attrs
    per = [r.n(1, 3) for _ in range(classes)]
    attrs.update(vectors_per_class=per, coefficients=r.floats((classes - 1) * sum(per)), rho=r.floats(pairs), support_vectors=r.floats(sum(per) * x.shape[1]))
    if r.chance(0.5):
        attrs.update(prob_a=[-abs(v) - 0.2 for v in r.floats(pairs)], prob_b=r.floats(pairs, 0.3))
    return [x], attrs


def trees(r, columns, ids, prefix, positive, several):
    """Random trees in the form of versions 1 and 3."""
    out = collections.defaultdict(list)
    modes = ["BRANCH_LEQ"] if r.chance(0.5) else ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]
    missing = r.chance(0.4)
    for tree in range(r.n(1, 5)):
        pending, count = [(0, 0)], 1
        while pending:
            node, depth = pending.pop(0)
            leaf = depth == 3 or (depth > 0 and r.chance(0.3)) or r.chance(0.05)
            out["nodes_treeids"].append(tree)
            out["nodes_nodeids"].append(node)
            out["nodes_featureids"].append(0 if leaf else r.n(0, columns - 1))
            out["nodes_modes"].append("LEAF" if leaf else r.one(*modes))
            out["nodes_values"].append(0.0 if leaf else float(np.float32(r.one(round(r.g.normal() * 2), r.g.normal() * 2))))
            out["nodes_truenodeids"].append(0 if leaf else count)
            out["nodes_falsenodeids"].append(0 if leaf else count + 1)
            if missing:
                out["nodes_missing_value_tracks_true"].append(0 if leaf else r.n(0, 1))
            if leaf:
                chosen = ids if several else [r.one(*ids)]
                for i in chosen:
                    out[f"{prefix}_treeids"].append(tree)
                    out[f"{prefix}_nodeids"].append(node)
                    out[f"{prefix}_ids"].append(i)
                    weight = float(np.float32(r.g.normal() * 0.3))
                    out[f"{prefix}_weights"].append(abs(weight) if positive else weight)
            else:
                pending += [(count, depth + 1), (count + 1, depth + 1)]
                count += 2
    return dict(out)


def doubled(r, attrs, names):
    for name in names:
        if name in attrs:
            values = attrs.pop(name)
            attrs[f"{name}_as_tensor"] = helper.make_tensor(name, TensorProto.DOUBLE, [len(values)], [float(v) for v in values])
    return attrs


@case("TreeEnsembleRegressor", tolerance=1e-4)
def _(r):
    x = r.features()
    if x.dtype.kind == "f" and r.chance(0.3):
        x[r.g.random(x.shape) < 0.3] = np.nan
    targets = r.n(1, 3)
    several = targets > 1 and r.chance(0.5)
    attrs = trees(r, x.shape[1], list(range(targets)), "target", r.chance(0.3), several)
    attrs.update(n_targets=targets, aggregate_function=r.one("SUM", "AVERAGE", "MIN", "MAX"), post_transform=r.one(*TRANSFORMS) if r.chance(0.4) else "NONE")
    if r.chance(0.4) and (several or targets == 1):  # ONNX Runtime forgets the base of a target that no leaf names
        attrs["base_values"] = r.floats(targets)
    version = 1
    if x.dtype == np.float64 and r.chance(0.6):
        attrs, version = doubled(r, attrs, ["nodes_values", "target_weights", "base_values"]), 3
    return [x], attrs, version


@case("TreeEnsembleClassifier", outputs=2, tolerance=1e-4)
def _(r):
    x = r.features()
    if x.dtype.kind == "f" and r.chance(0.3):
        x[r.g.random(x.shape) < 0.3] = np.nan
    classes = r.n(2, 4)
    binary = classes == 2  # of leaves that name both, ONNX Runtime looks at one
    ids = [0] if binary else list(range(classes))
    attrs = trees(r, x.shape[1], ids, "class", r.chance(0.5), r.chance(0.5) and not binary)
    attrs.update(post_transform=r.one(*TRANSFORMS[:4]), **r.labels(classes, "classlabels_int64s"))
    if r.chance(0.4):
        attrs["base_values"] = r.floats(1 if binary else classes, 0.2)
    version = 1
    if x.dtype == np.float64 and r.chance(0.6):
        attrs, version = doubled(r, attrs, ["nodes_values", "class_weights", "base_values"]), 3
    return [x], attrs, version


@case("TreeEnsemble", version=5, tolerance=1e-4)
def _(r):
    x = r.features(dtypes=(np.float32, np.float64))
    kind = TensorProto.FLOAT if x.dtype == np.float32 else TensorProto.DOUBLE
    targets, nodes, leaves, roots = r.n(1, 3), collections.defaultdict(list), [], []

    def grow(depth):
        at = len(nodes["splits"])
        for name in ("splits", "featureids", "modes", "truenodeids", "trueleafs", "falsenodeids", "falseleafs"):
            nodes[name].append(0)
        nodes["splits"][at], nodes["featureids"][at], nodes["modes"][at] = round(r.g.normal() * 2), r.n(0, x.shape[1] - 1), r.n(0, 6)
        for side in ("true", "false"):
            leaf = depth == 2 or r.chance(0.3)
            if leaf:
                leaves.append((r.n(0, targets - 1), float(np.float32(r.g.normal()))))
            nodes[f"{side}leafs"][at] = int(leaf)
            nodes[f"{side}nodeids"][at] = len(leaves) - 1 if leaf else grow(depth + 1)
        return at

    for _ in range(r.n(1, 4)):
        roots.append(grow(0))
    members = []
    for mode in nodes["modes"]:
        if mode == 6:
            members += [float(v) for v in r.g.permutation(7)[: r.n(1, 4)] - 3] + [float("nan")]
    tensor = lambda name, values, kind=kind: helper.make_tensor(name, kind, [len(values)], values)
    attrs = {
        "tree_roots": roots, "n_targets": targets, "aggregate_function": r.one(1, 1, 0, 2, 3), "post_transform": r.one(0, 3),  # ONNX Runtime exchanges 1 and 2
        "nodes_splits": tensor("s", [float(v) for v in nodes["splits"]]), "nodes_modes": tensor("m", nodes["modes"], TensorProto.UINT8),
        "leaf_targetids": [t for t, _ in leaves], "leaf_weights": tensor("w", [w for _, w in leaves]),
        **{f"nodes_{name}": nodes[name] for name in ("featureids", "truenodeids", "trueleafs", "falsenodeids", "falseleafs")},
    }
    if members:
        attrs["membership_values"] = tensor("v", members)
    if r.chance(0.3):
        attrs["nodes_missing_value_tracks_true"] = [r.n(0, 1) for _ in nodes["modes"]]
        x[r.g.random(x.shape) < 0.3] = np.nan
    return [np.rint(x)], attrs


@case("ZipMap")
def _(r):
    n = r.n(1, 4)
    return [r.features(columns=n, dtypes=(np.float32,))], r.labels(n, "classlabels_int64s")


@case("StringNormalizer", version=10, domain="")
def _(r):
    attrs = {"case_change_action": r.one("LOWER", "UPPER", "NONE"), "is_case_sensitive": r.n(0, 1), "locale": "C.UTF-8"}
    stops = r.one([], ["the"], ["THE", "cat"], list(dict.fromkeys(w.lower() for w in WORDS)), ["ÄPFEL", "a"])
    words = [w for w in WORDS if w.isascii()] if r.chance(0.5) else WORDS
    x = np.array([r.one(*words) for _ in range(r.n(1, 6))], object)
    if stops:
        attrs["stopwords"] = [s for s in stops if s and not s.startswith("i̇")]
    return [x.reshape(1, -1) if r.chance(0.4) else x], attrs


@case("StringConcat", version=20, domain="")
def _(r):
    n = r.n(1, 4)
    return [np.array(r.words(n), object).reshape(1, n), np.array(r.words(3), object).reshape(3, 1)], {}


@case("StringSplit", outputs=2, version=20, domain="")
def _(r):
    attrs = {}
    if r.chance(0.8):
        attrs["delimiter"] = r.one("", " ", ",", "a", ",,", "日")
    if r.chance(0.5):
        attrs["maxsplit"] = r.n(0, 3)
    extra = ["a b  c", "  ", ",", "a,b,,c,", " a b c ", "aaa"]  # to ONNX Runtime, only blanks are white space
    return [np.array([r.one(*WORDS, *extra) for _ in range(4)], object).reshape(r.one((4,), (2, 2)))], attrs


@case("RegexFullMatch", version=20, domain="")
def _(r):
    return [np.array(r.words(5), object)], {"pattern": r.one("[a-z]+", ".*", "(?i)the", "a|b", r"\w+", "[^,]*", "", r"\S+ \S+", "(a|b),+b", ".", "..", "(?:x| )+.?")}


@case("TfIdfVectorizer", version=9, domain="")
def _(r):
    strings = r.chance(0.5)
    token = (lambda: r.one("a", "b", "cat", "", "ä")) if strings else (lambda: r.n(0, 4))
    lengths = r.n(1, 3)
    pool, counts, seen = [], [], 0
    for n in range(1, lengths + 1):
        counts.append(len(pool))
        grams = list(dict.fromkeys(tuple(token() for _ in range(n)) for _ in range(r.n(1, 4))))
        seen += len(grams)
        pool += [t for gram in grams for t in gram]
    indexes = [int(v) for v in r.g.permutation(seen + r.n(0, 2))[:seen]]
    most = r.n(1, lengths)
    attrs = {"mode": r.one("TF", "IDF", "TFIDF"), "min_gram_length": r.n(1, most), "max_gram_length": most, "max_skip_count": r.n(0, 4), "ngram_counts": counts, "ngram_indexes": indexes}
    attrs["pool_strings" if strings else "pool_int64s"] = pool
    if r.chance(0.6):
        attrs["weights"] = [float(np.float32(v)) for v in r.g.uniform(0.1, 2, seen)]
    shape = r.one((7,), (2, 5), (1, 1), (3, 4), (1,))
    flat = [token() for _ in range(int(np.prod(shape)))]
    return [np.array(flat, object if strings else r.one(np.int64, np.int32)).reshape(shape)], attrs


@case("Tokenizer", version=1, domain="com.microsoft")
def _(r):
    attrs = {"mark": r.n(0, 1), "pad_value": r.one("", "#"), "mincharnum": r.n(1, 3)}
    way = r.one({"separators": [" "]}, {"separators": [",", "[ab]+"]}, {"separators": [""]}, {"tokenexp": "[a-zA-Z]+"}, {"tokenexp": "."}, {"tokenexp": r"\w\w+"}, {"separators": [r"[\s,]"]})
    if way.get("separators") == [""] or way.get("tokenexp") == ".":
        attrs["mincharnum"] = 1
    extra = ["a b  c", "  ", "hello big,world", "ab,ba a", "日本 語"]
    return [np.array([r.one(*WORDS, *extra) for _ in range(4)], object).reshape(r.one((4,), (2, 2)))], {**attrs, **way}


@case("Unique", outputs=4, version=11, domain="")
def _(r):
    x = np.array(r.words(6), object) if r.chance(0.5) else r.features(2, 3, dtypes=(np.float32, np.int64)).reshape(-1)
    attrs = {"sorted": r.n(0, 1)}
    if r.chance(0.4):
        x, attrs["axis"] = x.reshape(r.one((3, 2), (2, 3))), r.one(0, 1, -1)
    return [x], attrs


def flattened(name, value):
    """As onnxd writes values that are not tensors: `name.keys` and `name.values`, or `name.0` and so on."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        keys = sorted(value[0])
        return {f"{name}.keys": np.array(keys), f"{name}.values": np.array([[row[k] for k in keys] for row in value], np.float32)}
    if isinstance(value, dict):
        keys = sorted(value)
        return {f"{name}.keys": np.array(keys), f"{name}.values": np.array([value[k] for k in keys])}
    if isinstance(value, list):
        return {f"{name}.{i}": np.asarray(v) for i, v in enumerate(value)}
    return {name: np.asarray(value)}


def model(op, c):
    inputs = [helper.make_tensor_value_info(f"x{i}", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape) for i, x in enumerate(c.inputs)]
    outputs = [f"y{i}" for i in range(c.outputs)]
    node = helper.make_node(op, [i.name for i in inputs], outputs, domain=c.domain, **c.attrs)
    info = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = helper.make_graph([node], "g", inputs, info)
    opsets = [helper.make_opsetid("", 20 if c.domain else c.version)] + ([helper.make_opsetid(c.domain, c.version)] if c.domain else [])
    made = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    inferred = onnx.shape_inference.infer_shapes(made, data_prop=False)
    labels = "STRING" if "classlabels_strings" in c.attrs else "INT64"
    for i, value in enumerate(inferred.graph.output):
        if value.type.WhichOneof("value") is None or (i == 0 and c.outputs == 2 and "Classifier" in op):
            value.CopyFrom(typed(op, c, value.name, i, labels))
    return inferred


def typed(op, c, name, i, labels):
    kind = {"STRING": TensorProto.STRING, "INT64": TensorProto.INT64}[labels]
    if op == "ZipMap":
        value = helper.make_map_type_proto(kind, helper.make_tensor_type_proto(TensorProto.FLOAT, None))
        return helper.make_value_info(name, helper.make_sequence_type_proto(value))
    if "Classifier" in op and i == 0:
        return helper.make_tensor_value_info(name, kind, None)
    if op in ("LabelEncoder", "CategoryMapper"):
        text = {"values_strings": TensorProto.STRING, "values_int64s": TensorProto.INT64, "values_floats": TensorProto.FLOAT}
        found = [kind for key, kind in text.items() if key in c.attrs]
        if "values_tensor" in c.attrs:
            found = [c.attrs["values_tensor"].data_type]
        return helper.make_tensor_value_info(name, found[0] if found else TensorProto.INT64 if c.inputs[0].dtype == object else TensorProto.STRING, None)
    if op in ("ArrayFeatureExtractor", "Binarizer", "Imputer", "TreeEnsemble", "StringNormalizer", "StringConcat", "Tokenizer") or (op == "Unique" and i == 0):
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(c.inputs[0].dtype), None)
    if op == "Unique" or (op == "StringSplit" and i == 1):
        return helper.make_tensor_value_info(name, TensorProto.INT64, None)
    return helper.make_tensor_value_info(name, TensorProto.STRING if op == "StringSplit" else TensorProto.BOOL if op == "RegexFullMatch" else TensorProto.FLOAT, None)


def differ(found, want, tolerance):
    if found.shape != want.shape:
        return f"shape {found.shape}, ONNX Runtime's is {want.shape}"
    if want.dtype.kind in "OUS" or found.dtype.kind in "OUS":
        same = found.astype(str) == want.astype(str)
        return None if np.all(same) else f"{found.tolist()}, ONNX Runtime's is {want.tolist()}"
    if found.dtype != want.dtype:
        return f"type {found.dtype}, ONNX Runtime's is {want.dtype}"
    scale = max(1.0, float(np.nanmax(np.abs(want), initial=0))) if want.dtype.kind == "f" else 0.0
    scale = scale if np.isfinite(scale) else 1.0
    near = np.isclose(found, want, rtol=0, atol=tolerance * scale, equal_nan=True) if want.dtype.kind == "f" else found == want
    return None if np.all(near) else f"{found.tolist()}, ONNX Runtime's is {want.tolist()}"


def judge(onnxd, op, c, folder):
    made = model(op, c)
    path = os.path.join(folder, "m.onnx")
    onnx.save(made, path)
    feeds = {f"x{i}": x for i, x in enumerate(c.inputs)}
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        names = [o.name for o in session.get_outputs()]
        wanted = session.run(names, feeds)
    except Exception as e:
        return "refused", str(e)[:200]
    np.savez(os.path.join(folder, "in.npz"), **{k: v.astype(str) if v.dtype == object else v for k, v in feeds.items()})
    out = os.path.join(folder, "out.npz")
    done = subprocess.run([onnxd, "eval", path, "--inputs", os.path.join(folder, "in.npz"), "--out", out], capture_output=True, text=True)
    if done.returncode:
        return "failed", done.stderr.strip()[-300:]
    found = np.load(out)
    for name, value in zip(names, wanted):
        for part, want in flattened(name, value).items():
            if part not in found:
                return "differ", f"{part} is missing; there are {found.files}"
            why = differ(found[part], want, c.tolerance)
            if why:
                return "differ", f"{part}: {why}"
    return "agree", None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--onnxd", required=True)
    parser.add_argument("--cases", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only")
    parser.add_argument("--verbose", action="store_true", help="shows what ONNX Runtime refuses, and the attributes of what differs")
    options = parser.parse_args()
    wrong = total = 0
    for number, (op, make) in enumerate(CASES.items()):
        if options.only and op not in options.only.split(","):
            continue
        counts = collections.Counter()
        with tempfile.TemporaryDirectory(prefix="ml-") as folder:
            for i in range(options.cases):
                c = make(Dice([options.seed, number, i]))
                verdict, why = judge(os.path.abspath(options.onnxd), op, c, folder)
                counts[verdict] += 1
                if verdict in ("failed", "differ") and counts[verdict] <= 3:
                    print(f"{op} {i} (version {c.version}): {why}")
                    if options.verbose:
                        print("   ", {k: v if not isinstance(v, onnx.TensorProto) else numpy_helper.to_array(v).tolist() for k, v in c.attrs.items()}, [x.tolist() for x in c.inputs])
                elif verdict == "refused" and options.verbose and counts[verdict] == 1:
                    print(f"{op} {i}: ONNX Runtime refuses: {why}")
        wrong += counts["failed"] + counts["differ"]
        total += sum(counts.values())
        print(op, dict(counts))
    print(f"{total - wrong} of {total} cases agree or are refused by ONNX Runtime, {wrong} differ")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
