"""The models of odd_models.py: odd but legal, saved by ONNX Runtime, and such that contradict themselves."""
import dataclasses
import pathlib
import typing

import ml_dtypes
import numpy as np
import onnx
import onnx.inliner
import onnxruntime
from onnx import AttributeProto, TensorProto, helper, numpy_helper, parser

F, I64 = TensorProto.FLOAT, TensorProto.INT64
MAKERS = []


@dataclasses.dataclass
class Case:
    name: str
    model: onnx.ModelProto | None
    # A diagnostic's code if it must be refused.
    code: str = ""
    # What of the original keeps every file of its kind from passing the checker.
    refused_by_checker: str = ""
    feeds: dict = dataclasses.field(default_factory=dict)
    settings: tuple = ()
    # Exit status of a conversion beside 0.
    status: int = 0
    # How near what is quantized by the settings must be to the original; 0 asks for equal numbers.
    sqnr_db: float = 0.0
    # Whether the built-in executor must run it.
    evaluates: bool = True
    # Texts of the report.
    notes: tuple = ()
    # Writes the file into a folder, where that is more than one message; gives its path.
    writer: typing.Callable | None = None

    def write(self, folder: pathlib.Path):
        if self.writer:
            return self.writer(folder)
        path = folder / "odd.onnx"
        path.write_bytes(self.model.SerializeToString())
        return path


def cases(make):
    MAKERS.append(make)
    return make


def all_cases():
    for make in MAKERS:
        yield from make()


def model_of(body, ir=8, opset=17, more=""):
    return parser.parse_model(f'<ir_version: {ir}, opset_import: ["" : {opset}{more}]> {body}')


def graph_model(nodes, inputs, outputs, initializers=(), ir=8, opset=17, domains=(), **graph):
    made = helper.make_graph(nodes, "g", inputs, outputs, list(initializers), **graph)
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, v) for d, v in domains)]
    return helper.make_model(made, ir_version=ir, opset_imports=imports)


def tensor(name, dtype, shape):
    return helper.make_tensor_value_info(name, dtype, shape)


def floats(name, array):
    return numpy_helper.from_array(np.asarray(array, dtype=np.float32), name)


def random(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


# -- versions and imports --

@cases
def versions():
    for ir, opset in [(3, 7), (3, 8), (4, 9), (5, 10), (6, 11), (7, 12), (7, 13), (8, 15), (8, 18), (9, 19), (10, 21), (10, 22),
                      (11, 23), (12, 24), (13, 25)]:
        w = floats("w", random(4, 3))
        nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Relu", ["p"], ["y"])]
        inputs = [tensor("x", F, [2, 4])] + ([tensor("w", F, [4, 3])] if ir < 4 else [])
        yield Case(f"ir{ir}_opset{opset}", graph_model(nodes, inputs, [tensor("y", F, [2, 3])], [w], ir, opset))


@cases
def imported_twice():
    for first, second in [(17, 17), (13, 17), (17, 13)]:
        model = model_of("g (float[2,3] x) => (float[2,3] y) { y = Relu(x) }", opset=first)
        model.opset_import.append(helper.make_opsetid("", second))
        yield Case(f"import_{first}_and_{second}", model)
    model = model_of("g (float[2,3] x) => (float[2,3] y) { y = Relu(x) }")
    model.opset_import.append(helper.make_opsetid("ai.onnx", 17))
    yield Case("import_under_both_names", model)
    model = model_of("g (float[2,3] x) => (float[2,3] y) { y = ai.onnx.ml.Scaler<offset = [1.0], scale = [2.0]>(x) }",
                     more=', "ai.onnx.ml" : 1')
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 1))
    yield Case("import_of_ml_twice", model)
    model = model_of("g (float[2,3] x) => (float[2,3] y) { y = Relu(x) }")
    model.opset_import[0].domain = "ai.onnx"
    yield Case("import_as_ai_onnx", model)
    model = model_of("g (float[2,3] x) => (float[2,3] y) { y = Relu(x) }", more=', "com.unused" : 7')
    yield Case("import_unused", model)


@cases
def no_names():
    model = model_of("g (float[2,3] x) => (float[2,3] y) { y = Relu(x) }")
    model.graph.name = ""
    yield Case("graph_without_name", model)
    model = model_of("g (float[2,3] x) => (float[2,3] y) { a = Relu(x) b = Relu(a) y = Neg(b) }")
    for node in model.graph.node:
        node.name = "same"
    yield Case("nodes_of_one_name", model)
    nodes = [helper.make_node("Clip", ["x", "", "hi"], ["y"])]
    yield Case("optional_input_left_out", graph_model(nodes, [tensor("x", F, [2, 3])], [tensor("y", F, [2, 3])],
                                                      [floats("hi", 0.5)]))
    nodes = [helper.make_node("Clip", ["x", "", ""], ["y"])]
    yield Case("optional_inputs_all_left_out", graph_model(nodes, [tensor("x", F, [2, 3])], [tensor("y", F, [2, 3])]))
    nodes = [helper.make_node("GRU", ["x", "w", "r"], ["", "y"], hidden_size=2)]
    weights = [floats("w", random(1, 6, 3)), floats("r", random(1, 6, 2, seed=1))]
    yield Case("output_left_out", graph_model(nodes, [tensor("x", F, [4, 1, 3])], [tensor("y", F, [1, 1, 2])], weights))
    for name in ["a b", "a/b:0", "é", "a\"b", "0", "x.y"]:
        nodes = [helper.make_node("Relu", ["x"], [name]), helper.make_node("Neg", [name], ["y"])]
        model = graph_model(nodes, [tensor("x", F, [2, 3])], [tensor("y", F, [2, 3])])
        yield Case("value_called_" + name.encode().hex(), model)


