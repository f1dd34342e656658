"""Models of Keras with unusual settings, for `keras_layers.py`: axes, layouts, policies, masks, shared layers and states."""
import itertools


def options(**lists):
    """All combinations of settings."""
    for values in itertools.product(*lists.values()):
        yield dict(zip(lists, values))


def name_of(kind, settings):
    return f"{kind}-" + "-".join(f"{k}={v}" for k, v in settings.items())


class Cases:
    """Collects cases by name; a case makes a model."""

    def __init__(self, cases):
        self.cases = cases

    def add(self, kind, settings, shape, dtype="float32", more=""):
        """A layer with settings, on one input."""
        def build(keras):
            x = keras.Input(shape, dtype=dtype)
            return keras.Model(x, getattr(keras.layers, kind)(**settings)(x))
        self.cases[name_of(kind, settings) + f"-{shape}-{dtype}{more}"] = build

    def model(self, name, build):
        self.cases[name] = build


def convolutions(c):
    for o in options(kernel_size=[3, 2], strides=[1, 2], padding=["valid", "same", "causal"], dilation_rate=[1, 2], groups=[1, 2],
                     data_format=["channels_last", "channels_first"], use_bias=[True, False]):
        if o["strides"] > 1 and o["dilation_rate"] > 1:
            continue
        c.add("Conv1D", {"filters": 4, **o}, (11, 6) if o["data_format"] == "channels_last" else (6, 11))
    for o in options(kernel_size=[(3, 2)], strides=[1, (2, 3)], padding=["valid", "same"], dilation_rate=[1, (2, 3)], groups=[1, 3],
                     data_format=["channels_last", "channels_first"]):
        if o["strides"] != 1 and o["dilation_rate"] != 1:
            continue
        shape = (11, 17, 6) if o["data_format"] == "channels_last" else (6, 11, 17)
        c.add("Conv2D", {"filters": 3, **o}, shape)
        more = {k: v for k, v in o.items() if k != "groups"}
        if o["groups"] == 1:
            for depth in [1, 2]:
                c.add("DepthwiseConv2D", {**more, "strides": 2 if o["strides"] != 1 else 1, "depth_multiplier": depth}, shape)
                c.add("SeparableConv2D", {**more, "filters": 4, "strides": 2 if o["strides"] != 1 else 1,
                                          "depth_multiplier": depth, "use_bias": depth == 1}, shape)
    for o in options(kernel_size=[1, 3, 4], strides=[1, 2, 3], padding=["valid", "same"], output_padding=[None, 0, 1], dilation_rate=[1, 2],
                     data_format=["channels_last", "channels_first"], size=[5, None]):
        size = o.pop("size")
        if o["strides"] > 1 and o["dilation_rate"] > 1:
            continue
        shape = (size, 3) if o["data_format"] == "channels_last" else (3, size)
        c.add("Conv1DTranspose", {"filters": 2, **o}, shape)
        if size:
            shape = (5, 4, 3) if o["data_format"] == "channels_last" else (3, 5, 4)
            c.add("Conv2DTranspose", {"filters": 2, **o}, shape)
    for o in options(strides=[1, 2], padding=["same", "valid"], use_bias=[True, False]):
        c.add("Conv3DTranspose", {"filters": 2, "kernel_size": 3, **o}, (3, 4, 5, 2))
        c.add("Conv3D", {"filters": 2, "kernel_size": 2, **o}, (5, 4, 5, 2))
    for o in options(strides=[1, 2], padding=["same", "valid", "causal"], dilation_rate=[1, 2], depth_multiplier=[1, 3]):
        if o["strides"] == 1 or o["dilation_rate"] == 1:
            c.add("DepthwiseConv1D", {"kernel_size": 3, **o}, (9, 4))
            c.add("SeparableConv1D", {"filters": 5, "kernel_size": 3, **o}, (9, 4))
    for o in options(kernel_size=[2, 3], strides=[1, 2], padding=["valid"], implementation=[1, 2, 3]):
        c.add("LocallyConnected1D", {"filters": 2, **o}, (6, 3))
    for n in [1, 2, 3]:
        sizes = (7, 6, 5)[:n]
        for o in options(pool_size=[2, 3], strides=[None, 1, 2], padding=["valid", "same"], data_format=["channels_last", "channels_first"]):
            shape = (*sizes, 3) if o["data_format"] == "channels_last" else (3, *sizes)
            for kind in [f"MaxPooling{n}D", f"AveragePooling{n}D"]:
                c.add(kind, o, shape)
        for o in options(keepdims=[False, True], data_format=["channels_last", "channels_first"]):
            for kind in [f"GlobalMaxPooling{n}D", f"GlobalAveragePooling{n}D"]:
                c.add(kind, o, (*sizes, 3))
        for size in [2, 3, 4]:
            for data_format in ["channels_last", "channels_first"]:
                shape = (*sizes, 3) if data_format == "channels_last" else (3, *sizes)
                for kind in [f"AdaptiveMaxPooling{n}D", f"AdaptiveAveragePooling{n}D"]:
                    c.add(kind, {"output_size": size, "data_format": data_format}, shape)
    for kind, dtype in itertools.product(["MaxPooling2D", "GlobalMaxPooling2D", "AveragePooling2D", "GlobalAveragePooling2D"], ["int32", "uint8"]):
        c.add(kind, {}, (4, 4, 2), dtype)
    for layout in ["channels_last", "channels_first"]:
        for size, how in [((2, 3), "nearest"), ((2, 2), "bilinear"), ((3, 2), "bicubic"), ((2, 2), "lanczos3"), ((2, 2), "lanczos5")]:
            c.add("UpSampling2D", {"size": size, "interpolation": how, "data_format": layout}, (3, 4, 2))
        c.add("UpSampling3D", {"size": (2, 1, 3), "data_format": layout}, (2, 3, 4, 2))
        c.add("ZeroPadding2D", {"padding": ((1, 0), (2, 3)), "data_format": layout}, (3, 4, 2))
        c.add("ZeroPadding3D", {"padding": (1, 0, 2), "data_format": layout}, (2, 3, 4, 2))
        c.add("Cropping2D", {"cropping": ((1, 0), (0, 1)), "data_format": layout}, (3, 4, 5))
        c.add("Cropping3D", {"cropping": ((1, 0), (0, 1), (1, 1)), "data_format": layout}, (4, 3, 4, 5))
        c.add("Flatten", {"data_format": layout}, (3, 4, 2))
        c.add("Flatten", {"data_format": layout}, (None, 2))
    c.add("ZeroPadding1D", {"padding": (0, 2)}, (4, 2))
    c.add("Cropping1D", {"cropping": (1, 2)}, (6, 2))
    c.add("UpSampling1D", {"size": 3}, (None, 2))


