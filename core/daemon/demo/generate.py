"""Makes the demo's weights and reference values: draws digits, trains the network of `digits.ini`.

The samples are drawn here from glyphs of 5 x 7 points (shifted, scaled, with noise), so nothing is
downloaded and no data set is needed. Training is plain numpy: convolution by patches, momentum.
The reference outputs are computed in double precision from the weights as they are written.

    python generate.py        writes weights/, inputs.npz, outputs.npz beside this file
"""

import os

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
SIZE, CLASSES, BATCH, EPOCHS, RATE = 16, 10, 32, 12, 0.02

GLYPHS = """
.###. ..#.. .###. .###. ...#. ##### .###. ##### .###. .###.
#...# .##.. #...# #...# ..##. #.... #.... ....# #...# #...#
#..## ..#.. ....# ....# .#.#. ####. #.... ...#. #...# #...#
#.#.# ..#.. ..##. ..##. #..#. ....# ####. ..#.. .###. .####
##..# ..#.. .#... ....# ##### ....# #...# .#... #...# ....#
#...# ..#.. #.... #...# ...#. #...# #...# .#... #...# ....#
.###. .###. ##### .###. ...#. .###. .###. .#... .###. .###.
"""


def glyphs():
    rows = [line.split() for line in GLYPHS.split("\n") if line]
    return [np.array([[c == "#" for c in row[d]] for row in rows], float) for d in range(CLASSES)]


def draw(rng, glyph):
    """One sample: the glyph resampled at a random size and place, with noise, in [0, 1]."""
    height, width = rng.uniform(10, 14), rng.uniform(7, 11)
    top, left = rng.uniform(0.5, SIZE - height - 0.5), rng.uniform(0.5, SIZE - width - 0.5)
    slant = rng.uniform(-0.15, 0.15)
    y, x = np.mgrid[0:SIZE, 0:SIZE] + 0.5
    v = (y - top) / height * glyph.shape[0] - 0.5
    u = (x - left + slant * (y - SIZE / 2)) / width * glyph.shape[1] - 0.5
    padded = np.pad(glyph, 2)
    v, u = np.clip(v + 2, 0, padded.shape[0] - 1.001), np.clip(u + 2, 0, padded.shape[1] - 1.001)
    i, j = v.astype(int), u.astype(int)
    a, b = v - i, u - j
    image = ((1 - a) * (1 - b) * padded[i, j] + (1 - a) * b * padded[i, j + 1]
             + a * (1 - b) * padded[i + 1, j] + a * b * padded[i + 1, j + 1])
    return np.clip(image * rng.uniform(0.7, 1) + rng.normal(0, 0.05, image.shape), 0, 1)


def samples(rng, count):
    shapes = glyphs()
    labels = rng.integers(0, CLASSES, count)
    images = np.stack([draw(rng, shapes[label]) for label in labels])
    return images[:, None].astype(np.float32), labels


def patches(x, k):
    """N,C,H,W -> N,OH,OW,C*k*k"""
    windows = np.lib.stride_tricks.sliding_window_view(x, (k, k), axis=(2, 3))
    return windows.transpose(0, 2, 3, 1, 4, 5).reshape(x.shape[0], *windows.shape[2:4], -1)


def conv(x, w, b):
    out = patches(x, w.shape[2]) @ w.reshape(len(w), -1).T + b
    return out.transpose(0, 3, 1, 2)


def conv_back(x, w, grad):
    k = w.shape[2]
    g = grad.transpose(0, 2, 3, 1)
    flat = g.reshape(-1, len(w))
    dw = (flat.T @ patches(x, k).reshape(len(flat), -1)).reshape(w.shape)
    padded = np.pad(grad, ((0, 0), (0, 0), (k - 1, k - 1), (k - 1, k - 1)))
    dx = conv(padded, w[:, :, ::-1, ::-1].transpose(1, 0, 2, 3), 0)
    return dw, flat.sum(0), dx


