"""Random models that compute shapes: what exporters write around reshapes, slices and repetitions of dynamic models.

`models(seeds)` gives (name, model); each runs, also where a size is 0 or 1. Used by shape_inference.py.
"""
import numpy as np
from onnx import TensorProto, helper, numpy_helper

F, I = TensorProto.FLOAT, TensorProto.INT64


def unshaped(name):
    return helper.make_tensor_value_info(name, F, None)


class Maker:
    """Knows the real shape of every tensor and the real elements of every small vector."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.inits, self.tensors, self.vectors, self.count = [], [], {}, {}, 0
        small = [0, 1] if seed % 5 == 0 else [1, 2, 3, 5]
        self.sizes = {s: int(self.rng.choice(small + [2, 3, 4, 6])) for s in "BST"}
        shapes = [["B", "S", 6], ["S", 6], ["B", "T"], ["B", 4, "S", "T"]]
        self.inputs = []
        for i, dims in enumerate(shapes):
            self.inputs.append(helper.make_tensor_value_info(f"x{i}", F, dims))
            self.tensors[f"x{i}"] = [self.sizes.get(d, d) for d in dims]

    def pick(self, items):
        items = list(items)
        return items[int(self.rng.integers(len(items)))]

    def name(self, base="v"):
        self.count += 1
        return f"{base}{self.count}"

    def op(self, op, inputs, outputs=1, **attrs):
        names = [self.name() for _ in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, **attrs))
        return names[0] if outputs == 1 else names

    def const(self, values, dtype=np.int64):
        array = np.asarray(values, dtype)
        if self.rng.random() < 0.5:
            name = self.name("c")
            self.inits.append(numpy_helper.from_array(array, name))
            return name
        return self.op("Constant", [], value=numpy_helper.from_array(array))

    def vector(self, name, values):
        self.vectors[name] = [int(v) for v in values]
        return name

    def tensor(self, name, shape):
        if np.prod(shape, dtype=np.float64) <= 4096 and len(shape) <= 6:
            self.tensors[name] = [int(d) for d in shape]
        return name

    # -- vectors of whole numbers ---------------------------------------------------------------------------------

    def sizes_of(self):
        x = self.pick(self.tensors)
        dims = self.tensors[x]
        start = int(self.rng.integers(0, len(dims) + 1)) if self.rng.random() < 0.3 else 0
        return self.vector(self.op("Shape", [x], **({"start": start} if start else {})), dims[start:])

    def one_size(self):
        """A size as a vector of one element, by one of the ways in which exporters take it."""
        x = self.pick(k for k, d in self.tensors.items() if d)
        dims = self.tensors[x]
        at = int(self.rng.integers(len(dims)))
        shape = self.op("Shape", [x])
        way = self.rng.integers(4)
        if way == 0:
            scalar = self.op("Gather", [shape, self.const(at)], axis=0)
            found = self.op("Unsqueeze", [scalar, self.const([0])])
        elif way == 1:
            found = self.op("Slice", [shape, self.const([at]), self.const([at + 1]), self.const([0])])
        elif way == 2:
            found = self.op("Gather", [shape, self.const([at - len(dims)])], axis=0)
        else:
            found = self.op("Split", [shape, self.const([1] * len(dims))], outputs=len(dims), axis=0)
            found = found if isinstance(found, str) else found[at]
        return self.vector(found, [dims[at]])

    def arithmetic(self):
        a = self.pick(self.vectors)
        values = np.array(self.vectors[a], np.int64)
        if not len(values) or np.abs(values).max() > 10**6:
            return None
        op = self.pick(["Add", "Sub", "Mul", "Div", "Mod", "Min", "Max", "Neg", "Floats", "Where", "Prod", "Sum"])
        k = int(self.rng.integers(1, 4))
        other = self.pick([v for v, e in self.vectors.items() if len(e) in (1, len(values))])
        if self.rng.random() < 0.5 or op in ("Div", "Mod") or np.abs(self.vectors[other]).max(initial=0) > 10**6:
            b, y = self.const([k]), np.array([k])
        else:
            b, y = other, np.array(self.vectors[other], np.int64)
        if op == "Neg":
            return self.vector(self.op("Neg", [a]), -values)
        if op == "Floats":
            real = self.op("Mul", [self.op("Cast", [a], to=F), self.const([2.0], np.float32)])
            return self.vector(self.op("Cast", [self.op("Floor", [real])], to=I), values * 2)
        if op == "Where":
            equal = self.op(self.pick(["Equal", "Less", "GreaterOrEqual"]), [a, b])
            test = {"Equal": values == y, "Less": values < y, "GreaterOrEqual": values >= y}[self.nodes[-1].op_type]
            return self.vector(self.op("Where", [equal, b, a]), np.where(test, y, values))
        if op in ("Prod", "Sum"):
            found = self.op(f"Reduce{op}", [a], keepdims=1)
            return self.vector(found, [values.prod() if op == "Prod" else values.sum()])
        if op == "Div" and (values < 0).any():
            return None
        f = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.floor_divide, "Mod": np.mod,
             "Min": np.minimum, "Max": np.maximum}[op]
        return self.vector(self.op(op, [a, b]), f(values, y))

    def joined(self):
        parts = [self.pick(self.vectors) for _ in range(int(self.rng.integers(1, 4)))]
        values = [v for p in parts for v in self.vectors[p]]
        return self.vector(self.op("Concat", parts, axis=0), values) if len(values) <= 6 else None

    # -- tensors --------------------------------------------------------------------------------------------------

    def fitting(self, limit):
        """A vector that may be a shape."""
        fits = [v for v, e in self.vectors.items()
                if all(0 <= d <= 12 for d in e) and len(e) <= 4 and np.prod(e, dtype=np.float64) <= limit]
        return self.pick(fits) if fits else None

    def reshape(self):
        x = self.pick(k for k, d in self.tensors.items() if d)
        dims = self.tensors[x]
        shape = self.op("Shape", [x])
        parts, real, at, open_ = [], [], 0, False
        whole = 0 not in dims
        while at < len(dims):
            n = int(self.rng.integers(1, len(dims) - at + 1))
            size = int(np.prod(dims[at:at + n]))
            way = self.rng.integers(4)
            if way == 0 and not open_ and whole:
                parts.append(self.const([-1]))
                open_ = True
            elif way == 1 and n == 1 and len(real) == at and whole:
                parts.append(self.const([0]))
            else:
                piece = self.op("Slice", [shape, self.const([at]), self.const([at + n])])
                parts.append(self.op("ReduceProd", [piece], keepdims=1))
            real.append(size)
            at += n
        target = self.op("Concat", parts, axis=0)
        allow = {} if whole else {"allowzero": 1}
        return self.tensor(self.op("Reshape", [x, target], **allow), real)

    def filled(self):
        v = self.fitting(4096)
        return v and self.tensor(self.op("ConstantOfShape", [v]), self.vectors[v])

    def expand(self):
        v, x = self.fitting(4096), self.pick(self.tensors)
        if v is None:
            return None
        try:
            real = np.broadcast_shapes(tuple(self.tensors[x]), tuple(self.vectors[v]))
        except ValueError:
            return None
        return self.tensor(self.op("Expand", [x, v]), real)

    def tile(self):
        x = self.pick(self.tensors)
        fits = [v for v, e in self.vectors.items() if len(e) == len(self.tensors[x]) and all(0 <= d <= 4 for d in e)]
        if not fits:
            return None
        v = self.pick(fits)
        return self.tensor(self.op("Tile", [x, v]), [a * b for a, b in zip(self.tensors[x], self.vectors[v])])

    def sliced(self):
        x = self.pick(k for k, d in self.tensors.items() if d)
        dims = list(self.tensors[x])
        axis = int(self.rng.integers(len(dims)))
        singles = [v for v, e in self.vectors.items() if len(e) == 1 and abs(e[0]) < 2**40]
        def bound(choices):
            if singles and self.rng.random() < 0.5:
                v = self.pick(singles)
                return v, self.vectors[v][0]
            value = self.pick(choices)
            return self.const([value]), value
        (start, a), (end, b) = bound([0, 1, -2, -1]), bound([2, -1, 2**31 - 1, 2**63 - 1, -2**63])
        step = int(self.pick([1, 1, 1, 2, -1]))
        dims[axis] = len(range(*slice(a, b, step).indices(dims[axis]))) if b > -2**62 or step > 0 else \
            len(range(*slice(a, None, step).indices(dims[axis])))
        inputs = [x, start, end, self.const([axis]), self.const([step])]
        return self.tensor(self.op("Slice", inputs), dims)

    def elementwise(self):
        a, b = self.pick(self.tensors), self.pick(self.tensors)
        try:
            real = np.broadcast_shapes(tuple(self.tensors[a]), tuple(self.tensors[b]))
        except ValueError:
            return None
        return self.tensor(self.op(self.pick(["Add", "Mul", "Max"]), [a, b]), real)

    def layout(self):
        x = self.pick(k for k, d in self.tensors.items() if d)
        dims = self.tensors[x]
        op = self.pick(["Transpose", "Concat", "Pad", "Range", "Unsqueeze", "Flatten", "Split", "MatMul", "Pool", "Size"])
        axis = int(self.rng.integers(len(dims)))
        if op == "Transpose":
            perm = [int(p) for p in self.rng.permutation(len(dims))]
            return self.tensor(self.op(op, [x], perm=perm), [dims[p] for p in perm])
        if op == "Concat":
            like = [k for k, d in self.tensors.items()
                    if len(d) == len(dims) and all(i == axis or a == b for i, (a, b) in enumerate(zip(d, dims)))]
            y = self.pick(like)
            real = [n + self.tensors[y][i] if i == axis else n for i, n in enumerate(dims)]
            return self.tensor(self.op(op, [x, y], axis=axis), real)
        if op == "Pad":
            pads = [int(p) for p in self.rng.integers(0, 3, 2 * len(dims))]
            real = [n + pads[i] + pads[i + len(dims)] for i, n in enumerate(dims)]
            return self.tensor(self.op(op, [x, self.const(pads)]), real)
        if op == "Range":
            single = [v for v, e in self.vectors.items() if len(e) == 1 and abs(e[0]) < 100]
            if not single:
                return None
            v, w = self.pick(single), self.pick(single)
            ends = [self.op("Squeeze", [n]) for n in (v, w)]
            found = self.op(op, [*ends, self.const(1)])
            return self.tensor(self.op("Cast", [found], to=F), [max(0, self.vectors[w][0] - self.vectors[v][0])])
        if op == "Unsqueeze":
            return self.tensor(self.op(op, [x, self.const([axis])]), [*dims[:axis], 1, *dims[axis:]])
        if op == "Flatten":
            real = [int(np.prod(dims[:axis])), int(np.prod(dims[axis:]))]
            return self.tensor(self.op(op, [x], axis=axis), real)
        if op == "Split":
            count = 2
            if dims[axis] % count or dims[axis] == 0:
                return None
            names = self.op(op, [x], outputs=count, axis=axis, num_outputs=count)
            real = [n // count if i == axis else n for i, n in enumerate(dims)]
            return [self.tensor(n, real) for n in names]
        if op == "MatMul" and len(dims) >= 2 and 0 not in dims:
            turned = self.op("Transpose", [x], perm=[*range(len(dims) - 2), len(dims) - 1, len(dims) - 2])
            return self.tensor(self.op(op, [x, turned]), [*dims[:-1], dims[-2]])
        if op == "Pool" and len(dims) == 3 and 0 not in dims:
            stride, ceil = int(self.rng.integers(1, 4)), int(self.rng.integers(0, 2))
            found = self.op("MaxPool", [x], kernel_shape=[1], strides=[stride], ceil_mode=0)
            return self.tensor(found, [*dims[:2], (dims[2] - 1) // stride + 1]) if ceil >= 0 else None
        if op == "Size":
            found = self.op("Reshape", [self.op(op, [x]), self.const([1])])
            return self.vector(found, [int(np.prod(dims))])
        return None

    def branches(self):
        """An If whose branches agree on some axes only; a Loop that carries what grows."""
        x = self.pick(k for k, d in self.tensors.items() if d and max(d) < 9)
        dims, axis = self.tensors[x], 0
        if self.rng.random() < 0.5:
            low = self.op("ReduceMin", [self.op("Shape", [x])], keepdims=0)
            test = self.op("Less", [low, self.const(2)])
            y, z = self.name(), self.name()
            same = helper.make_graph([helper.make_node("Relu", [x], [y])], "t", [], [unshaped(y)])
            twice = helper.make_graph([helper.make_node("Concat", [x, x], [z], axis=axis)], "e", [], [unshaped(z)])
            found = self.op("If", [test], then_branch=same, else_branch=twice)
            return self.tensor(found, dims if min(dims) < 2 else [2 * dims[0], *dims[1:]])
        times = int(self.rng.integers(1, 3))
        i, c, v, w, k, l, d, s = [self.name() for _ in range(8)]
        infos = [helper.make_tensor_value_info(i, I, []), helper.make_tensor_value_info(c, TensorProto.BOOL, []),
                 unshaped(v), unshaped(k)]
        outs = [helper.make_tensor_value_info(d, TensorProto.BOOL, []), unshaped(w), unshaped(l), unshaped(s)]
        nodes = [helper.make_node("Identity", [c], [d]), helper.make_node("Concat", [v, x], [w], axis=axis),
                 helper.make_node("Relu", [k], [l]), helper.make_node("Neg", [k], [s])]
        body = helper.make_graph(nodes, "b", infos, outs)
        grown, kept, all_ = self.op("Loop", [self.const(times), "", x, x], outputs=3, body=body)
        self.tensor(grown, [(times + 1) * dims[0], *dims[1:]])
        self.tensor(kept, dims)
        return self.tensor(all_, [times, *dims])

    def model(self, length):
        steps = [self.sizes_of, self.one_size, self.one_size, self.arithmetic, self.arithmetic, self.joined,
                 self.reshape, self.filled, self.expand, self.tile, self.sliced, self.elementwise, self.layout,
                 self.layout, self.branches]
        self.one_size()
        for _ in range(length):
            self.pick(steps)()
        last = list(self.tensors)[-1]
        out = self.op("Identity", [last])
        graph = helper.make_graph(self.nodes, "g", self.inputs, [helper.make_tensor_value_info(out, F, None)], self.inits)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def models(seeds):
    """(name, model, sizes of its symbols) for each seed, always the same."""
    for seed in seeds:
        maker = Maker(seed)
        yield f"seed {seed}", maker.model(40), maker.sizes