# -- declarations --

@cases
def declarations():
    model = model_of("g (float[2,3] x) => (float[2,3] y) { a = Relu(x) y = Neg(a) }")
    for shape in [[2, 3], [2, 3]]:
        model.graph.value_info.append(tensor("a", F, shape))
    yield Case("value_info_twice", model)
    model = model_of("g (float[2,3] x) => (float[2,3] y) { a = Relu(x) y = Neg(a) }")
    model.graph.value_info.append(tensor("nobody", F, [9]))
    yield Case("value_info_of_nothing", model)
    model = model_of("g (float[2,3] x) => (float[2,3] y) { a = Relu(x) y = Neg(a) }")
    model.graph.value_info.extend([tensor("x", F, [2, 3]), tensor("y", F, [2, 3])])
    yield Case("value_info_of_the_interface", model)
    for name, shape in [("without_shape", None), ("of_unknown_sizes", [None, None]), ("of_symbols", ["n", "m"]),
                        ("of_negative_sizes", [-1, 3])]:
        model = model_of("g (float[2,3] x) => (float[2,3] y) { a = Relu(x) y = Neg(a) }")
        model.graph.output[0].CopyFrom(tensor("y", F, shape))
        yield Case(f"output_{name}", model)
    model = model_of("g (float[2,3] x) => (float[2,3] y) { y = Relu(x) }")
    model.graph.input[0].CopyFrom(tensor("x", F, None))
    model.graph.output[0].CopyFrom(tensor("y", F, None))
    yield Case("interface_without_shapes", model, feeds={"x": random(2, 3)}, refused_by_checker="Field 'shape' of 'type' is required")
    model = model_of("g (float[2,3] x, int64[k] s) => (float[2,3] y) { y = Reshape(x, s) }")
    model.graph.output[0].CopyFrom(tensor("y", F, None))
    yield Case("output_of_unknown_rank", model, feeds={"s": np.array([3, 2], np.int64)},
               refused_by_checker="Field 'shape' of 'type' is required")
    for name, inner, outer in [("inner", [4, 3], [2, 3]), ("rank_of_inner", [6], [2, 3]), ("output", [2, 3], [2, 4]),
                               ("rank_of_output", [2, 3], [6])]:
        model = model_of("g (float[2,3] x) => (float[2,3] y) { a = Relu(x) y = Neg(a) }")
        model.graph.value_info.append(tensor("a", F, inner))
        model.graph.output[0].CopyFrom(tensor("y", F, outer))
        yield Case(f"wrong_shape_of_{name}", model, notes=("N0511",))
    model = model_of("g (float[n,3] x) => (float[n,m] y) { y = Concat<axis = 1>(x, x) }")
    yield Case("symbols_that_are_numbers", model)
    model = model_of("g (float[n,n] x) => (float[n,n] y) { y = Relu(x) }")
    yield Case("one_symbol_for_unequal_sizes", model, feeds={"x": random(2, 5)})


@cases
def additions():
    model = model_of("g (float[2,3] x) => (float[2,3] y) { a = Relu(x) y = Neg(a) }", ir=10, opset=21)
    entry = onnx.StringStringEntryProto(key="k", value="v")
    for part in [model, model.graph, model.graph.node[0], model.graph.input[0]]:
        part.metadata_props.append(entry)
    yield Case("metadata_everywhere", model)
    model = model_of("g (float[2,3] x) => (float[2,3] y) { a = Relu(x) y = Neg(a) }")
    training = model.training_info.add()
    training.algorithm.name = "step"
    yield Case("training_info", model)
    model = model_of("g (float[2,3] x) => (float[2,3] y) { a = Relu(x) y = Neg(a) }", ir=11, opset=23)
    configuration = model.configuration.add()
    configuration.name, configuration.num_devices = "two", 2
    on = model.graph.node[0].device_configurations.add()
    on.configuration_id = "two"
    yield Case("device_configurations", model)
    model = model_of("g (float[2,3] x) => (float[2,3] y) { a = Relu(x) y = Neg(a) }")
    model.graph.initializer.extend([floats("s", 0.1), numpy_helper.from_array(np.array(0, np.uint8), "z")])
    annotation = model.graph.quantization_annotation.add(tensor_name="a")
    annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="s")
    annotation.quant_parameter_tensor_names.add(key="ZERO_POINT_TENSOR", value="z")
    yield Case("quantization_annotation", model)
    model = model_of("g (float[2,3] x) => (float[2,3] y) { y = Relu(x) }")
    model.graph.input[0].type.denotation = "IMAGE"
    model.graph.input[0].type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    yield Case("denotations", model)
    model = model_of("g (float[2,3] x) => (float[2,3] y) { a = Relu(x) b = Exp(x) y = Neg(a) }")
    yield Case("dead_node", model)


