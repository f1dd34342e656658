#!/usr/bin/env python3
"""Judge programs of TensorFlow -> ONNX: TensorFlow itself says what each one gives.

    tensorflow_programs.py --onnxd target/release/onnxd [--match REGEX] [--formats saved,frozen,lowered,v1,meta] [--keep DIR]

The programs of `tensorflow_cases.py` have loops, conditions, lists of tensors, variables and calls. Each becomes a
SavedModel (`saved`), a frozen graph whose loops are functions (`frozen`) and one whose loops are frames of TensorFlow 1
(`lowered`); graphs of TensorFlow 1 are frozen (`v1`) or have a checkpoint (`meta`). ONNX Runtime must give what
TensorFlow gives, for inputs that take different paths, and a program that cannot be converted must say why. Needs
numpy, onnx, onnxruntime and tensorflow.
"""
import argparse
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import traceback

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np
import onnx
import onnxruntime
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

import tensorflow_cases as cases

tf.get_logger().setLevel("ERROR")

FORMATS = ["saved", "frozen", "lowered", "v1", "meta"]


def write_function(made, specs, form, folder):
    """Writes a program; gives its file and a function that computes it."""
    module = made() if inspect.isclass(made) else tf.Module()
    function = module.run if inspect.isclass(made) else made
    # A signature gives a dictionary of tensors.
    serve = tf.function(lambda *args: {f"r{i:02}": v for i, v in enumerate(tf.nest.flatten(function(*args)))}, input_signature=specs)
    concrete = serve.get_concrete_function()
    compute = lambda feed: [v.numpy() for _, v in sorted(fresh(made, specs)(*map(tf.constant, feed)).items())]
    if form == "saved":
        module.serve = serve
        tf.saved_model.save(module, folder, signatures=concrete)
        return os.path.join(folder, "saved_model.pb"), compute
    frozen = convert_variables_to_constants_v2(concrete, lower_control_flow=form == "lowered")
    path = os.path.join(folder, "graph.pb")
    with open(path, "wb") as f:
        f.write(frozen.graph.as_graph_def().SerializeToString())
    names = [t.name.split(":")[0] if t.name.endswith(":0") else t.name for t in frozen.outputs]
    return path, compute, [t.name.split(":")[0] for t in frozen.inputs], names


def fresh(made, specs):
    """The function with variables that nothing was written to."""
    module = made() if inspect.isclass(made) else None
    function = module.run if module else made
    return tf.function(lambda *args: {f"r{i:02}": v for i, v in enumerate(tf.nest.flatten(function(*args)))}, input_signature=specs)


def write_graph(made, feeds, form, folder):
    """Writes a graph of TensorFlow 1; gives its file, and what it gives."""
    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph, v1.Session(graph=graph) as session:
        v1.disable_control_flow_v2()
        inputs, outputs = made()
        session.run([v1.global_variables_initializer(), v1.local_variables_initializer()])
        names = [t.op.name for t in outputs]
        if form == "meta":
            variables = v1.global_variables()
            if not variables:
                return None
            path = os.path.join(folder, "model.meta")
            v1.train.Saver(variables).save(session, path[:-5])
        else:
            if v1.global_variables():
                definition = v1.graph_util.convert_variables_to_constants(session, graph.as_graph_def(), names)
            else:
                definition = v1.graph_util.extract_sub_graph(graph.as_graph_def(), names)
            path = os.path.join(folder, "graph.pb")
            with open(path, "wb") as f:
                f.write(definition.SerializeToString())
        wanted = []
        for feed in feeds:
            wanted.append(session.run(outputs, dict(zip(inputs, feed))))
        return path, wanted, [t.op.name for t in inputs], names


def converted(onnxd, path, params, folder):
    """The model that a file becomes, checked, or None and why there is none."""
    out = os.path.join(folder, "out")
    run = subprocess.run([onnxd, "convert", path, "--params", params, "--out", out], capture_output=True, text=True, timeout=120)
    if run.returncode:
        said = run.stdout + run.stderr
        lines = [line for line in said.splitlines() if re.match(r"\s*[A-Z]\d{4}", line)]
        return None, f"exit {run.returncode}: " + " | ".join(lines or [said])[:600]
    file = os.path.join(out, "model.onnx")
    onnx.checker.check_model(file, full_check=True)
    return file, None