def normalizations(c):
    for axis in [-1, 1, 2, 3]:
        for o in options(epsilon=[1e-3, 0.1], center=[True, False], scale=[True, False]):
            c.add("BatchNormalization", {"axis": axis, **o}, (3, 4, 6))
            c.add("GroupNormalization", {"axis": axis, "groups": {1: 3, 2: 2}.get(axis, 3), **o}, (3, 4, 6))
        c.add("GroupNormalization", {"axis": axis, "groups": -1}, (3, 4, 6))
    c.add("BatchNormalization", {"axis": [1, 3]}, (3, 4, 6))
    c.add("BatchNormalization", {}, (5,))
    c.add("GroupNormalization", {"groups": 5}, (10,))
    c.add("GroupNormalization", {"groups": 2}, (None, None, 4))
    for axis in [-1, 1, 2, [1, 2], [2, 1], [2, 3], [3, 2], [1, 3], [-1, -2], [1, 2, 3]]:
        for o in options(epsilon=[1e-3, 0.1], center=[True, False], scale=[True, False]):
            c.add("LayerNormalization", {"axis": axis, **o}, (3, 4, 5))
        c.add("LayerNormalization", {"axis": axis, "rms_scaling": True}, (3, 4, 5))
        c.add("RMSNormalization", {"axis": axis, "epsilon": 0.1}, (3, 4, 5))
        c.add("UnitNormalization", {"axis": axis}, (3, 4, 5))
        c.add("Softmax", {"axis": axis}, (3, 4, 5))
    c.add("LayerNormalization", {"scale": False}, (None, 5))
    c.add("LayerNormalization", {"axis": 1, "scale": False}, (4, 5))
    c.add("UnitNormalization", {"axis": [-1, 1]}, (3, 4, 5))
    for kind in ["Dense", "Conv2D"]:
        def build(keras, kind=kind):
            x = keras.Input((6, 6, 3))
            inner = keras.layers.Dense(4, activation="relu") if kind == "Dense" else keras.layers.Conv2D(4, 3, activation="tanh")
            return keras.Model(x, keras.layers.SpectralNormalization(inner, power_iterations=2)(x))
        c.model(f"SpectralNormalization-{kind}", build)


