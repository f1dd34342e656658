#!/usr/bin/env python3
"""Runs onnxd on graphs that are large by their structure: a million nodes, deep nesting, functions that multiply.

    large_graphs.py ONNXD FOLDER [--largest N] [--sizes 20000,200000] [--only KIND]... [--commands check,convert]

Prints wall time, processor time and the largest resident memory of every run. It fails where time or memory grows
faster than the graph, where a run takes more memory than BYTES_PER_ITEM_MAX allows, and where a model is neither
handled nor refused by a diagnostic. Needs Linux, numpy and onnx. What is made in FOLDER stays and is used again.
"""
import argparse
import os
import re
import shutil
import sys
import time

import numpy as np
import onnx
from onnx import TensorProto, helper

COMMANDS = ("check", "print", "convert", "eval", "compare")
# Memory of a run: what the program takes anyway, and what an item (a node with its value) may take.
BASE_BYTES = 256 << 20
BYTES_PER_ITEM_MAX = 4096
# Ten times the items may take this many times the seconds, once a run is long enough to be measured.
GROWTH_MAX = 15
SECONDS_MEASURED = 0.5
SECONDS_MAX = 120
REFUSED = re.compile(r"\bN\d{4}\b")


def info(name, shape=(2,)):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def save(path, graph, functions=(), domains=()):
    """Writes a model around a graph, or the bytes of one."""
    imports = [helper.make_opsetid("", 17)] + [helper.make_opsetid(d, 1) for d in domains]
    model = onnx.ModelProto(ir_version=8, opset_import=imports, functions=list(functions))
    content = graph if isinstance(graph, bytes) else graph.SerializeToString()
    with open(path, "wb") as out:
        out.write(model.SerializeToString() + inside(7, content))


def frame():
    graph = onnx.GraphProto(name="g")
    graph.input.append(info("x"))
    return graph


def add(graph, op, inputs, outputs, **fields):
    return graph.node.add(op_type=op, input=inputs, output=outputs, **fields)


def summed(graph, values):
    """Reads all values, a few at a time, so that nothing is dead."""
    step, last = 1000, "x"
    for start in range(0, len(values), step):
        add(graph, "Sum", [last, *values[start:start + step]], [f"s{start}"])
        last = f"s{start}"
    graph.output.append(info(last))


def chain(n):
    graph, last = frame(), "x"
    for i in range(n):
        add(graph, *(("Relu", [last]) if i % 2 == 0 else ("Add", [last, "x"])), [f"v{i}"], name=f"node_{i}")
        last = f"v{i}"
    graph.output.append(info(last))
    return graph


def typed_chain(n):
    graph = chain(n)
    graph.value_info.extend(info(f"v{i}") for i in range(n - 1))
    return graph


def fan(n):
    """One value that all nodes read."""
    graph = frame()
    for i in range(n):
        add(graph, "LeakyRelu", ["x"], [f"v{i}"]).attribute.append(helper.make_attribute("alpha", i / n))
    summed(graph, [f"v{i}" for i in range(n)])
    return graph


def same(n):
    """Nodes that all compute the same, so that one remains."""
    graph = frame()
    for i in range(n):
        add(graph, "Relu", ["x"], [f"v{i}"])
    summed(graph, [f"v{i}" for i in range(n)])
    return graph


def identities(n):
    graph, last = frame(), "x"
    for i in range(n):
        add(graph, "Identity", [last], [f"v{i}"])
        last = f"v{i}"
    add(graph, "Relu", [last], ["y"])
    graph.output.append(info("y"))
    return graph


def wide(n):
    """One node with many inputs."""
    graph = frame()
    add(graph, "Concat", ["x"] * n, ["y"]).attribute.append(helper.make_attribute("axis", 0))
    graph.output.append(info("y", (2 * n,)))
    return graph


def outputs(n):
    graph = frame()
    for i in range(n):
        add(graph, "LeakyRelu", ["x"], [f"v{i}"]).attribute.append(helper.make_attribute("alpha", i / n))
        graph.output.append(info(f"v{i}"))
    return graph


