"""Programs of TensorFlow for `tensorflow_programs.py`: control flow, lists of tensors, variables, signatures, and graphs as
TensorFlow 1 writes them."""
import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
PROGRAMS, GRAPHS = {}, {}
F, I, L, B = tf.float32, tf.int32, tf.int64, tf.bool


def arrays(*shapes, seed=0):
    """Floats of these shapes."""
    r = np.random.default_rng(seed)
    return tuple(r.normal(size=shape).astype(np.float32) for shape in shapes)


def program(*specs, feeds, refused=None):
    """A function, or a class of a tf.Module with a method `run`. `refused` is a part of the message that it must end with."""
    specs = [tf.TensorSpec(shape, dtype, name=f"a{i}") for i, (shape, dtype) in enumerate(specs)]

    def add(made):
        PROGRAMS[made.__name__] = (made, specs, feeds, refused)
        return made
    return add


def graph(feeds, refused=None):
    """A function that builds a graph of TensorFlow 1: gives placeholders and results."""
    def add(made):
        GRAPHS[made.__name__] = (made, feeds, refused)
        return made
    return add


def scalars(*values, dtype=np.int32):
    return [(np.array(v, dtype),) for v in values]


VECTORS = [arrays([n], seed=n) for n in (1, 2, 5)]
MATRICES = [arrays([n, 4], seed=n) for n in (1, 3, 6)]


# Loops.

@program(([], I), feeds=scalars(0, 1, 5))
def while_sum(n):
    i, s = tf.constant(0), tf.constant(1.5)
    while i < n:
        s = s * 1.5 + tf.cast(i, F)
        i += 1
    return s, i


@program(([], I), ([4], F), feeds=[(np.int32(n), *arrays([4])) for n in (0, 1, 3, 7)])
def for_range(n, x):
    for i in tf.range(n):
        x = x * 0.5 + tf.cast(i, F)
    return x


RANGES = [(0, 7, 2), (5, 5, 1), (9, 0, -2), (0, 9, 3), (3, 1, 1), (-4, 4, 3)]


@program(([], I), ([], I), ([], I), feeds=[tuple(map(np.int32, t)) for t in RANGES])
def for_range_steps(start, limit, delta):
    s = tf.constant(0)
    for i in tf.range(start, limit, delta):
        s = s * 3 + i
    return s


@program(([None, 4], F), feeds=MATRICES)
def for_rows(x):
    s = tf.zeros([4])
    for row in x:
        s = tf.tanh(s + row)
    return s


@program(([], I), ([], I), feeds=[(np.int32(n), np.int32(m)) for n, m in [(0, 3), (2, 0), (3, 4), (1, 1)]])
def nested_loops(n, m):
    s = tf.constant(1)
    for i in tf.range(n):
        for j in tf.range(m):
            s = (s * 3 + i * j) % 1001
        s += 1
    return s


@program(([], I), feeds=scalars(0, 1, 4, 6))
def triangle(n):
    """The inner loop runs as often as the outer one says."""
    s = tf.constant(0)
    for i in tf.range(n):
        for j in tf.range(i):
            s += i * 10 + j
    return s


@program(([None], F), feeds=VECTORS + [arrays([9], seed=4)])
def break_early(x):
    s = tf.constant(0.0)
    for v in x:
        if v > 1.0:
            break
        s += v
    return s


@program(([None], F), feeds=VECTORS + [arrays([9], seed=4)])
def continue_some(x):
    s, n = tf.constant(0.0), tf.constant(0)
    for v in x:
        if v < 0.0:
            continue
        s += v
        n += 1
    return s, n


@program(([None], F), feeds=VECTORS + [arrays([9], seed=4)])
def break_and_continue(x):
    s = tf.constant(0.0)
    for i in tf.range(tf.shape(x)[0]):
        if i == 6:
            break
        if i % 2 == 0:
            continue
        s += x[i]
    return s


@program(([None], F), feeds=VECTORS + [arrays([9], seed=4)])
def last_of_many(x):
    v, found = tf.reduce_sum(x), tf.constant(False)
    for v in x:
        if v > 0.5:
            found = True
            break
    return v, found


@program(([], F), feeds=scalars(-2, -0.5, 0.5, 3, dtype=np.float32))
def early_return_if(x):
    if x < -1.0:
        return x * 2.0
    if x < 0.0:
        return x * 3.0
    y = x + 1.0
    if y > 2.0:
        return y
    return y * 5.0


@program(([], I), feeds=scalars(1, 6, 7, 27))
def collatz(n):
    steps = tf.constant(0)
    while n != 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
    return steps


@program(([], F), feeds=scalars(0.5, 2, 100, dtype=np.float32))
def newton(x):
    y = x
    while tf.abs(y * y - x) > 1e-3:
        y = 0.5 * (y + x / y)
    return y


@program(([], I), feeds=scalars(0, 1, 5))
def growing(n):
    x = tf.zeros([1])
    i = tf.constant(0)
    while i < n:
        tf.autograph.experimental.set_loop_options(shape_invariants=[(x, tf.TensorShape([None]))])
        x = tf.concat([x, [tf.cast(i, F) * 2.0]], 0)
        i += 1
    return x


@program(([], I), feeds=scalars(0, 1, 4))
def growing_matrix(n):
    x = tf.ones([1, 2])
    for i in tf.range(n):
        tf.autograph.experimental.set_loop_options(shape_invariants=[(x, tf.TensorShape([None, 2]))])
        x = tf.concat([x, x * 0.5], 0)
    return x


@program(([None], F), feeds=[arrays([n], seed=n) for n in (1, 2, 7, 8)])
def halving(x):
    while tf.size(x) > 1:
        tf.autograph.experimental.set_loop_options(shape_invariants=[(x, tf.TensorShape([None]))])
        x = x[: tf.size(x) // 2]
    return x


@program(([], I), feeds=scalars(0, 1, 3, 5))
def swapped(n):
    a, b = tf.constant(1.0), tf.constant(2.0)
    for _ in tf.range(n):
        a, b = b, a + b
    return a, b


@program(([], I), ([3, 3], F), feeds=[(np.int32(n), *arrays([3, 3])) for n in (0, 1, 3)])
def power(n, x):
    return tf.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, tf.matmul(y, x)), [0, tf.eye(3)])[1]


