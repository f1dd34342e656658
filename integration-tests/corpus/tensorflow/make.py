"""Makes the files of these cases, and what TensorFlow itself computes with them.

    python make.py [CASE...]

A case gets a network in one of the formats, and as `expected.inputs.npz` and `expected.outputs.npz` inputs and
TensorFlow's outputs. A network that keeps state between calls gets `calls.npz` instead: the input and the output of
each call.
"""

import os
import shutil
import sys
import tempfile
import zipfile

import numpy as np
import tensorflow as tf
import mediapipe
import operators
from cases import Loops, Shared, Stream, blocks, branches, cnn, dilated, floats
from cases import frames, gates, merge_inputs, merges, stateful, wide, word_inputs
from tensorflow import keras

HERE = os.path.dirname(os.path.abspath(__file__))


def folder_of(case):
    folder = os.path.join(HERE, case)
    os.makedirs(folder, exist_ok=True)
    return folder


def written(case, name, data):
    with open(os.path.join(folder_of(case), name), "wb") as file:
        file.write(data)
    print(f"{case}/{name}: {len(data)} bytes")


def arrays(case, name, values, prefix):
    named = {f"{prefix}{i}": np.asarray(value) for i, value in enumerate(values)}
    np.savez_compressed(os.path.join(folder_of(case), name), **named)


def expected(case, inputs, outputs):
    arrays(case, "expected.inputs.npz", inputs, "input")
    arrays(case, "expected.outputs.npz", outputs, "output")


def settled(model):
    """The model with other statistics than those that batch normalization begins with."""
    random = np.random.default_rng(1)
    for variable in model.variables:
        if "moving" in variable.name or variable.name in ("gamma", "beta"):
            variable.assign(random.uniform(0.5, 1.5, variable.shape))
    return model


def saved(case, save, keep=lambda name: True):
    """A SavedModel in a folder of its own, without notes for debugging."""
    target = os.path.join(folder_of(case), "net")
    with tempfile.TemporaryDirectory() as place:
        save(place)
        for name in ("debug_info", "fingerprint.pb", "assets"):
            path = os.path.join(place, name)
            shutil.rmtree(path) if os.path.isdir(path) else os.path.exists(path) and os.remove(path)
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(place, target)
    return target


def zipped(folder, case):
    target = os.path.join(folder_of(case), "net.zip")
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for at, _, names in sorted(os.walk(folder)):
            for name in sorted(names):
                path = os.path.join(at, name)
                entry = zipfile.ZipInfo(os.path.join("net", os.path.relpath(path, folder)))
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, open(path, "rb").read())


def keras_file(case, model, name, inputs):
    keras.utils.set_random_seed(0)
    with tempfile.TemporaryDirectory() as place:
        path = os.path.join(place, name)
        model.save(path)
        written(case, name, open(path, "rb").read())
    outputs = model(inputs if len(inputs) > 1 else inputs[0], training=False)
    expected(case, inputs, outputs if isinstance(outputs, (list, tuple)) else [outputs])


def tflite(case, model, inputs, samples=None, half=False):
    converter = tf.lite.TFLiteConverter.from_keras_model(model)
    if half:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.target_spec.supported_types = [tf.float16]
    if samples is not None:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.representative_dataset = lambda: ([sample[None]] for sample in samples)
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
        converter.inference_input_type = converter.inference_output_type = tf.int8
    data = converter.convert()
    written(case, "net.tflite", data)
    interpreter = tf.lite.Interpreter(model_content=data)
    given = interpreter.get_input_details()[0]
    if samples is not None:
        scale, zero = given["quantization"]
        inputs = [np.clip(np.round(x / scale) + zero, -128, 127).astype(np.int8) for x in inputs]
    interpreter.resize_tensor_input(given["index"], inputs[0].shape)
    interpreter.allocate_tensors()
    interpreter.set_tensor(given["index"], inputs[0])
    interpreter.invoke()
    expected(case, inputs, [interpreter.get_tensor(out["index"]) for out in interpreter.get_output_details()])


def frozen(case, function, inputs):
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2
    graph = convert_variables_to_constants_v2(function).graph.as_graph_def()
    for node in graph.node:
        node.ClearField("experimental_debug_info")
    written(case, "net.pb", graph.SerializeToString(deterministic=True))
    outputs = function(*map(tf.constant, inputs))
    expected(case, inputs, tf.nest.flatten(outputs))


def make_cnn(name):
    model = settled(cnn())
    inputs = floats((2, 16, 16, 3))
    if name == "saved-cnn":
        saved(name, lambda place: model.export(place, verbose=False))
        expected(name, inputs, [model(inputs[0], training=False)])
    elif name == "frozen-cnn":
        spec = tf.TensorSpec([None, 16, 16, 3], tf.float32, "image")
        frozen(name, tf.function(lambda x: model(x, training=False)).get_concrete_function(spec), inputs)
    elif name == "tflite-cnn":
        tflite(name, model, [inputs[0][:1]])
    elif name == "tflite-float16":
        tflite(name, wide(), [floats((1, 6, 6, 16))[0]], half=True)
    elif name == "tflite-int8":
        tflite(name, model, [inputs[0][:1]], floats((32, 16, 16, 3))[0])
    else:
        keras_file(name, model, "net.keras" if name == "keras-cnn" else "net.h5", inputs)