# -- interface and initializers --

@cases
def interface():
    x, y = tensor("x", F, [2, 3]), tensor("y", F, [2, 3])
    yield Case("input_is_output", graph_model([], [x], [x]))
    yield Case("input_and_result_are_outputs", graph_model([helper.make_node("Relu", ["x"], ["y"])], [x], [x, y]))
    w = floats("w", random(2, 3))
    yield Case("initializer_is_output", graph_model([helper.make_node("Add", ["x", "w"], ["y"])], [x],
                                                    [y, tensor("w", F, [2, 3])], [w]))
    yield Case("only_an_initializer", graph_model([], [], [tensor("w", F, [2, 3])], [w]))
    yield Case("initializer_is_input", graph_model([helper.make_node("Add", ["x", "w"], ["y"])],
                                                   [x, tensor("w", F, [2, 3])], [y], [w]))
    yield Case("initializer_is_input_and_output", graph_model([helper.make_node("Add", ["x", "w"], ["y"])],
                                                              [x, tensor("w", F, [2, 3])], [y, tensor("w", F, [2, 3])], [w]))
    yield Case("output_named_twice", graph_model([helper.make_node("Relu", ["x"], ["y"])], [x], [y, y]))
    yield Case("unused_input", graph_model([helper.make_node("Relu", ["x"], ["y"])], [x, tensor("u", F, [5])], [y]))
    yield Case("unused_initializer", graph_model([helper.make_node("Relu", ["x"], ["y"])], [x], [y], [w]))
    yield Case("scalar", model_of("g (float x) => (float y) { y = Relu(x) }"))
    yield Case("empty_tensor", model_of("g (float[0,3] x) => (float[0,3] y) { y = Relu(x) }"))
    empty = helper.make_tensor("w", F, [0, 3], [])
    nodes = [helper.make_node("Concat", ["x", "w"], ["y"], axis=0)]
    yield Case("empty_initializer", graph_model(nodes, [x], [y], [empty]))
    nodes = [helper.make_node("Neg", ["a"], ["y"]), helper.make_node("Relu", ["x"], ["a"])]
    yield Case("unsorted", graph_model(nodes, [x], [y]), refused_by_checker="topologically sorted")


@cases
def sparse():
    def made(form):
        values = floats("w", [1.5, -2.0])
        indices = [1, 5] if form == "linear" else [[0, 1], [1, 2]]
        indices = numpy_helper.from_array(np.array(indices, np.int64), "i")
        return helper.make_sparse_tensor(values, indices, [2, 3])
    for form in ("linear", "coordinates"):
        for op in ("Add", "MatMul"):
            nodes = [helper.make_node(op, ["x", "w"], ["y"])]
            out = [2, 3]
            x = tensor("x", F, [2, 3] if op == "Add" else [2, 2])
            model = graph_model(nodes, [x], [tensor("y", F, out)], sparse_initializer=[made(form)], ir=8)
            yield Case(f"sparse_{form}_{op}", model)
        node = helper.make_node("Constant", [], ["w"], sparse_value=made(form))
        nodes = [node, helper.make_node("Add", ["x", "w"], ["y"])]
        yield Case(f"sparse_constant_{form}", graph_model(nodes, [tensor("x", F, [2, 3])], [tensor("y", F, [2, 3])]))


@cases
def constants():
    forms = {"value": (floats("", [1, 2, 3]), F, [3]), "value_float": (2.5, F, []), "value_floats": ([1.0, 2.0], F, [2]),
             "value_int": (7, I64, []), "value_ints": ([1, 2], I64, [2]),
             "value_string": ("word", TensorProto.STRING, []), "value_strings": (["a", "b"], TensorProto.STRING, [2])}
    for form, (value, dtype, shape) in forms.items():
        nodes = [helper.make_node("Constant", [], ["c"], **{form: value}), helper.make_node("Identity", ["c"], ["y"]),
                 helper.make_node("Relu", ["x"], ["z"])]
        yield Case(f"constant_{form}", graph_model(nodes, [tensor("x", F, [2])], [tensor("y", dtype, shape), tensor("z", F, [2])]))
    nodes = [helper.make_node("Constant", [], ["y"], value=floats("", [1, 2, 3]))]
    yield Case("constant_is_output", graph_model(nodes, [], [tensor("y", F, [3])]))