@program(([], I), ([4], F), feeds=[(np.int32(n), *arrays([4])) for n in (0, 1, 3)])
def most_turns(n, x):
    return tf.while_loop(lambda y: tf.constant(True), lambda y: (y * 0.5,), [x], maximum_iterations=n)[0]


@program(([4], F), feeds=[arrays([4], seed=s) for s in range(4)])
def structured_state(x):
    state = {"a": x, "b": (x * 2, tf.constant(0))}
    state = tf.while_loop(
        lambda s: s["b"][1] < 3,
        lambda s: ({"a": s["b"][0], "b": (s["a"] + 1.0, s["b"][1] + 1)},), [state])[0]
    return state["a"], state["b"][0]


@program(([], I), feeds=scalars(0, 1, 9))
def count_down(n):
    s = tf.constant(0)
    while n > 0:
        s += n
        n -= 2
    return s, n


@program(([], L), feeds=scalars(0, 1, 9, dtype=np.int64))
def wide_counter(n):
    i, s = tf.constant(0, L), tf.constant(0, L)
    while i <= n:
        s += i * i
        i += 2
    return s


@program(([], F), feeds=scalars(0, 1, 2.5, dtype=np.float32))
def float_counter(n):
    i, s = tf.constant(0.0), tf.constant(0)
    while i < n:
        i += 0.25
        s += 1
    return s, i


@program(([], I), ([], I), feeds=[(np.int32(n), np.int32(m)) for n, m in [(0, 0), (5, 2), (2, 5), (9, 9)]])
def two_limits(n, m):
    i, s = tf.constant(0), tf.constant(0)
    while i < n and i * 2 < m + 3:
        s += i
        i += 1
    return s, i


@program(([3, 4], F), feeds=[arrays([3, 4], seed=s) for s in range(3)])
def static_loop(x):
    for i in tf.range(3):
        x = x + tf.gather(x, i)
    return x


@program(([None, 4], F), feeds=MATRICES)
def invariant_in_loop(x):
    w = tf.reduce_sum(x)
    s = tf.zeros([4])
    for row in x:
        s += row * w
    return s, w


@program(([None], F), feeds=VECTORS)
def counter_after_loop(x):
    i = tf.constant(0)
    while i < tf.size(x):
        if x[i] > 0.3:
            break
        i += 1
    return i


@program(([], I), feeds=scalars(1, 2, 4))
def while_in_cond_in_while(n):
    s = tf.constant(0)
    for i in tf.range(n):
        if i % 2 == 0:
            j = tf.constant(0)
            while j < i:
                s += j
                j += 1
        else:
            s *= 2
    return s


@program(([], I), feeds=scalars(0, 3))
def closure(n):
    c = tf.constant([1.0, 2.0])
    w = c * 3.0
    def body(i, a):
        return i + 1, tf.cond(i % 2 == 0, lambda: a + w, lambda: a * c)
    return tf.while_loop(lambda i, a: i < n, body, [0, tf.zeros([2])])[1]


@program(([], tf.float64), feeds=scalars(0.3, 2.0, dtype=np.float64))
def double_loop(x):
    y = tf.constant(1.0, tf.float64); k = tf.constant(1.0, tf.float64)
    while tf.abs(k) > 1e-9:
        k = k * x / 4.0
        y += k
    return y


@program(([2, 3], F), feeds=[arrays([2, 3])])
def bool_state(x):
    done = tf.zeros([2], B)
    i = tf.constant(0)
    while not tf.reduce_all(done):
        done = done | (tf.reduce_sum(x, 1) < tf.cast(i, F) - 2.0)
        i += 1
    return done, i


@program(([None], F), feeds=VECTORS)
def cond_none_side(x):
    y = x
    if tf.size(x) > 1:
        y = x[1:]
    return y


@program(([], I), feeds=scalars(0, 1, 5))
def fib(n):
    a, b = tf.constant(0, L), tf.constant(1, L)
    for _ in tf.range(n):
        a, b = b, a + b
    return a


# Conditions.

@program(([], B), ([4], F), feeds=[(np.array(c), *arrays([4])) for c in (True, False)])
def cond_two(c, x):
    return tf.cond(c, lambda: (x + 1.0, x * 2.0), lambda: (x - 1.0, tf.zeros([4])))


@program(([], B), ([], B), ([4], F), feeds=[(np.array(c), np.array(d), *arrays([4])) for c in (True, False) for d in (True, False)])
def cond_nested(c, d, x):
    inner = lambda y: tf.cond(d, lambda: y + 1.0, lambda: y * 3.0)
    return tf.cond(c, lambda: inner(x), lambda: inner(-x) - 1.0)


@program(([], I), ([4], F), feeds=[(np.int32(i), *arrays([4])) for i in (-1, 0, 1, 2, 3, 9)])
def switch_case(i, x):
    return tf.switch_case(i, [lambda: x, lambda: x * 2.0, lambda: tf.nn.relu(x)], default=lambda: -x)


@program(([], F), feeds=scalars(-5, -0.5, 0.5, 5, dtype=np.float32))
def case(x):
    return tf.case([(x < -1.0, lambda: x * 2.0), (x < 0.0, lambda: x * 3.0), (x > 1.0, lambda: x * 4.0)], default=lambda: x)


@program(([None], F), feeds=VECTORS)
def cond_shapes(x):
    """The arms give tensors of different sizes."""
    return tf.cond(tf.reduce_sum(x) > 0.0, lambda: x, lambda: tf.concat([x, x], 0))


@program(([None, 4], F), feeds=MATRICES)
def cond_in_loop(x):
    s, n = tf.zeros([4]), tf.constant(0)
    for row in x:
        if tf.reduce_sum(row) > 0.0:
            s, n = s + row, n + 1
        else:
            s = s - row * 0.5
    return s, n


@program(([], I), ([4], F), feeds=[(np.int32(n), *arrays([4])) for n in (-1, 0, 2, 5)])
def loop_in_cond(n, x):
    if n > 0:
        for i in tf.range(n):
            x = x * 0.5 + 1.0
    else:
        x = -x
    return x


@program(([4], F), feeds=[arrays([4], seed=s) for s in range(4)])
def logic(x):
    if tf.reduce_any(x > 1.0) or (tf.reduce_all(x < 0.5) and not tf.reduce_max(x) < 0.0):
        return x + 1.0
    return x - 1.0


@program(([], I), feeds=scalars(-3, 0, 4))
def conditional_expression(n):
    return (n + 1 if n > 0 else n * 2) + (3 if n == 0 else 4)