def make_dilated(name):
    if name == "dilated":
        spec = tf.TensorSpec([None, 10, 9, 2], tf.float32, "image")
        frozen(name, tf.function(blocks).get_concrete_function(spec), floats((2, 10, 9, 2)))
    else:
        tflite(name, dilated(), [floats((1, 10, 9, 2))[0]], floats((32, 10, 9, 2))[0])


def make_branches(name):
    keras_file(name, branches(), "net.keras" if name == "keras-branches" else "net.h5", word_inputs())


def make_settings(name):
    if name == "keras-merges":
        keras_file(name, settled(merges()), "net.keras", merge_inputs())
    else:
        keras_file(name, gates(), "net.h5", floats((2, 4, 3)))


def make_loops(name):
    module = Loops()
    folder = saved(name, lambda place: tf.saved_model.save(module, place, module.serve))
    if name == "loops-zip":
        zipped(folder, name)
        shutil.rmtree(folder)
    inputs = [*floats((2, 3)), np.array(4, np.int32)]
    outputs = module.serve(*map(tf.constant, inputs))
    expected(name, [inputs[1], inputs[0]], [outputs["all"], outputs["last"]])


def make_signatures(name):
    module = Shared()
    signatures = {"scores": module.scores, "lookup": module.lookup}
    saved(name, lambda place: tf.saved_model.save(module, place, signatures))
    chosen = "lookup" if name == "refused-strings" else "scores"
    with open(os.path.join(folder_of(name), "net", "params.toml"), "w") as file:
        file.write(f'[source]\nsignature = "{chosen}"\n')
    if chosen == "scores":
        inputs = floats((4, 3))
        expected(name, inputs, [module.scores(inputs[0])["scores"]])


def calls(name, call, *size):
    """Ten calls with inputs of their own."""
    named = {}
    random = np.random.default_rng(3)
    for i in range(10):
        named[f"x{i}"] = random.standard_normal(size).astype(np.float32)
        named[f"y{i}"] = np.asarray(call(named[f"x{i}"]))
    np.savez_compressed(os.path.join(folder_of(name), "calls.npz"), **named)
    # A SavedModel has its params inside.
    folder = os.path.join(folder_of(name), "net")
    with open(os.path.join(folder if os.path.isdir(folder) else folder_of(name), "params.toml"), "w") as file:
        file.write('[export]\nmutations = "outputs"\n')


def make_stream(name):
    if name == "stream-keras":
        model = stateful()
        with tempfile.TemporaryDirectory() as place:
            path = os.path.join(place, "net.keras")
            model.save(path)
            written(name, "net.keras", open(path, "rb").read())
        return calls(name, model, 2, 3, 4)
    module = Stream(name == "stream")
    if name == "stream":
        saved(name, lambda place: tf.saved_model.save(module, place, module.serve))
        return calls(name, module.serve, 1, 1, 4)
    converter = tf.lite.TFLiteConverter.from_concrete_functions([module.serve.get_concrete_function()], module)
    converter.experimental_enable_resource_variables = True
    data = converter.convert()
    written(name, "net.tflite", data)
    interpreter = tf.lite.Interpreter(model_content=data)
    interpreter.allocate_tensors()
    takes, gives = interpreter.get_input_details()[0]["index"], interpreter.get_output_details()[0]["index"]

    def call(x):
        interpreter.set_tensor(takes, x)
        interpreter.invoke()
        return interpreter.get_tensor(gives)

    calls(name, call, 1, 1, 4)


def make_frames(name):
    graph = frames()
    written(name, "net.pb", graph.as_graph_def().SerializeToString(deterministic=True))
    inputs = floats((2, 3))
    with tf.compat.v1.Session(graph=graph) as session:
        expected(name, inputs, [session.run("y:0", {"x:0": inputs[0]})])


def make_mediapipe(name):
    w, b, x, p = floats((3, 3, 3, 2), (3,), (1, 4, 4, 2), (1, 5, 3))
    m = np.array([[0.9, 0.2, 0, 0.7, -0.1, 1.1, 0, 0.47, 0, 0, 1, 0, 0, 0, 0, 1]], np.float32)
    weights = {"w": w, "b": b}
    written(name, "net.tflite", mediapipe.build(weights))
    expected(name, [x, m, p], mediapipe.computed(x, m, p, weights))


def make_operators(name):
    graph, inputs, outputs = operators.build(tf)
    written(name, "net.pb", graph.as_graph_def().SerializeToString(deterministic=True))
    with tf.compat.v1.Session(graph=graph) as session:
        expected(name, list(inputs.values()), session.run(outputs, inputs))


CASES = {
    **dict.fromkeys(["saved-cnn", "frozen-cnn", "keras-cnn", "h5-cnn", "tflite-cnn", "tflite-int8", "tflite-float16"], make_cnn),
    **dict.fromkeys(["dilated", "tflite-dilated"], make_dilated),
    **dict.fromkeys(["keras-branches", "h5-branches"], make_branches),
    **dict.fromkeys(["keras-merges", "h5-gates"], make_settings),
    **dict.fromkeys(["loops", "loops-zip"], make_loops),
    **dict.fromkeys(["signatures", "refused-strings"], make_signatures),
    **dict.fromkeys(["stream", "stream-tflite", "stream-keras"], make_stream),
    "frames": make_frames,
    "mediapipe": make_mediapipe,
    "operators": make_operators,
}

if __name__ == "__main__":
    for case, make in CASES.items():
        if not sys.argv[1:] or case in sys.argv[1:]:
            keras.utils.set_random_seed(0)
            make(case)