def activations(c):
    for o in options(max_value=[None, 0.7, 2.0], negative_slope=[0.0, 0.2], threshold=[0.0, 0.5]):
        c.add("ReLU", o, (20,))
    for slope in [0.0, 0.3, 1.5]:
        c.add("LeakyReLU", {"negative_slope": slope}, (20,))
        c.add("LeakyReLU", {"alpha": slope}, (20,))
    c.add("ELU", {"alpha": 0.4}, (20,))
    c.add("ThresholdedReLU", {"theta": 0.3}, (20,))
    for axes in [None, [1], [1, 2], [2]]:
        c.add("PReLU", {"shared_axes": axes}, (3, 4, 5))
    names = """relu relu6 sigmoid tanh softmax log_softmax elu selu celu gelu silu swish softplus softsign exponential leaky_relu hard_sigmoid
    hard_swish hard_silu hard_tanh hard_shrink soft_shrink tanh_shrink log_sigmoid sparse_sigmoid sparse_plus squareplus sparsemax glu mish
    threshold linear""".split()
    for name in names:
        for kind, o in [("Dense", {"units": 4}), ("Activation", {}), ("Conv1D", {"filters": 4, "kernel_size": 1}),
                        ("EinsumDense", {"equation": "abc,cd->abd", "output_shape": (None, 4)})]:
            c.add(kind, {**o, "activation": name}, (5, 6))
        for policy in ["mixed_float16", "float16", "mixed_bfloat16"]:
            c.add("Activation", {"activation": name, "dtype": policy}, (5, 6))
    for layer in ["LeakyReLU", "PReLU", "ReLU", "Softmax"]:
        more = {"LeakyReLU": [0.4], "ReLU": [1.5, 0.1, 0.2]}.get(layer, [])
        for kind in ["Dense", "Conv1D", "DepthwiseConv1D", "SeparableConv1D", "EinsumDense", "Activation", "LSTM", "GRU", "SimpleRNN", "Conv1DTranspose"]:
            def build(keras, layer=layer, more=more, kind=kind):
                x = keras.Input((5, 6))
                activation = getattr(keras.layers, layer)(*more)
                make = {"Conv1D": [4, 2], "DepthwiseConv1D": [2], "SeparableConv1D": [4, 2], "Conv1DTranspose": [4, 2],
                        "EinsumDense": ["abc,cd->abd", (None, 4)], "Activation": []}.get(kind, [4])
                return keras.Model(x, getattr(keras.layers, kind)(*make, activation=activation)(x))
            c.model(f"{kind}-activation-layer-{layer}", build)


