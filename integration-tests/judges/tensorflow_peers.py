#!/usr/bin/env python3
"""What onnxd makes of files of TensorFlow, beside tf2onnx in the same run.

    tensorflow_peers.py --onnxd target/release/onnxd --models DIR [--names TEXT,...] [--resnet] [--opset 18]
                        [--timeout 900] [--save result.json]

DIR/NAME holds files of one network: `frozen*.pb`, `saved_model/`, `model.keras`, `model.h5` and `model_KIND.tflite`,
with `inputs.npz` and `outputs.npz` (for TFLite `inputs_tflite_KIND.npz` and `outputs_tflite_KIND.npz`).
`--resnet` makes ResNet-50 with random weights in each format first, in DIR/resnet50.

Each conversion runs in a process of its own. CPU seconds and the peak resident set are those of the whole process and
its children; those of tf2onnx include the import of TensorFlow, which each of its runs needs. `anon` is the largest
anonymous memory of one of onnxd's processes, which leaves out mapped files. Nodes and Transposes are counted with those
of sub-graphs. A result is `right` if ONNX Runtime gives TensorFlow's outputs, `wrong` if it gives others, `unusable` if
the checker or ONNX Runtime refuses the file, and `refused` if the converter wrote none.

Needs a Python with TensorFlow, Keras, tf2onnx, onnx and onnxruntime. The exit status is 1 if a result of onnxd is wrong
or unusable, or has more nodes or Transposes than a right result of tf2onnx.
"""
import argparse
import collections
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile

from graph_size import count, difference, measured, session
from torch_peers import watched

# Relative to the largest element of an output; quantized outputs may differ by this many steps. Other integers may not.
EQUAL, STEPS = 1e-3, 1
QUANTIZED = ("int8", "uint8", "int16")
RESULTS = ["right", "wrong", "unusable", "refused"]

# -- what runs in processes of its own: `tensorflow_peers.py --worker NAME ARGUMENTS` ---------------------------------


def loaded(source):
    if source.endswith(".h5"):
        import tf_keras

        try:
            import keras

            return keras.models.load_model(source, compile=False)
        except Exception:  # noqa: BLE001 - files of Keras 2
            return tf_keras.models.load_model(source, compile=False)
    import keras

    try:
        return keras.models.load_model(source, compile=False)
    except Exception:  # noqa: BLE001 - files of Keras 2
        import tf_keras

        return tf_keras.models.load_model(source, compile=False)


def frozen_ends(source):
    """Placeholders, and results that no node reads."""
    import tensorflow as tf

    graph = tf.compat.v1.GraphDef.FromString(open(source, "rb").read())
    read = {name.lstrip("^").split(":")[0] for node in graph.node for name in node.input}
    inputs = [n.name for n in graph.node if n.op == "Placeholder" and n.name in read]
    outputs = [n.name for n in graph.node if n.name not in read and n.op not in ("Placeholder", "NoOp", "Const")]
    return graph, [f"{name}:0" for name in inputs], [f"{name}:0" for name in outputs]


def worker_tf2onnx(source, target, opset):
    import tensorflow as tf
    import tf2onnx

    opset = int(opset)
    if source.endswith(".tflite"):
        tf2onnx.convert.from_tflite(source, opset=opset, output_path=target)
    elif source.endswith(".pb"):
        graph, inputs, outputs = frozen_ends(source)
        tf2onnx.convert.from_graph_def(graph, input_names=inputs, output_names=outputs, opset=opset, output_path=target)
    elif os.path.isdir(source):
        module = tf.saved_model.load(source)
        signature = module.signatures["serving_default"]
        specs = list(signature.structured_input_signature[1].values())
        named = tf.function(lambda *args: signature(**{s.name: a for s, a in zip(specs, args)}))
        tf2onnx.convert.from_function(named, input_signature=specs, opset=opset, output_path=target)
    else:
        model = loaded(source)
        specs = [tf.TensorSpec(i.shape, i.dtype, i.name.split(":")[0]) for i in model.inputs]
        single = len(specs) == 1
        named = tf.function(lambda *args: model(args[0] if single else list(args), training=False))
        tf2onnx.convert.from_function(named, input_signature=specs, opset=opset, output_path=target)


def fed(inputs, arrays):
    """The arrays of a model's inputs: by names, else by their order, as long as shapes and types agree."""
    if all(i.name in arrays for i in inputs):
        return {i.name: arrays[i.name] for i in inputs}
    left, feeds = dict(arrays), {}
    for i in inputs:
        fits = [k for k, a in left.items() if len(a.shape) == len(i.shape)
                and all(not isinstance(s, int) or s == d for s, d in zip(i.shape, a.shape))]
        near = [k for k in fits if k.split(":")[0] in i.name or i.name.split(":")[0] in k]
        key = (near or fits or list(left))[0]
        feeds[i.name] = left.pop(key)
    return feeds


