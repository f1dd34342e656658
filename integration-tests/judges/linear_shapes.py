"""Graphs of other shapes than chains and fans of one link, for `linear_time.py`: nodes with many inputs or outputs,
trees, sub-graphs inside each other, names.
"""
import numpy as np
import onnx
from onnx import TensorProto, helper
from large_graphs import add, info
from linear_cases import BOOL, FLOAT, INT64, LINKS, Maker, chain, slice_of, typed


def wide(op, shape=(2,), **attributes):
    """One node with many inputs, each computed."""
    def make(n):
        m = Maker(shape)
        ends = [m.node("LeakyRelu", "x", alpha=i / n) for i in range(n)]
        last = m.node(op, *ends, **attributes)
        return m.done(last, (len(ends) * shape[0],) if op == "Concat" else shape)
    return make


def wide_same(op):
    """One node that reads one value many times."""
    def make(n):
        m = Maker((2,))
        return m.done(m.node("Relu", m.node(op, *["x"] * n)), (2,))
    return make


def wide_constants(n):
    """One node that joins constants and a value in turn."""
    m = Maker((1,))
    ends = [m.f(1) if i % 2 else m.node("LeakyRelu", "x", alpha=i / n) for i in range(n)]
    return m.done(m.node("Relu", m.node("Concat", *ends, axis=0)), (n,))