@program(([], I), ([4], F), feeds=[(np.int32(n), *arrays([4])) for n in (0, 1, 5)])
def number_as_condition(n, x):
    return tf.cond(tf.cast(n, B), lambda: x, lambda: -x)


# Lists.

@program(([], I), feeds=scalars(1, 2, 6))
def array_stack(n):
    a = tf.TensorArray(F, size=n)
    for i in tf.range(n):
        a = a.write(i, tf.cast(i, F) * 2.0)
    return a.stack()


@program(([None, 4], F), feeds=MATRICES)
def array_dynamic(x):
    a = tf.TensorArray(F, size=0, dynamic_size=True)
    for i in tf.range(tf.shape(x)[0]):
        a = a.write(i, x[i] * 2.0)
    return a.stack(), a.size()


@program(([None, 4], F), feeds=MATRICES)
def array_reversed(x):
    n = tf.shape(x)[0]
    a = tf.TensorArray(F, size=n, element_shape=[4])
    for i in tf.range(n):
        a = a.write(n - 1 - i, x[i])
    return a.stack()


@program(([None, 4], F), feeds=MATRICES)
def array_unstack(x):
    a = tf.TensorArray(F, size=tf.shape(x)[0]).unstack(x)
    s = tf.zeros([4])
    for i in tf.range(a.size()):
        s = s * 0.5 + a.read(i)
    return s


@program(([None, 4], F), feeds=[m for m in MATRICES if len(m[0]) > 2])
def array_gather(x):
    a = tf.TensorArray(F, size=tf.shape(x)[0], clear_after_read=False).unstack(x)
    return a.gather([2, 0, 0]), a.read(1)


@program(([3, 4], F), feeds=[arrays([3, 4])])
def array_scatter(x):
    a = tf.TensorArray(F, size=5, element_shape=[4]).scatter([4, 0, 2], x)
    a = a.write(1, x[0] * 3.0).write(3, x[1])
    return a.stack()


@program(([6, 2], F), feeds=[arrays([6, 2])])
def array_split(x):
    a = tf.TensorArray(F, size=3, infer_shape=False).split(x, [1, 3, 2])
    return a.read(1), a.concat()


@program(([None, 4], F), feeds=MATRICES)
def array_concat(x):
    n = tf.shape(x)[0]
    a = tf.TensorArray(F, size=n, element_shape=[2, 4])
    for i in tf.range(n):
        a = a.write(i, tf.stack([x[i], -x[i]]))
    return a.concat()


@program(([], I), feeds=scalars(1, 2, 5))
def array_concat_varying(n):
    """Elements of different sizes, one behind the other."""
    a = tf.TensorArray(F, size=n, infer_shape=False, element_shape=[None, 2])
    for i in tf.range(n):
        a = a.write(i, tf.fill([i + 1, 2], tf.cast(i, F)))
    return a.concat()


@program(([], I), feeds=scalars(1, 2, 5))
def array_concat_growing(n):
    a = tf.TensorArray(F, size=0, dynamic_size=True, infer_shape=False, element_shape=[None])
    for i in tf.range(n):
        a = a.write(a.size(), tf.cast(tf.range(i + 1), F))
    return a.concat()


@program(([], I), feeds=scalars(2, 5))
def array_read_varying(n):
    a = tf.TensorArray(F, size=n, infer_shape=False, element_shape=[None], clear_after_read=False)
    for i in tf.range(n):
        a = a.write(i, tf.cast(tf.range(i + 1), F))
    s = tf.constant(0.0)
    for i in tf.range(n):
        s = s * 2.0 + tf.reduce_sum(a.read(i))
    return s, a.read(1)


@program(([None, 4], F), feeds=MATRICES)
def array_varying_in_cond(x):
    """What a turn writes depends on a condition, also its size."""
    a = tf.TensorArray(F, size=0, dynamic_size=True, infer_shape=False, element_shape=[None])
    for row in x:
        if tf.reduce_sum(row) > 0.0:
            a = a.write(a.size(), row[:2])
        else:
            a = a.write(a.size(), row)
    return a.concat()


@program(([None, 4], F), feeds=MATRICES)
def array_filtered(x):
    """A turn may write nothing."""
    a = tf.TensorArray(F, size=0, dynamic_size=True, element_shape=[4])
    k = tf.constant(0)
    a = a.write(k, tf.ones([4]))
    for row in x:
        if tf.reduce_sum(row) > 0.0:
            k += 1
            a = a.write(k, row)
    return a.stack(), k


@program(([None, 4], F), feeds=MATRICES)
def array_two(x):
    n = tf.shape(x)[0]
    a, c = tf.TensorArray(F, size=n), tf.TensorArray(I, size=n)
    for i in tf.range(n):
        a = a.write(i, tf.nn.softmax(x[i]))
        c = c.write(i, tf.argmax(x[i], output_type=I))
    return a.stack(), c.stack()


@program(([None, 4], F), feeds=MATRICES)
def array_read_back(x):
    """A turn reads what an earlier one wrote."""
    n = tf.shape(x)[0]
    a = tf.TensorArray(F, size=n + 1, element_shape=[4], clear_after_read=False).write(0, tf.zeros([4]))
    for i in tf.range(n):
        a = a.write(i + 1, a.read(i) * 0.5 + x[i])
    return a.stack()


@program(([None, 4], F), feeds=MATRICES)
def array_nested(x):
    n = tf.shape(x)[0]
    outer = tf.TensorArray(F, size=n)
    for i in tf.range(n):
        inner = tf.TensorArray(F, size=3)
        for j in tf.range(3):
            inner = inner.write(j, x[i] * tf.cast(j, F))
        outer = outer.write(i, inner.stack())
    return outer.stack()


@program(([], I), feeds=scalars(3, 5))
def array_every_other(n):
    a = tf.TensorArray(F, size=2 * n, element_shape=[2])
    for i in tf.range(n):
        a = a.write(2 * i, tf.fill([2], tf.cast(i + 1, F)))
    return a.stack()


@program(([2, 3], F), feeds=[arrays([2, 3])])
def array_static(x):
    a = tf.TensorArray(F, size=3)
    for i in range(3):
        a = a.write(i, x[:, i])
    return tf.transpose(a.stack())


@program(([None], F), feeds=VECTORS)
def python_list(x):
    parts = []
    for i in range(4):
        parts.append(x * float(i))
    return tf.stack(parts), parts.pop()


