"""Networks in the formats of other front-ends that `linear_time.py` measures: chains, fans and deep modules.

They are written by hand, so that neither PyTorch nor TensorFlow is needed.
"""
import io
import json
import pickle
import struct
import sys
import types
import zipfile

import flatbuffers


# ---- N2D2 -----------------------------------------------------------------------------------------------------------

def ini(layers):
    head = "DefaultModel=Frame\n\n[env]\nSizeX=4\nSizeY=4\nNbChannels=2\n"
    return (head + "".join(f"\n[{name}]\n{keys}\n" for name, keys in layers)).encode()


def n2d2_chain(kind):
    """Layers one behind the other."""
    keys = {
        "fc": "Type=Fc\nNbOutputs=2", "conv": "Type=Conv\nKernelDims=1 1\nNbOutputs=2\nActivationFunction=Rectifier",
        "pool": "Type=Pool\nPoolDims=1 1\nNbOutputs=2\nPooling=Max\nMapping.ChannelsPerGroup=1",
        "norm": "Type=BatchNorm\nNbOutputs=2", "activation": "Type=Activation\nActivationFunction=Tanh",
    }[kind]

    def make(n):
        layers = [(f"l{i}", f"Input={f'l{i - 1}' if i else 'env'}\n{keys}") for i in range(n)]
        return ini(layers + [("y", f"Input=l{n - 1}\nType=Fc\nNbOutputs=2"), ("y.Target", "")])
    return make


