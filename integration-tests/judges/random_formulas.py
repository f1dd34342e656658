"""Formulas that fusions look for, for random_graphs.py: with random orders, axes and forms of constants.

Now and then a number, an axis or an operand is another one, or a value in the middle is read elsewhere, too. Then a fusion
must not change the result.
"""
import numpy as np
from onnx import numpy_helper


class Formula:
    """Adds the nodes of one formula to a scope `s`, starting from the value `v`."""

    def __init__(self, m, s, v):
        self.m, self.s, (self.x, self.shape) = m, s, v
        self.rank, self.wide = len(self.shape), False

    def op(self, op, *inputs, **attrs):
        """One node; rarely, what it computes is an output, too."""
        made = self.s.add(op, list(inputs), None, **attrs)
        if self.m.chance(0.02):
            self.s.extra_outputs.append(made)
        return made

    def number(self, value, exact=False):
        """A number as a constant with one of several shapes; rarely another one."""
        m = self.m
        form = m.pick([(), (), (), (1,), (1,) * self.rank])
        if not exact and m.chance(0.02):
            form, self.wide = (1,) * (self.rank + 1), True
        value = value * 1.25 if m.chance(0.02) and not exact else value
        return self.s.const(np.full(form, value, m.dtype))

    def both(self, op, a, b, **attrs):
        """A node whose operands stand in one of both orders."""
        pair = [a, b] if self.m.chance(0.5) else [b, a]
        return self.op(op, *pair, **attrs)

    def scaled(self, x, by, **attrs):
        if self.m.chance(0.3):
            return self.op("Div", x, self.number(1 / by), **attrs)
        return self.both("Mul", x, self.number(by), **attrs)

    def product(self, *factors):
        """The product of values and numbers in a random order."""
        m = self.m
        factors = [factors[i] for i in m.rng.permutation(len(factors))]
        named = [f for f in factors if isinstance(f, str)]
        numbers = [f for f in factors if not isinstance(f, str)]
        while numbers or len(named) > 1:
            if numbers and m.chance(0.5):
                i = int(m.rng.integers(len(named)))
                named[i] = self.scaled(named[i], numbers.pop())
            elif len(named) > 1:
                a, b = named.pop(), named.pop()
                named.append(self.both("Mul", a, b))
        return named[0]

    def power(self, x, n):
        m = self.m
        if m.chance(0.5):
            return self.op("Pow", x, self.number(float(n)))
        result = x
        for _ in range(n - 1):
            result = self.both("Mul", result, x)
        return result

    def reduced(self, op, x, axes):
        m = self.m
        axes = [a - self.rank if m.opset >= 11 and not self.wide and m.chance(0.5) else a for a in axes]
        since = 13 if op == "ReduceSum" else 18
        if m.opset >= since:
            return self.op(op, x, self.s.const(np.array(axes, np.int64)))
        return self.op(op, x, axes=axes)

    # ---- the formulas ----

    def gelu(self):
        z = self.scaled(self.x, 1 / np.sqrt(2))
        return self.gelu_of(self.op("Erf", z))

    def gelu_of(self, curve):
        if self.m.chance(0.2):
            gate = self.both("Add", self.scaled(curve, 0.5), self.number(0.5))
            return self.product(self.x, gate)
        return self.product(self.x, 0.5, self.both("Add", curve, self.number(1.0)))

    def tanh_gelu(self):
        k, c = np.sqrt(2 / np.pi), 0.044715
        if self.m.chance(0.3):
            inner = self.both("Add", self.number(1.0), self.product(c, self.power(self.x, 2)))
            z = self.product(self.x, k, inner)
        else:
            inner = self.both("Add", self.x, self.product(c, self.power(self.x, 3)))
            z = self.product(k, inner)
        return self.gelu_of(self.op("Tanh", z))

    def bounded(self, x, low, high):
        m = self.m
        if m.opset >= 11 and m.chance(0.6):
            low, high = (self.s.const(np.array(b, m.dtype)) for b in (low, high))
            return self.op("Clip", x, low, high)
        steps = [("Max", low), ("Min", high)]
        if low == 0 and m.chance(0.3):
            steps[0] = ("Relu", None)
        for op, bound in steps if m.chance(0.5) else steps[::-1]:
            x = self.op(op, x) if bound is None else self.both(op, x, self.number(bound))
        return x

    def hard(self):
        m = self.m
        if m.chance(0.3):
            gate = self.op("HardSigmoid", self.x, **({} if m.chance(0.3) else {"alpha": 1 / 6, "beta": 0.5}))
            return self.both("Mul", self.x, gate)
        if m.chance(0.3):
            z = self.both("Add", self.scaled(self.x, m.pick([1 / 6, 0.2])), self.number(0.5))
            gate = self.bounded(z, 0.0, 1.0)
            return self.both("Mul", self.x, gate) if m.chance(0.5) else gate
        gate = self.bounded(self.both("Add", self.x, self.number(3.0)), 0.0, 6.0)
        return self.product(gate, 1 / 6, *[self.x] * m.chance(0.7))

    def clip(self):
        low, high = self.m.pick([(0.0, 6.0), (-1.0, 1.0), (0.5, 0.25), (-0.25, 0.5)])
        x = self.bounded(self.x, low, high)
        return self.bounded(x, -0.5, 0.75) if self.m.chance(0.3) else x

    def mish(self):
        return self.both("Mul", self.x, self.op("Tanh", self.op("Softplus", self.x)))

    def softplus(self):
        return self.op("Log", self.both("Add", self.op("Exp", self.x), self.number(1.0)))

    def softmax(self):
        m, axis, x = self.m, [self.rank - 1] if self.m.chance(0.8) else [0], self.x
        if m.chance(0.3):
            # Before opset 13 the axis means all axes from it on.
            back = self.op("Softmax", x, **({} if m.chance(0.4) else {"axis": self.rank - 1}))
            return self.op("Log", back)
        if m.chance(0.6):
            x = self.op("Sub", x, self.reduced("ReduceMax", x, axis))
        e = self.op("Exp", x)
        total = self.reduced("ReduceSum", e, axis)
        form = m.int(0, 2)
        if form == 0:
            return self.op("Sub", x, self.op("Log", total))
        return self.op("Div", e, total) if form == 1 else self.both("Mul", e, self.op("Reciprocal", total))

    def axes(self):
        count = self.m.pick([1, 1, 1, 2])
        axes = list(range(max(self.rank - count, 0), self.rank))
        return axes if self.m.chance(0.9) else [0]

    def by_root(self, x, variance):
        """`x / sqrt(variance + epsilon)`"""
        m = self.m
        raised = self.both("Add", variance, self.number(0.01))
        form = m.int(0, 4)
        if form == 4:
            return self.both("Mul", x, self.op("Pow", raised, self.number(-0.5, exact=True)))
        root = self.op("Pow", raised, self.number(0.5, exact=True)) if form == 3 else self.op("Sqrt", raised)
        if form == 1:
            return self.both("Mul", x, self.op("Reciprocal", root))
        if form == 2:
            return self.both("Mul", x, self.op("Div", self.number(1.0), root))
        return self.op("Div", x, root)

    def layer_norm(self):
        axes, x = self.axes(), self.x
        d = self.op("Sub", x, self.reduced("ReduceMean", x, axes))
        normal = self.by_root(d, self.reduced("ReduceMean", self.power(d, 2), axes))
        return self.affine(normal, [self.shape[a] for a in axes])

    def affine(self, x, sizes):
        for op in ("Mul", "Add"):
            if self.m.chance(0.7):
                form = self.m.pick([tuple(sizes), (1, *sizes)[-self.rank:], tuple(sizes[-1:]), ()])
                x = self.both(op, x, self.s.weights(*form))
        return x


    def instance_norm(self):
        axes, x = list(range(2, self.rank)), self.x
        d = self.op("Sub", x, self.reduced("ReduceMean", x, axes))
        normal = self.by_root(d, self.reduced("ReduceMean", self.power(d, 2), axes))
        return self.per_channel(normal)

    def group_norm(self):
        groups = self.m.pick([n for n in (1, 2, 4) if self.shape[1] % n == 0])
        split = self.op("Reshape", self.x, self.sizes(0, groups, -1))
        normal = self.op("InstanceNormalization", split, self.s.weights(groups), self.s.weights(groups))
        return self.per_channel(self.op("Reshape", normal, self.sizes(*self.shape)))

    def per_channel(self, x):
        for op in ("Mul", "Add"):
            if self.m.chance(0.7):
                column = (self.shape[1],) + (1,) * (self.rank - 2)
                x = self.both(op, x, self.s.weights(*self.m.pick([column, (1, *column), ()])))
        return x

    def sizes(self, _, *sizes):
        """Sizes for Reshape; that of the batch may be a symbol."""
        return self.s.const(np.array((0, *sizes), np.int64))

    def const(self, *sizes):
        return self.s.const(np.array(sizes, np.int64))

    def blocks(self):
        """Blocks moved between channels and space."""
        (n, c, h, w), m, b = self.shape, self.m, 2
        kinds = ["space"] * (h % b == 0 and w % b == 0) + ["DCR", "CRD"] * (c % (b * b) == 0)
        if not kinds:
            return self.x
        kind = m.pick(kinds)
        split, perm, self.shape = {
            "DCR": ((n, b, b, c // 4, h, w), [0, 3, 4, 1, 5, 2], (n, c // 4, h * b, w * b)),
            "CRD": ((n, c // 4, b, b, h, w), [0, 1, 4, 2, 5, 3], (n, c // 4, h * b, w * b)),
            "space": ((n, c, h // b, b, w // b, b), [0, 3, 5, 1, 2, 4], (n, c * 4, h // b, w // b)),
        }[kind]
        if m.chance(0.1):
            perm[1], perm[2] = perm[2], perm[1]
        moved = self.op("Transpose", self.op("Reshape", self.x, self.sizes(*split)), perm=perm)
        return self.op("Reshape", moved, self.sizes(*self.shape))

    def repeated(self):
        """Elements repeated along axes."""
        m = self.m
        times = [1, 1] + [m.int(1, 3) for _ in self.shape[2:]]
        before = m.chance(0.1)
        split, wide, tiles = [], [], []
        for size, n in zip(self.shape, times):
            pair = [(size, size, 1)] if n == 1 else [(size, size, 1), (1, n, n)]
            for narrow, full, tile in pair[::-1] if before else pair:
                split.append(narrow), wide.append(full), tiles.append(tile)
        apart = self.op("Reshape", self.x, self.sizes(*split))
        full = self.op("Expand", apart, self.const(1, *wide[1:])) if m.chance(0.5) else self.op("Tile", apart, self.const(*tiles))
        self.shape = tuple(d * n for d, n in zip(self.shape, times))
        return self.op("Reshape", full, self.sizes(*self.shape))

    def einsum(self):
        m, (*batch, rows, inner) = self.m, self.shape
        columns, letters = m.int(1, 4), "abcdefgh"[: len(batch)]
        other = m.floats(*batch, inner, columns)
        left, right, out = letters + "ij", letters + "jk", letters + m.pick(["ik", "ik", "ki"])
        self.shape = (*batch, rows, columns) if out.endswith("ik") else (*batch, columns, rows)
        pairs = [(left, self.x), (right, self.s.const(other))]
        (l, a), (r, b) = pairs if m.chance(0.7) else pairs[::-1]
        return self.op("Einsum", a, b, equation=f"{l},{r}->{out}")

    def reductions(self):
        m, x, axes = self.m, self.x, self.axes()
        kind = m.int(0, 4)
        inner = self.power(x, 2) if kind in (0, 1) else self.op("Abs" if kind in (2, 3) else "Exp", x)
        total = self.reduced("ReduceSum", inner, axes)
        self.shape = tuple(1 if i in axes else d for i, d in enumerate(self.shape))
        return self.op({1: "Sqrt", 3: "Log", 4: "Log"}[kind], total) if kind in (1, 3, 4) else total

    def mean(self):
        axes = list(range(2, self.rank)) if self.m.chance(0.8) else [1]
        self.shape = tuple(1 if i in axes else d for i, d in enumerate(self.shape))
        return self.reduced("ReduceMean", self.x, axes)


    def quick_gelu(self):
        gate = self.op("Sigmoid", self.x if self.m.chance(0.5) else self.scaled(self.x, 1.702))
        return self.both("Mul", self.x, gate)

    def skip_norm(self):
        """A normalization of a sum, which may be read again."""
        m = self.m
        total = self.both("Add", self.x, self.op("Sigmoid", self.x))
        width = self.shape[-1]
        if m.chance(0.5) and m.opset >= 17:
            normal = self.op("LayerNormalization", total, self.s.weights(width), *[self.s.weights(width)] * m.chance(0.7))
        else:
            mean = self.reduced("ReduceMean", self.power(total, 2), [self.rank - 1])
            normal = self.both("Mul", self.by_root(total, mean), self.s.weights(width))
        return self.both("Mul", total, normal) if m.chance(0.5) else normal

    def rotated(self, x, words, heads, size):
        """`x` of batch, heads, words, elements, whose pairs are rotated by angles."""
        m, batch = self.m, self.shape[0]
        width = size if m.chance(0.7) or size % 4 else size // 2
        whole, halves = x, m.chance(0.7)
        if width < size:
            x, rest = self.s.add("Slice", [whole, *self.range(0, width, 3)], None), self.s.add("Slice", [whole, *self.range(width, size, 3)], None)
        if halves and m.chance(0.5):
            table = self.s.const(m.floats(m.pick([1, batch]), words, width // 2))
            twice = self.op("Concat", table, table, axis=-1)
            cos, sin = (self.op("Unsqueeze", self.op(op, twice), self.const(1)) for op in ("Cos", "Sin"))
        else:
            tables = np.stack([f(m.floats(words, width // 2)) for f in (np.cos, np.sin)])
            tables = np.concatenate([tables, tables], axis=-1) if halves else np.repeat(tables, 2, axis=-1)
            if m.chance(0.1):
                tables[0, 0, 0] += 1
            form = m.pick([(words, width), (1, words, width), (1, 1, words, width)])
            cos, sin = (self.s.const(t.astype(m.dtype).reshape(form)) for t in tables)
        if halves:
            low, high = (self.s.add("Slice", [x, *self.range(a, b, 3)], None) for a, b in ((0, width // 2), (width // 2, width)))
            turned = self.op("Concat", self.op("Neg", high), low, axis=m.pick([-1, 3]))
        else:
            even, odd = (self.s.add("Slice", [x, *self.range(i, 2**40, 3), self.const(2)], None) for i in (0, 1))
            pair = [self.op("Unsqueeze", y, self.const(-1)) for y in (self.op("Neg", odd), even)]
            turned = self.op("Reshape", self.op("Concat", *pair, axis=-1), self.const(0, heads, words, width))
        x = self.both("Add", self.both("Mul", x, cos), self.both("Mul", turned, sin))
        return x if width == size else self.op("Concat", x, rest, axis=3)

    def range(self, start, end, axis):
        return [self.plain(start), self.plain(end), self.plain(axis)]

    def repeated_heads(self, x, shape, times):
        """Each head several times, as keys and values of grouped queries."""
        batch, heads, words, size = shape
        apart = self.op("Unsqueeze", x, self.const(2))
        wide = self.op("Expand", apart, self.const(1, 1, times, 1, 1))
        return self.op("Reshape", wide, self.const(0, heads * times, words, size))

    def rotary(self):
        """Attention with rotary positions, grouped queries, or one of both."""
        m, (batch, words, width) = self.m, self.shape
        heads, size, groups = m.pick([1, 2, 4]), m.pick([2, 4, 8]), m.pick([1, 1, 2])
        counts = [heads * groups, heads, heads]
        parts = []
        for count in counts:
            part = self.op("MatMul", self.x, self.s.weights(width, count * size))
            apart = self.op("Reshape", part, self.const(0, 0, count, size))
            parts.append(self.op("Transpose", apart, perm=[0, 2, 1, 3]))
        q, k, v = parts
        if m.chance(0.8):
            q, k = self.rotated(q, words, counts[0], size), self.rotated(k, words, heads, size)
        if groups > 1:
            k, v = (self.repeated_heads(x, (batch, heads, words, size), groups) for x in (k, v))
        mask = self.s.weights(m.pick([1, batch]), m.pick([1, counts[0]]), words, words) if m.chance(0.4) else None
        if m.opset >= 23 and m.chance(0.5) and m.dtype is not np.float64:
            made = self.op("Attention", q, k, v, *[mask] * (mask is not None), is_causal=m.int(0, 1))
        else:
            logits = self.scaled(self.op("MatMul", q, self.op("Transpose", k, perm=[0, 1, 3, 2])), size**-0.5)
            logits = logits if mask is None else self.both("Add", logits, mask)
            made = self.op("MatMul", self.op("Softmax", logits, axis=-1), v)
        together = self.op("Transpose", made, perm=[0, 2, 1, 3])
        self.shape = (batch, words, counts[0] * size)
        return self.op("Reshape", together, self.const(0, 0, counts[0] * size))

    def attention(self):
        m, (_, words, width) = self.m, self.shape
        heads = m.pick([n for n in (1, 2, 3) if width % n == 0])
        parts = [self.op("MatMul", self.x, self.s.weights(width, width)) for _ in range(3)]
        split = [self.op("Reshape", part, self.const(0, 0, heads, width // heads)) for part in parts]
        q, v = (self.op("Transpose", part, perm=[0, 2, 1, 3]) for part in (split[0], split[2]))
        if m.chance(0.5):
            k = self.op("Transpose", split[1], perm=[0, 2, 3, 1])
        else:
            k = self.op("Transpose", self.op("Transpose", split[1], perm=[0, 2, 1, 3]), perm=[0, 1, 3, 2])
        where, scale = m.int(0, 2), float((width // heads) ** -0.5)
        if where == 1:
            q, k = self.scaled(q, scale**0.5), self.scaled(k, scale**0.5)
        logits = self.op("MatMul", q, k)
        logits = self.scaled(logits, scale) if where == 2 else logits
        if m.chance(0.4):
            rows = words if m.chance(0.7) else 1
            logits = self.both("Add", logits, self.s.weights(1, m.pick([1, heads]), rows, words))
        weights = self.op("Softmax", logits, axis=3)
        together = self.op("Transpose", self.op("MatMul", weights, v), perm=[0, 2, 1, 3])
        return self.op("Reshape", together, self.const(0, 0, width))

    def channels(self):
        """What constants do to each channel, or to another axis."""
        m, x = self.m, self.x
        for _ in range(m.int(2, 4)):
            axis = 1 if m.chance(0.9) else m.int(1, self.rank - 1)
            dims = [d if i == axis else 1 for i, d in enumerate(self.shape)][m.int(0, 1) :]
            by = self.number(1.5) if m.chance(0.1) else self.s.weights(*dims)
            op = m.pick(["Add", "Sub", "Mul", "Mul", "Div"])
            x = self.both(op, x, by) if m.chance(0.1) else self.op(op, x, by)
        return x

    def signs(self):
        """Signs and roundings, some of which undo or repeat each other."""
        m, x = self.m, self.x
        for _ in range(m.int(2, 5)):
            if m.chance(0.4):
                x = self.both(m.pick(["Add", "Sub", "Mul"]), x, self.op("Neg", m.pick([self.x, x])))
            else:
                x = self.op(m.pick(["Neg", "Neg", "Abs", "Floor", "Ceil", "Relu"]), x)
        return x

    def condition(self, depth):
        m = self.m
        kind = m.pick(["compare", "compare", "known", "Not", "And", "Or", "Xor"]) if depth else "compare"
        if kind == "Not":
            return self.op("Not", self.condition(depth - 1))
        if kind in ("And", "Or", "Xor"):
            return self.both(kind, self.condition(depth - 1), self.condition(depth - 1))
        if kind == "known":
            return self.s.const(np.full(m.pick([(), (1,), self.shape]), m.chance(0.5)))
        ops = ["Less", "Greater"] + ["LessOrEqual", "GreaterOrEqual"] * (m.opset >= 12)
        return self.both(m.pick(ops), self.x, self.number(0.25))

    def choice(self):
        m = self.m
        if not m.chance(0.1):
            return self.op("Where", self.condition(3), self.x, self.op("Neg", self.x))
        return self.op("Where", self.condition(3), self.x, self.x)

    def rounded_down(self):
        """The quotient of indices as PyTorch writes it."""
        m = self.m
        int64 = lambda n: self.s.const(np.array(n, np.int64))
        index = self.op("ArgMax", self.x, axis=1, keepdims=1)
        index = self.op("Sub", index, int64(m.int(0, 1))) if m.chance(0.4) else index
        by = m.pick([2, 3, -2])
        quotient = self.op("Div", index, int64(by))
        signs = self.both("Xor", self.op("Less", index, int64(0)), self.op("Less", int64(by), int64(0)))
        rest = self.op("Mod", index, int64(by))
        uneven = self.op("Not", self.op("Equal", rest, int64(0)))
        where = self.op("And", signs, uneven)
        result = self.op("Where", where, self.op("Sub", quotient, int64(1)), quotient)
        return self.both("Add", self.x, self.op("CastLike", result, self.x))

    def transposed(self):
        m, (rows, width) = self.m, self.shape
        turned = self.op("Transpose", self.x, perm=[1, 0])
        if m.chance(0.5):
            self.shape = (width, width)
            left, right = turned, self.x
        else:
            self.shape = (rows, rows)
            left, right = self.x, turned
        if m.chance(0.5):
            return self.op("MatMul", left, right)
        more = [self.s.weights(self.shape[1])] if m.chance(0.5) or m.opset < 11 else []
        return self.op("Gemm", left, right, *more, alpha=0.5)
    def elements(self):
        """Elements along an axis, taken as parts whose axis goes."""
        m, axis = self.m, self.m.int(0, self.rank - 1)
        size = self.shape[axis]
        if m.opset >= 10 and m.chance(0.3):
            parts = []
            for i in range(size):
                start = i - size if m.chance(0.3) else i
                end = 1000 if i == size - 1 else start + 1
                parts.append(self.op("Slice", self.x, self.plain(start), self.plain(end), self.plain(axis)))
            parts = [part for part in parts if m.chance(0.8)] or parts
        elif m.opset >= 13:
            parts = self.s.add("Split", [self.x, self.plain(*[1] * size)], None, size, axis=axis)
        else:
            parts = self.s.add("Split", [self.x], None, size, axis=axis, split=[1] * size)
        parts = [parts] if isinstance(parts, str) else parts
        gone = [self.with_axis("Squeeze", part, axis) for part in parts]
        if m.chance(0.1):
            self.s.extra_outputs.append(m.pick(parts))
        self.shape = self.shape[:axis] + (1,) + self.shape[axis + 1 :]
        total = gone[0]
        for part in gone[1:]:
            total = self.both("Add", total, part)
        return self.with_axis("Unsqueeze", total, axis)

    # ---- steps of recurrent networks ----

    def split(self, x, width, count):
        """Parts of the last axis."""
        m, made = self.m, []
        if m.opset >= 10 and m.chance(0.2):
            for i in range(count):
                bounds = [self.plain(i * width), self.plain((i + 1) * width), self.plain(1)]
                made.append(self.op("Slice", x, *bounds))
            return made
        attrs = {"num_outputs": count} if m.opset >= 18 else {}
        return self.s.add("Split", [x], None, count, axis=m.pick([1, -1]) if m.opset >= 11 else 1, **attrs)

    def plain(self, *numbers):
        """Numbers that shape inference knows: an initializer, or a node Constant in a function."""
        array = np.array(numbers, np.int64)
        if self.m.in_function:
            return self.s.add("Constant", [], None, value=numpy_helper.from_array(array))
        if self.m.ir < 4:
            return self.s.const(array)
        name = self.m.name("w")
        self.s.inits.append(numpy_helper.from_array(array, name))
        return name

    def with_axis(self, op, x, axis):
        return self.op(op, x, self.plain(axis)) if self.m.opset >= 13 else self.op(op, x, axes=[axis])

    def linear(self, x, weight, bias):
        """`x` times a constant, plus one."""
        m = self.m
        if m.chance(0.5):
            return self.op("Gemm", x, self.shared(weight), self.shared(bias))
        product = self.op("MatMul", x, self.shared(weight))
        return self.both("Add", product, self.shared(bias)) if bias.any() else product

    def shared(self, array):
        """A constant that all steps read, mostly."""
        key = id(array)
        if key not in self.held or self.m.chance(0.02):
            self.held[key] = self.s.const(array)
        return self.held[key]

    def gates(self, x, h, width, count):
        """The gates of a step before their activation, as one value."""
        if self.form == "joined":
            both = self.op("Concat", x, h, axis=1)
            return self.linear(both, self.both_weights, self.bias)
        return self.both("Add", self.linear(x, self.x_weights, self.bias), self.linear(h, self.h_weights, self.h_bias))

    def lstm_step(self, x, h, c, width):
        i, f, g, o = self.split(self.gates(x, h, width, 4), width, 4)
        kept = self.both("Mul", self.op("Sigmoid", f), c)
        new = self.both("Mul", self.op("Sigmoid", i), self.op("Tanh", g))
        c = self.both("Add", kept, new)
        return self.both("Mul", self.op("Sigmoid", o), self.op("Tanh", c)), c

    def gru_step(self, x, h, c, width):
        a = self.split(self.linear(x, self.x_weights, self.bias), width, 3)
        e = self.split(self.linear(h, self.h_weights, self.h_bias), width, 3)
        r, z = (self.op("Sigmoid", self.both("Add", a[i], e[i])) for i in (0, 1))
        n = self.op("Tanh", self.both("Add", a[2], self.both("Mul", r, e[2])))
        if self.form == "joined":
            rest = self.op("Sub", self.number(1.0), z)
            return self.both("Add", self.both("Mul", rest, n), self.both("Mul", z, h)), c
        return self.both("Add", self.both("Mul", self.op("Sub", h, n), z), n), c

    def rnn_step(self, x, h, c, width):
        return self.op(self.activation, self.gates(x, h, width, 1)), c

    def recurrent(self):
        m, axis = self.m, self.m.int(0, 1)
        batch, inputs, width = self.shape[1 - axis], self.shape[2], m.int(1, 4)
        kind = m.pick(["lstm", "lstm", "gru", "rnn"])
        self.activation, self.form, self.held = m.pick(["Tanh", "Relu"]), m.pick(["sum", "sum", "joined"]), {}
        wide = {"lstm": 4, "gru": 3, "rnn": 1}[kind] * width
        self.x_weights, self.h_weights = m.floats(inputs, wide), m.floats(width, wide)
        self.both_weights = m.floats(inputs + width, wide)
        self.bias, self.h_bias = (m.floats(wide) * (m.chance(0.7)) for _ in range(2))
        self.bias, self.h_bias = self.bias.astype(m.dtype), self.h_bias.astype(m.dtype)
        zeros = m.chance(0.5)
        h = self.s.const(np.zeros((batch, width), m.dtype)) if zeros else self.s.weights(batch, width)
        c = self.s.weights(batch if m.chance(0.9) else 1, width)
        # States that are constants are folded into the first step.
        if m.chance(0.8):
            first = self.op("Gather", self.x, self.s.const(np.array(0, np.int64)), axis=axis)
            h, c = (self.op("MatMul", first, self.s.const(m.floats(inputs, width))) for _ in range(2))
        steps = [int(i) for i in m.rng.permutation(self.shape[axis])] if m.chance(0.1) else list(range(self.shape[axis]))
        made = []
        for i in steps:
            x = self.op("Gather", self.x, self.s.const(np.array(i, np.int64)), axis=axis)
            h, c = getattr(self, kind + "_step")(x, h, c, width)
            made.append(h)
        if m.chance(0.1):
            self.s.extra_outputs.append(c)
        along = m.int(0, 1)
        if m.chance(0.7):
            self.shape = (len(steps), batch, width) if along == 0 else (batch, len(steps), width)
            return self.op("Concat", *[self.with_axis("Unsqueeze", v, along) for v in made], axis=along)
        self.shape = (1, batch, width) if along == 0 else (batch, 1, width)
        return self.with_axis("Unsqueeze", h, along)


# The first opset and the ranks of each.
ANY, SPATIAL = range(1, 9), range(3, 9)
FORMULAS = {
    "gelu": (9, ANY),
    "tanh_gelu": (7, ANY),
    "hard": (8, ANY),
    "clip": (8, ANY),
    "mish": (7, ANY),
    "softplus": (7, ANY),
    "softmax": (7, ANY),
    "layer_norm": (7, ANY),
    "instance_norm": (7, SPATIAL),
    "group_norm": (7, SPATIAL),
    "blocks": (7, [4]),
    "repeated": (8, SPATIAL),
    "einsum": (12, range(2, 9)),
    "reductions": (7, ANY),
    "mean": (7, SPATIAL),
    "quick_gelu": (7, ANY),
    "skip_norm": (7, ANY),
    "attention": (7, [3]),
    "rotary": (13, [3]),
    "channels": (7, SPATIAL),
    "signs": (7, ANY),
    "choice": (9, ANY),
    "rounded_down": (15, range(2, 9)),
    "transposed": (7, [2]),
    "elements": (7, range(2, 9)),
    "recurrent": (7, [3]),
}


def formula(m, s, v, names=()):
    """One formula at random on the value `v`, of those named if there are any."""
    fitting = [name for name, (since, ranks) in FORMULAS.items() if m.opset >= since and len(v[1]) in ranks]
    fitting = [name for name in fitting if not names or name in names]
    if not fitting:
        return
    f = Formula(m, s, v)
    result = getattr(f, m.pick(fitting))()
    made = s.add("Identity" if m.chance(0.3) else "Tanh", [result], None if f.wide else f.shape)
    if f.wide:
        s.extra_outputs.append(made)
