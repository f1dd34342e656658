"""Random arguments of TensorFlow's operators, for `tensorflow_operators.py`: tensors and attributes by their names in `tf.raw_ops`.

`@operators(names)` adds a function of a `Draw` and the operator's name. Its `checks` say what is compared besides element types
and shapes: nothing more (`shapes`: random numbers; `anything`: TensorFlow leaves the values open), roughly (`rough`: values that TensorFlow's own kernels round), else all. A
list of them has one for each result.
"""
import random

import numpy as np

try:
    from ml_dtypes import bfloat16
except ImportError:
    bfloat16 = np.float32

FLOATS = ["float32", "float32", "float32", "float64", "float16"]
INTEGERS = ["int32", "int32", "int64", "int8", "uint8", "int16", "uint16", "uint32", "uint64"]
COMPLEX = ["complex64", "complex128"]
NUMBERS = FLOATS + INTEGERS

# Operators that TensorFlow no longer builds, and those that do the same.
RETIRED = {
    "BatchCholesky": "Cholesky", "BatchMatrixBandPart": "MatrixBandPart", "BatchMatrixDeterminant": "MatrixDeterminant",
    "BatchMatrixDiag": "MatrixDiag", "BatchMatrixDiagPart": "MatrixDiagPart", "BatchMatrixInverse": "MatrixInverse",
    "BatchMatrixSetDiag": "MatrixSetDiag", "BatchMatrixSolve": "MatrixSolve", "BatchMatrixSolveLs": "MatrixSolveLs",
    "BatchMatrixTriangularSolve": "MatrixTriangularSolve",
}

OPERATORS = {}


def operators(names, checks=""):
    def add(make):
        for name in names.split():
            assert name not in OPERATORS, name
            OPERATORS[name] = (make, checks)
        return make
    return add


class Draw(random.Random):
    """Random attributes and arrays."""

    def some(self, items):
        return self.choice(items)

    def chance(self, share=0.5):
        return self.random() < share

    def shape(self, low=0, high=4, empty=0.1):
        """Sizes of few axes; sometimes one is empty."""
        sizes = [self.randint(1, 4) for _ in range(self.randint(low, high))]
        if sizes and self.chance(empty):
            sizes[self.randrange(len(sizes))] = 0
        return sizes

    def broadcast(self, shape):
        """A shape that meets `shape`."""
        kept = [n if self.chance(0.7) else 1 for n in shape]
        return kept[self.randint(0, len(kept)):] if self.chance(0.4) else kept

    def both(self, **options):
        """Two shapes that meet."""
        shape = self.shape(**options)
        pair = [shape, self.broadcast(shape)]
        return pair[::-1] if self.chance() else pair

    def array(self, dtype, shape, low=-4, high=4, special=0.0):
        rng = np.random.default_rng(self.getrandbits(32))
        dtype = np.dtype(bfloat16) if dtype == "bfloat16" else np.dtype(dtype)
        if dtype == bool:
            return rng.integers(0, 2, shape).astype(bool)
        if dtype.kind == "c":
            return (rng.uniform(low, high, shape) + 1j * rng.uniform(low, high, shape)).astype(dtype)
        if dtype.kind in "iu":
            limits = np.iinfo(dtype)
            found = rng.integers(max(int(low), limits.min), min(int(high), limits.max) + 1, shape).astype(dtype)
            odd = [limits.min, limits.max, 0, 1]
        else:
            found = np.asarray(rng.uniform(low, high, shape)).astype(dtype)
            odd = [np.inf, -np.inf, np.nan, 0.0, -0.0, 0.5, -2.5, 1.0]
        if special and found.size and self.chance(special):
            flat = found.reshape(-1).copy()
            for _ in range(self.randint(1, 3)):
                flat[self.randrange(flat.size)] = self.choice(odd)
            found = flat.reshape(found.shape)
        return found

    def axis(self, rank, more=0):
        """An axis from either end."""
        at = self.randrange(rank + more)
        return at - rank - more if self.chance(0.4) else at

    def axes(self, rank, least=0):
        chosen = self.sample(range(rank), self.randint(min(least, rank), rank))
        return [a - rank if self.chance(0.3) else a for a in chosen]

    def index(self):
        return self.choice(["int32", "int32", "int64"])


def ints(values, dtype="int32"):
    return np.asarray(values, dtype)


# ---- element by element ----


def unary(names, dtypes, low=-4, high=4, key="x", special=0.5, checks=""):
    @operators(names, checks)
    def make(d, name):
        return {key: d.array(d.some(dtypes), d.shape(), low, high, special)}, {}


unary("Abs Neg Sign Square", FLOATS + ["int32", "int64", "int8", "int16"])
unary("Exp Expm1 Sin Cos Tan Atan Sinh Cosh Asinh Tanh Sigmoid Erf Erfc Ceil Floor Rint", FLOATS)
unary("Round", FLOATS)
unary("Log Log1p Sqrt Rsqrt Acosh Lgamma Digamma", FLOATS, -1, 6)
unary("Asin Acos Atanh Erfinv", FLOATS, -1.1, 1.1)
unary("Ndtri", ["float32", "float64"], -0.1, 1.1)
unary("BesselI0 BesselI1 BesselI0e BesselI1e", ["float32", "float64"], -12, 12, special=0.2)
unary("BesselJ0 BesselJ1 BesselY0 BesselY1 BesselK0 BesselK1 BesselK0e BesselK1e Dawsn Expint FresnelCos FresnelSin Spence", ["float32", "float64"], 0.1, 8)
unary("Reciprocal Inv", FLOATS + ["int32", "int64"], 1, 5, special=0)
unary("IsNan IsInf IsFinite", FLOATS, special=1.0)
unary("LogicalNot", ["bool"])
unary("Invert PopulationCount", INTEGERS, -100, 100)
unary("ZerosLike OnesLike", NUMBERS + ["bool"])
unary("DeepCopy", NUMBERS + ["bool"])
unary("Relu Relu6", FLOATS + ["int32", "int64", "uint8", "int8"], -8, 8, "features")
unary("Elu Selu Softplus Softsign", FLOATS, -30, 30, "features")
unary("Identity StopGradient Snapshot PreventGradient", NUMBERS + ["bool"], key="input")
unary("CheckNumerics", FLOATS, key="tensor", special=0)
OPERATORS["CheckNumerics"] = (lambda d, name: ({"tensor": d.array(d.some(FLOATS), d.shape())}, {"message": "m"}), "")


@operators("LeakyRelu")
def leaky(d, name):
    return {"features": d.array(d.some(FLOATS), d.shape(), special=0.5)}, {"alpha": d.some([0.2, 0.0, 1.5, -0.5])}


@operators("Softmax LogSoftmax")
def softmax(d, name):
    return {"logits": d.array(d.some(FLOATS), d.shape(1, 3), -20, 20)}, {}


@operators("L2Loss")
def l2_loss(d, name):
    return {"t": d.array(d.some(FLOATS), d.shape())}, {}


def binary(names, dtypes, low=-4, high=4, special=0.4, other=None):
    @operators(names)
    def make(d, name):
        first, second = d.both()
        dtype = d.some(dtypes)
        return {"x": d.array(dtype, first, low, high, special), "y": d.array(dtype, second, *(other or (low, high)), special)}, {}


binary("SquaredDifference", FLOATS + ["int32", "int64"])
binary("AddV2 Sub Mul Maximum Minimum", [t for t in NUMBERS if t not in ("uint32", "uint64")])
binary("Add", FLOATS + ["int32", "int64", "int8", "int16", "uint8"])
binary("RealDiv Div", FLOATS)
binary("DivNoNan MulNoNan Xdivy Xlogy Xlog1py", FLOATS, -2, 4, 0.8)
binary("Atan2", ["float32", "float64"], -4, 4, 0.8)
binary("Less LessEqual Greater GreaterEqual", NUMBERS, special=0.6)
binary("BitwiseAnd BitwiseOr BitwiseXor", INTEGERS, -100, 100)
binary("LeftShift RightShift", ["int32", "int64", "int8", "uint8", "int16", "uint16", "uint32", "uint64"], -100, 100, 0.2, (0, 6))
binary("LogicalAnd LogicalOr", ["bool"])
binary("Igamma Igammac", ["float32", "float64"], 0.1, 9, 0)
binary("Zeta Polygamma", ["float32", "float64"], 1.1, 4, 0)
for renamed in ("Igamma", "Igammac", "Polygamma"):
    inner = OPERATORS[renamed][0]
    keys = ("a", "x")
    OPERATORS[renamed] = (lambda d, name, inner=inner, keys=keys: ({keys[0]: inner(d, name)[0]["x"], keys[1]: d.array("float32", [])}, {}), "")
OPERATORS["Zeta"] = (lambda d, name, inner=OPERATORS["Zeta"][0]: ((lambda t: {"x": t["x"], "q": t["y"]})(inner(d, name)[0]), {}), "")


def incomplete(d, name):
    first, second = d.both()
    dtype = d.some(["float32", "float64"])
    low = 0.0 if d.chance(0.2) else 0.05
    return {"a": d.array(dtype, first, low, d.some([2, 9, 60])), "x": d.array(dtype, second, low, d.some([2, 9, 60]))}, {}


OPERATORS["Igamma"] = OPERATORS["Igammac"] = (incomplete, "")
OPERATORS["Polygamma"] = (lambda d, name: ({"a": d.array("float32", [], 1, 3).round(), "x": d.array("float32", d.shape(), 0.1, 4)}, {}), "")


@operators("FloorDiv FloorMod TruncateDiv TruncateMod Mod")
def divisions(d, name):
    dtypes = INTEGERS if name == "TruncateDiv" else ["int32", "int64"] if name == "TruncateMod" else FLOATS[:4] + ["int32", "int64"] if name == "Mod" else FLOATS + INTEGERS
    first, second = d.both()
    dtype = d.some(dtypes)
    y = d.array(dtype, second, -5, 5, 0.2)
    x = d.array(dtype, first, -20, 20, 0.2)
    if np.dtype(dtype).kind in "iu":
        y = np.where(y == 0, np.asarray(3, dtype), y)
        y = np.where(y == np.iinfo(dtype).max, np.asarray(7, dtype), y)
        if np.dtype(dtype).kind == "i":
            y = np.where(y == -1, np.asarray(-2, dtype), y)
    return {"x": x, "y": y}, {}


@operators("Pow")
def power(d, name):
    first, second = d.both()
    dtype = d.some(FLOATS + ["int32", "int64"])
    if dtype.startswith("int"):
        return {"x": d.array(dtype, first, -4, 4), "y": d.array(dtype, second, 0, 5)}, {}
    y = d.array(dtype, second, -3, 3, 0.6)
    if d.chance(0.3):
        y = np.asarray(d.some([0.5, 1.0, 2.0, 0.0, -0.5, -1.0]), dtype)
    return {"x": d.array(dtype, first, -1, 4, 0.4), "y": y}, {}