@program(([None, 4], F), feeds=MATRICES)
def map_fn(x):
    return tf.map_fn(lambda row: tf.reduce_sum(row) * row, x)


@program(([None, 4], F), feeds=MATRICES)
def map_fn_two(x):
    return tf.map_fn(lambda r: (r[0] + r[1], tf.argmax(r[0])), (x, -x * 2.0), fn_output_signature=(F, L))


@program(([None, 4], F), feeds=MATRICES)
def scan(x):
    return tf.scan(lambda a, r: a * 0.5 + r, x)


@program(([None, 4], F), feeds=MATRICES)
def scan_initial(x):
    return tf.scan(lambda a, r: (a[0] + r, a[1] + 1.0), x, initializer=(tf.zeros([4]), tf.constant(0.0)))


@program(([None, 4], F), feeds=MATRICES)
def scan_reverse(x):
    return tf.scan(lambda a, r: tf.tanh(a + r), x, reverse=True)


@program(([None, 4], F), feeds=MATRICES)
def folds(x):
    return tf.foldl(lambda a, r: a * 0.5 + r, x), tf.foldr(lambda a, r: tf.maximum(a, r) - 0.1, x, tf.zeros([4]))


@program(([None, 4], F), feeds=MATRICES)
def vectorized_map(x):
    return tf.vectorized_map(lambda row: tf.nn.softmax(row) * tf.reduce_max(row), x)


@program(([3, 4], F), feeds=[arrays([3, 4])])
def vectorized_matmul(x):
    w = tf.reshape(tf.range(8, dtype=F), [4, 2])
    return tf.vectorized_map(lambda row: tf.linalg.matvec(w, row, transpose_a=True), x)


@program(([None, 3, 2], F), feeds=[arrays([n, 3, 2], seed=n) for n in (1, 2)])
def map_in_map(x):
    return tf.map_fn(lambda m: tf.map_fn(lambda r: r * tf.reduce_sum(m), m), x)


@program(([None, 4], F), feeds=MATRICES)
def attention_over_states(x):
    """Each turn reads all earlier ones."""
    states = tf.zeros([0, 4])
    for row in x:
        tf.autograph.experimental.set_loop_options(shape_invariants=[(states, tf.TensorShape([None, 4]))])
        states = tf.concat([states, [row]], 0)
        w = tf.nn.softmax(tf.linalg.matvec(states, row))
        states = states * w[:, None]
    return states


@program(([None, None, 4], F), feeds=[arrays([b, t, 4], seed=b) for b, t in [(1, 1), (2, 3), (3, 5)]])
def history_in_list(x):
    """A list whose elements have the size of the batch, read back in each turn."""
    n = tf.shape(x)[1]
    a = tf.TensorArray(F, size=n, clear_after_read=False)
    a = a.write(0, x[:, 0])
    for t in tf.range(1, n):
        a = a.write(t, a.read(t - 1) * 0.5 + x[:, t])
    return a.stack(), a.read(n - 1)


@program(([None, None, 4], F), feeds=[arrays([b, t, 4], seed=b) for b, t in [(1, 1), (2, 3), (3, 5)]])
def last_of_list(x):
    n = tf.shape(x)[1]
    a = tf.TensorArray(F, size=n)
    h = tf.zeros_like(x[:, 0])
    for t in tf.range(n):
        h = tf.tanh(h + x[:, t])
        a = a.write(t, h)
    return a.read(n - 1)


@program(([], I), feeds=scalars(0, 1, 3))
def list_sequence_empty(n):
    a = tf.TensorArray(F, size=0, dynamic_size=True, infer_shape=False, element_shape=[None, 2])
    for i in tf.range(n):
        a = a.write(a.size(), tf.ones([i + 1, 2]))
    return a.concat(), a.size()


@program(([], I), feeds=scalars(1, 3))
def list_pass_through_function(n):
    @tf.function
    def fill(a, i):
        return a.write(i, tf.cast(tf.range(i + 2), F))
    a = tf.TensorArray(F, size=n, infer_shape=False, element_shape=[None])
    for i in tf.range(n):
        a = fill(a, i)
    return a.concat()


@program(([], I), ([], I), feeds=[(np.int32(n), np.int32(m)) for n, m in [(1, 1), (2, 3), (3, 2)]])
def list_nested_varying(n, m):
    a = tf.TensorArray(F, size=0, dynamic_size=True, infer_shape=False, element_shape=[None])
    for i in tf.range(n):
        for j in tf.range(m):
            a = a.write(a.size(), tf.fill([i * m + j + 1], tf.cast(j, F)))
    return a.concat()


@program(([], I), feeds=scalars(2, 3))
def list_two_varying(n):
    a = tf.TensorArray(F, size=n, infer_shape=False, element_shape=[None], clear_after_read=False)
    b = tf.TensorArray(I, size=n, infer_shape=False, element_shape=[None], clear_after_read=False)
    for i in tf.range(n):
        a = a.write(i, tf.cast(tf.range(i + 1), F))
        b = b.write(n - 1 - i, tf.range(i + 1))
    return a.concat(), b.concat(), b.read(0)


@program(([None], F), feeds=VECTORS)
def list_unequal_items(x):
    a = tf.TensorArray(F, size=3, infer_shape=False, element_shape=[None], clear_after_read=False)
    a = a.write(0, x).write(1, tf.concat([x, x], 0)).write(2, x[:1])
    i = tf.cast(tf.reduce_sum(tf.cast(x > 0.0, I)) % 3, I)
    return a.read(i), a.concat()


@program(([6], F), ([], I), feeds=[(*arrays([6]), np.int32(i)) for i in range(3)])
def list_split_read(x, i):
    a = tf.TensorArray(F, size=3, infer_shape=False, clear_after_read=False).split(x, [1, 3, 2])
    return a.read(i)


@program(([None], F), feeds=VECTORS)
def chunks(x):
    """Chunks of a vector until nothing is left."""
    a = tf.TensorArray(F, size=0, dynamic_size=True, infer_shape=False, element_shape=[None])
    rest = x
    while tf.size(rest) > 0:
        tf.autograph.experimental.set_loop_options(shape_invariants=[(rest, tf.TensorShape([None]))])
        a = a.write(a.size(), rest[:2] * 2.0)
        rest = rest[2:]
    return a.concat(), a.size()