SMALL = {"float8e4m3fn": (TensorProto.FLOAT8E4M3FN, 9, 19), "float8e4m3fnuz": (TensorProto.FLOAT8E4M3FNUZ, 9, 19),
         "float8e5m2": (TensorProto.FLOAT8E5M2, 9, 19), "float8e5m2fnuz": (TensorProto.FLOAT8E5M2FNUZ, 9, 19),
         "int4": (TensorProto.INT4, 10, 21), "uint4": (TensorProto.UINT4, 10, 21), "float4e2m1": (TensorProto.FLOAT4E2M1, 11, 23),
         "float8e8m0": (TensorProto.FLOAT8E8M0, 12, 24), "int2": (TensorProto.INT2, 13, 25), "uint2": (TensorProto.UINT2, 13, 25)}
PLAIN = {"float": F, "double": TensorProto.DOUBLE, "float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16,
         "int8": TensorProto.INT8, "uint8": TensorProto.UINT8, "int16": TensorProto.INT16, "uint16": TensorProto.UINT16,
         "int32": TensorProto.INT32, "uint32": TensorProto.UINT32, "int64": I64, "uint64": TensorProto.UINT64, "bool": TensorProto.BOOL}


@cases
def element_types():
    for name, (number, ir, opset) in {**{n: (t, 8, 17) for n, t in PLAIN.items()}, **SMALL}.items():
        for raw in (False, True):
            for dims in ([3], [2, 3], []):
                count = int(np.prod(dims))
                dtype = helper.tensor_dtype_to_np_dtype(number)
                array = np.array([1, 0, 1, 1, 0, 1][:count], dtype=np.float32).reshape(dims).astype(dtype)
                if raw:
                    w = numpy_helper.from_array(array, "w")
                else:
                    w = helper.make_tensor("w", number, dims, array.astype(np.float32).flatten().tolist()
                                           if name.startswith(("float", "bfloat", "double")) else array.astype(np.int64).flatten().tolist())
                w.data_type = number
                to = TensorProto.FLOAT
                nodes = [helper.make_node("Cast", ["w"], ["y"], to=to)]
                model = graph_model(nodes, [], [tensor("y", to, dims)], [w], ir, opset)
                yield Case(f"{name}_{'raw' if raw else 'typed'}_{len(dims)}", model)
    words = helper.make_tensor("w", TensorProto.STRING, [2], ["a", "ö"])
    nodes = [helper.make_node("Identity", ["w"], ["y"])]
    yield Case("strings", graph_model(nodes, [], [tensor("y", TensorProto.STRING, [2])], [words]))
    for name in ("complex64", "complex128"):
        number = getattr(TensorProto, name.upper())
        w = numpy_helper.from_array(np.array([1 + 2j, -1j], dtype=name), "w")
        nodes = [helper.make_node("Identity", ["w"], ["y"])]
        yield Case(name, graph_model(nodes, [], [tensor("y", number, [2])], [w]))


@cases
def external_data():
    from onnx.external_data_helper import set_external_data

    def writer(changes):
        def write(folder):
            first, second = random(2, 3), random(3, 4, seed=1)
            data = bytearray(4096 + second.nbytes)
            data[:first.nbytes] = first.tobytes()
            data[4096:] = second.tobytes()
            (folder / "weights").mkdir(exist_ok=True)
            (folder / changes["location"]).write_bytes(bytes(data[:changes.get("end", len(data))]))
            made = []
            for name, array, offset in [("a", first, 0), ("b", second, 4096)]:
                proto = floats(name, array)
                entries = {"offset": offset, "length": array.nbytes}
                if "checksum" in changes:
                    entries["checksum"] = changes["checksum"]
                if name == "a" and changes.get("implicit"):
                    entries = {"length": array.nbytes}
                set_external_data(proto, changes["location"], **entries)
                proto.ClearField("raw_data")
                made.append(proto)
            nodes = [helper.make_node("Add", ["x", "a"], ["s"]), helper.make_node("MatMul", ["s", "b"], ["y"])]
            model = graph_model(nodes, [tensor("x", F, [2, 3])], [tensor("y", F, [2, 4])], made)
            path = folder / "odd.onnx"
            path.write_bytes(model.SerializeToString())
            return path
        return write
    for name, changes in {"offset_and_length": {"location": "w.bin"}, "folder": {"location": "weights/w.bin"},
                          "checksum": {"location": "w.bin", "checksum": "0" * 40},
                          "without_offset": {"location": "w.bin", "implicit": True}}.items():
        yield Case(f"external_{name}", None, writer=writer(changes))


# -- functions and sub-graphs --