@operators("Equal NotEqual")
def equality(d, name):
    first, second = d.both()
    dtype = d.some(NUMBERS + ["bool"] + COMPLEX)
    return {"x": d.array(dtype, first, -2, 2, 0.5), "y": d.array(dtype, second, -2, 2, 0.5)}, {"incompatible_shape_error": True}


@operators("ApproximateEqual")
def approximately(d, name):
    shape, dtype = d.shape(), d.some(["float32", "float64", "int32"])
    return {"x": d.array(dtype, shape, -1, 1), "y": d.array(dtype, shape, -1, 1)}, {"tolerance": d.some([0.5, 1e-5])}


@operators("AddN AccumulateNV2")
def add_n(d, name):
    shape, dtype = d.shape(), d.some(["float32", "float64", "int32", "int64", "float16"])
    attributes = {"shape": shape} if name == "AccumulateNV2" else {}
    return {"inputs": [d.array(dtype, shape) for _ in range(d.randint(1, 4))]}, attributes


@operators("BiasAdd BiasAddV1")
def bias(d, name):
    dtype, shape = d.some(FLOATS + ["int32"]), d.shape(2, 5)
    nchw = name == "BiasAdd" and d.chance() and len(shape) > 2
    size = shape[1] if nchw else shape[-1]
    attributes = {} if name == "BiasAddV1" else {"data_format": "NCHW" if nchw else "NHWC"}
    return {"value": d.array(dtype, shape), "bias": d.array(dtype, [size])}, attributes


@operators("ClipByValue")
def clip(d, name):
    dtype, shape = d.some(FLOATS + ["int32", "int64", "uint8"]), d.shape()
    ends = shape if d.chance(0.3) else []
    return {"t": d.array(dtype, shape, -4, 4, 0.4), "clip_value_min": d.array(dtype, ends, -2, 0), "clip_value_max": d.array(dtype, ends, 0, 2)}, {}


@operators("Select SelectV2")
def select(d, name):
    dtype = d.some(NUMBERS + ["bool"] + COMPLEX)
    if name == "SelectV2":
        first, second = d.both()
        third = d.broadcast(np.broadcast_shapes(first, second))
        return {"condition": d.array("bool", third), "t": d.array(dtype, first), "e": d.array(dtype, second)}, {}
    shape = d.shape(0, 4)
    condition = d.some([shape, shape, [], shape[:1]])
    return {"condition": d.array("bool", condition), "x": d.array(dtype, shape), "y": d.array(dtype, shape)}, {}


@operators("ToBool")
def to_bool(d, name):
    return {"input": d.array(d.some(["float32", "int32", "bool", "int64"]), d.shape(0, 2, 0.3), -1, 1)}, {}


@operators("Cast")
def cast(d, name):
    source, to = d.some(NUMBERS + ["bool"] + COMPLEX), d.some(NUMBERS + ["bool"] + COMPLEX)
    low, high = (0, 100) if to.startswith("uint") else (-100, 100)
    if np.dtype(source).kind == "f" and np.dtype(to).kind in "iu":
        return {"x": d.array(source, d.shape(), low, high)}, {"DstT": to}
    return {"x": d.array(source, d.shape(), -300, 300, 0.4)}, {"DstT": to}


@operators("Bitcast")
def bitcast(d, name):
    source, to = d.some([("int32", "uint32"), ("uint32", "int32"), ("int8", "uint8"), ("uint16", "int16"), ("float32", "int32"), ("int64", "uint64"), ("int64", "int32"), ("float16", "int16")])
    return {"input": d.array(source, d.shape(1, 3), -100, 100)}, {"type": to}


# ---- complex numbers ----


@operators("Complex")
def complex_of(d, name):
    first, second = d.both()
    dtype = d.some(["float32", "float64"])
    return {"real": d.array(dtype, first), "imag": d.array(dtype, second)}, {"Tout": "complex64" if dtype == "float32" else "complex128"}


@operators("Real Imag Angle")
def part(d, name):
    dtype = d.some(COMPLEX)
    return {"input": d.array(dtype, d.shape())}, {"Tout": "float32" if dtype == "complex64" else "float64"}


@operators("ComplexAbs")
def complex_abs(d, name):
    dtype = d.some(COMPLEX)
    return {"x": d.array(dtype, d.shape())}, {"Tout": "float32" if dtype == "complex64" else "float64"}


@operators("Conj")
def conj(d, name):
    return {"input": d.array(d.some(COMPLEX), d.shape())}, {}


@operators("ConjugateTranspose")
def conjugate_transpose(d, name):
    shape = d.shape()
    return {"x": d.array(d.some(COMPLEX + ["float32"]), shape), "perm": ints(d.sample(range(len(shape)), len(shape)))}, {}


# ---- shapes ----


@operators("Reshape")
def reshape(d, name):
    shape = d.shape(0, 4)
    to = d.sample(shape, len(shape)) + [1] * d.randint(0, 2)
    d.shuffle(to)
    if to and d.chance(0.5) and 0 not in to:
        to[d.randrange(len(to))] = -1
    return {"tensor": d.array(d.some(NUMBERS + ["bool"]), shape), "shape": ints(to, d.index())}, {}


@operators("Squeeze")
def squeeze(d, name):
    shape = [d.some([1, 1, 3]) for _ in range(d.randint(0, 5))]
    ones = [i for i, n in enumerate(shape) if n == 1]
    axes = [a - len(shape) if d.chance(0.3) else a for a in d.sample(ones, d.randint(0, len(ones)))]
    return {"input": d.array(d.some(NUMBERS), shape)}, {"axis": axes}


@operators("ExpandDims")
def expand_dims(d, name):
    shape = d.shape(0, 3)
    return {"input": d.array(d.some(NUMBERS), shape), "axis": ints(d.axis(len(shape), 1), d.index())}, {}


@operators("Transpose")
def transpose(d, name):
    shape = d.shape()
    return {"x": d.array(d.some(NUMBERS + ["bool"] + COMPLEX), shape), "perm": ints(d.sample(range(len(shape)), len(shape)), d.index())}, {}


@operators("Shape Size")
def measured(d, name):
    return {"input": d.array(d.some(NUMBERS), d.shape())}, {"out_type": d.index()}


@operators("ShapeN")
def all_measured(d, name):
    dtype = d.some(NUMBERS)
    return {"input": [d.array(dtype, d.shape()) for _ in range(d.randint(1, 3))]}, {"out_type": d.index()}


@operators("Rank")
def rank(d, name):
    return {"input": d.array("float32", d.shape())}, {}


@operators("Tile")
def tile(d, name):
    shape = d.shape()
    return {"input": d.array(d.some(NUMBERS + ["bool"]), shape), "multiples": ints([d.randint(0, 3) for _ in shape], d.index())}, {}


@operators("BroadcastTo")
def broadcast_to(d, name):
    shape = d.shape()
    return {"input": d.array(d.some(NUMBERS + ["bool"]), d.broadcast(shape)), "shape": ints(shape, d.index())}, {}


@operators("BroadcastArgs")
def broadcast_args(d, name):
    first, second = d.both()
    return {"s0": ints(first), "s1": ints(second)}, {}


@operators("EnsureShape")
def ensure_shape(d, name):
    shape = d.shape()
    return {"input": d.array("float32", shape)}, {"shape": shape}


@operators("IdentityN")
def identity_n(d, name):
    return {"input": [d.array(d.some(NUMBERS), d.shape()) for _ in range(d.randint(1, 3))]}, {}


@operators("Concat ConcatV2")
def concat(d, name):
    shape, dtype = d.shape(1, 4), d.some(NUMBERS + ["bool"] + COMPLEX)
    axis = d.axis(len(shape))
    values = []
    for _ in range(d.randint(2, 4)):
        own = list(shape)
        own[axis] = d.randint(0, 3)
        values.append(d.array(dtype, own))
    return {"values": values, "concat_dim" if name == "Concat" else "axis": ints(axis)}, {}


@operators("Pack")
def pack(d, name):
    shape, dtype = d.shape(0, 3), d.some(NUMBERS + ["bool"])
    return {"values": [d.array(dtype, shape) for _ in range(d.randint(1, 3))]}, {"axis": d.axis(len(shape), 1)}


@operators("ParallelConcat")
def parallel_concat(d, name):
    rest, n = d.shape(0, 3, 0), d.randint(1, 3)
    return {"values": [d.array("float32", [1, *rest]) for _ in range(n)]}, {"shape": [n, *rest]}


@operators("Unpack")
def unpack(d, name):
    shape = d.shape(1, 4)
    axis = d.axis(len(shape))
    return {"value": d.array(d.some(NUMBERS + ["bool"]), shape)}, {"num": shape[axis], "axis": axis}


@operators("Split")
def split(d, name):
    shape, n = d.shape(1, 4), d.randint(1, 3)
    axis = d.axis(len(shape))
    shape[axis] *= n
    return {"value": d.array(d.some(NUMBERS + ["bool"]), shape), "axis": ints(axis)}, {"num_split": n}


@operators("SplitV")
def split_v(d, name):
    shape, sizes = d.shape(1, 4), [d.randint(0, 3) for _ in range(d.randint(1, 4))]
    axis = d.axis(len(shape))
    shape[axis] = sum(sizes)
    if d.chance(0.4):
        sizes[d.randrange(len(sizes))] = -1
    return {"value": d.array(d.some(NUMBERS), shape), "size_splits": ints(sizes, d.index()), "axis": ints(axis)}, {"num_split": len(sizes)}


# ---- creation ----


@operators("Fill")
def fill(d, name):
    return {"dims": ints(d.shape(), d.index()), "value": d.array(d.some(NUMBERS + ["bool"]), [])}, {}


@operators("Empty", "shapes")
def empty(d, name):
    return {"shape": ints(d.shape())}, {"dtype": d.some(["float32", "int32"]), "init": True}


@operators("Range")
def range_(d, name):
    dtype = d.some(["int32", "int64", "float32", "float64"])
    start, limit, delta = d.randint(-5, 5), d.randint(-5, 9), d.some([1, 2, 3, 0.5, 0.3])
    delta = delta if dtype.startswith("float") else max(1, int(delta))
    return {"start": np.asarray(start, dtype), "limit": np.asarray(max(limit, start) if delta > 0 else limit, dtype), "delta": np.asarray(delta, dtype)}, {}


@operators("LinSpace")
def lin_space(d, name):
    dtype = d.some(["float32", "float64"])
    return {"start": d.array(dtype, []), "stop": d.array(dtype, []), "num": ints(d.randint(1, 9), d.index())}, {}