def concat_of_concats(n):
    m, ends = Maker((1,)), []
    for i in range(n // 2):
        ends.append(m.node("Concat", m.node("LeakyRelu", "x", alpha=i / n), "x", axis=0))
    return m.done(m.node("Concat", *ends, axis=0), (2 * len(ends),))


def many_parts(n):
    """One node with many outputs, each read, and joined again."""
    m = Maker((n,))
    parts = m.nodes("Split", ["x"], n, axis=0)
    return m.done(m.node("Concat", *[m.node("Relu", part) for part in parts], axis=0))


def parts_joined(n):
    m = Maker((n,))
    return m.done(m.node("Concat", *m.nodes("Split", ["x"], n, axis=0), axis=0))


def slices(n):
    """Slices that share out a value."""
    m = Maker((n,))
    return m.done(m.node("Concat", *[m.node("Relu", slice_of(m, "x", i, i + 1, 0)) for i in range(n)], axis=0))


def gathers(n):
    m = Maker((n, 2))
    ends = [m.node("Unsqueeze", m.node("Gather", "x", m.s(np.int64(i)), axis=0), m.i(0)) for i in range(n)]
    return m.done(m.node("Concat", *ends, axis=0))


def sizes_of_one(n):
    """Many readers of the sizes of one value."""
    m = Maker(("N", 2))
    shape = m.node("Shape", "x")
    ends = []
    for i in range(n // 4):
        rows = m.node("Unsqueeze", m.node("Gather", shape, m.s(np.int64(0)), axis=0), m.i(0))
        sizes = m.node("Concat", rows, m.i(-1), axis=0)
        ends.append(m.node("Reshape", m.node("LeakyRelu", "x", alpha=i / n), sizes))
    summed_ends = m.node("Max", *ends)
    return m.done(summed_ends)


def residuals(n):
    """Each sum of a chain is read at the end as well."""
    m, last, ends = Maker((4,)), "x", []
    for i in range(n):
        last = m.node("Add", last, m.f(4))
        ends.append(last)
    return m.done(m.node("Max", *ends))


def dense(n):
    """Each block reads all before it, as in DenseNet: edges grow as the square root of the size allows."""
    width = max(2, int((2 * n) ** 0.5))
    m, ends = Maker((1, 2, 4, 4)), ["x"]
    for i in range(width):
        joined = m.node("Concat", *ends, axis=1) if len(ends) > 1 else ends[0]
        ends.append(m.node("Conv", joined, m.f(2, 2 * len(ends), 1, 1)))
    while len(m.graph.node) < n:
        ends.append(m.node("Relu", ends[-1]))
    return m.done(ends[-1], (1, 2, 4, 4))


def tree(op):
    """A tree of sums or products, whose leaves are constants and the input in turn."""
    def make(n):
        m = Maker((4,))
        level = ["x" if i % 2 else m.f(4) for i in range(n)]
        while len(level) > 1:
            pairs = [level[i:i + 2] for i in range(0, len(level), 2)]
            level = [m.node(op, *pair) if len(pair) == 2 else pair[0] for pair in pairs]
        return m.done(level[0])
    return make


def folded(n):
    """A chain of constants alone, which is computed beforehand."""
    m, last = Maker((4,)), None
    last = m.f(4)
    for i in range(n):
        last = m.node("Add", last, m.f(4))
    return m.done(m.node("Add", "x", last))


def folded_casts(n):
    m = Maker((4,))
    last = m.f(4)
    for i in range(n):
        last = m.node("Transpose", m.node("Reshape", last, m.i(2, 2)), perm=[1, 0])
        last = m.node("Reshape", last, m.i(4))
    return m.done(m.node("Add", "x", last))


def outputs(family):
    """All values of a chain are outputs."""
    def make(n):
        graph = chain(family, n)
        del graph.output[:]
        names = [name for node in graph.node for name in node.output]
        graph.output.extend(onnx.ValueInfoProto(name=name, type=onnx.TypeProto(
            tensor_type=onnx.TypeProto.Tensor(elem_type=FLOAT))) for name in names)
        return graph
    return make


def backwards(n):
    """A chain whose nodes stand in the opposite order is no valid model, and is refused or sorted as fast."""
    graph = chain("relu", n)
    nodes = list(graph.node)[::-1]
    del graph.node[:]
    graph.node.extend(nodes)
    return graph


def loop_of(family, captures=False):
    """One loop around a long chain."""
    def make(n):
        shape, link = LINKS[family]
        m = Maker(shape)
        inner = Maker(shape)
        del inner.graph.input[:]
        inner.graph.name = "body"
        last = "carried"
        for k in range(n):
            last = inner.node("Add", last, f"outer{k}") if captures else link(inner, last, k)
        for v in list(inner.graph.node):
            v.name = "inner_" + v.name
        rename(inner.graph)
        body = inner.graph
        body.input.extend([typed("i", INT64), typed("more", BOOL), info("carried", shape)])
        add(body, "Identity", ["more"], ["more_out"])
        body.output.extend([typed("more_out", BOOL), info(f"in_{last}", shape)])
        if captures:
            for k in range(n):
                add(m.graph, "LeakyRelu", ["x"], [f"outer{k}"]).attribute.append(helper.make_attribute("alpha", k / n))
        m.graph.input.append(typed("trips", INT64))
        return m.done(m.node("Loop", "trips", "", "x", body=body))
    return make


def rename(graph):
    """Names of a sub-graph must not occur around it."""
    own = {t.name for t in graph.initializer} | {name for node in graph.node for name in node.output}
    for tensor in graph.initializer:
        tensor.name = f"in_{tensor.name}"
    for node in graph.node:
        node.input[:] = [f"in_{name}" if name in own else name for name in node.input]
        node.output[:] = [f"in_{name}" for name in node.output]


def loop_carried(n):
    """A loop that carries many values."""
    m, body = Maker((2,)), onnx.GraphProto(name="body")
    body.input.extend([typed("i", INT64), typed("more", BOOL)])
    add(body, "Identity", ["more"], ["more_out"])
    body.output.append(typed("more_out", BOOL))
    for k in range(n):
        body.input.append(info(f"a{k}"))
        add(body, "Relu", [f"a{k}"], [f"b{k}"])
        body.output.append(info(f"b{k}"))
    m.graph.input.append(typed("trips", INT64))
    ends = m.nodes("Loop", ["trips", "", *["x"] * n], n, body=body)
    return m.done(m.node("Max", *ends))


def nest(depth):
    """Chains of nodes at each of `depth` levels of If, which all read the level above and the input."""
    def make(n):
        each, shape = n // depth, (4,)

        def level(at, outer):
            graph = onnx.GraphProto(name=f"level{at}")
            last = outer
            for k in range(each):
                add(graph, *(("Relu", [last]) if k % 2 else ("Add", [last, "x"])), [f"l{at}_{k}"], name=f"l{at}_{k}")
                last = f"l{at}_{k}"
            if at + 1 < depth:
                other = onnx.GraphProto(name=f"else{at}")
                add(other, "Neg", [last], [f"e{at}"])
                other.output.append(info(f"e{at}", shape))
                node = add(graph, "If", ["c"], [f"o{at}"])
                inner = level(at + 1, last)
                branches = {"then_branch": inner, "else_branch": other}
                node.attribute.extend(helper.make_attribute(key, graph) for key, graph in branches.items())
                last = f"o{at}"
            graph.output.append(info(last, shape))
            return graph

        graph = level(0, "x")
        graph.input.extend([info("x", shape), typed("c", BOOL)])
        return graph
    return make


def captured_by_all(n):
    """Many sub-graphs that each read one value of many, and one value of all."""
    m = Maker((2,))
    m.graph.input.append(typed("c", BOOL))
    ends = []
    for k in range(n // 4):
        outer = m.node("LeakyRelu", "x", alpha=k / n)
        branches = {}
        for branch, op in (("then_branch", "Add"), ("else_branch", "Sub")):
            body = branches[branch] = onnx.GraphProto(name=f"{branch}{k}")
            add(body, op, [outer, "x"], [f"{branch}{k}_out"])
            body.output.append(info(f"{branch}{k}_out"))
        ends.append(m.node("If", "c", **branches))
    return m.done(m.node("Max", *ends))


def ladder(n):
    """Chains of all lengths from what is bound to one order of axes to Transposes, all side by side."""
    m, ends, length = Maker((1, 2, 4, 4)), [], 0
    while len(m.graph.node) < n:
        last, length = m.node("Softmax", m.node("LeakyRelu", "x", alpha=length / n), axis=1), length + 1
        for _ in range(length):
            last = m.node("Sigmoid", last)
        ends.append(m.node("Add", last, ends[-1]) if ends else last)
    turned = [m.node("MaxPool", m.node("Transpose", end, perm=[0, 2, 3, 1]), kernel_shape=[1, 1]) for end in ends]
    return m.done(m.node("Max", *turned), (1, 4, 4, 2))


def wide_through(op, consumer, **attributes):
    """One node with many inputs, each behind an operator that goes or is merged."""
    def make(n):
        m = Maker((2,))
        ends = [m.node(op, m.node("LeakyRelu", "x", alpha=i / n), **attributes) for i in range(n // 2)]
        last = m.node(consumer, *ends, **({"axis": 0} if consumer == "Concat" else {}))
        return m.done(last, (2 * len(ends),) if consumer == "Concat" else (2,))
    return make


def joined_and_sliced(n):
    """One value of many parts, which many nodes take parts of."""
    m = Maker((2,))
    count = n // 3
    joined = m.node("Concat", *[m.node("LeakyRelu", "x", alpha=i / n) for i in range(count)], axis=0)
    ends = [m.node("Neg", slice_of(m, joined, 2 * i + 1, 2 * i + 3, 0)) for i in range(count - 1)]
    return m.done(m.node("Max", *ends))


def parts_squeezed(n):
    m = Maker((n // 3, 2))
    parts = m.nodes("Split", ["x"], n // 3, axis=0)
    return m.done(m.node("Max", *[m.node("Relu", m.node("Squeeze", part, m.i(0))) for part in parts]), (2,))


def many_inputs(n):
    """Each node reads an input of its own, whose size is its own as well."""
    m, ends = Maker((2,)), []
    for i in range(n):
        m.graph.input.append(info(f"in{i}", (f"N{i}",)))
        ends.append(m.node("Neg", f"in{i}"))
    joined = m.node("Concat", *ends, axis=0)
    return m.done(m.node("Add", joined, m.node("ReduceSum", "x", m.i(0))), ("M",))


def initialized_inputs(n):
    """Initializers that a caller may replace, as files of the first versions have them."""
    graph = chain("add_own", n)
    graph.input.extend(helper.make_tensor_value_info(t.name, t.data_type, t.dims) for t in graph.initializer)
    return graph


def deep_names(n):
    """Nodes of deep modules: their names are long and begin alike."""
    m, last = Maker((4,)), "x"
    for i in range(n):
        last = m.node("Relu" if i % 2 else "Neg", last)
        m.graph.node[-1].name = "/model" + "".join(f"/layers.{i >> s & 15}" for s in range(0, 64, 4)) + f"/op_{i}"
    return m.done(last)


def same_names(n):
    """All nodes have one name."""
    graph = chain("relu", n)
    for node in graph.node:
        node.name = "same"
    return graph


def counted_names(n):
    """Names that look like those that are made."""
    m, last = Maker((4,)), "x"
    for i in range(n):
        add(m.graph, "Add", [last, m.g(4)], [f"c1_merged_{i}" if i else "c1_merged"])
        last = m.graph.node[-1].output[0]
    return m.done(last)


OTHERS = {
    "wide_concat": wide("Concat", axis=0), "wide_sum": wide("Sum"), "wide_max": wide("Max"), "wide_mean": wide("Mean"),
    "wide_same_sum": wide_same("Sum"), "wide_same_max": wide_same("Max"), "wide_constants": wide_constants,
    "concat_of_concats": concat_of_concats, "many_parts": many_parts, "parts_joined": parts_joined, "slices": slices,
    "gathers": gathers, "sizes_of_one": sizes_of_one, "residuals": residuals, "dense": dense, "tree_add": tree("Add"),
    "tree_mul": tree("Mul"), "folded": folded, "folded_layouts": folded_casts, "outputs_add": outputs("add_own"),
    "outputs_relu": outputs("relu"), "outputs_transpose": outputs("transpose_relu"), "loop_relu": loop_of("relu"),
    "loop_add": loop_of("add_own"), "loop_conv": loop_of("conv"), "loop_captures": loop_of("relu", captures=True),
    "loop_carried": loop_carried, "nest_2": nest(2), "nest_8": nest(8), "nest_30": nest(30),
    "captured_by_all": captured_by_all, "many_inputs": many_inputs,
    "wide_identity": wide_through("Identity", "Concat"), "wide_identity_max": wide_through("Identity", "Max"),
    "wide_dropout": wide_through("Dropout", "Concat"), "wide_transpose": wide_through("Transpose", "Concat", perm=[0]),
    "joined_and_sliced": joined_and_sliced, "parts_squeezed": parts_squeezed,
    "initialized_inputs": initialized_inputs, "backwards": backwards, "ladder": ladder,
    "deep_names": deep_names, "same_names": same_names, "counted_names": counted_names,
}