def policies(c):
    kinds = [("Dense", {"units": 4}, (5, 6)), ("Conv2D", {"filters": 3, "kernel_size": 2}, (5, 5, 2)), ("LSTM", {"units": 3}, (5, 4)),
             ("GRU", {"units": 3, "return_sequences": True}, (5, 4)), ("SimpleRNN", {"units": 3, "activation": "gelu"}, (5, 4)),
             ("BatchNormalization", {}, (5, 4)), ("BatchNormalization", {"axis": 1}, (5, 4)), ("LayerNormalization", {}, (5, 4)),
             ("LayerNormalization", {"axis": 1}, (5, 4)), ("GroupNormalization", {"groups": 2}, (5, 4)), ("RMSNormalization", {}, (5, 4)),
             ("UnitNormalization", {}, (5, 4)), ("MaxPooling1D", {}, (6, 4)), ("AveragePooling1D", {"padding": "same"}, (5, 4)),
             ("GlobalAveragePooling1D", {}, (5, 4)), ("DepthwiseConv2D", {"kernel_size": 2}, (5, 5, 2)), ("Softmax", {}, (5, 4)),
             ("SeparableConv1D", {"filters": 3, "kernel_size": 2}, (5, 4)), ("Conv2DTranspose", {"filters": 3, "kernel_size": 2}, (5, 5, 2)),
             ("EinsumDense", {"equation": "abc,cd->abd", "output_shape": (None, 4), "bias_axes": "d"}, (5, 6)), ("Rescaling", {"scale": 0.3, "offset": 1.0}, (5, 4)),
             ("UpSampling2D", {"interpolation": "bilinear"}, (3, 4, 2)), ("Masking", {}, (5, 4)), ("Flatten", {}, (3, 4)), ("PReLU", {}, (5, 4)),
             ("ELU", {}, (5,)), ("ZeroPadding2D", {}, (3, 4, 2)), ("Normalization", {"mean": [1.0] * 4, "variance": [2.0] * 4}, (5, 4)),
             ("ConvLSTM1D", {"filters": 2, "kernel_size": 2}, (3, 5, 4)), ("GlobalMaxPooling2D", {}, (3, 4, 2))]
    for (kind, o, shape), policy in itertools.product(kinds, ["mixed_float16", "float16", "mixed_bfloat16", "bfloat16", "float64"]):
        # ONNX Runtime has no such kernels of doubles.
        if policy == "float64" and kind in ("Conv2D", "LSTM", "GRU", "DepthwiseConv2D", "SeparableConv1D", "Conv2DTranspose", "ConvLSTM1D"):
            continue
        c.add(kind, {**o, "dtype": policy}, shape)
        if kind in ("Dense", "LSTM", "BatchNormalization", "LayerNormalization"):
            c.add(kind, {**o, "dtype": policy}, shape, "float16")
    for policy in ["mixed_float16", "float16", "mixed_bfloat16", "float64"]:
        c.add("Embedding", {"input_dim": 7, "output_dim": 3, "dtype": policy}, (4,), "int32")

        def attention(keras, policy=policy):
            x = keras.Input((4, 6))
            return keras.Model(x, keras.layers.MultiHeadAttention(2, 3, dtype=policy)(x, x, use_causal_mask=True))
        c.model(f"MultiHeadAttention-{policy}", attention)

        def wrapped(keras, policy=policy):
            x = keras.Input((4, 6))
            y = keras.layers.Bidirectional(keras.layers.LSTM(3, dtype=policy, return_sequences=True), dtype=policy)(x)
            return keras.Model(x, keras.layers.TimeDistributed(keras.layers.Dense(2, dtype=policy), dtype=policy)(y))
        c.model(f"Bidirectional-TimeDistributed-{policy}", wrapped)

        def merged(keras, policy=policy):
            x, y = keras.Input((4,)), keras.Input((4,), dtype="float16")
            both = [keras.layers.Add(dtype=policy)([x, y]), keras.layers.Concatenate(dtype=policy)([x, y]),
                    keras.layers.Dot(-1, dtype=policy)([x, y]), keras.layers.Average(dtype=policy)([x, y])]
            return keras.Model([x, y], both)
        c.model(f"merges-{policy}", merged)
    for kind, o in [("Dense", {"units": 3}), ("Conv1D", {"filters": 3, "kernel_size": 1}), ("LSTM", {"units": 2}), ("BatchNormalization", {}),
                    ("LayerNormalization", {}), ("Softmax", {}), ("ReLU", {}), ("Dropout", {"rate": 0.1}), ("Rescaling", {"scale": 0.5})]:
        for dtype in ["int32", "uint8", "bool"]:
            c.add(kind, o, (4, 3), dtype)