@operators("OneHot")
def one_hot(d, name):
    shape, dtype = d.shape(0, 3), d.some(["float32", "int32", "bool", "float64", "int64", "uint8", "float16"])
    on, off = (np.asarray(1, dtype), np.asarray(0, dtype)) if d.chance() else (d.array(dtype, []), d.array(dtype, []))
    return {"indices": d.array(d.some(["int32", "int64", "uint8"]), shape, -2, 6), "depth": ints(d.randint(0, 5)), "on_value": on, "off_value": off}, {"axis": d.axis(len(shape), 1) if d.chance(0.7) else -1}


for made in ("OneHot",):
    def one_hot_axis(d, name, inner=OPERATORS[made][0]):
        tensors, attributes = inner(d, name)
        attributes["axis"] = max(-1, attributes["axis"])
        return tensors, attributes
    OPERATORS[made] = (one_hot_axis, "")


@operators("InvertPermutation")
def invert_permutation(d, name):
    n = d.randint(0, 6)
    return {"x": ints(d.sample(range(n), n), d.index())}, {}


@operators("PlaceholderWithDefault")
def with_default(d, name):
    shape = d.shape()
    return {"input": d.array("float32", shape)}, {"shape": shape}


# ---- slices ----


@operators("Slice")
def slice_(d, name):
    shape = d.shape(0, 4)
    begin = [d.randint(0, n) for n in shape]
    size = [d.some([-1, d.randint(0, n - b)]) for n, b in zip(shape, begin)]
    dtype = d.index()
    return {"input": d.array(d.some(NUMBERS + ["bool"]), shape), "begin": ints(begin, dtype), "size": ints(size, dtype)}, {}


def specification(d, shape):
    """Specifications of a strided slice, and its masks."""
    masks = dict.fromkeys(["begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"], 0)
    begin, end, strides, at = [], [], [], 0
    ellipsis = d.randint(0, len(shape)) if d.chance(0.35) else None
    left = len(shape)
    while left > 0 or d.chance(0.15):
        i = len(begin)
        kind = d.random()
        if ellipsis is not None and i == ellipsis:
            masks["ellipsis_mask"] |= 1 << i
            skipped = d.randint(0, left)
            at, left = at + skipped, left - skipped
            begin.append(0), end.append(0), strides.append(1)
            if d.chance(0.2):
                masks[d.some(["new_axis_mask", "shrink_axis_mask", "begin_mask"])] |= 1 << i
            continue
        if kind < 0.15 or left == 0:
            masks["new_axis_mask"] |= 1 << i
            if d.chance(0.3):
                masks["shrink_axis_mask"] |= 1 << i
            begin.append(d.randint(-2, 2)), end.append(d.randint(-2, 2)), strides.append(1)
            continue
        n = shape[at]
        at, left = at + 1, left - 1
        if kind < 0.4 and n:
            masks["shrink_axis_mask"] |= 1 << i
            place = d.randint(-n, n - 1)
            begin.append(place), end.append(d.some([place + 1, 0, 9])), strides.append(1)
            if d.chance(0.1):
                masks["begin_mask"] |= 1 << i
            if d.chance(0.1):
                masks["end_mask"] |= 1 << i
        else:
            begin.append(d.randint(-n - 2, n + 2)), end.append(d.randint(-n - 2, n + 2)), strides.append(d.some([1, 1, 1, 2, -1, -2, 3]))
            for mask in ("begin_mask", "end_mask"):
                if d.chance(0.4):
                    masks[mask] |= 1 << i
        if ellipsis is None and d.chance(0.1):
            break
    return begin, end, strides, masks


@operators("StridedSlice")
def strided_slice(d, name):
    shape = d.shape(0, 4)
    begin, end, strides, masks = specification(d, shape)
    dtype = d.index()
    return {"input": d.array(d.some(NUMBERS + ["bool"]), shape), "begin": ints(begin, dtype), "end": ints(end, dtype), "strides": ints(strides, dtype)}, masks


@operators("TensorStridedSliceUpdate")
def strided_update(d, name):
    import tensorflow as tf
    shape, element = d.shape(1, 4), d.some(["float32", "int32", "int64", "bool", "float64"])
    begin, end, strides, masks = specification(d, shape)
    dtype = d.index()
    tensors = {"input": d.array(element, shape), "begin": ints(begin, dtype), "end": ints(end, dtype), "strides": ints(strides, dtype)}
    want = tf.raw_ops.StridedSlice(**tensors, **masks).shape.as_list()
    tensors["value"] = d.array(element, d.broadcast(want) if d.chance(0.0) else want)
    return tensors, masks


@operators("ReverseV2")
def reverse_v2(d, name):
    shape = d.shape()
    return {"tensor": d.array(d.some(NUMBERS + ["bool"]), shape), "axis": ints(d.axes(len(shape)), d.index())}, {}


@operators("Reverse")
def reverse(d, name):
    shape = d.shape()
    return {"tensor": d.array(d.some(["float32", "int32", "bool"]), shape), "dims": d.array("bool", [len(shape)])}, {}


@operators("ReverseSequence")
def reverse_sequence(d, name):
    shape = d.shape(2, 4)
    seq, batch = d.sample(range(len(shape)), 2)
    lengths = [d.randint(0, shape[seq]) for _ in range(shape[batch])]
    return {"input": d.array(d.some(["float32", "int32", "bool"]), shape), "seq_lengths": ints(lengths, d.index())}, {"seq_dim": seq, "batch_dim": batch}


@operators("Roll")
def roll(d, name):
    shape = d.shape(1, 4)
    if d.chance():
        axes = d.axes(len(shape), 1)
        shift = [d.randint(-6, 6) for _ in axes]
    else:
        axes, shift = d.axis(len(shape)), d.randint(-6, 6)
    return {"input": d.array(d.some(NUMBERS + ["bool"]), shape), "shift": ints(shift, d.index()), "axis": ints(axes)}, {}


# ---- gather and scatter ----


@operators("Gather")
def gather(d, name):
    shape = [d.randint(1, 4), *d.shape(0, 3)]
    return {"params": d.array(d.some(NUMBERS + ["bool"]), shape), "indices": d.array(d.index(), d.shape(0, 3), 0, shape[0] - 1)}, {}


@operators("GatherV2")
def gather_v2(d, name):
    shape = d.shape(1, 4, 0)
    axis = d.randrange(len(shape))
    batch = d.randint(0, axis)
    own = shape[:batch] + d.shape(0, 2)
    indices = d.array(d.index(), own, 0, shape[axis] - 1)
    if d.chance(0.3):
        axis -= len(shape)
    if batch and d.chance(0.3):
        batch -= len(own)
    return {"params": d.array(d.some(NUMBERS + ["bool"]), shape), "indices": indices, "axis": ints(axis)}, {"batch_dims": batch}


def places(d, shape, depth, leading, dtype):
    """Indices into the first axes of a shape."""
    columns = [d.array(dtype, leading, 0, shape[i] - 1) for i in range(depth)]
    return np.stack(columns, -1) if columns else np.zeros([*leading, 0], dtype)


@operators("GatherNd")
def gather_nd(d, name):
    shape = d.shape(1, 4, 0)
    return {"params": d.array(d.some(NUMBERS + ["bool"]), shape), "indices": places(d, shape, d.randint(0, len(shape)), d.shape(1, 2), d.index())}, {}


def scatter_arguments(d, repeated, dtypes):
    shape = d.shape(1, 4, 0)
    depth = d.randint(1, len(shape))
    dtype, element = d.index(), d.some(dtypes)
    if repeated:
        indices = places(d, shape, depth, d.shape(1, 2), dtype)
    else:
        every = list(np.ndindex(*shape[:depth]))
        indices = ints(d.sample(every, d.randint(1, len(every))), dtype)
    return shape, element, indices, d.array(element, [*indices.shape[:-1], *shape[depth:]], -3, 3)


@operators("ScatterNd")
def scatter_nd(d, name):
    shape, _, indices, updates = scatter_arguments(d, True, ["float32", "int32", "int64", "float64", "bool", "float16", "uint8"])
    return {"indices": indices, "updates": updates, "shape": ints(shape, indices.dtype)}, {}


@operators("TensorScatterAdd TensorScatterSub TensorScatterMax TensorScatterMin ScatterNdNonAliasingAdd")
def tensor_scatter(d, name):
    shape, dtype, indices, updates = scatter_arguments(d, True, ["float32", "int32", "int64", "float64", "int8", "uint8"])
    return {"input" if name.startswith("Scatter") else "tensor": d.array(dtype, shape, -3, 3), "indices": indices, "updates": updates}, {}


@operators("TensorScatterUpdate")
def tensor_scatter_update(d, name):
    shape, dtype, indices, updates = scatter_arguments(d, False, NUMBERS + ["bool"])
    return {"tensor": d.array(dtype, shape, -3, 3), "indices": indices, "updates": updates}, {}


# ---- reductions and scans ----


def reduction(names, dtypes, low=-3, high=3, special=0.3):
    @operators(names)
    def make(d, name):
        shape = d.shape()
        axes = d.axes(len(shape)) if d.chance(0.8) or not shape else d.axis(len(shape))
        return {"input": d.array(d.some(dtypes), shape, low, high, special), "axis": ints(axes, d.index())}, {"keep_dims": d.chance()}


reduction("Sum Mean Prod", FLOATS + INTEGERS + COMPLEX[:1])
reduction("Max Min", NUMBERS, special=0)
reduction("EuclideanNorm", FLOATS + ["int32", "int64"], special=0)
reduction("All Any", ["bool"])


@operators("ArgMax ArgMin")
def arg(d, name):
    shape = d.shape(1, 4, 0)
    dtype = d.some(NUMBERS + ["bool"])
    to = d.some(["int64", "int32", "int16", "uint16"]) if name == "ArgMax" else d.some(["int64", "int32"])
    return {"input": d.array(dtype, shape, -9, 9), "dimension": ints(d.axis(len(shape)))}, {"output_type": to}


@operators("Cumsum Cumprod CumulativeLogsumexp")
def scan(d, name):
    shape = d.shape(1, 4)
    dtype = d.some(FLOATS if name.startswith("Cumul") else ["float32", "float64", "int32", "int64", "float16", "int8", "uint8"])
    return {"x": d.array(dtype, shape, -2, 2), "axis": ints(d.axis(len(shape)), d.index())}, {"exclusive": d.chance(), "reverse": d.chance()}


def segments(d, n, sorted_, low=0):
    ids = [d.randint(low, 5) for _ in range(n)]
    return sorted(ids) if sorted_ else ids