def initializers(n):
    graph = frame()
    for i in range(n):
        value = np.array([i, i % 7], np.float32).tobytes()
        graph.initializer.add(name=f"w{i}", data_type=TensorProto.FLOAT, dims=[2], raw_data=value)
    summed(graph, [f"w{i}" for i in range(n)])
    return graph


def constants(n):
    """`Constant` nodes that are equal or can be computed beforehand."""
    graph = frame()
    for i in range(n // 2):
        node = add(graph, "Constant", [], [f"c{i}"])
        node.attribute.append(helper.make_attribute("value_floats", [float(i % 100), 1.0]))
        add(graph, "Neg", [f"c{i}"], [f"v{i}"])
    summed(graph, [f"v{i}" for i in range(n // 2)])
    return graph


def side_by_side(n):
    """Sub-graphs beside each other; each reads the graph around it."""
    graph, last = frame(), "x"
    graph.initializer.add(name="yes", data_type=TensorProto.BOOL, dims=[], raw_data=b"\1")
    graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    for i in range(n // 4):
        branches = {}
        for branch in ("then_branch", "else_branch"):
            body = onnx.GraphProto(name=f"{branch}{i}")
            add(body, "Relu" if branch == "then_branch" else "Neg", [last], ["out"])
            body.output.append(info("out"))
            branches[branch] = body
        node = add(graph, "If", ["c"], [f"v{i}"])
        node.attribute.extend(helper.make_attribute(k, v) for k, v in branches.items())
        last = f"v{i}"
    graph.output.append(info(last))
    return graph


def many_functions(n):
    """Local functions, each applied once."""
    graph, functions, last = frame(), [], "x"
    for i in range(n // 3):
        body = [helper.make_node("Relu", ["a"], ["b"]), helper.make_node("Neg", ["b"], ["c"])]
        functions.append(helper.make_function("own", f"f{i}", ["a"], ["c"], body, [helper.make_opsetid("", 17)]))
        add(graph, f"f{i}", [last], [f"v{i}"], domain="own")
        last = f"v{i}"
    graph.output.append(info(last))
    return graph, functions


def weighted(n):
    """Relu, Add and Mul in turn, with a small initializer for each of the last two."""
    graph, last = frame(), "x"
    for i in range(n):
        operands = [last]
        if i % 3 > 0:
            constant(graph, f"w{i}", np.array([i + 0.5, i % 7 + 0.25], np.float32))
            operands.append(f"w{i}")
        add(graph, ("Relu", "Add", "Mul")[i % 3], operands, [f"v{i}"])
        last = f"v{i}"
    graph.output.append(info(last))
    return graph


def constant(graph, name, value):
    dtype = helper.np_dtype_to_tensor_dtype(value.dtype)
    graph.initializer.add(name=name, data_type=dtype, dims=value.shape, raw_data=value.tobytes())
    return name


class Block:
    """Adds nodes whose names begin alike; the last axis of what they work on has `width` elements."""

    SHARED = {"zero": np.int64(0), "one": np.int64(1), "at": np.array([0]), "two": np.float32(2), "half": np.float32(0.5),
              "unit": np.float32(1), "tiny": np.float32(1e-5), "root": np.float32(2**0.5)}

    def __init__(self, graph, number, width):
        self.graph, self.begin, self.width, self.count = graph, f"b{number}_", width, 0
        self.random = np.random.default_rng(number)

    def node(self, op, *inputs, **attributes):
        self.count += 1
        name = f"{self.begin}{self.count}"
        made = add(self.graph, op, inputs, [name])
        made.attribute.extend(helper.make_attribute(key, value) for key, value in attributes.items())
        return name

    def constant(self, value):
        self.count += 1
        return constant(self.graph, f"{self.begin}{self.count}", np.asarray(value))

    def weight(self, *shape):
        return self.constant(self.random.random(shape, np.float32) - np.float32(0.5))

    def size(self, x, axis):
        return self.node("Unsqueeze", self.node("Gather", self.node("Shape", x), axis, axis=0), "at")

    def reshape(self, x, like, *rest):
        """The first two sizes are those of `like`, computed from it."""
        sizes = [self.size(like, "zero"), self.size(like, "one"), self.constant(np.array(rest))]
        return self.node("Reshape", x, self.node("Concat", *sizes, axis=0))

    def linear(self, x, width_in, width_out):
        return self.node("Add", self.weight(width_out), self.node("MatMul", x, self.weight(width_in, width_out)))

    def norm(self, x):
        apart = self.node("Sub", x, self.node("ReduceMean", x, axes=[-1]))
        square = self.node("ReduceMean", self.node("Pow", apart, "two"), axes=[-1])
        even = self.node("Div", apart, self.node("Sqrt", self.node("Add", square, "tiny")))
        return self.node("Add", self.node("Mul", even, self.weight(self.width)), self.weight(self.width))

    def gelu(self, x):
        erf = self.node("Add", self.node("Erf", self.node("Div", x, "root")), "unit")
        return self.node("Mul", self.node("Mul", x, erf), "half")

    def attention(self, x):
        def heads(perm):
            split = self.reshape(self.linear(x, self.width, self.width), x, 2, self.width // 2)
            return self.node("Transpose", split, perm=perm)

        q, k, v = heads([0, 2, 1, 3]), heads([0, 2, 3, 1]), heads([0, 2, 1, 3])
        scores = self.node("Softmax", self.node("Mul", self.node("MatMul", q, k), "half"), axis=-1)
        mixed = self.node("Transpose", self.node("MatMul", scores, v), perm=[0, 2, 1, 3])
        return self.linear(self.reshape(mixed, x, self.width), self.width, self.width)


def in_blocks(n, width, block):
    graph, last, number = onnx.GraphProto(name="g"), "x", 0
    for name, value in Block.SHARED.items():
        constant(graph, name, value)
    sizes = ("batch", "time", width)
    while len(graph.node) < n:
        last = block(Block(graph, number, width), last)
        number += 1
    graph.input.append(info("x", sizes))
    graph.output.append(info(last, sizes))
    return graph


def transformer(n):
    """Blocks of a transformer as exporters write them, with computed shapes."""
    def block(b, x):
        x = b.node("Add", x, b.attention(b.norm(x)))
        wide = b.gelu(b.linear(b.norm(x), b.width, 2 * b.width))
        return b.node("Add", x, b.linear(wide, 2 * b.width, b.width))

    return in_blocks(n, 8, block)


def shapes(n):
    """Mostly computations of shapes."""
    def block(b, x):
        split = b.node("Neg", b.node("Transpose", b.reshape(x, x, 3, 2), perm=[0, 1, 3, 2]))
        return b.node("Relu", b.reshape(split, split, 6))

    return in_blocks(n, 6, block)


# Kind: what makes it, and the largest number of items that it is made with.
KINDS = {
    "chain": (chain, 10**6), "typed_chain": (typed_chain, 10**6), "fan": (fan, 10**6), "same": (same, 10**6),
    "identities": (identities, 10**6), "wide": (wide, 10**5), "outputs": (outputs, 10**5),
    "initializers": (initializers, 10**6), "constants": (constants, 10**6), "side_by_side": (side_by_side, 10**5),
    "many_functions": (many_functions, 10**5), "weighted": (weighted, 10**6), "transformer": (transformer, 10**5),
    "shapes": (shapes, 10**5),
}
# The shape of the input `x`, if it is another one than (2,).
INPUTS = {"transformer": (1, 3, 8), "shapes": (1, 3, 6)}


def inside(number, content):
    """A message as field `number` of the one around it: Python's protobuf refuses to build what is nested deep."""
    length, head = len(content), bytearray([number << 3 | 2])
    while length > 0x7F:
        head.append(length & 0x7F | 0x80)
        length >>= 7
    head.append(length)
    return bytes(head) + content


def holding(node, **graphs):
    """The bytes of a graph's field that is `node` with these graphs as attributes."""
    content = node.SerializeToString()
    for name, graph in graphs.items():
        attribute = onnx.AttributeProto(name=name, type=onnx.AttributeProto.GRAPH).SerializeToString()
        content += inside(5, attribute + inside(6, graph))
    return inside(1, content)


def nested_if(depth):
    deepest = onnx.GraphProto(name="deepest")
    add(deepest, "Relu", ["x"], [f"o{depth}"])
    deepest.output.append(info(f"o{depth}"))
    body = deepest.SerializeToString()
    for level in reversed(range(depth)):
        other = onnx.GraphProto(name=f"else{level}")
        add(other, "Neg", ["x"], [f"n{level}"])
        other.output.append(info(f"n{level}"))
        node = onnx.NodeProto(op_type="If", input=["c"], output=[f"o{level}"])
        node = holding(node, then_branch=body, else_branch=other.SerializeToString())
        graph = onnx.GraphProto(name=f"level{level}", output=[info(f"o{level}")])
        if level == 0:
            graph.input.extend([info("x"), helper.make_tensor_value_info("c", TensorProto.BOOL, [])])
        body = graph.SerializeToString() + node
    return body


def nested_loop(depth):
    body = None
    for level in reversed(range(depth)):
        graph, node = onnx.GraphProto(name=f"body{level}"), b""
        for name, dtype in ((f"i{level}", TensorProto.INT64), (f"c{level}", TensorProto.BOOL)):
            graph.input.append(helper.make_tensor_value_info(name, dtype, []))
        graph.input.append(info(f"a{level}"))
        add(graph, "Identity", [f"c{level}"], [f"d{level}"])
        if body is None:
            add(graph, "Relu", [f"a{level}"], [f"b{level}"])
        else:
            node = onnx.NodeProto(op_type="Loop", input=["one", "", f"a{level}"], output=[f"b{level}"])
            node = holding(node, body=body)
        graph.output.append(helper.make_tensor_value_info(f"d{level}", TensorProto.BOOL, []))
        graph.output.append(info(f"b{level}"))
        body = graph.SerializeToString() + node
    graph = frame()
    graph.initializer.add(name="one", data_type=TensorProto.INT64, dims=[], raw_data=(1).to_bytes(8, "little"))
    graph.output.append(info("y"))
    node = onnx.NodeProto(op_type="Loop", input=["one", "", "x"], output=["y"])
    return graph.SerializeToString() + holding(node, body=body)


def nested_calls(depth, times=1):
    """Functions each of which applies the next, `times` times."""
    functions = []
    for level in range(depth):
        last, body = "a", []
        for k in range(times):
            if level + 1 == depth:
                body.append(helper.make_node("Relu", [last], [f"b{k}"]))
            else:
                body.append(helper.make_node(f"f{level + 1}", [last], [f"b{k}"], domain="own"))
            last = f"b{k}"
        imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
        functions.append(helper.make_function("own", f"f{level}", ["a"], [last], body, imports))
    graph = frame()
    add(graph, "f0", ["x"], ["y"], domain="own")
    graph.output.append(info("y"))
    return graph, functions


DEPTHS = (30, 31, 32, 100, 300, 1000)
NESTED = {"nested_if": nested_if, "nested_loop": nested_loop, "nested_calls": nested_calls}


def made(path, make, *args):
    """Makes a model in a process of its own: what a child of a large process says of its memory is not its own."""
    if os.path.exists(path):
        return path
    child = os.fork()
    if child == 0:
        model = make(*args)
        graph, functions = model if isinstance(model, tuple) else (model, [])
        save(path + ".partial", graph, functions, ["own"] if functions else [])
        os._exit(0)
    if os.waitpid(child, 0)[1] != 0:
        raise SystemExit(f"{path} could not be made")
    os.rename(path + ".partial", path)
    return path


def run(command):
    """Exit status (negative for a signal), what was said, wall and processor seconds, bytes of the largest process."""
    read, write = os.pipe()
    start = time.monotonic()
    pid = os.posix_spawn(command[0], command, {**os.environ, "RUST_BACKTRACE": "0"}, file_actions=[
        (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0),
        (os.POSIX_SPAWN_DUP2, write, 2), (os.POSIX_SPAWN_CLOSE, read)])
    os.close(write)
    with os.fdopen(read, errors="replace") as pipe:
        said = pipe.read()
    _, status, usage = os.wait4(pid, 0)
    seconds = time.monotonic() - start
    return (os.waitstatus_to_exitcode(status), said, seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def line_of(onnxd, command, model, folder):
    out = os.path.join(folder, "out")
    shutil.rmtree(out, ignore_errors=True)
    conditional = "nested_if" in model or "side_by_side" in model
    kind = os.path.basename(model).rsplit("_", 1)[0]
    inputs = "x_and_c.npz" if conditional else f"{kind}.npz" if kind in INPUTS else "x.npz"
    inputs = os.path.join(folder, inputs)
    return {
        "check": [onnxd, "check", model], "print": [onnxd, "print", model],
        "convert": [onnxd, "convert", model, "--out", out],
        "eval": [onnxd, "eval", model, "--inputs", inputs, "--out", os.path.join(folder, "outputs.npz")],
        "compare": [onnxd, "compare", model, model],
    }[command]


class Table:
    def __init__(self):
        self.failures = 0

    def row(self, name, size, command, result, faults):
        status, said, seconds, cpu, peak = result
        code = REFUSED.search(said)
        refused = f" {code.group()}" if status != 0 and code else ""
        self.failures += len(faults)
        text = "; ".join(faults)
        print(f"{name:15} {size:>8} {command:8} exit {status:>3}{refused:6} {seconds:8.2f} s {cpu:8.2f} s cpu "
              f"{peak / 2**20:8.0f} MiB  {text}", flush=True)


def faults_of(result, items):
    status, said, seconds, _, peak = result
    found = []
    if status != 0 and (status < 0 or not REFUSED.search(said) or "panic" in said):
        found.append(f"NO DIAGNOSTIC: {said.strip()[-200:]}")
    if peak > BASE_BYTES + items * BYTES_PER_ITEM_MAX:
        found.append(f"MEMORY {peak // max(items, 1)} bytes per item")
    if seconds > SECONDS_MAX:
        found.append("SLOW")
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("onnxd")
    parser.add_argument("folder")
    parser.add_argument("--largest", type=int, default=10**6)
    parser.add_argument("--sizes", default="10000,100000,1000000")
    parser.add_argument("--only", action="append")
    parser.add_argument("--commands", default=",".join(COMMANDS))
    options = parser.parse_args()
    onnxd, folder = os.path.abspath(options.onnxd), os.path.abspath(options.folder)
    os.makedirs(folder, exist_ok=True)
    x, c = np.array([1, -2], np.float32), np.array(True)
    np.savez(os.path.join(folder, "x.npz"), x=x)
    np.savez(os.path.join(folder, "x_and_c.npz"), x=x, c=c)
    for kind, shape in INPUTS.items():
        np.savez(os.path.join(folder, f"{kind}.npz"), x=np.ones(shape, np.float32))
    table = Table()
    commands = [c for c in COMMANDS if c in options.commands.split(",")]
    wanted = lambda kind: not options.only or kind in options.only
    for kind, (make, largest) in KINDS.items():
        before = {}
        for size in map(int, options.sizes.split(",")):
            if not wanted(kind) or size > min(largest, options.largest):
                continue
            model = made(os.path.join(folder, f"{kind}_{size}.onnx"), make, size)
            for command in commands:
                result = run(line_of(onnxd, command, model, folder))
                faults = faults_of(result, size)
                short = before.get(command)
                if short and result[0] == 0 == short[0] and result[3] > SECONDS_MEASURED:
                    growth = result[3] / max(short[3], SECONDS_MEASURED / 10)
                    if growth > GROWTH_MAX:
                        faults.append(f"GROWTH {growth:.1f}")
                before[command] = result
                table.row(kind, size, command, result, faults)
    deep = [(kind, depth, (depth,)) for kind in NESTED for depth in DEPTHS]
    deep += [("nested_calls", f"2^{depth}", (depth, 2)) for depth in (12, 30, 40)]
    for kind, label, args in deep:
        if not wanted(kind):
            continue
        path = os.path.join(folder, f"{kind}_{str(label).replace('^', '_')}.onnx")
        model = made(path, NESTED[kind], *args)
        for command in commands:
            result = run(line_of(onnxd, command, model, folder))
            table.row(kind, label, command, result, faults_of(result, 0))
    print(f"{table.failures} faults")
    sys.exit(1 if table.failures else 0)


if __name__ == "__main__":
    main()