@program(([None], I), feeds=[(np.array(v, np.int32),) for v in ([3, 1, 2], [5], [4, 3, 2, 1])])
def bubble_sort(x):
    n = tf.size(x)
    for i in tf.range(n):
        for j in tf.range(n - 1):
            if x[j] > x[j + 1]:
                x = tf.tensor_scatter_nd_update(x, [[j], [j + 1]], [x[j + 1], x[j]])
    return x


@program(([None, 2], F), feeds=[arrays([n, 2], seed=n) for n in (1, 4)])
def nms_loop(boxes):
    keep = tf.TensorArray(I, size=0, dynamic_size=True, element_shape=[])
    alive = tf.ones([tf.shape(boxes)[0]], B)
    for i in tf.range(tf.shape(boxes)[0]):
        if alive[i]:
            keep = keep.write(keep.size(), i)
            alive = alive & (tf.norm(boxes - boxes[i], axis=1) > 0.5)
    return keep.stack()


@program(([], I), ([3], F), feeds=[(np.int32(i), *arrays([3])) for i in (0, 1, 2)])
def switch_lists(i, x):
    a = tf.TensorArray(F, size=0, dynamic_size=True, element_shape=[3])
    a = tf.switch_case(i, [lambda: a.write(0, x), lambda: a.write(0, x).write(1, -x), lambda: a.write(0, x * 2.0)])
    return a.stack()


@program(([None, 4], F), feeds=MATRICES)
def pfor_with_reduce(x):
    return tf.vectorized_map(lambda r: (tf.sort(r), tf.reduce_sum(r), tf.gather(r, tf.argmax(r))), x)


# Variables, modules and calls.

class Cell(tf.Module):
    def __init__(self, units, inputs):
        super().__init__()
        r = np.random.default_rng(units)
        self.w = tf.Variable(r.normal(size=(inputs + units, 4 * units)).astype(np.float32) * 0.5, name="w")
        self.b = tf.Variable(r.normal(size=4 * units).astype(np.float32), name="b")

    def __call__(self, x, h, c):
        i, j, f, o = tf.split(tf.concat([x, h], -1) @ self.w + self.b, 4, -1)
        c = c * tf.sigmoid(f + 1.0) + tf.sigmoid(i) * tf.tanh(j)
        return tf.tanh(c) * tf.sigmoid(o), c


@program(([None, None, 3], F), feeds=[arrays([2, n, 3], seed=n) for n in (1, 4)])
class lstm_by_hand(tf.Module):
    def __init__(self):
        super().__init__()
        self.cell = Cell(5, 3)

    def run(self, x):
        n = tf.shape(x)[1]
        h = c = tf.zeros([tf.shape(x)[0], 5])
        all_h = tf.TensorArray(F, size=n)
        for t in tf.range(n):
            h, c = self.cell(x[:, t], h, c)
            all_h = all_h.write(t, h)
        return tf.transpose(all_h.stack(), [1, 0, 2]), h, c


@program(([None, None, 3], F), ([None], I), feeds=[(*arrays([2, 4, 3]), np.array([3, 1], np.int32))])
class lstm_with_lengths(tf.Module):
    def __init__(self):
        super().__init__()
        self.cell = Cell(5, 3)

    def run(self, x, lengths):
        h = c = tf.zeros([tf.shape(x)[0], 5])
        for t in tf.range(tf.reduce_max(lengths)):
            new_h, new_c = self.cell(x[:, t], h, c)
            alive = (t < lengths)[:, None]
            h, c = tf.where(alive, new_h, h), tf.where(alive, new_c, c)
        return h, c


@program(([None, 3], F), feeds=[arrays([n, 3], seed=n) for n in (1, 4)])
class gru_by_hand(tf.Module):
    def __init__(self):
        super().__init__()
        r = np.random.default_rng(0)
        self.w, self.u = (tf.Variable(r.normal(size=s).astype(np.float32) * 0.5) for s in [(3, 12), (4, 12)])

    def run(self, x):
        h = tf.zeros([1, 4])
        for row in x:
            a, b = row[None] @ self.w, h @ self.u
            z, r = tf.sigmoid(a[:, :4] + b[:, :4]), tf.sigmoid(a[:, 4:8] + b[:, 4:8])
            h = z * h + (1.0 - z) * tf.tanh(a[:, 8:] + r * b[:, 8:])
        return h


@program(([None, 3], F), ([1, 5], F), feeds=[(*arrays([n, 3], seed=n), *arrays([1, 5])) for n in (1, 4)])
class greedy_decoder(tf.Module):
    def __init__(self):
        super().__init__()
        self.cell = Cell(5, 3)
        self.table = tf.Variable(arrays([7, 3], seed=5)[0])
        self.out = tf.Variable(arrays([5, 7], seed=6)[0])

    def run(self, x, h):
        c = tf.zeros([1, 5]) + tf.reduce_sum(x)
        token, tokens = tf.constant([1]), tf.TensorArray(I, size=0, dynamic_size=True, element_shape=[1])
        for i in tf.range(8):
            h, c = self.cell(tf.gather(self.table, token), h, c)
            token = tf.argmax(h @ self.out, -1, output_type=I)
            tokens = tokens.write(i, token)
            if token[0] == 2:
                break
        return tokens.stack(), h


@program(([1], I), feeds=[(np.array([i], np.int32),) for i in (0, 1, 3)])
class growing_decoder(tf.Module):
    def __init__(self):
        super().__init__()
        self.table = tf.Variable(arrays([5, 5], seed=3)[0])

    def run(self, start):
        tokens = start
        while tf.size(tokens) < 7:
            tf.autograph.experimental.set_loop_options(shape_invariants=[(tokens, tf.TensorShape([None]))])
            scores = tf.reduce_mean(tf.gather(self.table, tokens), 0)
            tokens = tf.concat([tokens, [tf.argmax(scores, output_type=I)]], 0)
        return tokens