def differs(wanted, found):
    """What is wrong with the results; None if nothing is."""
    if len(wanted) != len(found):
        return f"{len(found)} outputs, not {len(wanted)}"
    for i, (a, b) in enumerate(zip(wanted, found)):
        a, b = np.asarray(a), np.asarray(b)
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"output {i} is {b.dtype}{b.shape}, not {a.dtype}{a.shape}"
        if not np.allclose(a, b, 1e-4, 1e-5, equal_nan=True):
            return f"output {i} differs: {np.ravel(b)[:4]}, not {np.ravel(a)[:4]}"
    return None


def judged(onnxd, name, form, folder):
    """What is wrong with one program in one form; None if nothing is, and a word if it has no such form."""
    os.makedirs(folder)
    table = cases.GRAPHS if form in FORMATS[3:] else cases.PROGRAMS
    if table[name][-1] and form not in ("saved", "meta"):
        return "none"  # Freezing makes constants of variables.
    if form in ("v1", "meta"):
        made, feeds, refused = cases.GRAPHS[name]
        written = write_graph(made, feeds, form, folder)
        if written is None:
            return "none"
        path, wanted, inputs, outputs = written
    else:
        made, specs, feeds, refused = cases.PROGRAMS[name]
        try:
            path, compute, *ports = write_function(made, specs, form, folder)
        except Exception as why:
            if form == "saved":
                raise
            return "none"  # TensorFlow does not freeze it.
        wanted = [compute(feed) for feed in feeds]
        inputs, outputs = ports or ([spec.name for spec in specs], None)
    params = os.path.join(folder, "params.toml")
    with open(params, "w") as f:
        if outputs and form in ("meta", "frozen", "lowered"):
            f.write(f"[source]\noutputs = {json.dumps(outputs)}\ninputs = {json.dumps(inputs)}\n")
    file, why = converted(onnxd, path, params, folder)
    if refused or why:
        return None if refused and why and refused in why else why or f"converted, and should say `{refused}`"
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    known = {i.name for i in session.get_inputs()}
    for feed, want in zip(feeds, wanted):
        given = {n: np.asarray(a) for n, a in zip(inputs, feed) if n in known}
        order = None
        if form == "v1":
            names = [o.name for o in session.get_outputs()]
            if sorted(names) != sorted(outputs):
                return f"outputs {names}, not {outputs}"
            order = outputs
        try:
            found = session.run(order, given)
        except Exception as why:
            return f"{[np.shape(a) or a for a in feed]}: {str(why)[:400]}"
        why = differs(want, found)
        if why:
            return f"{[np.shape(a) or a for a in feed]}: {why}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--onnxd", required=True)
    parser.add_argument("--match", default="")
    parser.add_argument("--formats", default=",".join(FORMATS))
    parser.add_argument("--keep")
    options = parser.parse_args()
    forms = options.formats.split(",")
    work = [(name, form) for name in cases.PROGRAMS for form in FORMATS[:3] if form in forms]
    work += [(name, form) for name in cases.GRAPHS for form in FORMATS[3:] if form in forms]
    passed = failed = none = 0
    for name, form in work:
        if not re.search(options.match, name):
            continue
        top = tempfile.mkdtemp(prefix="tensorflow_programs_")
        folder = os.path.join(top, name)
        try:
            why = judged(options.onnxd, name, form, folder)
        except Exception:
            why = traceback.format_exc(limit=-2)[-600:]
        if why == "none":
            none += 1
        elif why is None:
            passed += 1
        else:
            failed += 1
            print(f"{name} {form}: {why}", flush=True)
            if options.keep:
                shutil.copytree(folder, os.path.join(options.keep, f"{name}_{form}"), dirs_exist_ok=True)
        shutil.rmtree(top)
    print(f"{passed} right, {failed} wrong, {none} that TensorFlow does not write in this form")
    sys.exit(failed > 0 or passed == 0)


if __name__ == "__main__":
    main()