@cases
def functions():
    yield Case("function", parser.parse_model("""<ir_version: 8, opset_import: ["" : 17, "l" : 1]>
        g (float[2,3] x) => (float[2,3] y) { y = l.Twice(x) }
        <domain: "l", opset_import: ["" : 17]> Twice (a) => (b) { b = Add(a, a) }"""))
    yield Case("function_of_functions", parser.parse_model("""<ir_version: 8, opset_import: ["" : 17, "l" : 1, "m" : 1]>
        g (float[2,3] x) => (float[2,3] y) { y = l.Outer(x) }
        <domain: "m", opset_import: ["" : 17]> Inner (a) => (b) { b = Mul(a, a) }
        <domain: "l", opset_import: ["" : 17, "m" : 1]> Outer (a) => (b) { t = m.Inner(a) b = m.Inner(t) }"""))
    yield Case("function_with_attribute", parser.parse_model("""<ir_version: 8, opset_import: ["" : 17, "l" : 1]>
        g (float[2,3] x) => (float[2,3] y) { y = l.Leak<slope = 0.3>(x) }
        <domain: "l", opset_import: ["" : 17]> Leak<slope>(a) => (b) { b = LeakyRelu<alpha: float = @slope>(a) }"""))
    yield Case("function_with_default", parser.parse_model("""<ir_version: 9, opset_import: ["" : 19, "l" : 1]>
        g (float[2,3] x) => (float[2,3] y) { y = l.Leak(x) }
        <domain: "l", opset_import: ["" : 19]> Leak<slope: float = 0.2>(a) => (b) { b = LeakyRelu<alpha: float = @slope>(a) }"""))
    yield Case("function_of_another_opset", parser.parse_model("""<ir_version: 8, opset_import: ["" : 17, "l" : 1]>
        g (float[2,3] x) => (float[2,3] y) { t = Relu(x) y = l.Twice(t) }
        <domain: "l", opset_import: ["" : 17]> Twice (a) => (b) { two = Constant<value = float {2.0}>() b = Mul(a, two) }"""))
    for overloaded in (True,):
        model = parser.parse_model("""<ir_version: 10, opset_import: ["" : 21, "l" : 1]>
            g (float[2,3] x) => (float[2,3] y) { t = l.F(x) y = l.F(t) }
            <domain: "l", opset_import: ["" : 21], overload: "one"> F (a) => (b) { b = Add(a, a) }
            <domain: "l", opset_import: ["" : 21], overload: "two"> F (a) => (b) { b = Mul(a, a) }""")
        model.graph.node[0].overload, model.graph.node[1].overload = "one", "two"
        yield Case("function_overloads", model)
    model = parser.parse_model("""<ir_version: 8, opset_import: ["" : 17, "l" : 1]>
        g (float[2,3] x) => (float[2,3] y) { y = l.Clip2(x) }
        <domain: "l", opset_import: ["" : 17]> Clip2 (a, low) => (b) { b = Clip(a, low) }""")
    yield Case("function_input_left_out", model)
    yield Case("function_unused", parser.parse_model("""<ir_version: 8, opset_import: ["" : 17, "l" : 1]>
        g (float[2,3] x) => (float[2,3] y) { y = Relu(x) }
        <domain: "l", opset_import: ["" : 17]> Twice (a) => (b) { b = Add(a, a) }"""))
    yield Case("function_with_branches", parser.parse_model("""<ir_version: 8, opset_import: ["" : 17, "l" : 1]>
        g (float[2,3] x) => (float[2,3] y) { y = l.Choose(x) }
        <domain: "l", opset_import: ["" : 17]> Choose (a) => (b) {
            zero = Constant<value = float {0.0}>() s = ReduceSum<keepdims = 0>(a) c = Greater(s, zero)
            b = If(c) <then_branch = t () => (p) { p = Neg(a) }, else_branch = e () => (q) { q = Abs(a) }> }"""))


@cases
def sub_graphs():
    yield Case("branches_that_capture", model_of("""g (float[2,3] x, bool c) => (float[2,3] y) {
        a = Relu(x) b = Neg(x)
        y = If(c) <then_branch = t () => (float[2,3] p) { p = Add(a, b) }, else_branch = e () => (float[2,3] q) { q = Identity(b) }> }"""))
    yield Case("branches_that_give_captures", model_of("""g (float[2,3] x, bool c) => (float[2,3] y) {
        a = Relu(x) b = Neg(x)
        y = If(c) <then_branch = t () => (float[2,3] p) { p = Identity(a) }, else_branch = e () => (float[2,3] q) { q = Identity(x) }> }"""))
    yield Case("branches_inside_branches", model_of("""g (float[2,3] x, bool c, bool d) => (float[2,3] y) {
        y = If(c) <then_branch = t () => (float[2,3] p) {
            p = If(d) <then_branch = tt () => (float[2,3] pp) { pp = Neg(x) }, else_branch = te () => (float[2,3] pq) { pq = Abs(x) }> },
          else_branch = e () => (float[2,3] q) { q = Exp(x) }> }"""))
    yield Case("branches_of_unequal_shapes", model_of("""g (float[2,3] x, bool c) => (float[r,s] y) {
        y = If(c) <then_branch = t () => (float[3,2] p) { p = Transpose(x) }, else_branch = e () => (float[2,3] q) { q = Abs(x) }> }"""))
    yield Case("loop", model_of("""g (float[2,3] x, int64 n, bool go) => (float[2,3] y, float[k,2,3] all) {
        y, all = Loop(n, go, x) <body = b (int64 i, bool c, float[2,3] s) => (bool d, float[2,3] t, float[2,3] u) {
            d = Identity(c) t = Add(s, x) u = Neg(t) }> }"""), feeds={"go": np.array(True), "n": np.array(3, np.int64)})
    yield Case("scan", model_of("""g (float[3] s, float[4,3] xs) => (float[3] y, float[4,3] ys) {
        y, ys = Scan<num_scan_inputs = 1, body = b (float[3] a, float[3] e) => (float[3] o, float[3] z) {
            o = Add(a, e) z = Identity(o) }>(s, xs) }"""))
    model = model_of("""g (float[2,3] x, bool c) => (float[2,3] y) {
        y = If(c) <then_branch = t () => (float[2,3] p) { p = Add(x, w) }, else_branch = e () => (float[2,3] q) { q = Abs(x) }> }""")
    model.graph.node[0].attribute[0].g.initializer.append(floats("w", random(2, 3)))
    yield Case("initializer_of_a_branch", model)
    yield Case("same_names_in_both_branches", model_of("""g (float[2,3] x, bool c) => (float[2,3] y) {
        y = If(c) <then_branch = t () => (float[2,3] p) { a = Neg(x) p = Exp(a) }, else_branch = e () => (float[2,3] p) { a = Abs(x) p = Neg(a) }> }"""))