def merges(c):
    def masked(keras, x, on):
        return keras.layers.Masking()(x) if on else x
    for kind, left, right, after in itertools.product(["Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum", "Concatenate", "Dot"],
                                                      [0, 1], [0, 1], ["", "LSTM", "pool"]):
        def build(keras, kind=kind, left=left, right=right, after=after):
            x, y = keras.Input((4, 3)), keras.Input((4, 3))
            layer = keras.layers.Dot(2) if kind == "Dot" else getattr(keras.layers, kind)()
            z = layer([masked(keras, x, left), masked(keras, y, right)])
            z = keras.layers.LSTM(2)(z) if after == "LSTM" else keras.layers.GlobalAveragePooling1D()(z) if after == "pool" else z
            return keras.Model([x, y], z)
        c.model(f"{kind}-masks-{left}{right}-{after}", build)
    for axis, left in itertools.product([1, 2, -1], [0, 1]):
        def build(keras, axis=axis, left=left):
            x, y = keras.Input((4, 3)), keras.Input((4, 3))
            z = keras.layers.Concatenate(axis)([masked(keras, x, left), masked(keras, y, True)])
            return keras.Model([x, y], keras.layers.LSTM(2)(z))
        c.model(f"Concatenate-{axis}-masks-{left}", build)
    for kind in ["Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum"]:
        for shapes in [[(4, 3), (3,)], [(4, 3), (1, 3)], [(2, 4, 3), (3,)], [(4, 3), (1,)]] + ([[(3,)] * 3] if kind != "Subtract" else []):
            def build(keras, kind=kind, shapes=shapes):
                x = [keras.Input(s) for s in shapes]
                return keras.Model(x, getattr(keras.layers, kind)()(x))
            c.model(f"{kind}-{shapes}", build)
    for axes, left, right in [(1, (4,), (4,)), ((1, 2), (4, 3), (3, 4)), ((2, 1), (4, 3), (3, 4)), ((1, 1), (4, 3), (4,)), ((1, 2), (3,), (4, 3)),
                              ((2, 2), (4, 3), (5, 3)), ((3, 1), (2, 4, 3), (3, 5)), ((-1, -1), (4, 3), (2, 3)), (2, (4, 3), (4, 3))]:
        for normalize in [False, True]:
            def build(keras, axes=axes, left=left, right=right, normalize=normalize):
                x = [keras.Input(left), keras.Input(right)]
                return keras.Model(x, keras.layers.Dot(axes, normalize=normalize)(x))
            c.model(f"Dot-{axes}-{left}-{right}-{normalize}", build)