@operators("SegmentSum SegmentProd SegmentMax SegmentMin SegmentMean")
def segment(d, name):
    shape = d.shape(1, 3, 0)
    dtypes = FLOATS + ["int32", "int64", "uint8", "int8"]
    return {"data": d.array(d.some(dtypes), shape), "segment_ids": ints(segments(d, shape[0], True), d.index())}, {}


@operators("UnsortedSegmentSum UnsortedSegmentProd UnsortedSegmentMax UnsortedSegmentMin")
def unsorted_segment(d, name):
    shape = d.shape(1, 4)
    own = shape[:d.randint(1, min(2, len(shape)))]
    ids = d.array(d.index(), own, d.some([0, -2]), 5)
    return {"data": d.array(d.some(FLOATS + ["int32", "int64", "uint8", "int16"]), shape), "segment_ids": ids, "num_segments": ints(d.some([6, 7]), d.index())}, {}


@operators("SparseSegmentSum SparseSegmentMean SparseSegmentSqrtN SparseSegmentSumWithNumSegments SparseSegmentMeanWithNumSegments SparseSegmentSqrtNWithNumSegments")
def sparse_segment(d, name):
    shape, n = d.shape(1, 3, 0), d.randint(1, 5)
    tensors = {"data": d.array(d.some(["float32", "float64"]), shape), "indices": d.array(d.index(), [n], 0, shape[0] - 1), "segment_ids": ints(segments(d, n, True))}
    return tensors | ({"num_segments": ints(d.some([6, 8]))} if name.endswith("NumSegments") else {}), {}


# ---- sorting and searching ----


@operators("TopKV2")
def top_k(d, name):
    shape, dtype = d.shape(1, 3, 0), d.some(FLOATS[:4] + ["int32", "int64", "int8", "uint8", "int16"])
    k = d.randint(0, shape[-1])
    x = d.array(dtype, shape, -60, 60)
    return {"input": x, "k": ints(k)}, {"sorted": True, "index_type": d.index()}


@operators("NthElement")
def nth_element(d, name):
    shape = d.shape(1, 3, 0)
    return {"input": d.array(d.some(["float32", "int32", "float64", "uint8"]), shape, -50, 50), "n": ints(d.randrange(shape[-1]))}, {"reverse": d.chance()}


@operators("InTopK InTopKV2")
def in_top_k(d, name):
    n, classes = d.randint(1, 5), d.randint(1, 6)
    predictions, targets = d.array("float32", [n, classes], -3, 3, 0.4), d.array(d.index(), [n], -1, classes)
    if d.chance(0.4):
        predictions = predictions.round()
    k = d.randint(0, classes + 1)
    if name == "InTopK":
        return {"predictions": predictions, "targets": targets}, {"k": k}
    return {"predictions": predictions, "targets": targets, "k": ints(k, targets.dtype)}, {}


@operators("Unique UniqueWithCounts")
def unique(d, name):
    return {"x": d.array(d.some(["int32", "int64", "float32", "uint8"]), [d.randint(0, 8)], 0, 4).round()}, {"out_idx": d.index()}


@operators("UniqueV2 UniqueWithCountsV2")
def unique_v2(d, name):
    shape = d.shape(1, 2, 0)
    axis = [d.axis(len(shape))] if len(shape) > 1 or d.chance() else []
    return {"x": d.array(d.some(["int32", "int64", "float32"]), shape, 0, 2).round(), "axis": ints(axis, "int64")}, {"out_idx": d.index()}


@operators("Where")
def where(d, name):
    return {"condition": d.array(d.some(["bool", "float32", "int32", "int64"]), d.shape(0, 3), -1, 1, 0.5)}, {}


@operators("Bucketize")
def bucketize(d, name):
    return {"input": d.array(d.some(["float32", "int32", "float64", "int64"]), d.shape(), -5, 5, 0.3)}, {"boundaries": sorted(d.uniform(-4, 4) for _ in range(d.randint(0, 4)))}


@operators("LowerBound UpperBound")
def bound(d, name):
    rows, dtype = d.randint(1, 3), d.some(["float32", "int32", "int64", "float64"])
    return {"sorted_inputs": np.sort(d.array(dtype, [rows, d.randint(1, 6)]), -1), "values": d.array(dtype, [rows, d.randint(0, 4)])}, {"out_type": d.index()}


@operators("ListDiff")
def list_diff(d, name):
    dtype = d.some(["int32", "float32", "int64"])
    return {"x": d.array(dtype, [d.randint(0, 8)], 0, 5).round(), "y": d.array(dtype, [d.randint(0, 4)], 0, 5).round()}, {"out_idx": d.index()}


@operators("UnravelIndex")
def unravel_index(d, name):
    dims, dtype = d.shape(1, 3, 0), d.index()
    return {"indices": d.array(dtype, d.shape(0, 1), 0, int(np.prod(dims)) - 1), "dims": ints(dims, dtype)}, {}


@operators("Bincount")
def bincount(d, name):
    n, dtype = d.randint(0, 8), d.some(["int32", "int64", "float32", "float64"])
    return {"arr": d.array("int32", [n], 0, 6), "size": ints(d.randint(0, 8)), "weights": d.array(dtype, [n] if d.chance() else [0])}, {}


@operators("DenseBincount")
def dense_bincount(d, name):
    shape, dtype, index = d.shape(1, 2), d.some(["int32", "int64", "float32", "float64"]), d.index()
    return {"input": d.array(index, shape, 0, 6), "size": ints(d.randint(0, 8), index), "weights": d.array(dtype, shape if d.chance() else [0])}, {"binary_output": d.chance()}


@operators("HistogramFixedWidth")
def histogram(d, name):
    dtype = d.some(["float32", "float64", "int32"])
    ends = np.asarray([-2, 3], dtype)
    return {"values": d.array(dtype, d.shape(0, 2), -4, 4), "value_range": ends, "nbins": ints(d.randint(1, 6))}, {"dtype": d.index()}


@operators("DynamicPartition")
def partition(d, name):
    shape = d.shape(0, 3)
    own = shape[:d.randint(0, len(shape))]
    return {"data": d.array(d.some(["float32", "int32", "bool"]), shape), "partitions": d.array("int32", own, 0, 2)}, {"num_partitions": 3}


@operators("DynamicStitch ParallelDynamicStitch")
def stitch(d, name):
    rest, dtype, n = d.shape(0, 2), d.some(["float32", "int32"]), d.randint(1, 6)
    every = d.sample(range(n), n)
    at = d.randint(0, n)
    indices = [ints(every[:at]), ints(every[at:])]
    return {"indices": indices, "data": [d.array(dtype, [len(i), *rest]) for i in indices]}, {}


# ---- matrices ----


@operators("MatMul")
def mat_mul(d, name):
    dtype = d.some(FLOATS + ["int32", "int64"] + COMPLEX)
    m, k, n = (d.randint(0, 4) if d.chance(0.15) else d.randint(1, 4) for _ in range(3))
    turned = [d.chance(), d.chance()]
    return {"a": d.array(dtype, [k, m] if turned[0] else [m, k]), "b": d.array(dtype, [n, k] if turned[1] else [k, n])}, {"transpose_a": turned[0], "transpose_b": turned[1]}


@operators("BatchMatMul BatchMatMulV2 BatchMatMulV3")
def batch_mat_mul(d, name):
    dtype = d.some(FLOATS + ["int32", "int64"] + COMPLEX)
    first, second = d.both(low=0, high=2)
    if name == "BatchMatMul":
        second = first
    m, k, n = (d.randint(1, 4) for _ in range(3))
    turned = [d.chance(), d.chance()]
    attributes = {"adj_x": turned[0], "adj_y": turned[1]}
    if name == "BatchMatMulV3":
        dtype = d.some(["int8", "uint8", "float32"])
        attributes["Tout"] = "float32" if dtype == "float32" else "int32"
    return {"x": d.array(dtype, [*first, *([k, m] if turned[0] else [m, k])]), "y": d.array(dtype, [*second, *([n, k] if turned[1] else [k, n])])}, attributes


@operators("SparseMatMul")
def sparse_mat_mul(d, name):
    m, k, n = (d.randint(1, 4) for _ in range(3))
    turned = [d.chance(), d.chance()]
    return {"a": d.array("float32", [k, m] if turned[0] else [m, k]), "b": d.array("float32", [n, k] if turned[1] else [k, n])}, {"transpose_a": turned[0], "transpose_b": turned[1], "a_is_sparse": d.chance(), "b_is_sparse": d.chance()}


EQUATIONS = ["ij,jk->ik", "ij->ji", "ij->", "ii->", "ii->i", "i->ii", "ij,ij->ij", "bij,bjk->bik", "...ij,...jk->...ik", "i,j->ij", "ij,j", "b...i->b...", "abc,cd->abd", "i,i->", "ij->j", "iij->ij", "ijj->ji", "a...->...a",
             "i->iij"[:4], "ij->iij", "ij,jk->iik", "bii->bi", "...ii->...i", "...i->...ii", "ij , jk -> ik", "IJ,JK->IK", "ij,ij->i", "ijk,ikj->i", "ab,ba->ab", ",i->i", "ij->ijij"]


@operators("Einsum")
def einsum(d, name):
    equation = d.some(EQUATIONS)
    inputs = equation.replace(" ", "").split("->")[0].split(",")
    sizes, dtype = {c: d.randint(1, 4) for c in "abcdijkIJK"}, d.some(["float32", "float64", "int32", "int64", "complex64"])
    dots = d.shape(0, 2, 0)
    # Each input may have fewer of the axes that `...` stands for, and such of size 1.
    part = lambda: [n if d.chance(0.8) else 1 for n in dots[d.randint(0, len(dots)):]] if d.chance(0.4) else dots
    shape = lambda term: [n for c in term.replace("...", ".") for n in (part() if c == "." else [sizes[c]])]
    return {"inputs": [d.array(dtype, shape(term)) for term in inputs]}, {"equation": equation}


@operators("MatrixBandPart BatchMatrixBandPart")
def band_part(d, name):
    shape, dtype = d.shape(2, 4), d.index() if name == "MatrixBandPart" else "int64"
    low, high = d.randint(-1, shape[-2]), d.randint(-1, shape[-1])
    return {"input": d.array(d.some(FLOATS + ["int32", "int64", "bool", "complex64", "uint8"]), shape), "num_lower": ints(low, dtype), "num_upper": ints(high, dtype)}, {}


@operators("Diag MatrixDiag BatchMatrixDiag")
def diag(d, name):
    return {"diagonal": d.array(d.some(["float32", "int32", "int64", "float64", "complex64"]), d.shape(1, 3 if name != "Diag" else 2))}, {}


@operators("DiagPart")
def diag_part(d, name):
    shape = d.shape(1, 2)
    return {"input": d.array(d.some(["float32", "int32", "float64"]), shape * 2)}, {}