@cases
def other_kinds():
    yield Case("sequence_input", model_of("g (seq(float[n,3]) xs) => (float[m,3] y) { y = ConcatFromSequence<axis = 0>(xs) }"),
               feeds={"xs": [random(2, 3), random(1, 3, seed=1)]})
    yield Case("sequence_output", model_of("g (float[4,3] x) => (seq(float[2,3]) ys) { s = Constant<value_int = 2>() ys = SplitToSequence(x, s) }"))
    yield Case("sequence_of_words", model_of("g (seq(string[n]) xs) => (string[m] y) { y = ConcatFromSequence<axis = 0>(xs) }"),
               feeds={"xs": [np.array(["a", "b"], dtype=object), np.array(["c"], dtype=object)]})
    yield Case("empty_sequence_inside", model_of("g (float[2] x) => (int64 n) { e = SequenceEmpty() s = SequenceInsert(e, x) n = SequenceLength(s) }"))
    model = model_of("g (float[2,3] x) => (bool y) { o = Optional(x) y = OptionalHasElement(o) }", ir=8, opset=18)
    yield Case("optional_inside", model)
    yield Case("optional_input", model_of("g (optional(float[2,3]) x) => (float[2,3] y) { y = OptionalGetElement(x) }", ir=8, opset=18))
    yield Case("optional_sequence_input", model_of(
        "g (optional(seq(float[2,3])) x) => (float[n,3] y) { s = OptionalGetElement(x) y = ConcatFromSequence<axis = 0>(s) }", ir=8, opset=18))
    for shape in ([1, 16], [1, 16, 1]):
        frame, step = numpy_helper.from_array(np.array(8, np.int64), "l"), numpy_helper.from_array(np.array(4, np.int64), "s")
        nodes = [helper.make_node("STFT", ["x", "s", "", "l"], ["y"], onesided=1)]
        yield Case(f"stft_of_rank_{len(shape)}", graph_model(nodes, [tensor("x", F, shape)], [tensor("y", F, [1, 3, 5, 2])], [frame, step]))


@cases
def doubles():
    yield Case("float64", model_of("g (double[2,3] x) => (double[2,2] y) <double[3,2] w = {1,2,3,4,5,6}> { p = MatMul(x, w) y = Softmax(p) }"))
    yield Case("float64_conv", model_of("""g (double[1,1,4,4] x) => (double[1,1,2,2] y) <double[1,1,3,3] w = {1,2,3,4,5,6,7,8,9}>
        { y = Conv(x, w) }""", opset=11, ir=6))
    yield Case("float64_gemm", model_of("g (double[2,3] x) => (double[2,2] y) <double[3,2] w = {1,2,3,4,5,6}, double[2] b = {1,2}> { y = Gemm(x, w, b) }"))


# -- what is quantized in spite of its form --

FORMS = (("QDQ", "static"), ("QLinear", "static"), ("inc-qdq", "static"), ("QDQ", "dynamic"), ("QLinear", "dynamic"),
         ("QDQ", "weight_only"), ("QLinear", "weight_only"))


def quantized_cases(name, model, note):
    for form, mode in FORMS:
        settings = ("--set", f"quantization.format={form}", "--set", f"quantization.mode={mode}")
        yield Case(f"quantized_{name}_{form}_{mode}", model, settings=settings, status=1 if mode == "weight_only" or form.startswith("inc") else 0, sqnr_db=25.0,
                   evaluates=False, notes=(note,) if note else ())