def masks(c):
    """Layers between a mask and what reads it."""
    between = [("Dense", {"units": 3}), ("Dropout", {"rate": 0.3}), ("SpatialDropout1D", {"rate": 0.3}), ("BatchNormalization", {}), ("LayerNormalization", {}),
               ("RMSNormalization", {}), ("Activation", {"activation": "tanh"}), ("ReLU", {}), ("Softmax", {}), ("Softmax", {"axis": 1}), ("Conv1D", {"filters": 3, "kernel_size": 1}),
               ("MaxPooling1D", {"pool_size": 1}), ("Permute", {"dims": (1, 2)}), ("Reshape", {"target_shape": (4, 3)}), ("UpSampling1D", {"size": 1}),
               ("ZeroPadding1D", {"padding": 0}), ("Cropping1D", {"cropping": 0}), ("EinsumDense", {"equation": "abc,cd->abd", "output_shape": (None, 3)}),
               ("UnitNormalization", {}), ("GroupNormalization", {"groups": 1}), ("Rescaling", {"scale": 2.0}), ("GaussianNoise", {"stddev": 0.1}),
               ("ActivityRegularization", {}), ("PReLU", {}), ("ELU", {}), ("LSTM", {"units": 3, "return_sequences": True}), ("GRU", {"units": 3, "return_sequences": True}),
               ("Masking", {"mask_value": 1.0}), ("Identity", {}), ("Normalization", {"mean": 0.5, "variance": 2.0, "axis": None}), ("AlphaDropout", {"rate": 0.2})]
    for (kind, o), reader in itertools.product(between, ["LSTM", "pool", "backwards"]):
        def build(keras, kind=kind, o=o, reader=reader):
            x = keras.Input((4, 3))
            y = getattr(keras.layers, kind)(**o)(keras.layers.Masking()(x))
            if reader == "pool":
                return keras.Model(x, keras.layers.GlobalAveragePooling1D()(y))
            return keras.Model(x, keras.layers.LSTM(2, go_backwards=reader == "backwards")(y))
        c.model(name_of(kind, o) + f"-masked-{reader}", build)
    for o in options(axis=[-1, 1, [1, 2]], scale=["none", "row"]):
        def build(keras, o=o):
            x, m = keras.Input((4, 3)), keras.Input((4, 3) if o["scale"] == "none" else (1, 3), dtype="bool")
            return keras.Model([x, m], keras.layers.Softmax(axis=o["axis"])(x, mask=m))
        c.model(name_of("Softmax-mask", o), build)

    def embedded(keras):
        x = keras.Input((5,), dtype="int32")
        y = keras.layers.Embedding(6, 3, mask_zero=True)(x)
        y = keras.layers.Bidirectional(keras.layers.LSTM(2, return_sequences=True))(y)
        return keras.Model(x, keras.layers.GlobalAveragePooling1D()(keras.layers.TimeDistributed(keras.layers.Dense(2))(y)))
    c.model("Embedding-masked-Bidirectional", embedded)

    def nested(keras):
        inner_x = keras.Input((4, 3))
        inner = keras.Model(inner_x, keras.layers.LSTM(3, return_sequences=True)(inner_x))
        x = keras.Input((4, 3))
        y = inner(keras.layers.Masking()(x))
        return keras.Model(x, [y, keras.layers.LSTM(2)(y), inner(x)])
    c.model("nested-masked", nested)

    def sequence(keras):
        x = keras.Input((4,), dtype="int32")
        inner = keras.Sequential([keras.layers.Embedding(6, 3, mask_zero=True), keras.layers.Dense(3), keras.layers.GRU(2, return_sequences=True)])
        return keras.Model(x, keras.layers.LSTM(2)(inner(x)))
    c.model("sequence-masked", sequence)