def nearest(wanted, found):
    """How far results are from the recorded ones, which have other names and perhaps another order."""
    import numpy as np

    worst, left = 0.0, list(found)
    if len(wanted) != len(left):
        return float("inf")
    for value in wanted:
        def far(other):
            if value.shape != other.shape or value.dtype != other.dtype:
                return float("inf")
            if value.dtype.kind in "iu":
                gap = int(np.abs(value.astype(np.int64) - other.astype(np.int64)).max()) if value.size else 0
                return 0.0 if gap <= (STEPS if value.dtype.name in QUANTIZED else 0) else float(gap)
            gap = difference([value], [other])
            return gap if isinstance(gap, float) and gap == gap else float("inf")

        gaps = [far(other) for other in left]
        best = min(range(len(gaps)), key=gaps.__getitem__)
        worst = max(worst, gaps[best])
        del left[best]
    return worst


def worker_judge(path, inputs, outputs):
    import numpy as np
    import onnx

    model = onnx.load(path)
    ops = count(model)
    row = {"nodes": sum(ops.values()), "transposes": ops.get("Transpose", 0), "ops": ops,
           "mib": os.path.getsize(path) / (1 << 20)}
    try:
        onnx.checker.check_model(path, full_check=True)
        run = session(path, True, 2)
        given = fed(run.get_inputs(), dict(np.load(inputs)))
        found = run.run(None, given)
        row["diff"] = nearest(list(np.load(outputs).values()), found)
    except Exception as problem:  # noqa: BLE001 - whatever the checker or ONNX Runtime says
        row["unusable"] = str(problem).strip().splitlines()[0][:200]
    print("RESULT " + json.dumps(row))


def worker_resnet(folder):
    import numpy as np
    import tensorflow as tf
    from tensorflow import keras

    os.makedirs(folder, exist_ok=True)
    keras.utils.set_random_seed(7)
    model = keras.applications.ResNet50(weights=None)
    for variable in model.variables:
        if variable.name in ("moving_mean", "moving_variance", "gamma", "beta"):
            variable.assign(np.random.default_rng(1).uniform(0.8, 1.2, variable.shape))
    model.export(os.path.join(folder, "saved_model"), verbose=False)
    model.save(os.path.join(folder, "model.keras"))
    model.save(os.path.join(folder, "model.h5"))
    lite = tf.lite.TFLiteConverter.from_keras_model(model).convert()
    open(os.path.join(folder, "model_float.tflite"), "wb").write(lite)
    x = np.random.default_rng(0).standard_normal((1, 224, 224, 3)).astype(np.float32)
    name = model.inputs[0].name
    for stem in ("", "_tflite_float"):
        np.savez(os.path.join(folder, f"inputs{stem}.npz"), **{name: x})
        np.savez(os.path.join(folder, f"outputs{stem}.npz"), y=model(x, training=False).numpy())


def worker(name, *arguments):
    {"tf2onnx": worker_tf2onnx, "judge": worker_judge, "resnet": worker_resnet}[name](*arguments)


# -- one file ---------------------------------------------------------------------------------------------------------


def self_command(*arguments):
    return [sys.executable, os.path.abspath(__file__), "--worker", *map(str, arguments)]


def sources(folder):
    found = glob.glob(f"{folder}/frozen*.pb") + glob.glob(f"{folder}/saved_model") + glob.glob(f"{folder}/model*.*")
    for source in sorted(found):
        name = os.path.basename(source)
        stem = "_tflite_" + name[6:-7] if name.endswith(".tflite") else ""
        arrays = [os.path.join(folder, f"{what}{stem}.npz") for what in ("inputs", "outputs")]
        if all(map(os.path.exists, arrays)):
            yield source, arrays


def judged(row, path, arrays):
    if not os.path.exists(path):
        row["result"] = "refused"
        return row
    child = subprocess.run(self_command("judge", path, *arrays), capture_output=True, text=True, check=False)
    said = [line for line in child.stdout.splitlines() if line.startswith("RESULT ")]
    row.update(json.loads(said[-1][7:]) if said else {"unusable": child.stderr.strip()[-200:]})
    row["result"] = "unusable" if "unusable" in row else "right" if row["diff"] <= EQUAL else "wrong"
    return row