def small_network(dtype, functions):
    """Convolutions, a residual, a branch and products; its parts may be local functions."""
    # Convolutions of bfloat16 came with opset 22.
    opset, ir = (22, 10) if dtype == "bfloat16" else (17, 9)
    # NumPy hands none of them to ONNX Runtime.
    ends = "float" if dtype == "bfloat16" else dtype
    into, first, onto = ("xb = Cast<to = 16>(x)", "xb", "Cast<to = 1>") if ends != dtype else ("", "x", "Identity")
    model = parser.parse_model(f'''<ir_version: {ir}, opset_import: ["" : {opset}, "l" : 1]>
        net ({ends}[n,3,8,8] x) => ({ends}[n,10] y, {ends}[n,8,8,8] c) {{
            {into} c0 = l.Stem({first}, w1, b1) c = {onto}(c0) r = l.Residual<slope = 0.1>(c0, w2)
            big = Constant<value = bool {{1}}>()
            s = If(big) <then_branch = t () => (u) {{ u = l.Leaky<slope = 0.3>(r) }}, else_branch = e () => (v) {{ v = Neg(r) }}>
            p = AveragePool<kernel_shape = [4,4], strides = [4,4]>(s) f = Flatten(p) h = l.Linear(f, w3) y0 = MatMul(h, w4) y = {onto}(y0) }}
        <domain: "l", opset_import: ["" : {opset}, "l" : 1]> Stem (a, w, b) => (o) {{ k = Conv<pads = [1,1,1,1]>(a, w, b) o = Relu(k) }}
        <domain: "l", opset_import: ["" : {opset}]> Leaky<slope: float = 0.2>(a) => (o) {{ o = LeakyRelu<alpha: float = @slope>(a) }}
        <domain: "l", opset_import: ["" : {opset}, "l" : 1]> Residual<slope>(a, w) => (o)
            {{ k = l.Stem(a, w) q = l.Leaky<slope: float = @slope>(k) o = Add(q, a) }}
        <domain: "l", opset_import: ["" : {18 if functions else opset}]> Linear (a, w, b) => (o)
            {{ m = Gemm(a, w, b) o = Relu(m) }}''')
    shapes = {"w1": (8, 3, 3, 3), "b1": (8,), "w2": (8, 8, 3, 3), "w3": (32, 64), "w4": (64, 10)}
    kind = {"float": np.float32, "double": np.float64, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}[dtype]
    for seed, (name, shape) in enumerate(shapes.items()):
        array = random(*shape, seed=seed) / np.sqrt(np.prod(shape[1:]) if len(shape) > 2 else shape[0])
        model.graph.initializer.append(numpy_helper.from_array(array.astype(kind), name))
    return model if functions else onnx.inliner.inline_local_functions(model)


@cases
def quantized():
    yield from quantized_cases("functions", small_network("float", True), "inlined functions: 4; nodes that applied them: 6")
    for dtype in ("double", "float16", "bfloat16"):
        note = "" if dtype == "float16" else f"what the model computes in {dtype} is computed in float32"
        yield from quantized_cases(dtype, small_network(dtype, False), note)


# -- what ONNX Runtime saved --

def network(kind, opset):
    """A network whose fusions make operators of other domains."""
    w1, w2 = random(16, 16), random(16, 16, seed=1)
    start = "g (float[2,4,16] x) => (float[2,4,16] y)"
    if kind == "layer_norm":
        axes = "m = ReduceMean<axes = [-1]>(x)" if opset < 18 else "ax = Constant<value_ints = [-1]>() m = ReduceMean(x, ax)"
        mean2 = "v = ReduceMean<axes = [-1]>(sq)" if opset < 18 else "v = ReduceMean(sq, ax)"
        body = f"""{{ {axes} d = Sub(x, m) sq = Pow(d, two) {mean2} e = Add(v, eps) r = Sqrt(e) n = Div(d, r)
            sc = Mul(n, gamma) o = Add(sc, beta) y = MatMul(o, w) }}"""
        inits = [floats("two", 2.0), floats("eps", 1e-5), floats("gamma", random(16)), floats("beta", random(16, seed=2)), floats("w", w1)]
    elif kind == "rms_norm":
        mean = "v = ReduceMean<axes = [-1]>(sq)" if opset < 18 else "ax = Constant<value_ints = [-1]>() v = ReduceMean(sq, ax)"
        body = f"{{ sq = Pow(x, two) {mean} e = Add(v, eps) r = Sqrt(e) n = Div(x, r) s = Mul(n, gamma) y = MatMul(s, w) }}"
        inits = [floats("two", 2.0), floats("eps", 1e-5), floats("gamma", random(16)), floats("w", w1)]
    elif kind == "gelu":
        body = "{ h = MatMul(x, w) b = Add(h, c) q = Div(b, root) f = Erf(q) g1 = Add(f, one) k = Mul(b, g1) l = Mul(k, half) y = MatMul(l, w2) }"
        inits = [floats("w", w1), floats("w2", w2), floats("c", random(16)), floats("root", 1.4142135), floats("one", 1.0), floats("half", 0.5)]
    elif kind == "conv":
        start = "g (float[1,4,8,8] x) => (float[1,8,4,4] y)"
        body = "{ c = Conv<pads = [1,1,1,1]>(x, w, b) r = Relu(c) p = MaxPool<kernel_shape = [2,2], strides = [2,2]>(r) d = Conv(p, v) y = LeakyRelu<alpha = 0.2>(d) }"
        inits = [floats("w", random(8, 4, 3, 3)), floats("b", random(8)), floats("v", random(8, 8, 1, 1, seed=3))]
    elif kind == "gemm":
        start = "g (float[2,16] x) => (float[2,16] y)"
        body = "{ h = MatMul(x, w) b = Add(h, c) r = Relu(b) t = Transpose<perm = [1,0]>(w2) z = MatMul(r, t) y = Softmax<axis = 1>(z) }"
        inits = [floats("w", w1), floats("w2", w2), floats("c", random(16))]
    elif kind == "qdq":
        body = """{ q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) wd = DequantizeLinear(wq, ws) m = MatMul(d, wd)
            r = Relu(m) q2 = QuantizeLinear(r, s, z) y = DequantizeLinear(q2, s, z) }"""
        inits = [floats("s", 0.05), numpy_helper.from_array(np.array(128, np.uint8), "z"), floats("ws", 0.02),
                 numpy_helper.from_array((w1 * 40).astype(np.int8), "wq")]
    model = parser.parse_model(f'<ir_version: {8 if opset < 21 else 10}, opset_import: ["" : {opset}]> {start} {body}')
    model.graph.initializer.extend(inits)
    return model