def states(c):
    sizes = {"LSTM": 2, "GRU": 1, "SimpleRNN": 1}
    for kind, o in itertools.product(sizes, options(return_sequences=[False, True], return_state=[False, True], go_backwards=[False, True],
                                                    unroll=[False, True], masked=[False, True], how=["list", "named"])):
        def build(keras, kind=kind, o=dict(o)):
            masked, how = o.pop("masked"), o.pop("how")
            x = keras.Input((4, 3))
            y = keras.layers.Masking()(x) if masked else x
            initial = [keras.Input((2,)) for _ in range(sizes[kind])]
            layer = getattr(keras.layers, kind)(2, **o)
            z = layer(y, initial_state=initial) if how == "named" else layer([y, *initial])
            return keras.Model([x, *initial], z)
        c.model(name_of(f"{kind}-initial", o), build)
    for kind, mode, seq in itertools.product(sizes, ["concat", "sum", None], [False, True]):
        def build(keras, kind=kind, mode=mode, seq=seq):
            x = keras.Input((4, 3))
            initial = [keras.Input((2,)) for _ in range(2 * sizes[kind])]
            inner = getattr(keras.layers, kind)(2, return_state=True, return_sequences=seq)
            return keras.Model([x, *initial], keras.layers.Bidirectional(inner, merge_mode=mode)(x, initial_state=initial))
        c.model(f"Bidirectional-initial-{kind}-{mode}-{seq}", build)

        def other(keras, kind=kind, mode=mode, seq=seq):
            x = keras.Input((4, 3))
            y = keras.layers.Masking()(x)
            forward = getattr(keras.layers, kind)(2, return_sequences=seq)
            backward = getattr(keras.layers, "GRU" if kind == "LSTM" else "LSTM")(2, return_sequences=seq, go_backwards=True, activation="relu")
            return keras.Model(x, keras.layers.Bidirectional(forward, merge_mode=mode, backward_layer=backward)(y))
        c.model(f"Bidirectional-other-{kind}-{mode}-{seq}", other)
    for kind in sizes:
        for o in options(stateful=[True], return_sequences=[False, True], return_state=[False, True]):
            def build(keras, kind=kind, o=o):
                x = keras.Input(batch_shape=(2, 4, 3))
                return keras.Model(x, getattr(keras.layers, kind)(2, **o)(x))
            c.model(name_of(kind, o), build)
        for o in options(time_major=[True], return_sequences=[False, True], go_backwards=[False, True]):
            c.add(kind, {"units": 2, **o}, (4, 3))
        c.add(kind, {"units": 2, "dropout": 0.3, "recurrent_dropout": 0.2, "use_bias": False, "unroll": True}, (4, 3))

    def encoder(keras):
        x, y = keras.Input((4, 3)), keras.Input((5, 2))
        _, h, s = keras.layers.LSTM(3, return_state=True)(x)
        z, *_ = keras.layers.LSTM(3, return_sequences=True, return_state=True)(y, initial_state=[h, s])
        return keras.Model([x, y], keras.layers.AdditiveAttention()([z, keras.layers.Dense(3)(x)]))
    c.model("encoder-decoder", encoder)
    for mode, masked in itertools.product(["", "LSTM", "Sequential", "Functional", "Bidirectional", "Masking"], [False, True]):
        def build(keras, mode=mode, masked=masked):
            x = keras.Input((None, 4, 3))
            y = keras.layers.Masking()(x) if masked else x
            if mode == "Sequential":
                inner = keras.Sequential([keras.Input((4, 3)), keras.layers.Dense(2), keras.layers.Flatten()])
            elif mode == "Functional":
                z = keras.Input((4, 3))
                inner = keras.Model(z, keras.layers.Conv1D(2, 2)(z))
            elif mode == "Bidirectional":
                inner = keras.layers.Bidirectional(keras.layers.GRU(2))
            else:
                inner = {"": lambda: keras.layers.Dense(2), "LSTM": lambda: keras.layers.LSTM(2), "Masking": keras.layers.Masking}[mode]()
            return keras.Model(x, keras.layers.TimeDistributed(inner)(y))
        c.model(f"TimeDistributed-{mode}-{masked}", build)