@operators("MatrixDiagPart BatchMatrixDiagPart")
def matrix_diag_part(d, name):
    return {"input": d.array(d.some(["float32", "int32", "bool", "float64"]), d.shape(2, 4))}, {}


ALIGNS = ["RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT"]


def band(d, rows, columns):
    low = d.randint(1 - rows, columns - 1)
    high = d.randint(low, columns - 1)
    return (ints(low) if d.chance() else ints([low])) if low == high else ints([low, high])


def diagonals_of(rows, columns, k):
    low, high = int(np.min(k)), int(np.max(k))
    length = min(rows + min(high, 0), columns - max(low, 0))
    return ([high - low + 1] if high > low else []) + [length]


@operators("MatrixDiagPartV2 MatrixDiagPartV3")
def matrix_diag_part_k(d, name):
    shape, dtype = d.shape(2, 4, 0), d.some(["float32", "int32", "float64"])
    tensors = {"input": d.array(dtype, shape), "k": band(d, *shape[-2:]), "padding_value": d.array(dtype, [])}
    return tensors, {"align": d.some(ALIGNS)} if name.endswith("V3") else {}


@operators("MatrixDiagV2 MatrixDiagV3")
def matrix_diag_k(d, name):
    rows, columns, dtype = d.randint(1, 5), d.randint(1, 5), d.some(["float32", "int32", "float64"])
    k = band(d, rows, columns)
    tensors = {"diagonal": d.array(dtype, d.shape(0, 2, 0) + diagonals_of(rows, columns, k)), "k": k, "num_rows": ints(rows), "num_cols": ints(columns), "padding_value": d.array(dtype, [])}
    if d.chance(0.3):
        tensors["num_rows"] = ints(-1)
    if d.chance(0.3):
        tensors["num_cols"] = ints(-1)
    return tensors, {"align": d.some(ALIGNS)} if name.endswith("V3") else {}


@operators("MatrixSetDiag BatchMatrixSetDiag MatrixSetDiagV2 MatrixSetDiagV3")
def matrix_set_diag(d, name):
    shape, dtype = d.shape(2, 4, 0), d.some(["float32", "int32", "float64", "bool"])
    k = band(d, *shape[-2:]) if "V" in name else ints(0)
    tensors = {"input": d.array(dtype, shape), "diagonal": d.array(dtype, shape[:-2] + diagonals_of(*shape[-2:], k))}
    if "V" in name:
        tensors["k"] = k
    return tensors, {"align": d.some(ALIGNS)} if name.endswith("V3") else {}


@operators("Cross")
def cross(d, name):
    shape, dtype = [*d.shape(0, 2), 3], d.some(["float32", "int32", "float64"])
    return {"a": d.array(dtype, shape), "b": d.array(dtype, shape)}, {}


@operators("TridiagonalMatMul")
def tridiagonal(d, name):
    lead, n, m = d.shape(0, 1, 0), d.randint(1, 5), d.randint(1, 3)
    line = lambda: d.array("float32", [*lead, 1, n])
    return {"superdiag": line(), "maindiag": line(), "subdiag": line(), "rhs": d.array("float32", [*lead, n, m])}, {}


def regular(d, shape, dtype):
    """Matrices that are far from singular."""
    return d.array(dtype, shape, -1, 1) + np.asarray(3, dtype) * np.eye(shape[-1], dtype=dtype)


@operators("MatrixInverse BatchMatrixInverse", "rough")
def inverse(d, name):
    n = d.randint(1, 4)
    return {"input": regular(d, [*d.shape(0, 2), n, n], d.some(["float32", "float64"]))}, {"adjoint": d.chance()}


@operators("MatrixSolve BatchMatrixSolve", "rough")
def solve(d, name):
    n, lead, dtype = d.randint(1, 4), d.shape(0, 2), d.some(["float32", "float64"])
    return {"matrix": regular(d, [*lead, n, n], dtype), "rhs": d.array(dtype, [*lead, n, d.randint(1, 3)])}, {"adjoint": d.chance()}


@operators("MatrixSolveLs BatchMatrixSolveLs", "rough")
def solve_ls(d, name):
    rows, columns, lead, dtype = d.randint(1, 5), d.randint(1, 4), d.shape(0, 1, 0), d.some(["float32", "float64"])
    x = d.array(dtype, [*lead, rows, columns], -1, 1) + np.asarray(3, dtype) * np.eye(rows, columns, dtype=dtype)
    return {"matrix": x, "rhs": d.array(dtype, [*lead, rows, d.randint(1, 3)]), "l2_regularizer": np.asarray(d.some([0.0, 0.5]))}, {"fast": d.chance(0.7)}


@operators("MatrixTriangularSolve BatchMatrixTriangularSolve", "rough")
def triangular_solve(d, name):
    n, dtype = d.randint(1, 4), d.some(["float32", "float64"])
    first, second = d.both(low=0, high=2)
    if name.startswith("Batch"):
        second = first
    return {"matrix": regular(d, [*first, n, n], dtype), "rhs": d.array(dtype, [*second, n, d.randint(1, 3)])}, {"lower": d.chance(), "adjoint": d.chance()}


@operators("MatrixDeterminant BatchMatrixDeterminant LogMatrixDeterminant", "rough")
def determinant(d, name):
    n = d.randint(0 if d.chance(0.2) else 1, 4)
    return {"input": d.array(d.some(["float32", "float64"]), [*d.shape(1 if name.startswith("Log") else 0, 2), n, n])}, {}


@operators("Cholesky BatchCholesky", "rough")
def cholesky(d, name):
    n, dtype = d.randint(1, 4), d.some(["float32", "float64"])
    x = d.array(dtype, [*d.shape(0, 2), n, n], -1, 1)
    return {"input": x @ np.swapaxes(x, -1, -2) + np.eye(n, dtype=dtype)}, {}


@operators("Qr")
def qr(d, name):
    return {"input": d.array(d.some(["float32", "float64"]), d.shape(2, 3, 0))}, {"full_matrices": d.chance(0.3)}


# Signs of vectors are free, and what stands for those that are not asked for is not set.
@operators("SelfAdjointEigV2 BatchSelfAdjointEigV2", ["rough", "shapes"])
def self_adjoint_eig(d, name):
    n = d.randint(0 if d.chance(0.1) else 1, 4)
    x = d.array(d.some(["float32", "float64"]), [*d.shape(0, 2), n, n], -1, 1)
    return {"input": x}, {"compute_v": d.chance()}


@operators("Svd", ["rough", "shapes", "shapes"])
def svd(d, name):
    return {"input": d.array(d.some(["float32", "float64"]), d.shape(2, 3, 0))}, {"compute_uv": d.chance(), "full_matrices": d.chance(0.3)}


# ---- windows ----


def window_attributes(d, n, padding=("SAME", "VALID", "EXPLICIT"), channels=True, dilated=True, formats=None):
    """Attributes of a convolution of n spatial axes, and where its channels are."""
    last = not channels or d.chance(0.8)
    spread = lambda list_: [1, *list_, 1] if last else [1, 1, *list_]
    attributes = {"padding": d.some(padding), "strides": spread([d.some([1, 1, 2, 3]) for _ in range(n)])}
    if channels:
        attributes["data_format"] = {(2, True): "NHWC", (2, False): "NCHW", (3, True): "NDHWC", (3, False): "NCDHW"}[n, last]
    if dilated and d.chance(0.3):
        attributes["dilations"] = spread([d.some([1, 2]) for _ in range(n)])
    if attributes["padding"] == "EXPLICIT":
        pairs = [[d.randint(0, 2), d.randint(0, 2)] for _ in range(n)]
        pairs = [[0, 0], *pairs, [0, 0]] if last else [[0, 0], [0, 0], *pairs]
        attributes["explicit_paddings"] = [x for pair in pairs for x in pair]
    return attributes, last


def pictures(d, batch, sizes, channels, last, dtype="float32"):
    return d.array(dtype, [batch, *sizes, channels] if last else [batch, channels, *sizes])


def same_strides(attributes, last):
    """TensorFlow wants square strides of depthwise convolutions."""
    at = 1 if last else 2
    attributes["strides"][at + 1] = attributes["strides"][at]
    return attributes


@operators("Conv2D Conv3D")
def conv(d, name):
    n = int(name[4])
    attributes, last = window_attributes(d, n, ("SAME", "VALID", "EXPLICIT") if n == 2 else ("SAME", "VALID"), dilated=n == 2)
    groups, each = (d.some([1, 1, 2]) if n == 2 else 1), d.randint(1, 3)
    dtype = d.some(FLOATS[:4] + (["int32"] if n == 2 else []))
    x = pictures(d, d.randint(1, 2), [d.randint(4, 8) for _ in range(n)], groups * each, last, dtype)
    return {"input": x, "filter": d.array(dtype, [*(d.randint(1, 3) for _ in range(n)), each, groups * d.randint(1, 2)])}, attributes


@operators("DepthwiseConv2dNative")
def depthwise(d, name):
    attributes, last = window_attributes(d, 2)
    c, dtype = d.randint(1, 3), d.some(FLOATS[:4])
    x = pictures(d, d.randint(1, 2), [d.randint(4, 8), d.randint(4, 8)], c, last, dtype)
    return {"input": x, "filter": d.array(dtype, [d.randint(1, 3), d.randint(1, 3), c, d.randint(1, 2)])}, same_strides(attributes, last)