def pool(x):
    n, c, h, w = x.shape
    return x.reshape(n, c, h // 2, 2, w // 2, 2).max((3, 5))


def pool_back(x, y, grad):
    wide = lambda t: t.repeat(2, 2).repeat(2, 3)
    return np.where(x == wide(y), wide(grad), 0)


def forward(p, x):
    t = {"x": x}
    t["stem"] = np.maximum(conv(x, *p["stem"]), 0)
    t["halve"] = pool(t["stem"])
    t["detail"] = np.maximum(conv(t["halve"], *p["detail"]), 0)
    t["quarter"] = pool(t["detail"])
    t["flat"] = t["quarter"].reshape(len(x), -1)
    t["mix"] = np.maximum(t["flat"] @ p["mix"][0].T + p["mix"][1], 0)
    scores = t["mix"] @ p["digit"][0].T + p["digit"][1]
    e = np.exp(scores - scores.max(1, keepdims=True))
    t["probability"] = e / e.sum(1, keepdims=True)
    return t


def backward(p, t, labels):
    grads = {}
    g = t["probability"].copy()
    g[np.arange(len(labels)), labels] -= 1
    g /= len(labels)
    grads["digit"] = g.T @ t["mix"], g.sum(0)
    g = (g @ p["digit"][0]) * (t["mix"] > 0)
    grads["mix"] = g.T @ t["flat"], g.sum(0)
    g = (g @ p["mix"][0]).reshape(t["quarter"].shape)
    g = pool_back(t["detail"], t["quarter"], g) * (t["detail"] > 0)
    dw, db, g = conv_back(t["halve"], p["detail"][0], g)
    grads["detail"] = dw, db
    g = pool_back(t["stem"], t["halve"], g) * (t["stem"] > 0)
    dw, db, _ = conv_back(t["x"], p["stem"][0], g)
    grads["stem"] = dw, db
    return grads


def train(rng):
    shapes = {"stem": (6, 1, 5, 5), "detail": (12, 6, 3, 3), "mix": (32, 48), "digit": (10, 32)}
    he = lambda s: rng.normal(0, np.sqrt(2 / np.prod(s[1:])), s)
    p = {name: [he(shape), np.zeros(shape[0])] for name, shape in shapes.items()}
    speed = {name: [np.zeros_like(v) for v in values] for name, values in p.items()}
    images, labels = samples(rng, 6000)
    for epoch in range(EPOCHS):
        order = rng.permutation(len(images))
        rate = RATE * 0.5 ** (epoch // 4)
        for at in range(0, len(order) - BATCH + 1, BATCH):
            batch = order[at:at + BATCH]
            grads = backward(p, forward(p, images[batch]), labels[batch])
            for name, values in p.items():
                for i, value in enumerate(values):
                    speed[name][i] = 0.9 * speed[name][i] - rate * grads[name][i]
                    value += speed[name][i]
    return p


def write_text(path, rows):
    with open(path, "w") as f:
        for row in rows:
            f.write(" ".join(f"{x:.6g}" for x in np.ravel(row)) + "\n")


def read_text(path, shape):
    return np.array(open(path).read().split(), float).reshape(shape)


def main():
    rng = np.random.default_rng(20)
    folder = os.path.join(HERE, "weights")
    os.makedirs(folder, exist_ok=True)
    p = train(rng)
    written = {}
    for name, (w, b) in p.items():
        base = os.path.join(folder, name)
        write_text(base + "_weights.syntxt", w)
        write_text(base + "_biases.syntxt", b)
        written[name] = (read_text(base + "_weights.syntxt", w.shape),
                         read_text(base + "_biases.syntxt", b.shape))
    images, labels = samples(rng, 2000)
    right = forward(written, images.astype(float))["probability"].argmax(1) == labels
    print(f"right on fresh samples: {100 * right.mean():.2f} %")
    images, labels = images[:8], labels[:8]
    outputs = forward(written, images.astype(float))["probability"].astype(np.float32)
    np.savez_compressed(os.path.join(HERE, "inputs.npz"), env=images)
    np.savez_compressed(os.path.join(HERE, "outputs.npz"), probability=outputs)


if __name__ == "__main__":
    main()