def shared(c):
    def layers_twice(keras):
        x, y = keras.Input((4,)), keras.Input((4,))
        dense, norm = keras.layers.Dense(4, activation="relu"), keras.layers.BatchNormalization()
        return keras.Model([x, y], [norm(dense(x)), norm(dense(dense(y))), dense(norm(x))])
    c.model("shared-layers", layers_twice)

    def models_twice(keras):
        a, b = keras.Input((4,), name="a"), keras.Input((4,), name="b")
        inner = keras.Model([a, b], [keras.layers.Dense(3)(a), keras.layers.Add()([a, b])], name="inner")
        outer_x = keras.Input((4,))
        p, q = keras.layers.Dense(3)(outer_x), keras.Sequential([keras.layers.Dense(4), keras.layers.Dense(3)])(outer_x)
        outer = keras.Model(outer_x, keras.layers.Concatenate()([p, q]), name="outer")
        x, y = keras.Input((4,)), keras.Input((4,))
        one, two = inner([x, y])
        three, four = inner([y, two])
        return keras.Model([x, y], [outer(x), one, outer(four), three, outer(keras.layers.Dense(4)(one)), two])
    c.model("shared-models", models_twice)

    def mapped(keras):
        a, b = keras.Input((4,), name="a"), keras.Input((3,), name="b")
        inner = keras.Model({"b": b, "a": a}, {"z": keras.layers.Dense(3)(a), "y": keras.layers.Dense(2)(b)})
        x, y = keras.Input((3,)), keras.Input((4,))
        found = inner({"a": y, "b": x})
        return keras.Model([x, y], [found["z"], found["y"]])
    c.model("shared-dicts", mapped)

    def sequences(keras):
        inner = keras.Sequential([keras.layers.Dense(4), keras.layers.Dense(4), keras.Sequential([keras.layers.Dense(4), keras.layers.Dense(4)])])
        x, y = keras.Input((4,)), keras.Input((2, 4))
        return keras.Model([x, y], [inner(x), inner(y), inner.layers[1](x)])
    c.model("shared-sequences", sequences)

    def passed(keras):
        x = keras.Input((4,))
        return keras.Model(x, [x, keras.layers.Dropout(0.5)(x), keras.layers.Dense(2)(x), x])
    c.model("outputs-are-inputs", passed)

    def same(keras):
        x = keras.Input((4,))
        y = keras.layers.Dense(2)(x)
        return keras.Model(x, [y, y, keras.layers.Activation("linear")(y)])
    c.model("outputs-twice", same)

    def extended(keras):
        x = keras.Input((4, 1))
        inner = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
        return keras.Model(x, inner(x))
    c.model("nested-squeezed", extended)
    for kind, o, shape in [("Reshape", {"target_shape": (-1, 2)}, (4, 3)), ("Reshape", {"target_shape": (2, -1)}, (None, 4)), ("Reshape", {"target_shape": ()}, (1,)),
                           ("Permute", {"dims": (3, 1, 2)}, (2, 3, 4)), ("RepeatVector", {"n": 3}, (4,)), ("Flatten", {}, ()), ("Flatten", {}, (2, None, 3)),
                           ("Masking", {"mask_value": -1.0}, (4, 3)), ("Rescaling", {"scale": [0.5, 2.0, 3.0], "offset": [1.0, 0.0, -1.0]}, (4, 3)),
                           ("Rescaling", {"scale": 1.0, "offset": 0.0}, (4, 3)), ("Dense", {"units": 2, "use_bias": False}, (2, 3, 4)),
                           ("Embedding", {"input_dim": 5, "output_dim": 2}, ()), ("EinsumDense", {"equation": "...x,xy->...y", "output_shape": 4, "bias_axes": "y"}, (3, 5)),
                           ("EinsumDense", {"equation": "abc,cde->abde", "output_shape": (None, 2, 3), "bias_axes": "de"}, (3, 5)),
                           ("EinsumDense", {"equation": "abc,cde->abde", "output_shape": (None, 2, 3), "bias_axes": "e"}, (3, 5)),
                           ("EinsumDense", {"equation": "abc,cde->aebd", "output_shape": (3, None, 2), "bias_axes": "e"}, (4, 5))]:
        for dtype in ["float32"] + (["int32"] if kind != "Dense" and "Einsum" not in kind else []):
            c.add(kind, o, shape, dtype)


def gates(c):
    for kind, o in itertools.product(["MultiHeadAttention", "GroupQueryAttention"],
                                     options(use_gate=[False, True], use_bias=[True, False], sliding_window=[None, 2], causal=[False, True])):
        def build(keras, kind=kind, o=dict(o)):
            causal = o.pop("causal")
            x, y = keras.Input((4, 6)), keras.Input((5, 6))
            sizes = (2, 3) if kind == "MultiHeadAttention" else (3, 4, 2)
            layer = getattr(keras.layers, kind)(*sizes, **o)
            return keras.Model([x, y], layer(x, y, use_causal_mask=causal))
        c.model(name_of(kind, o), build)


def unusual(cases):
    c = Cases(cases)
    for family in [convolutions, normalizations, activations, policies, merges, masks, states, shared, gates]:
        family(c)