def n2d2_residual(n):
    layers = [("s0", "Input=env\nType=Conv\nKernelDims=1 1\nNbOutputs=2")]
    for i in range(1, n // 2):
        layers += [(f"c{i}", f"Input=s{i - 1}\nType=Conv\nKernelDims=1 1\nNbOutputs=2"),
                   (f"s{i}", f"Input=c{i},s{i - 1}\nType=ElemWise\nNbOutputs=2\nOperation=Sum")]
    return ini(layers + [("y", f"Input=s{n // 2 - 1}\nType=Fc\nNbOutputs=2"), ("y.Target", "")])


# ---- TorchScript ----------------------------------------------------------------------------------------------------

class Module:
    """Stands for a module of `__torch__`; its fields are what the archive holds."""


def archive(code, root):
    """The archive of a scripted module."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as members:
        members.writestr("archive/data.pkl", pickle.dumps(root, protocol=2))
        members.writestr("archive/code/__torch__.py", code)
        members.writestr("archive/constants.pkl", pickle.dumps((), protocol=2))
        members.writestr("archive/version", "4\n")
        members.writestr("archive/byteorder", "little")
    return out.getvalue()


def scripted(names):
    """Classes of `__torch__` with these names."""
    module = sys.modules["__torch__"] = types.ModuleType("__torch__")
    found = []
    for name in names:
        made = type(name, (), {})
        made.__module__, made.__qualname__ = "__torch__", name
        setattr(module, name, made)
        found.append(made)
    return found


def module_of(kind, **fields):
    made = kind()
    made.__dict__.update(training=False, _is_full_backward_hook=None, **fields)
    return made


HEAD = """class {name}(Module):
  __parameters__ = []
  __buffers__ = []
  training : bool
  _is_full_backward_hook : Optional[bool]
"""


def script(body, result):
    (net,) = scripted(["Net"])
    head = HEAD.format(name="Net") + "  def forward(self: __torch__.Net,\n    x: Tensor) -> Tensor:\n"
    return archive(head + "".join(f"    {line}\n" for line in body) + f"    return {result}\n", module_of(net))


def script_chain(statement):
    """Statements that each read the result of the one before."""
    def make(n):
        lines = ["v0 = torch.neg(x)"] + [f"v{i} = " + statement.format(v=f"v{i - 1}", k=i) for i in range(1, n)]
        return script(lines, f"v{n - 1}")
    return make


def script_one_name(n):
    """Statements that write one name again and again."""
    return script(["v = torch.neg(x)"] + ["v = torch.relu(torch.sub(v, x))"] * (n // 2), "v")


def script_in_place(n):
    """One tensor that is written over and over."""
    return script(["v = torch.neg(x)"] + ["_ = torch.add_(v, x)"] * n, "v")


def script_views(n):
    """Writes through views of one tensor."""
    return script(["v = torch.neg(x)"] + ["_ = torch.add_(torch.select(v, 0, 0), 1)"] * (n // 4), "v")


def script_fan(n):
    """One list of many tensors."""
    names = ", ".join(f"v{i}" for i in range(n))
    return script([f"v{i} = torch.mul(x, {i}.5)" for i in range(n)], f"torch.cat([{names}])")


def script_appended(n):
    """A list that grows."""
    lines = ["l = annotate(List[Tensor], [])"] + [f"_{i} = torch.append(l, torch.mul(x, {i}.5))" for i in range(n // 2)]
    return script(lines, "torch.cat(l)")


def script_loop(n):
    """A loop of Python that runs `n` times."""
    body = ["v = torch.neg(x)", f"for i in range({n}):", "  v = torch.sub(v, torch.mul(x, i))"]
    (net,) = scripted(["Net"])
    head = HEAD.format(name="Net") + "  def forward(self: __torch__.Net,\n    x: Tensor) -> Tensor:\n"
    lines = [body[0], "v0 = v", body[1], "  v0 = torch.sub(v0, torch.mul(x, i))"]
    return archive(head + "".join(f"    {line}\n" for line in lines) + "    return v0\n", module_of(net))


def script_modules(n):
    """Modules beside each other, each called once."""
    net, leaf = scripted(["Net", "Leaf"])
    fields = {f"m{i}": module_of(leaf) for i in range(n)}
    code = HEAD.format(name="Net") + "".join(f"  m{i} : __torch__.Leaf\n" for i in range(n))
    code += "  def forward(self: __torch__.Net,\n    x: Tensor) -> Tensor:\n    v0 = torch.neg(x)\n"
    code += "".join(f"    m{i} = self.m{i}\n    v{i + 1} = (m{i}).forward(v{i}, )\n" for i in range(n))
    code += f"    return v{n}\n" + HEAD.format(name="Leaf")
    code += "  def forward(self: __torch__.Leaf,\n    x: Tensor) -> Tensor:\n    return torch.relu(torch.neg(x))\n"
    return archive(code, module_of(net, **fields))


def script_deep(depth):
    """Chains at each of `depth` levels of modules."""
    def make(n):
        kinds = scripted([f"M{i}" for i in range(depth)])
        code, made = "", None
        for i in reversed(range(depth)):
            made = module_of(kinds[i], **({"m": made} if made else {}))
        for i in range(depth):
            last = i + 1 == depth
            code += HEAD.format(name=f"M{i}") + ("" if last else f"  m : __torch__.M{i + 1}\n")
            code += f"  def forward(self: __torch__.M{i},\n    x: Tensor) -> Tensor:\n    v0 = torch.neg(x)\n"
            for k in range(1, n // depth):
                code += f"    v{k} = torch.{'relu' if k % 2 else 'neg'}(v{k - 1})\n"
            code += f"    v = v{max(n // depth - 1, 0)}\n"
            code += "    return v\n" if last else "    m = self.m\n    return (m).forward(v, )\n"
        return archive(code, made)
    return make


def script_ifs(n):
    """Conditions on what tensors compute, one behind the other."""
    lines = ["v0 = torch.neg(x)"]
    for i in range(n // 4):
        lines += [f"if bool(torch.gt(torch.sum(v{i}), {i}.5)):", f"  v{i + 1} = torch.relu(v{i})", "else:",
                  f"  v{i + 1} = torch.neg(v{i})"]
    return script(lines, f"v{n // 4}")


# ---- exported programs ----------------------------------------------------------------------------------------------

def tensor_meta(size=4):
    return {"dtype": 7, "sizes": [{"as_int": size}], "requires_grad": False, "device": {"type": "cpu", "index": None},
            "strides": [{"as_int": 1}], "storage_offset": {"as_int": 0}, "layout": 7}


def exported(nodes, result, size=4):
    def node(target, inputs, output):
        given = [{"name": name, "arg": arg, "kind": 1} for name, arg in inputs]
        return {"target": f"torch.ops.aten.{target}", "inputs": given, "outputs": [{"as_tensor": {"name": output}}],
                "metadata": {"stack_trace": "", "nn_module_stack": "L__self__,,cases.Net", "torch_fn": output},
                "is_hop_single_tensor_return": None}

    names = ["x"] + [output for _, _, output in nodes]
    graph = {"inputs": [{"as_tensor": {"name": "x"}}], "outputs": [{"as_tensor": {"name": result}}],
             "nodes": [node(*each) for each in nodes],
             "tensor_values": {name: tensor_meta() for name in names} | {result: tensor_meta(size)},
             "sym_int_values": {}, "sym_bool_values": {}, "is_single_tensor_return": True, "custom_obj_values": {},
             "sym_float_values": {}}
    signature = {"input_specs": [{"user_input": {"arg": {"as_tensor": {"name": "x"}}}}],
                 "output_specs": [{"user_output": {"arg": {"as_tensor": {"name": result}}}}]}
    model = {"graph_module": {"graph": graph, "signature": signature, "module_call_graph": [], "metadata": {},
                              "treespec_namedtuple_fields": {}},
             "opset_version": {"aten": 10}, "range_constraints": {}, "schema_version": {"major": 8, "minor": 14},
             "verifiers": ["TRAINING"], "torch_version": "2.9.1+cu128", "guards_code": []}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as members:
        for name, content in {
            "archive_format": "pt2", "models/model.json": json.dumps(model), "archive_version": "0",
            "byteorder": "little",
            "data/constants/model_constants_config.json": '{"config": {}}', ".data/version": "3\n",
            "data/weights/model_weights_config.json": '{"config": {}}',
        }.items():
            members.writestr(f"archive/{name}", content)
    return out.getvalue()


def exported_chain(n):
    names = ["x"] + [f"v{i}" for i in range(n)]
    nodes = [(("relu.default", "neg.default")[i % 2], [("self", {"as_tensor": {"name": names[i]}})], names[i + 1])
             for i in range(n)]
    return exported(nodes, names[-1])


def exported_fan(n):
    nodes = [("mul.Scalar", [("self", {"as_tensor": {"name": "x"}}), ("other", {"as_float": i + 0.5})], f"v{i}")
             for i in range(n)]
    nodes.append(("cat.default", [("tensors", {"as_tensors": [{"name": f"v{i}"} for i in range(n)]})], "y"))
    return exported(nodes, "y", 4 * n)


# ---- TensorFlow graphs ----------------------------------------------------------------------------------------------

def varint(value):
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number, content):
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    content = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | 2) + varint(len(content)) + content


FLOAT, INT32 = field(6, 1), field(6, 3)


def attribute(name, value):
    return field(5, field(1, name) + field(2, value))


def tf_node(name, op, inputs=(), **attributes):
    content = field(1, name) + field(2, op) + b"".join(field(3, each) for each in inputs)
    return field(1, content + b"".join(attribute(key, value) for key, value in attributes.items()))


def tf_constant(name, value, integer=False):
    values = struct.pack("<i" if integer else "<f", value)
    tensor = field(1, 3 if integer else 1) + field(2, b"") + field(4, values)
    return tf_node(name, "Const", dtype=INT32 if integer else FLOAT, value=field(8, tensor))


def tf_graph(nodes):
    shape = field(7, field(2, field(1, 4)))
    return tf_node("x", "Placeholder", dtype=FLOAT, shape=shape) + b"".join(nodes)


def tf_chain(kind):
    def make(n):
        nodes, last = [], "x"
        for i in range(n):
            if kind == "add":
                nodes.append(tf_constant(f"c{i}", i + 0.5))
                nodes.append(tf_node(f"v{i}", "AddV2", [last, f"c{i}"], T=FLOAT))
            else:
                nodes.append(tf_node(f"v{i}", {"relu": ("Relu", "Neg"), "identity": ("Identity", "Relu")}[kind][i % 2],
                                     [last], T=FLOAT))
            last = f"v{i}"
        return tf_graph(nodes)
    return make


def tf_deep_names(n):
    nodes, last = [], "x"
    for i in range(n):
        name = "model" + "".join(f"/block_{i >> s & 15}" for s in range(0, 64, 4)) + f"/op_{i}"
        nodes.append(tf_node(name, ("Relu", "Neg")[i % 2], [last], T=FLOAT))
        last = name
    return tf_graph(nodes)


def tf_backwards(n):
    """Nodes of a graph may stand in any order."""
    nodes = [tf_node(f"v{i}", ("Relu", "Neg")[i % 2], [f"v{i - 1}" if i else "x"], T=FLOAT) for i in range(n)]
    return tf_graph(nodes[::-1])


def tf_fan(n):
    nodes = [tf_constant("axis", 0, integer=True)]
    for i in range(n):
        nodes += [tf_constant(f"c{i}", i + 0.5), tf_node(f"v{i}", "Mul", ["x", f"c{i}"], T=FLOAT)]
    names = [f"v{i}" for i in range(n)] + ["axis"]
    return tf_graph(nodes + [tf_node("y", "ConcatV2", names, N=field(3, n), T=FLOAT, Tidx=INT32)])


def tf_outputs(n):
    """Nothing reads what the nodes compute, so all are outputs."""
    nodes = []
    for i in range(n):
        nodes += [tf_constant(f"c{i}", i + 0.5), tf_node(f"v{i}", "Mul", ["x", f"c{i}"], T=FLOAT)]
    return tf_graph(nodes)


def tf_controls(n):
    """A node that waits for all others."""
    nodes = [tf_node(f"v{i}", "Neg", ["x"], T=FLOAT) for i in range(n)]
    return tf_graph(nodes + [tf_node("y", "Relu", ["x"] + [f"^v{i}" for i in range(n)], T=FLOAT)])


# ---- TFLite ---------------------------------------------------------------------------------------------------------

def table(b, slots, fields):
    b.StartObject(slots)
    for slot, (kind, value) in fields.items():
        {"offset": lambda: b.PrependUOffsetTRelativeSlot(slot, value, 0),
         "u32": lambda: b.PrependUint32Slot(slot, value, 0),
         "i32": lambda: b.PrependInt32Slot(slot, value, 0), "i8": lambda: b.PrependInt8Slot(slot, value, 0),
         "u8": lambda: b.PrependUint8Slot(slot, value, 0)}[kind]()
    return b.EndObject()


def vector(b, values, offsets=False):
    b.StartVector(4, len(values), 4)
    for value in reversed(values):
        b.PrependUOffsetTRelative(value) if offsets else b.PrependInt32(value)
    return b.EndVector()


def tflite(operators, tensors, result, size=4):
    """Operators are (code, inputs, outputs); all tensors have one shape but for the last one."""
    b = flatbuffers.Builder(1 << 20)
    codes = sorted({code for code, _, _ in operators})
    made = []
    for i in range(tensors):
        name, shape = b.CreateString(f"t{i}"), vector(b, [size if i == result else 4])
        made.append(table(b, 10, {0: ("offset", shape), 2: ("u32", 0), 3: ("offset", name)}))
    steps = []
    for code, inputs, outputs in operators:
        options = {0: (11, {}), 2: (10, {0: ("i32", 0)})}.get(code)
        option = table(b, 3, options[1]) if options else None
        fields = {0: ("u32", codes.index(code)), 1: ("offset", vector(b, inputs)), 2: ("offset", vector(b, outputs))}
        if options:
            fields |= {3: ("u8", options[0]), 4: ("offset", option)}
        steps.append(table(b, 9, fields))
    graph = {0: vector(b, made, True), 1: vector(b, [0]), 2: vector(b, [result]), 3: vector(b, steps, True)}
    graph = table(b, 5, {slot: ("offset", value) for slot, value in graph.items()})
    known = [table(b, 4, {0: ("i8", code), 2: ("i32", 1), 3: ("i32", code)}) for code in codes]
    model = {1: vector(b, known, True), 2: vector(b, [graph], True), 4: vector(b, [table(b, 1, {})], True)}
    model = table(b, 8, {0: ("u32", 3)} | {slot: ("offset", value) for slot, value in model.items()})
    b.Finish(model, file_identifier=b"TFL3")
    return bytes(b.Output())


RELU, ADD, CONCATENATION, NEG = 19, 0, 2, 59


def tflite_chain(n):
    return tflite([((RELU, NEG)[i % 2], [i], [i + 1]) for i in range(n)], n + 1, n)


def tflite_add(n):
    return tflite([(ADD, [i, 0], [i + 1]) for i in range(n)], n + 1, n)


def tflite_fan(n):
    fan = [((RELU, NEG)[i % 2], [0], [i + 1]) for i in range(n)]
    return tflite(fan + [(CONCATENATION, list(range(1, n + 1)), [n + 1])], n + 2, n + 1, size=4 * n)


def sources():
    """Every case by name: the ending of its file, and a function from a size to its bytes."""
    scripts = {
        "relu": script_chain("torch.relu({v})"), "add": script_chain("torch.add({v}, {k}.5)"),
        "view": script_chain("torch.view(torch.view({v}, [2, 2]), [4])"), "transpose": script_chain(
            "torch.reshape(torch.transpose(torch.view({v}, [2, 2]), 0, 1), [4])"),
        "size": script_chain("torch.reshape({v}, [torch.size({v}, 0)])"), "select": script_chain(
            "torch.expand(torch.select({v}, 0, 0), [4])"),
        "one_name": script_one_name, "in_place": script_in_place, "views": script_views, "fan": script_fan,
        "appended": script_appended, "loop": script_loop, "modules": script_modules, "deep_8": script_deep(8),
        "deep_60": script_deep(60), "ifs": script_ifs,
    }
    found = {f"script_{name}": ("pt", make) for name, make in scripts.items()}
    found |= {f"n2d2_{kind}": ("ini", n2d2_chain(kind)) for kind in ("fc", "conv", "pool", "norm", "activation")}
    found |= {"n2d2_residual": ("ini", n2d2_residual), "exported_chain": ("pt2", exported_chain),
              "exported_fan": ("pt2", exported_fan)}
    found |= {f"tf_{kind}": ("pb", tf_chain(kind)) for kind in ("relu", "add", "identity")}
    found |= {"tf_deep_names": ("pb", tf_deep_names), "tf_backwards": ("pb", tf_backwards), "tf_fan": ("pb", tf_fan),
              "tf_outputs": ("pb", tf_outputs), "tf_controls": ("pb", tf_controls)}
    found |= {"tflite_chain": ("tflite", tflite_chain), "tflite_add": ("tflite", tflite_add),
              "tflite_fan": ("tflite", tflite_fan)}
    return found