LEVELS = onnxruntime.GraphOptimizationLevel


@cases
def saved():
    levels = {"basic": LEVELS.ORT_ENABLE_BASIC, "extended": LEVELS.ORT_ENABLE_EXTENDED, "all": LEVELS.ORT_ENABLE_ALL}
    if hasattr(LEVELS, "ORT_ENABLE_LAYOUT"):
        levels["layout"] = LEVELS.ORT_ENABLE_LAYOUT
    for kind in ("layer_norm", "rms_norm", "gelu", "conv", "gemm", "qdq"):
        for opset in (11, 13, 17, 18, 21):
            for name, level in levels.items():
                def writer(folder, kind=kind, opset=opset, level=level):
                    options = onnxruntime.SessionOptions()
                    options.graph_optimization_level = level
                    options.optimized_model_filepath = str(folder / "odd.onnx")
                    source = network(kind, opset).SerializeToString()
                    onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
                    return folder / "odd.onnx"
                evaluates = name not in ("all", "layout")
                yield Case(f"saved_{kind}_{opset}_{name}", None, writer=writer, evaluates=evaluates,
                           refused_by_checker="com.microsoft" if name != "basic" else "")


# -- what contradicts itself --

@cases
def contradictions():
    for name, body, code in [
        ("add", "g (float[4] x, float[3] z) => (float[4] y) { y = Add(x, z) }", "N0215"),
        ("add_weight", "g (float[4] x) => (float[4] y) <float[3] w = {1,2,3}> { y = Add(x, w) }", "N0215"),
        ("matmul", "g (float[2,3] x, float[4,5] z) => (float[2,5] y) { y = MatMul(x, z) }", "N0215"),
        ("gemm", "g (float[2,3] x, float[4,5] z) => (float[2,5] y) { y = Gemm(x, z) }", "N0215"),
        ("conv_channels", "g (float[1,3,8,8] x, float[4,2,3,3] w) => (float[1,4,6,6] y) { y = Conv(x, w) }", "N0215"),
        ("concat", "g (float[2,3] x, float[3,3] z) => (float[2,6] y) { y = Concat<axis = 1>(x, z) }", "N0215"),
        ("reshape", "g (float[2,3] x) => (float[4,2] y) <int64[2] s = {4, 2}> { y = Reshape(x, s) }", "N0215"),
        ("transpose", "g (float[2,3] x) => (float[3,2] y) { y = Transpose<perm = [0, 1, 2]>(x) }", "N0215"),
        ("axis", "g (float[2,3] x) => (float[2,3] y) { y = Softmax<axis = 5>(x) }", "N0215"),
        ("types", "g (float[2,3] x, int64[2,3] z) => (float[2,3] y) { y = Add(x, z) }", "N0502"),
        ("output_type", "g (float[2,3] x) => (int64[2,3] y) { y = Relu(x) }", "N0502"),
        ("branch", """g (float[4] x, float[3] z, bool c) => (float[4] y) {
            y = If(c) <then_branch = t () => (float[4] p) { p = Add(x, z) }, else_branch = e () => (float[4] q) { q = Abs(x) }> }""", "N0215"),
    ]:
        yield Case(f"contradiction_{name}", model_of(body), code=code)
    yield Case("contradiction_in_a_function", parser.parse_model("""<ir_version: 8, opset_import: ["" : 17, "l" : 1]>
        g (float[4] x, float[3] z) => (float[4] y) { y = l.Sum2(x, z) }
        <domain: "l", opset_import: ["" : 17]> Sum2 (a, b) => (c) { c = Add(a, b) }"""), code="N0215")
    yield Case("contradiction_no_outputs", graph_model([helper.make_node("Relu", ["x"], ["y"])], [tensor("x", F, [2])], []), code="N0502")