def gradient_sizes(d, sizes, kernel, attributes, last):
    """Sizes of the result of a convolution."""
    n = len(sizes)
    cut = lambda list_: list_[1:1 + n] if last else list_[2:2 + n]
    found = []
    for i, (size, k, s, r) in enumerate(zip(sizes, kernel, cut(attributes["strides"]), cut(attributes.get("dilations", [1] * (n + 2))))):
        reach = (k - 1) * r + 1
        pads = attributes.get("explicit_paddings")
        total = size + (pads[2 * (i + (1 if last else 2))] + pads[2 * (i + (1 if last else 2)) + 1] if pads else 0)
        found.append(-(-size // s) if attributes["padding"] == "SAME" else (total - reach) // s + 1)
    return found


@operators("Conv2DBackpropInput Conv2DBackpropInputV2 Conv3DBackpropInputV2 DepthwiseConv2dNativeBackpropInput")
def conv_transpose(d, name):
    n, is_depthwise = 3 if "3D" in name else 2, name.startswith("Depth")
    attributes, last = window_attributes(d, n, ("SAME", "VALID", "EXPLICIT") if n == 2 else ("SAME", "VALID"), dilated=n == 2)
    if is_depthwise:
        attributes = same_strides(attributes, last)
    sizes, kernel = [d.randint(5, 8) for _ in range(n)], [d.randint(1, 3) for _ in range(n)]
    groups = d.some([1, 1, 2]) if n == 2 and not is_depthwise else 1
    c, out, batch, dtype = d.randint(1, 3), groups * d.randint(1, 3), d.randint(1, 2), d.some(["float32", "float64"])
    results = gradient_sizes(d, sizes, kernel, attributes, last)
    whole = [batch, *sizes, c * groups] if last else [batch, c * groups, *sizes]
    grown = c * out if is_depthwise else out
    x = pictures(d, batch, results, grown, last, dtype)
    w = d.array(dtype, [*kernel, c, out])
    if name == "Conv2DBackpropInputV2":
        return {"out_backprop": x, "filter": w, "input": np.zeros(whole, dtype)}, attributes
    return {"out_backprop": x, "filter": w, "input_sizes": ints(whole)}, attributes


@operators("MaxPool MaxPoolV2 AvgPool")
def pool(d, name):
    padding = ("SAME", "VALID", "EXPLICIT") if name == "MaxPool" else ("SAME", "VALID")
    attributes, last = window_attributes(d, 2, padding, channels=False, dilated=False)
    k = [d.randint(1, 3), d.randint(1, 3)]
    if name == "MaxPool" and attributes["padding"] == "EXPLICIT":
        attributes["explicit_paddings"] = [0, 0, *(min(p, (k[0] if i < 2 else k[1]) - 1) for i, p in enumerate(attributes["explicit_paddings"][2:6])), 0, 0]
    dtype = d.some(FLOATS if name != "AvgPool" else FLOATS)
    if name.startswith("Max") and d.chance(0.2):
        dtype = d.some(["int32", "uint8", "int8", "int64", "int16", "uint16"])
    x = pictures(d, d.randint(1, 2), [d.randint(3, 7), d.randint(3, 7)], d.randint(1, 3), True, dtype)
    if name == "MaxPoolV2":
        strides = attributes.pop("strides")
        return {"input": x, "ksize": ints([1, *k, 1]), "strides": ints(strides)}, attributes
    return {"value" if name == "AvgPool" else "input": x}, attributes | {"ksize": [1, *k, 1]}


@operators("MaxPool3D AvgPool3D")
def pool_3d(d, name):
    attributes, _ = window_attributes(d, 3, ("SAME", "VALID"), channels=False, dilated=False)
    x = pictures(d, d.randint(1, 2), [d.randint(3, 5) for _ in range(3)], d.randint(1, 3), True, d.some(["float32", "float64"]))
    return {"input": x}, attributes | {"ksize": [1, *(d.randint(1, 3) for _ in range(3)), 1]}


@operators("MaxPoolWithArgmax")
def pool_argmax(d, name):
    attributes, _ = window_attributes(d, 2, ("SAME", "VALID"), channels=False, dilated=False)
    x = pictures(d, d.randint(1, 2), [d.randint(3, 7), d.randint(3, 7)], d.randint(1, 3), True, d.some(["float32", "float64"]))
    return {"input": x}, attributes | {"ksize": [1, d.randint(1, 3), d.randint(1, 3), 1], "Targmax": d.index(), "include_batch_in_index": d.chance()}


@operators("FusedPadConv2D")
def fused_pad_conv(d, name):
    w = d.array("float32", [d.randint(1, 3), d.randint(1, 3), 2, d.randint(1, 3)])
    pads = [[0, 0], [d.randint(0, 2), d.randint(0, 2)], [d.randint(0, 2), d.randint(0, 2)], [0, 0]]
    attributes = {"mode": d.some(["REFLECT", "SYMMETRIC"]), "strides": [1, d.some([1, 2]), d.some([1, 2]), 1], "padding": d.some(["SAME", "VALID"])}
    # TensorFlow gives the first picture's result for all of a batch.
    return {"input": d.array("float32", [1, d.randint(4, 6), d.randint(4, 6), 2]), "paddings": ints(pads), "filter": w}, attributes


@operators("FusedResizeAndPadConv2D")
def fused_resize_conv(d, name):
    tensors, attributes = fused_pad_conv(d, name)
    return {"input": tensors["input"], "size": ints([d.randint(4, 8), d.randint(4, 8)]), "paddings": tensors["paddings"], "filter": tensors["filter"]}, attributes | {"resize_align_corners": d.chance()}


@operators("Dilation2D")
def dilation(d, name):
    c = d.randint(1, 3)
    x = d.array(d.some(["float32", "float64", "float16"]), [d.randint(1, 2), d.randint(4, 7), d.randint(4, 7), c])
    return {"input": x, "filter": d.array(x.dtype.name, [d.randint(1, 3), d.randint(1, 3), c])}, {"strides": [1, d.some([1, 2]), d.some([1, 2]), 1], "rates": [1, d.some([1, 2]), d.some([1, 2]), 1], "padding": d.some(["SAME", "VALID"])}


@operators("ExtractImagePatches")
def patches(d, name):
    x = d.array(d.some(["float32", "int32", "float64", "uint8"]), [d.randint(1, 2), d.randint(5, 7), d.randint(5, 7), d.randint(1, 3)])
    each = lambda high: [1, d.randint(1, high), d.randint(1, high), 1]
    return {"images": x}, {"ksizes": each(3), "strides": each(3), "rates": each(2), "padding": d.some(["SAME", "VALID"])}


@operators("ExtractVolumePatches")
def volume_patches(d, name):
    x = d.array(d.some(["float32", "int32"]), [d.randint(1, 2), *(d.randint(3, 5) for _ in range(3)), d.randint(1, 2)])
    each = lambda high: [1, *(d.randint(1, high) for _ in range(3)), 1]
    return {"input": x}, {"ksizes": each(3), "strides": each(2), "padding": d.some(["SAME", "VALID"])}


@operators("LRN")
def lrn(d, name):
    return {"input": d.array("float32", d.shape(3, 3, 0) + [d.randint(1, 7)])}, {"depth_radius": d.randint(0, 4), "bias": d.some([1.0, 2.0]), "alpha": d.some([1.0, 0.3]), "beta": d.some([0.5, 0.75])}


@operators("FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3", ["", "", "", "anything", "anything", "anything"])
def batch_norm(d, name):
    last = d.chance(0.8)
    rank5 = name.endswith("V3") and d.chance(0.3)
    c, sizes = d.randint(1, 3), [d.randint(1, 4) for _ in range(3 if rank5 else 2)]
    training = d.chance(0.4)
    last = last or training
    dtype = d.some(["float32", "float32", "float16"]) if name != "FusedBatchNorm" else "float32"
    vector = lambda low, high: d.array("float32", [c], low, high)
    mean, variance = (np.zeros([0], "float32"), np.zeros([0], "float32")) if training else (vector(-1, 1), vector(0.2, 2))
    formats = ("NDHWC", "NCDHW") if rank5 else ("NHWC", "NCHW")
    return {"x": pictures(d, d.randint(1, 3), sizes, c, last, dtype), "scale": vector(-2, 2), "offset": vector(-2, 2), "mean": mean, "variance": variance}, {"epsilon": d.some([1e-3, 0.1]), "data_format": formats[not last], "is_training": training}


# ---- padding and space ----


@operators("Pad PadV2")
def pad(d, name):
    shape, dtype = d.shape(0, 4), d.some(NUMBERS + ["bool"])
    tensors = {"input": d.array(dtype, shape), "paddings": ints([[d.randint(0, 2), d.randint(0, 2)] for _ in shape] or np.zeros([0, 2]), d.index())}
    return tensors | ({"constant_values": d.array(dtype, [])} if name == "PadV2" else {}), {}


@operators("MirrorPad")
def mirror_pad(d, name):
    shape, mode = d.shape(1, 4, 0), d.some(["REFLECT", "SYMMETRIC"])
    less = 1 if mode == "REFLECT" else 0
    return {"input": d.array(d.some(NUMBERS + ["bool"]), shape), "paddings": ints([[d.randint(0, n - less), d.randint(0, n - less)] for n in shape], d.index())}, {"mode": mode}


@operators("SpaceToDepth DepthToSpace")
def depth(d, name):
    block, last = d.randint(2, 3), d.chance(0.9)
    sizes, c = [d.randint(1, 3), d.randint(1, 3)], d.randint(1, 3)
    sizes, c = ([n * block for n in sizes], c) if name.startswith("Space") else (sizes, c * block * block)
    return {"input": pictures(d, d.randint(1, 2), sizes, c, last, d.some(["float32", "int32", "float64", "uint8", "bool"]))}, {"block_size": block, "data_format": "NHWC" if last else "NCHW"}


@operators("SpaceToBatchND BatchToSpaceND")
def batch_nd(d, name):
    n = d.randint(1, 3)
    block, rest = [d.randint(1, 3) for _ in range(n)], d.shape(0, 2)
    dtype = d.some(["float32", "int32", "float64", "bool"])
    pairs, sizes = [], []
    for b in block:
        before, behind = d.randint(0, 2), d.randint(0, 2)
        size = d.randint(1, 4) * b
        pairs.append([before, behind] if size > before + behind else [0, 0])
        sizes.append(size - sum(pairs[-1]) if name.startswith("Space") else size // b)
    batch = d.randint(1, 2) * (1 if name.startswith("Space") else int(np.prod(block)))
    return {"input": d.array(dtype, [batch, *sizes, *rest]), "block_shape": ints(block), "paddings" if name.startswith("Space") else "crops": ints(pairs, d.index())}, {}


@operators("SpaceToBatch BatchToSpace")
def batch_2d(d, name):
    block = d.randint(2, 3)
    pairs = [[d.randint(0, 1), d.randint(0, 1)] for _ in range(2)]
    sizes = [block * d.randint(1, 3) + (block if name.startswith("Space") else 0) for _ in range(2)]
    if name.startswith("Space"):
        return {"input": d.array("float32", [d.randint(1, 2), *(n - sum(p) for n, p in zip(sizes, pairs)), 2]), "paddings": ints(pairs)}, {"block_size": block}
    return {"input": d.array("float32", [block * block * d.randint(1, 2), d.randint(1, 3), d.randint(1, 3), 2]), "crops": ints(pairs)}, {"block_size": block}


# ---- pictures ----


@operators("ResizeBilinear ResizeNearestNeighbor ResizeBicubic ResizeArea", "rough")
def resize(d, name):
    dtype = d.some(["float32", "uint8", "float32", "int32", "float64"])
    align = d.chance(0.3)
    attributes = {"align_corners": align} | ({"half_pixel_centers": not align and d.chance()} if name != "ResizeArea" else {})
    return {"images": d.array(dtype, [d.randint(1, 2), d.randint(1, 6), d.randint(1, 6), d.randint(1, 3)], 0, 50), "size": ints([d.randint(1, 9), d.randint(1, 9)])}, attributes


@operators("ScaleAndTranslate", "rough")
def scale_and_translate(d, name):
    h, w, sizes = d.randint(2, 6), d.randint(2, 6), [d.randint(1, 8), d.randint(1, 8)]
    return {"images": d.array(d.some(["float32", "uint8"]), [d.randint(1, 2), h, w, 2], 0, 9), "size": ints(sizes), "scale": np.asarray([d.uniform(0.4, 2), d.uniform(0.4, 2)], "float32"), "translation": np.asarray([d.uniform(-1, 1), d.uniform(-1, 1)], "float32")}, {"kernel_type": d.some(["lanczos1", "lanczos3", "lanczos5", "gaussian", "box", "triangle", "keyscubic", "mitchellcubic"]), "antialias": d.chance()}


@operators("CropAndResize")
def crop_and_resize(d, name):
    batch, n = d.randint(1, 3), d.randint(0, 4)
    corners = d.array("float32", [n, 4], -0.2, 1.2)
    return {"image": d.array(d.some(["float32", "uint8", "int32", "float64"]), [batch, d.randint(2, 6), d.randint(2, 6), d.randint(1, 3)], 0, 9), "boxes": corners, "box_ind": d.array("int32", [n], 0, batch - 1), "crop_size": ints([d.randint(1, 4), d.randint(1, 4)])}, {"method": d.some(["bilinear", "nearest"]), "extrapolation_value": d.some([0.0, -3.0])}


@operators("ImageProjectiveTransformV2 ImageProjectiveTransformV3")
def projective(d, name):
    batch = d.randint(1, 2)
    one = np.asarray([1, 0, 0, 0, 1, 0, 0, 0], "float32") + d.array("float32", [d.some([1, batch]), 8], -0.3, 0.3)
    one[:, 6:] *= 0.1
    one[:, [2, 5]] *= 5
    tensors = {"images": d.array(d.some(["float32", "uint8", "int32", "float64"]), [batch, d.randint(2, 6), d.randint(2, 6), 2], 0, 9), "transforms": one, "output_shape": ints([d.randint(1, 6), d.randint(1, 6)])}
    return tensors | ({"fill_value": np.asarray(d.some([0.0, 2.0]), "float32")} if name.endswith("V3") else {}), {"interpolation": d.some(["BILINEAR", "NEAREST"]), "fill_mode": d.some(["CONSTANT", "REFLECT", "WRAP", "NEAREST"])}


def colours(d):
    return d.array(d.some(["float32", "float32", "float64"]), d.shape(0, 3) + [3], 0, 1)


@operators("RGBToHSV HSVToRGB")
def hsv(d, name):
    x = colours(d)
    return {"images": x.round() if d.chance(0.3) else x}, {}


@operators("AdjustHue")
def adjust_hue(d, name):
    return {"images": d.array("float32", d.shape(2, 3) + [3], 0, 1), "delta": d.array("float32", [], -1, 1)}, {}


@operators("AdjustSaturation")
def adjust_saturation(d, name):
    return {"images": d.array("float32", d.shape(2, 3) + [3], 0, 1), "scale": d.array("float32", [], 0, 2)}, {}


@operators("AdjustContrastv2")
def adjust_contrast_v2(d, name):
    return {"images": d.array(d.some(["float32", "float16"]), d.shape(3, 4), 0, 1), "contrast_factor": d.array("float32", [], 0, 2)}, {}


def boxes_of(d, n):
    corner, size = d.array("float32", [n, 2], 0, 1), d.array("float32", [n, 2], 0.1, 0.6)
    found = np.concatenate([corner, corner + size], -1)
    return found[:, [2, 3, 0, 1]] if d.chance(0.3) else found


@operators("NonMaxSuppression NonMaxSuppressionV2 NonMaxSuppressionV3 NonMaxSuppressionV4 NonMaxSuppressionV5")
def non_max(d, name):
    n = d.randint(1, 8)
    number = lambda x: np.asarray(x, "float32")
    tensors = {"boxes": boxes_of(d, n), "scores": d.array("float32", [n], 0, 1), "max_output_size": ints(d.randint(1, 6))}
    attributes, iou = {}, d.some([0.1, 0.5, 0.9])
    if name == "NonMaxSuppression":
        return tensors, {"iou_threshold": iou}
    tensors["iou_threshold"] = number(iou)
    if name[-1] in "345":
        tensors["score_threshold"] = number(d.some([0.0, 0.3, -1.0]))
    if name[-1] in "45":
        attributes["pad_to_max_output_size"] = d.chance()
    if name[-1] == "5":
        tensors["soft_nms_sigma"] = number(d.some([0.0, 0.3, 1.0]))
    return tensors, attributes


@operators("CombinedNonMaxSuppression")
def combined(d, name):
    batch, n, classes = d.randint(1, 2), d.randint(1, 6), d.randint(1, 3)
    q = d.some([1, classes])
    found = np.stack([np.stack([boxes_of(d, n) for _ in range(q)], 1) for _ in range(batch)])
    return {"boxes": found, "scores": d.array("float32", [batch, n, classes], 0, 1), "max_output_size_per_class": ints(d.randint(1, 4)), "max_total_size": ints(d.randint(1, 8)), "iou_threshold": np.asarray(d.some([0.2, 0.5]), "float32"), "score_threshold": np.asarray(d.some([0.0, 0.3]), "float32")}, {"pad_per_class": d.chance(), "clip_boxes": d.chance()}


# ---- losses and cells ----


@operators("SoftmaxCrossEntropyWithLogits")
def entropy(d, name):
    dtype, shape = d.some(FLOATS), [d.randint(1, 4), d.randint(1, 5)]
    other = d.some([shape, [1, shape[1]]])
    labels = np.abs(d.array(dtype, other, 0, 1))
    return {"features": d.array(dtype, shape, -9, 9), "labels": labels}, {}


@operators("SparseSoftmaxCrossEntropyWithLogits")
def sparse_entropy(d, name):
    n, classes = d.randint(1, 4), d.randint(1, 5)
    return {"features": d.array(d.some(FLOATS), [n, classes], -9, 9), "labels": d.array(d.index(), [n], 0, classes - 1)}, {}


@operators("CTCGreedyDecoder")
def greedy(d, name):
    time, batch, classes = d.randint(1, 7), d.randint(1, 3), d.randint(2, 4)
    return {"inputs": d.array("float32", [time, batch, classes]), "sequence_length": d.array("int32", [batch], 0, time)}, {"merge_repeated": d.chance(), "blank_index": d.some([-1, 0])}


def cell(d, gates, peephole=True):
    batch, inputs, units = d.randint(1, 3), d.randint(1, 3), d.randint(1, 3)
    x = lambda *shape: d.array("float32", shape, -1, 1)
    return batch, inputs, units, x


@operators("LSTMBlockCell BlockLSTM BlockLSTMV2")
def lstm(d, name):
    batch, inputs, units, x = cell(d, 4)
    tensors = {"cs_prev": x(batch, units), "h_prev": x(batch, units), "w": x(inputs + units, 4 * units), "wci": x(units), "wcf": x(units), "wco": x(units), "b": x(4 * units)}
    attributes = {"cell_clip": d.some([0.0, 0.3, 3.0, -1.0]), "use_peephole": d.chance()}
    if name != "BlockLSTMV2":
        attributes["forget_bias"] = d.some([1.0, 0.0, 0.5])
    if name == "LSTMBlockCell":
        return {"x": x(batch, inputs)} | tensors, attributes
    time = d.randint(1, 4)
    return {"seq_len_max": ints(time, "int64"), "x": x(time, batch, inputs)} | tensors, attributes


@operators("GRUBlockCell")
def gru(d, name):
    batch, inputs, units, x = cell(d, 3)
    return {"x": x(batch, inputs), "h_prev": x(batch, units), "w_ru": x(inputs + units, 2 * units), "w_c": x(inputs + units, units), "b_ru": x(2 * units), "b_c": x(units)}, {}


# ---- quantization ----


@operators("FakeQuantWithMinMaxArgs FakeQuantWithMinMaxVars FakeQuantWithMinMaxVarsPerChannel", "rough")
def fake_quant(d, name):
    attributes = {"num_bits": d.some([8, 8, 4, 2, 16]), "narrow_range": d.chance()}
    low, high = d.some([(-1.0, 2.0), (0.0, 3.0), (-3.0, 0.0), (-2.5, 1.1), (0.3, 2.0)])
    if name.endswith("Args"):
        return {"inputs": d.array("float32", d.shape())}, attributes | {"min": low, "max": high}
    shape = d.shape(1, 4) if name.endswith("Channel") else d.shape()
    if name.endswith("Channel"):
        return {"inputs": d.array("float32", shape), "min": d.array("float32", [shape[-1]], -3, -0.1), "max": d.array("float32", [shape[-1]], 0.1, 3)}, attributes
    return {"inputs": d.array("float32", shape), "min": np.asarray(low, "float32"), "max": np.asarray(high, "float32")}, attributes


@operators("QuantizeAndDequantizeV2 QuantizeAndDequantizeV3 QuantizeAndDequantizeV4", "rough")
def quantize_and_dequantize(d, name):
    shape, dtype = d.shape(1, 4, 0), d.some(["float32", "float32", "float64"])
    axis = d.axis(len(shape)) if d.chance(0.3) else -1
    axis = axis if axis >= 0 else -1
    ends = [] if axis == -1 else [shape[axis]]
    tensors = {"input": d.array(dtype, shape), "input_min": d.array(dtype, ends, -3, -0.5), "input_max": d.array(dtype, ends, 0.5, 3)}
    attributes = {"signed_input": d.chance(0.7), "range_given": d.chance(), "narrow_range": d.chance(), "axis": axis}
    bits = d.some([8, 8, 4, 16])
    if name.endswith("V3"):
        return tensors | {"num_bits": ints(bits)}, attributes
    return tensors, attributes | {"num_bits": bits, "round_mode": d.some(["HALF_TO_EVEN", "HALF_UP"])}


@operators("QuantizeV2")
def quantize(d, name):
    import tensorflow as tf
    mode = d.some(["MIN_COMBINED", "MIN_FIRST", "SCALED"])
    to = d.some([tf.quint8, tf.qint8])
    return {"input": d.array("float32", d.shape(1, 3)), "min_range": np.asarray(d.uniform(-4, -0.5), "float32"), "max_range": np.asarray(d.uniform(0.5, 4), "float32")}, {"T": to, "mode": mode, "round_mode": "HALF_AWAY_FROM_ZERO" if mode != "SCALED" else d.some(["HALF_TO_EVEN", "HALF_AWAY_FROM_ZERO"]), "narrow_range": mode == "SCALED" and d.chance()}


# ---- sound and waves ----


def is_real(name):
    return name.startswith("RFFT")


@operators("FFT FFT2D FFT3D IFFT IFFT2D IFFT3D")
def fft(d, name):
    n = int(name[-2]) if name.endswith("D") else 1
    return {"input": d.array(d.some(["complex64", "complex64", "complex128"]), d.shape(0, 2, 0) + [d.randint(1, 6) for _ in range(n)])}, {}


@operators("RFFT RFFT2D RFFT3D")
def rfft(d, name):
    n = int(name[-2]) if name.endswith("D") else 1
    dtype = d.some(["float32", "float32", "float64"])
    length = [d.randint(1, 6) for _ in range(n)]
    return {"input": d.array(dtype, d.shape(0, 2, 0) + [n + d.randint(0, 2) for n in length]), "fft_length": ints(length)}, {"Tcomplex": "complex64" if dtype == "float32" else "complex128"}


@operators("IRFFT IRFFT2D IRFFT3D")
def irfft(d, name):
    n = int(name[-2]) if name.endswith("D") else 1
    dtype = d.some(["complex64", "complex64", "complex128"])
    length = [d.randint(2, 7) for _ in range(n)]
    sizes = [n + d.randint(0, 2) for n in length[:-1]] + [length[-1] // 2 + 1 + d.randint(0, 1)]
    return {"input": d.array(dtype, d.shape(0, 2, 0) + sizes), "fft_length": ints(length)}, {"Treal": "float32" if dtype == "complex64" else "float64"}


@operators("AudioSpectrogram", "rough")
def spectrogram(d, name):
    return {"input": d.array("float32", [d.randint(20, 60), d.randint(1, 2)], -1, 1)}, {"window_size": d.randint(4, 20), "stride": d.randint(1, 9), "magnitude_squared": d.chance()}


@operators("Mfcc", "rough")
def mfcc(d, name):
    return {"spectrogram": d.array("float32", [d.randint(1, 2), d.randint(1, 3), d.some([129, 257])], 0, 4), "sample_rate": ints(d.some([8000, 16000]))}, {"upper_frequency_limit": 3800.0, "lower_frequency_limit": d.some([20.0, 100.0]), "filterbank_channel_count": d.randint(8, 30), "dct_coefficient_count": d.randint(2, 8)}


# ---- sparse and ragged ----


def sparse(d, shape, dtype="float32"):
    every = list(np.ndindex(*shape))
    chosen = sorted(d.sample(every, d.randint(0, len(every))))
    return ints(chosen, "int64").reshape(-1, len(shape)), d.array(dtype, [len(chosen)])


@operators("SparseToDense")
def to_dense(d, name):
    shape, dtype, index = d.shape(1, 3, 0), d.some(["float32", "int32", "int64"]), d.index()
    indices, values = sparse(d, shape, dtype)
    return {"sparse_indices": indices.astype(index), "output_shape": ints(shape, index), "sparse_values": values, "default_value": d.array(dtype, [])}, {}


@operators("SparseTensorDenseMatMul")
def sparse_product(d, name):
    m, k, n = (d.randint(1, 4) for _ in range(3))
    turned = [d.chance(), d.chance()]
    shape = [k, m] if turned[0] else [m, k]
    indices, values = sparse(d, shape)
    return {"a_indices": indices, "a_values": values, "a_shape": ints(shape, "int64"), "b": d.array("float32", [n, k] if turned[1] else [k, n])}, {"adjoint_a": turned[0], "adjoint_b": turned[1]}


@operators("SparseTensorDenseAdd")
def sparse_sum(d, name):
    shape = d.shape(1, 3, 0)
    indices, values = sparse(d, shape)
    return {"a_indices": indices, "a_values": values, "a_shape": ints(shape, "int64"), "b": d.array("float32", shape)}, {}


@operators("SparseReshape")
def sparse_reshape(d, name):
    shape = d.shape(1, 3, 0)
    to = d.sample(shape, len(shape)) + [1] * d.randint(0, 1)
    if d.chance():
        to[d.randrange(len(to))] = -1
    return {"input_indices": sparse(d, shape)[0], "input_shape": ints(shape, "int64"), "new_shape": ints(to, "int64")}, {}


@operators("SparseFillEmptyRows")
def fill_rows(d, name):
    shape = d.shape(2, 2, 0)
    indices, values = sparse(d, shape)
    return {"indices": indices, "values": values, "dense_shape": ints(shape, "int64"), "default_value": d.array("float32", [])}, {}


@operators("RaggedGather")
def ragged_gather(d, name):
    lengths = [d.randint(0, 3) for _ in range(d.randint(1, 4))]
    splits = np.cumsum([0, *lengths])
    return {"params_nested_splits": [ints(splits, "int64")], "params_dense_values": d.array(d.some(["float32", "int32"]), [sum(lengths), *d.shape(0, 1)]), "indices": d.array(d.index(), [d.randint(0, 4)], 0, len(lengths) - 1)}, {"OUTPUT_RAGGED_RANK": 1}


@operators("RaggedRange")
def ragged_range(d, name):
    n, dtype = d.randint(1, 4), d.some(["int32", "int64", "float32", "float64"])
    vector = lambda x: x[:1].reshape([]) if d.chance(0.3) else x
    deltas = d.array(dtype, [n], 1, 3) * (-1 if d.chance(0.4) else 1)
    tensors = {"starts": vector(d.array(dtype, [n], -3, 3)), "limits": vector(d.array(dtype, [n], -6, 6)), "deltas": vector(deltas)}
    return tensors, {"Tsplits": d.some(["int32", "int64"])}


@operators("RaggedTensorToTensor")
def ragged_to_tensor(d, name):
    lengths = [d.randint(0, 3) for _ in range(d.randint(1, 4))]
    rest = d.shape(0, 1, 0)
    shape = [d.some([-1, len(lengths), 2]), d.some([-1, 2, 5]), *rest]
    dtype = d.some(["float32", "int32"])
    tensors = {"values": d.array(dtype, [sum(lengths), *rest]), "shape": ints(shape, "int64"), "default_value": d.array(dtype, [])}
    if d.chance():
        return tensors | {"row_partition_tensors": [ints(np.cumsum([0, *lengths]), "int64")]}, {"row_partition_types": ["ROW_SPLITS"]}
    rows = [i for i, n in enumerate(lengths) for _ in range(n)]
    return tensors | {"row_partition_tensors": [ints(len(lengths), "int64"), ints(rows, "int64")]}, {"row_partition_types": ["FIRST_DIM_SIZE", "VALUE_ROWIDS"]}


@operators("DenseToDenseSetOperation")
def sets(d, name):
    rows, dtype = d.randint(1, 3), d.some(["int32", "int64"])
    return {"set1": d.array(dtype, [rows, d.randint(1, 4)], 0, 4), "set2": d.array(dtype, [rows, d.randint(1, 4)], 0, 4)}, {"set_operation": d.some(["intersection", "a-b", "b-a", "union"])}


# ---- random numbers ----


@operators("RandomUniform RandomStandardNormal TruncatedNormal", "shapes")
def drawn(d, name):
    return {"shape": ints(d.shape(), d.index())}, {"dtype": d.some(["float32", "float64", "float16"]), "seed": d.randint(0, 3)}


@operators("RandomUniformInt", "shapes")
def drawn_ints(d, name):
    dtype = d.index()
    return {"shape": ints(d.shape()), "minval": np.asarray(-3, dtype), "maxval": np.asarray(5, dtype)}, {}


@operators("RandomShuffle", "shapes")
def shuffle(d, name):
    return {"value": d.array(d.some(["float32", "int32"]), d.shape())}, {}


@operators("Multinomial", "shapes")
def multinomial(d, name):
    return {"logits": d.array(d.some(["float32", "float64"]), [d.randint(1, 3), d.randint(1, 4)]), "num_samples": ints(d.randint(1, 5))}, {"output_dtype": d.index()}


def seed(d):
    return np.asarray([d.getrandbits(31), d.getrandbits(31)], d.index())


@operators("StatelessRandomUniform StatelessRandomNormal StatelessTruncatedNormal")
def stateless(d, name):
    return {"shape": ints(d.shape()), "seed": seed(d)}, {"dtype": d.some(["float32", "float32", "float64", "float16"])}


@operators("StatelessRandomUniformInt")
def stateless_int(d, name):
    dtype = d.index()
    return {"shape": ints(d.shape()), "seed": seed(d), "minval": np.asarray(d.randint(-5, 0), dtype), "maxval": np.asarray(d.randint(1, 90), dtype)}, {}


@operators("StatelessRandomUniformFullInt")
def stateless_full_int(d, name):
    return {"shape": ints(d.shape()), "seed": seed(d)}, {"dtype": d.some(["int32", "int64", "uint32", "uint64"])}


def keyed(d):
    """The key and the counter of a generator, and its number: Philox, or the choice of the device."""
    return {"key": d.array("uint64", [1], 0, 1 << 62), "counter": d.array("uint64", [2], 0, 1 << 62), "alg": ints(d.some([1, 3]))}


@operators("StatelessRandomUniformV2 StatelessRandomNormalV2 StatelessTruncatedNormalV2")
def stateless_v2(d, name):
    return {"shape": ints(d.shape())} | keyed(d), {"dtype": d.some(["float32", "float32", "float64", "float16"])}


@operators("StatelessRandomUniformIntV2")
def stateless_int_v2(d, name):
    dtype = d.index()
    return {"shape": ints(d.shape())} | keyed(d) | {"minval": np.asarray(d.randint(-5, 0), dtype), "maxval": np.asarray(d.randint(1, 90), dtype)}, {}


@operators("StatelessRandomUniformFullIntV2")
def stateless_full_int_v2(d, name):
    return {"shape": ints(d.shape())} | keyed(d), {"dtype": d.some(["int32", "int64", "uint32", "uint64"])}


# ---- the rest ----


@operators("DataFormatDimMap")
def dim_map(d, name):
    return {"x": d.array(d.index(), d.shape(0, 2), -4, 3)}, {"src_format": "NHWC", "dst_format": d.some(["NCHW", "NHWC"])}


@operators("DataFormatVecPermute")
def vec_permute(d, name):
    return {"x": d.array(d.index(), d.some([[4], [4, 2], [2]]), 0, 9)}, {"src_format": "NHWC", "dst_format": "NCHW"}


@operators("ConcatOffset")
def concat_offset(d, name):
    n = d.randint(1, 4)
    return {"concat_dim": ints(d.randrange(n)), "shape": [d.array("int32", [n], 3, 3) for _ in range(d.randint(2, 3))]}, {}


@operators("ApproxTopK")
def approx_top_k(d, name):
    return {"input": d.array("float32", [d.randint(1, 3), d.randint(4, 9)], -50, 50)}, {"k": d.randint(1, 4), "reduction_dimension": -1, "is_max_k": d.chance()}