def measure(args, source, arrays, scratch):
    shutil.rmtree(scratch)
    os.mkdir(scratch)
    out, peer = os.path.join(scratch, "out"), os.path.join(scratch, "peer.onnx")
    command = [args.onnxd, "convert", source, "--out", out, "--set", f"export.opset={args.opset}"]
    row = {"file": os.path.relpath(source, args.models)}
    row["onnxd"] = judged(watched(command, args.timeout), os.path.join(out, "model.onnx"), arrays)
    row["tf2onnx"] = judged(measured(self_command("tf2onnx", source, peer, args.opset), args.timeout), peer, arrays)
    return row


def is_behind(row):
    ours, theirs = row["onnxd"], row["tf2onnx"]
    if ours["result"] in ("wrong", "unusable"):
        return True
    both = ours["result"] == theirs["result"] == "right"
    return both and (ours["nodes"] > theirs["nodes"] or ours["transposes"] > theirs["transposes"])


def shown(found):
    sizes = f"{found.get('nodes', '-'):>6} {found.get('transposes', '-'):>4}"
    return f"{found['result']:9} {found['cpu_s']:7.2f} {found['peak_mib']:7.0f} {sizes}"


def print_row(row):
    mark = "behind" if is_behind(row) else ""
    print(f"{row['file']:44} {shown(row['onnxd'])} {row['onnxd'].get('anon_mib', 0):6.0f}   {shown(row['tf2onnx'])} {mark}",
          flush=True)
    for who in ("onnxd", "tf2onnx"):
        found = row[who]
        why = found.get("unusable") or (f"differs by {found['diff']:.3g}" if found["result"] == "wrong" else None)
        if who == "onnxd" and found["result"] == "refused":
            why = next((l for l in found.get("failed", "").splitlines() if l.startswith("N0")), "")
        if why:
            print(f"    {who}: {why}")


def summary(rows):
    for who in ("onnxd", "tf2onnx"):
        results = collections.Counter(row[who]["result"] for row in rows)
        cpu, peak = sum(row[who]["cpu_s"] for row in rows), max(row[who]["peak_mib"] for row in rows)
        print(f"{who:8} " + ", ".join(f"{results[r]} {r}" for r in RESULTS) + f"; {cpu:.1f} CPU s; peak {peak:.0f} MiB")
    both = [row for row in rows if row["onnxd"]["result"] == row["tf2onnx"]["result"] == "right"]
    for key in ("nodes", "transposes"):
        ours, theirs = (sum(row[who][key] for row in both) for who in ("onnxd", "tf2onnx"))
        print(f"{key} where both are right ({len(both)} files): {ours} beside {theirs}")
    ratio = sum(row["tf2onnx"]["cpu_s"] for row in both) / max(sum(row["onnxd"]["cpu_s"] for row in both), 1e-9)
    print(f"CPU time: tf2onnx takes {ratio:.0f} times that of onnxd")


def main():
    if sys.argv[1:2] == ["--worker"]:
        return worker(*sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--onnxd", required=True)
    parser.add_argument("--models", required=True)
    parser.add_argument("--names", help="only networks whose name has one of these texts")
    parser.add_argument("--resnet", action="store_true")
    parser.add_argument("--opset", type=int, default=18)
    parser.add_argument("--timeout", type=int, default=900)
    parser.add_argument("--save")
    args = parser.parse_args()
    args.onnxd, args.models = os.path.abspath(args.onnxd), os.path.abspath(args.models)
    if args.resnet and not os.path.exists(os.path.join(args.models, "resnet50", "outputs.npz")):
        subprocess.run(self_command("resnet", os.path.join(args.models, "resnet50")), check=True)
    wanted = (args.names or "").split(",")
    folders = [f for f in sorted(glob.glob(f"{args.models}/*/")) if any(w in os.path.basename(f[:-1]) for w in wanted)]
    print(f"{'file':44} {'onnxd':9} {'CPU s':>7} {'MiB':>7} {'nodes':>6} {'Tr':>4} {'anon':>6}   "
          f"{'tf2onnx':9} {'CPU s':>7} {'MiB':>7} {'nodes':>6} {'Tr':>4}")
    rows = []
    with tempfile.TemporaryDirectory() as place:
        scratch = os.path.join(place, "run")
        os.mkdir(scratch)
        for folder in folders:
            for source, arrays in sources(folder.rstrip("/")):
                rows.append(measure(args, source, arrays, scratch))
                print_row(rows[-1])
    summary(rows)
    if args.save:
        json.dump(rows, open(args.save, "w"), indent=1)
    return int(any(map(is_behind, rows)))


if __name__ == "__main__":
    sys.exit(main())