@program(([1, 5], F), feeds=[arrays([1, 5], seed=s) for s in range(3)])
class beam_search(tf.Module):
    def __init__(self):
        super().__init__()
        self.table = tf.Variable(arrays([6, 5], seed=3)[0])

    def run(self, x):
        scores, tokens = tf.zeros([1]), tf.zeros([1, 1], I)
        for i in tf.range(4):
            tf.autograph.experimental.set_loop_options(
                shape_invariants=[(scores, tf.TensorShape([None])), (tokens, tf.TensorShape([None, None]))])
            state = tf.gather(self.table, tokens[:, -1]) + x
            all_scores = scores[:, None] + tf.nn.log_softmax(tf.matmul(state, self.table, transpose_b=True))
            all_scores += tf.range(tf.size(scores), dtype=F)[:, None] * 0.01
            scores, best = tf.math.top_k(tf.reshape(all_scores, [-1]), 3)
            tokens = tf.concat([tf.gather(tokens, best // 6), (best % 6)[:, None]], 1)
        return tokens, scores


@program(([None, 4], F), feeds=MATRICES)
class nested_modules(tf.Module):
    class Layer(tf.Module):
        def __init__(self, n, seed):
            super().__init__()
            self.w, self.b = (tf.Variable(a) for a in arrays([4, n], [n], seed=seed))

        @tf.function
        def __call__(self, x):
            return tf.nn.relu(x @ self.w + self.b)

    def __init__(self):
        super().__init__()
        self.layers = [self.Layer(4, 1), self.Layer(4, 2), {"last": self.Layer(3, 3)}]
        self.scale = tf.constant([1.0, 2.0, 3.0])

    def run(self, x):
        for layer in self.layers[:2]:
            x = layer(x)
        return {"y": self.layers[2]["last"](x) * self.scale, "deep": {"z": [x, (x * 2.0,)]}}


@program(([4], F), feeds=[arrays([4])], refused="writes")
class written_first(tf.Module):
    def __init__(self):
        super().__init__()
        self.state = tf.Variable(tf.zeros([4]))

    def run(self, x):
        self.state.assign(x * 2.0)
        return self.state + 1.0


@program(([4], F), feeds=[arrays([4])], refused="writes")
class written_and_read(tf.Module):
    def __init__(self):
        super().__init__()
        self.state = tf.Variable(tf.ones([4]))

    def run(self, x):
        self.state.assign_add(x)
        self.state.assign_sub(x * 0.25)
        return self.state * 2.0


@program(([4], F), feeds=[arrays([4])])
class counted(tf.Module):
    """What is written does not reach the result."""
    def __init__(self):
        super().__init__()
        self.calls = tf.Variable(0)
        self.w = tf.Variable([1.0, 2.0, 3.0, 4.0])

    def run(self, x):
        self.calls.assign_add(1)
        return x * self.w


@program(([], I), feeds=scalars(0, 3), refused="writes")
class written_in_loop(tf.Module):
    def __init__(self):
        super().__init__()
        self.state = tf.Variable(1.0)

    def run(self, n):
        for i in tf.range(n):
            self.state.assign(self.state * 2.0)
        return self.state.read_value()


@program(([None], tf.string), feeds=[(np.array([b"a", b"zz"]),)], refused="ookup")
class hash_table(tf.Module):
    def __init__(self):
        super().__init__()
        init = tf.lookup.KeyValueTensorInitializer([b"a", b"b"], tf.constant([1, 2], L))
        self.table = tf.lookup.StaticHashTable(init, -1)

    def run(self, x):
        return self.table.lookup(x)


@program(([None, 4], F), feeds=MATRICES)
def defaults(x, scale=2.0, flag=False):
    return -x if flag else x * scale


@program(([None, 4], F), feeds=MATRICES)
def structured(x):
    return {"b": x, "a": (x + 1.0, [x * 2.0, tf.reduce_sum(x)]), "c10": x - 1.0, "c9": x - 2.0}


@program(([None, 4], F), feeds=MATRICES)
def same_twice(x):
    y = x * 2.0
    return {"one": y, "two": y, "x": x}


@program(([None, 4], F), feeds=MATRICES)
def constant_output(x):
    return x, tf.constant([1.0, 2.0]), tf.shape(x)


@program(([None, 4], F), feeds=MATRICES)
def checks(x):
    with tf.control_dependencies([tf.debugging.assert_rank(x, 2), tf.debugging.assert_less(x, 1e6)]):
        y = tf.identity(x)
    tf.print("sum", tf.reduce_sum(y))
    tf.debugging.check_numerics(y, "finite")
    return tf.debugging.check_numerics(y * 2.0, "finite")


@program(([None, 4], F), feeds=MATRICES)
def checks_in_control_flow(x):
    s = tf.zeros([4])
    for row in x:
        tf.debugging.assert_less(tf.reduce_sum(row), 1e6)
        if tf.reduce_sum(row) > 0.0:
            tf.print("row", row)
            s += row
    return s


@program(([None, 4], F), feeds=MATRICES)
def custom_gradient(x):
    @tf.custom_gradient
    def f(y):
        return tf.math.log1p(tf.exp(y)), lambda g: g
    return f(x)


@program(([4], F), feeds=[arrays([4])])
def gradient_inside(x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(tf.sin(x) * x)
    return tape.gradient(y, x)


@program(([], F), feeds=scalars(0.5, 2, dtype=np.float32))
def gradient_of_loop(x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x
        for i in tf.range(3):
            y = y * x
    return tape.gradient(y, x)


@program(([None, 4], F), feeds=MATRICES)
def inner_functions(x):
    @tf.function
    def f(a, k):
        return a * k

    @tf.function(autograph=False)
    def g(a):
        return f(a, 2.0) + f(a, 3.0)
    return g(x) + f(x, 1.0)


@program(([None, 4], F), feeds=MATRICES)
def recompute(x):
    return tf.recompute_grad(lambda y: tf.nn.relu(y) * 2.0)(x)


@program(([None], F), ([None], L), feeds=[(*arrays([5]), np.array([2, 0, 3], np.int64))])
def ragged_lengths(values, lengths):
    r = tf.RaggedTensor.from_row_lengths(values, lengths)
    return r.to_tensor(), tf.reduce_sum(r, 1), r.row_splits


@program(([None, 4], F), feeds=MATRICES)
def ragged_mask(x):
    r = tf.ragged.boolean_mask(x, x > 0.0)
    return r.flat_values, r.row_lengths()


@program(([None], F), feeds=VECTORS)
def jit(x):
    return tf.function(lambda y: y * 2.0 + 1.0, jit_compile=True)(x)


@program(([None, None, None, 3], F), feeds=[arrays([n, h, w, 3], seed=n) for n, h, w in [(1, 4, 6), (2, 5, 5)]])
def dynamic_sizes(x):
    s = tf.shape(x)
    y = tf.reshape(x, [s[0], s[1] * s[2], 3])
    y = tf.pad(y, [[0, 0], [0, s[1]], [0, 0]])
    return y, tf.zeros([s[0], s[2]]) + tf.cast(s[1], F), tf.image.resize(x, [s[1] * 2, s[2] * 2])


@program(([None, 4], F), feeds=MATRICES)
def unique(x):
    a, b = tf.unique_with_counts(tf.cast(tf.reshape(x, [-1]) * 2.0, I))[0:3:2]
    return a, b


# Graphs of TensorFlow 1.

@graph(feeds=[arrays([n, 4], seed=n) for n in (1, 3)])
def v1_dense():
    x = v1.placeholder(F, [None, 4], "x")
    w = v1.get_variable("w", initializer=arrays([4, 3])[0], use_resource=False)
    b = v1.get_variable("b", initializer=arrays([3])[0], use_resource=True)
    return [x], [tf.identity(tf.nn.softmax(tf.matmul(x, w) + b), "y")]


@graph(feeds=[(np.int32(n), *arrays([4])) for n in (0, 1, 5)])
def v1_while():
    n, x = v1.placeholder(I, [], "n"), v1.placeholder(F, [4], "x")
    i, y = v1.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, y * 0.5 + tf.cast(i, F)), [0, x])
    return [n, x], [tf.identity(y, "y"), tf.identity(i, "i_end")]


@graph(feeds=[(np.int32(n), np.int32(m)) for n, m in [(0, 1), (2, 3), (4, 0)]])
def v1_nested_while():
    n, m = v1.placeholder(I, [], "n"), v1.placeholder(I, [], "m")

    def body(i, s):
        _, t = v1.while_loop(lambda j, t: j < m, lambda j, t: (j + 1, t * 2 + i * j + 1), [0, s])
        return i + 1, t % 1000
    return [n, m], [tf.identity(v1.while_loop(lambda i, s: i < n, body, [0, 1])[1], "y")]


@graph(feeds=[(np.array(c), *arrays([4])) for c in (True, False)])
def v1_cond():
    c, x = v1.placeholder(B, [], "c"), v1.placeholder(F, [4], "x")
    w = v1.get_variable("w", initializer=arrays([4], seed=7)[0], use_resource=False)
    a, b = v1.cond(c, lambda: (x + w, tf.nn.relu(x)), lambda: (x - w, x * 2.0))
    return [c, x], [tf.identity(a, "a"), tf.identity(b, "b")]


@graph(feeds=[(np.array(c), np.array(d), *arrays([4])) for c in (True, False) for d in (True, False)])
def v1_nested_cond():
    c, d, x = v1.placeholder(B, [], "c"), v1.placeholder(B, [], "d"), v1.placeholder(F, [4], "x")
    inner = lambda y: v1.cond(d, lambda: y + 1.0, lambda: y * 3.0)
    y = v1.cond(c, lambda: inner(x), lambda: inner(-x) - 1.0)
    z = v1.cond(d, lambda: y * 2.0, lambda: x)
    return [c, d, x], [tf.identity(y, "y"), tf.identity(z, "z")]


@graph(feeds=[(np.int32(n), *arrays([4])) for n in (0, 3, 6)])
def v1_cond_in_while():
    n, x = v1.placeholder(I, [], "n"), v1.placeholder(F, [4], "x")

    def body(i, y, z):
        y, z = v1.cond(tf.equal(i % 2, 0), lambda: (y * 0.5, z + 1.0), lambda: (y + 1.0, z))
        return i + 1, y, z
    _, y, z = v1.while_loop(lambda i, y, z: i < n, body, [0, x, 0.0])
    return [n, x], [tf.identity(y, "y"), tf.identity(z, "z")]


@graph(feeds=[(np.int32(n), *arrays([4])) for n in (-2, 0, 3)])
def v1_while_in_cond():
    n, x = v1.placeholder(I, [], "n"), v1.placeholder(F, [4], "x")
    loop = lambda: v1.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, y * 2.0), [0, x])[1]
    y, z = v1.cond(n > 0, lambda: (loop(), x), lambda: (-x, x + 1.0))
    return [n, x], [tf.identity(y, "y"), tf.identity(z, "z")]


@graph(feeds=MATRICES)
def v1_array():
    x = v1.placeholder(F, [None, 4], "x")
    n = tf.shape(x)[0]
    a = tf.TensorArray(F, n).unstack(x)
    _, b = v1.while_loop(lambda i, b: i < n, lambda i, b: (i + 1, b.write(i, a.read(i) * 2.0)), [0, tf.TensorArray(F, n)])
    return [x], [tf.identity(b.stack(), "y")]


@graph(feeds=scalars(1, 2, 5))
def v1_array_concat_varying():
    n = v1.placeholder(I, [], "n")
    body = lambda i, a: (i + 1, a.write(i, tf.fill([i + 1, 2], tf.cast(i, F))))
    _, a = v1.while_loop(lambda i, a: i < n, body, [0, tf.TensorArray(F, n, infer_shape=False)])
    return [n], [tf.identity(a.concat(), "y")]


@graph(feeds=MATRICES)
def v1_array_dynamic():
    x = v1.placeholder(F, [None, 4], "x")
    a = tf.TensorArray(F, 0, dynamic_size=True)
    _, a = v1.while_loop(lambda i, a: i < tf.shape(x)[0], lambda i, a: (i + 1, a.write(i, x[i] + 1.0)), [0, a])
    return [x], [tf.identity(a.stack(), "y")]


@graph(feeds=[(*arrays([2, 5, 3]), np.array([5, 2], np.int32))])
def v1_dynamic_rnn():
    x, n = v1.placeholder(F, [None, None, 3], "x"), v1.placeholder(I, [None], "n")
    v1.set_random_seed(1)
    weights = [v1.get_variable(f"w{i}", initializer=a) for i, a in enumerate(arrays([7, 16], [16]))]

    def step(t, h, c, out):
        i, j, f, o = tf.split(tf.matmul(tf.concat([x[:, t], h], 1), weights[0]) + weights[1], 4, 1)
        new_c = c * tf.sigmoid(f + 1.0) + tf.sigmoid(i) * tf.tanh(j)
        new_h = tf.tanh(new_c) * tf.sigmoid(o)
        alive = tf.tile((t < n)[:, None], [1, 4])
        return t + 1, tf.where(alive, new_h, h), tf.where(alive, new_c, c), out.write(t, tf.where(alive, new_h, tf.zeros_like(h)))
    size = tf.shape(x)
    zero = tf.zeros([size[0], 4])
    _, h, c, out = v1.while_loop(lambda t, *_: t < size[1], step, [0, zero, zero, tf.TensorArray(F, size[1])])
    return [x, n], [tf.transpose(out.stack(), [1, 0, 2], name="y"), tf.identity(h, "h")]


@graph(feeds=[arrays([n, 4], seed=n) for n in (1, 3)])
def v1_default():
    x = v1.placeholder(F, [None, 4], "x")
    training = v1.placeholder_with_default(False, [], "training")
    keep = v1.placeholder_with_default(1.0, [], "keep")
    y = v1.cond(training, lambda: x * 100.0, lambda: x)
    return [x], [tf.identity(y * keep, "y")]


@graph(feeds=[arrays([n, 4], seed=n) for n in (1, 3)])
def v1_checks():
    x = v1.placeholder(F, [None, 4], "x")
    with tf.control_dependencies([v1.assert_equal(tf.shape(x)[1], 4), v1.assert_less(x, 1e6)]):
        y = v1.Print(x, [tf.shape(x)], "shape ") * 2.0
    return [x], [tf.identity(y, "y")]


@graph(feeds=[(np.int32(i), *arrays([4])) for i in (-1, 0, 1, 2, 7)])
def v1_switch_case():
    i, x = v1.placeholder(I, [], "i"), v1.placeholder(F, [4], "x")
    return [i, x], [tf.identity(tf.switch_case(i, [lambda: x, lambda: x * 2.0, lambda: -x]), "y")]


@graph(feeds=[arrays([], seed=s) for s in range(4)])
def v1_case():
    x = v1.placeholder(F, [], "x")
    y = v1.case([(x < -0.5, lambda: x * 2.0), (x < 0.2, lambda: x * 3.0)], default=lambda: x * 4.0, exclusive=False)
    return [x], [tf.identity(y, "y")]


@graph(feeds=scalars(0, 1, 4))
def v1_growing():
    n = v1.placeholder(I, [], "n")
    _, x = v1.while_loop(lambda i, x: i < n, lambda i, x: (i + 1, tf.concat([x, [tf.cast(i, F)]], 0)), [0, tf.zeros([1])],
                         shape_invariants=[tf.TensorShape([]), tf.TensorShape([None])])
    return [n], [tf.identity(x, "y")]


@graph(feeds=[arrays([n, 4], seed=n) for n in (1, 3)])
def v1_scan():
    x = v1.placeholder(F, [None, 4], "x")
    return [x], [tf.identity(v1.scan(lambda a, r: a * 0.5 + r, x), "y"), tf.identity(v1.map_fn(lambda r: r * tf.reduce_sum(r), x), "z")]


@graph(feeds=[arrays([4])], refused="writes")
def v1_written():
    x = v1.placeholder(F, [4], "x")
    w = v1.get_variable("w", initializer=np.ones(4, np.float32), use_resource=False)
    with tf.control_dependencies([v1.assign_add(w, x)]):
        return [x], [tf.identity(w.read_value() if hasattr(w, "read_value") else w, "y")]


@graph(feeds=[arrays([n, 4], seed=n) for n in (1, 3)])
def v1_partitioned():
    x = v1.placeholder(F, [None, 4], "x")
    w = v1.get_variable("w", initializer=arrays([4, 6])[0], use_resource=False)
    parts = v1.get_variable("p", [6, 2], partitioner=v1.fixed_size_partitioner(2), use_resource=False,
                            initializer=v1.random_normal_initializer(seed=3))
    return [x], [tf.matmul(tf.matmul(x, w), tf.convert_to_tensor(parts), name="y")]


@graph(feeds=[(np.array(c), *arrays([2, 4])) for c in (True, False)])
def v1_batch_norm_switch():
    c, x = v1.placeholder(B, [], "c"), v1.placeholder(F, [None, 4], "x")
    g = v1.get_variable("g", initializer=arrays([4])[0], use_resource=False)
    m = v1.get_variable("m", initializer=arrays([4], seed=2)[0], use_resource=False)
    mean, var = v1.cond(c, lambda: tf.nn.moments(x, [0]), lambda: (tf.identity(m), tf.ones([4])))
    y = (x - mean) * g / tf.sqrt(var + 1e-3)
    z = v1.cond(c, lambda: y * 2.0, lambda: y)
    return [c, x], [tf.identity(y, "y"), tf.identity(z, "z")]


@graph(feeds=[(np.array(c), *arrays([4])) for c in (True, False)])
def v1_cond_nested_values():
    c, x = v1.placeholder(B, [], "c"), v1.placeholder(F, [4], "x")
    def yes():
        i = v1.cond(tf.reduce_sum(x) > 0.0, lambda: x * 3.0, lambda: x)
        return i, x + 1.0
    a, b = v1.cond(c, yes, lambda: (x, x))
    return [c, x], [tf.identity(a, "a"), tf.identity(b, "b")]


@graph(feeds=[(np.int32(n), *arrays([4])) for n in (0, 1, 4)])
def v1_cond_outside_used_in_loop():
    n, x = v1.placeholder(I, [], "n"), v1.placeholder(F, [4], "x")
    c = n > 2
    k, l = v1.cond(c, lambda: (2.0, x), lambda: (3.0, -x))
    def body(i, y):
        p, q = v1.cond(c, lambda: (y * k, l), lambda: (y + k, y))
        return i + 1, p + q
    y = v1.while_loop(lambda i, y: i < n, body, [0, x])[1]
    z, w = v1.cond(c, lambda: (y, y * 2.0), lambda: (y + 1.0, y))
    return [n, x], [tf.identity(z, "z"), tf.identity(w, "w")]


@graph(feeds=[arrays([2, 8, 8, 3])])
def v1_dropout_training_flag():
    x = v1.placeholder(F, [None, 8, 8, 3], "x")
    flag = v1.placeholder_with_default(tf.constant(False), [], "flag")
    k = v1.get_variable("k", initializer=arrays([3, 3, 3, 4])[0], use_resource=False)
    y = v1.nn.conv2d(x, k, [1, 2, 2, 1], "SAME")
    y = v1.cond(flag, lambda: v1.nn.dropout(y, rate=0.5), lambda: tf.identity(y))
    y = v1.nn.max_pool(v1.nn.relu(y), [1, 2, 2, 1], [1, 2, 2, 1], "VALID")
    return [x], [tf.reshape(y, [-1, 16], name="y")]
