#!/usr/bin/env python3
"""Judge onnxd on models of scikit-learn, LightGBM and XGBoost, as their converters export them.

    ml_models.py --onnxd target/release/onnxd [--only NAME,...] [--keep DIR] [--verbose]

Some sixty small models are trained on generated tables and texts: trees, boosting, forests, linear models, support vector machines with and without
probabilities, neighbours, Gaussian processes, networks, naive Bayes, clusters, outlier detection, pipelines with encoders, imputers, scalers and text;
in float and double, with and without ZipMap, labels as integers and strings. For each:

convert   `onnxd convert` writes a model that passes the ONNX checker, and that gives in ONNX Runtime what the original gives there
eval      `onnxd eval` of the original gives what ONNX Runtime gives
check     references dropped beside the model (`inputs.npz`, `outputs.npz`) agree in the report of the conversion

Labels and strings must agree but for rows whose two best scores lie closer than the tolerance. Needs numpy, onnx, onnxruntime, scikit-learn, skl2onnx,
lightgbm, xgboost, onnxmltools; says which are absent and ends with 0.
"""
import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import warnings

NEEDED = ["numpy", "onnx", "onnxruntime", "sklearn", "skl2onnx", "lightgbm", "xgboost", "onnxmltools"]
ABSENT = [name for name in NEEDED if importlib.util.find_spec(name) is None]
if ABSENT:
    print(f"skipped: this Python has no {', '.join(ABSENT)}")
    sys.exit(0)

import numpy as np
import onnx
import onnxruntime
from ml_operators import flattened

warnings.filterwarnings("ignore")
ROWS, COLUMNS = 160, 6
MODELS = {}


def table(classes=3, strings=False, seed=0):
    r = np.random.default_rng(seed)
    x = r.normal(size=(ROWS, COLUMNS))
    score = x[:, 0] * 1.5 + np.sin(x[:, 1] * 2) + 0.3 * x[:, 2] * x[:, 3]
    y = np.digitize(score, np.quantile(score, np.linspace(0, 1, classes + 1)[1:-1]))
    return x, (np.array(["ant", "bee", "cat", "dog"])[y] if strings else y), score


def words(seed=0):
    r = np.random.default_rng(seed)
    vocabulary = ["red", "green", "blue", "fox", "dog", "cat", "runs", "sleeps", "Fast", "slow", "very", "the", "a1", "x-ray"]
    texts = [" ".join(r.choice(vocabulary, r.integers(2, 9))) for _ in range(80)]
    return np.array(texts), np.array([int("red" in t) + int("dog" in t) for t in texts])


def add(name, estimator, data=table, double=False, target=1, **options):
    """A model, what it is trained on (`target` 1 are classes, 2 are numbers), and how it is exported."""
    MODELS[name] = (estimator, data, double, target, options)


def register():
    from lightgbm import LGBMClassifier, LGBMRegressor
    from sklearn import cluster, decomposition, discriminant_analysis, ensemble, feature_selection, gaussian_process
    from sklearn import linear_model, mixture, multiclass, multioutput, naive_bayes, neighbors, neural_network, pipeline, preprocessing, svm, tree
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.impute import SimpleImputer
    from xgboost import XGBClassifier, XGBRegressor

    two, text = lambda: table(2), lambda: table(3, strings=True)
    no_map = {"options": {"zipmap": False}}
    small = dict(n_estimators=8, max_depth=4, random_state=0)
    add("tree_classifier", lambda: tree.DecisionTreeClassifier(max_depth=5, random_state=0))
    add("tree_regressor", lambda: tree.DecisionTreeRegressor(max_depth=5, random_state=0), target=2)
    add("forest_two", lambda: ensemble.RandomForestClassifier(**small), two)
    add("forest_strings", lambda: ensemble.RandomForestClassifier(**small), text)
    add("forest_columns", lambda: ensemble.RandomForestClassifier(**small), text, options={"zipmap": "columns"})
    add("forest_regressor", lambda: ensemble.RandomForestRegressor(**small), target=2)
    add("extra_trees", lambda: ensemble.ExtraTreesClassifier(**small), **no_map)
    add("boosting_two", lambda: ensemble.GradientBoostingClassifier(**small), two)
    add("boosting_three", lambda: ensemble.GradientBoostingClassifier(**small), text)
    add("boosting_regressor", lambda: ensemble.GradientBoostingRegressor(**small), target=2)
    add("extra_trees_regressor", lambda: ensemble.ExtraTreesRegressor(**small), target=2)
    add("bagging_regressor", lambda: ensemble.BaggingRegressor(n_estimators=4, random_state=0), target=2)
    add("ada", lambda: ensemble.AdaBoostClassifier(n_estimators=5, random_state=0), text)
    add("bagging", lambda: ensemble.BaggingClassifier(n_estimators=4, random_state=0), **no_map)
    add("voting", lambda: ensemble.VotingClassifier([("a", linear_model.LogisticRegression()), ("b", naive_bayes.GaussianNB())], voting="soft", flatten_transform=False), text)
    add("stacking", lambda: ensemble.StackingRegressor([("a", linear_model.Ridge()), ("b", tree.DecisionTreeRegressor(max_depth=3, random_state=0))]), target=2)
    add("isolation_forest", lambda: ensemble.IsolationForest(n_estimators=10, random_state=0))
    add("logistic_two", lambda: linear_model.LogisticRegression(), two)
    add("logistic_strings", lambda: linear_model.LogisticRegression(), text)
    add("logistic_double", lambda: linear_model.LogisticRegression(), text, double=True, **no_map)
    add("logistic_one_vs_rest", lambda: multiclass.OneVsRestClassifier(linear_model.LogisticRegression()), text)
    add("sgd", lambda: linear_model.SGDClassifier(loss="log_loss", random_state=0), **no_map)
    add("perceptron", lambda: linear_model.Perceptron(random_state=0))
    add("linear_svc", lambda: svm.LinearSVC(random_state=0), text)
    add("passive", lambda: linear_model.RidgeClassifier(), text, **no_map)
    add("elastic", lambda: linear_model.ElasticNet(alpha=0.01), target=2)
    add("linear_regression", lambda: linear_model.LinearRegression(), target=2)
    add("lasso_double", lambda: linear_model.Lasso(alpha=0.01), target=2, double=True)
    add("poisson", lambda: linear_model.PoissonRegressor(), data=lambda: (table()[0], table()[1], np.abs(table()[2])), target=2)
    add("two_targets", lambda: multioutput.MultiOutputRegressor(linear_model.Ridge()), data=lambda: (table()[0], None, np.stack([table()[2], table()[0][:, 4]], 1)), target=2)
    add("svc_two", lambda: svm.SVC(), two)
    add("svc_probability", lambda: svm.SVC(probability=True, random_state=0), text)
    add("svc_poly", lambda: svm.SVC(kernel="poly", degree=3), text)
    add("svc_sigmoid_two", lambda: svm.SVC(kernel="sigmoid", probability=True, random_state=0), two)
    add("nu_svc", lambda: svm.NuSVC(nu=0.2, kernel="rbf", probability=True, random_state=0))
    add("svr", lambda: svm.SVR(), target=2)
    add("svr_linear", lambda: svm.SVR(kernel="linear"), target=2)
    add("one_class", lambda: svm.OneClassSVM())
    add("neighbours", lambda: neighbors.KNeighborsClassifier(3), text)
    add("neighbours_regressor", lambda: neighbors.KNeighborsRegressor(4, weights="distance"), target=2, double=True)
    add("outliers", lambda: neighbors.LocalOutlierFactor(novelty=True, n_neighbors=7), double=True)
    add("gaussian_process", lambda: gaussian_process.GaussianProcessRegressor(gaussian_process.kernels.RBF(1.5), alpha=1e-2), target=2, double=True)
    add("network", lambda: neural_network.MLPClassifier(hidden_layer_sizes=(12,), max_iter=60, random_state=0), text)
    add("network_regressor", lambda: neural_network.MLPRegressor(hidden_layer_sizes=(12, 5), max_iter=60, random_state=0), target=2)
    add("bayes", lambda: naive_bayes.GaussianNB(), text)
    add("bayes_bernoulli", lambda: naive_bayes.BernoulliNB(), text)
    add("discriminant", lambda: discriminant_analysis.LinearDiscriminantAnalysis(), text)
    add("quadratic", lambda: discriminant_analysis.QuadraticDiscriminantAnalysis(), text)
    add("calibrated", lambda: CalibratedClassifierCV(linear_model.LogisticRegression(), cv=3), text)
    add("clusters", lambda: cluster.KMeans(4, n_init=2, random_state=0))
    add("mixture", lambda: mixture.GaussianMixture(3, random_state=0))
    add("components", lambda: pipeline.make_pipeline(preprocessing.StandardScaler(), decomposition.PCA(3), linear_model.LogisticRegression()), text)
    add("selected", lambda: pipeline.make_pipeline(feature_selection.SelectKBest(k=3), tree.DecisionTreeClassifier(max_depth=3, random_state=0)), text)
    add("scaled", lambda: pipeline.make_pipeline(preprocessing.MinMaxScaler(), preprocessing.PolynomialFeatures(2), linear_model.Ridge()), target=2)
    add("normalized", lambda: pipeline.make_pipeline(preprocessing.Normalizer("l1"), preprocessing.RobustScaler(), svm.SVC()), text)
    add("binned", lambda: pipeline.make_pipeline(preprocessing.KBinsDiscretizer(4, encode="onehot-dense"), linear_model.LogisticRegression()), text)
    add("imputed", lambda: pipeline.make_pipeline(SimpleImputer(strategy="median"), tree.DecisionTreeClassifier(max_depth=4, random_state=0)), holes)
    add("binarized", lambda: pipeline.make_pipeline(preprocessing.Binarizer(threshold=0.1), naive_bayes.BernoulliNB()), text)
    add("mixed_columns", mixed_columns, mixed)
    add("text_counts", text_counts(False), words)
    add("text_weights", text_counts(True), words)
    add("lightgbm_two", lambda: LGBMClassifier(n_estimators=8, max_depth=4, verbose=-1), two)
    add("lightgbm_three", lambda: LGBMClassifier(n_estimators=8, max_depth=4, verbose=-1))
    add("lightgbm_regressor", lambda: LGBMRegressor(n_estimators=8, max_depth=4, verbose=-1), target=2)
    add("xgboost_two", lambda: XGBClassifier(n_estimators=8, max_depth=3), two)
    add("xgboost_three", lambda: XGBClassifier(n_estimators=8, max_depth=3))
    add("xgboost_regressor", lambda: XGBRegressor(n_estimators=8, max_depth=3), target=2)


def holes():
    x, y, score = table(3, strings=True)
    x = x.astype(np.float32)
    x[np.random.default_rng(1).random(x.shape) < 0.2] = np.nan
    return x, y, score


def mixed():
    import pandas

    x, y, score = table(3, strings=True)
    r = np.random.default_rng(2)
    frame = pandas.DataFrame({"a": x[:, 0].astype(np.float32), "b": x[:, 1].astype(np.float32), "colour": r.choice(["red", "green", "blue"], ROWS), "size": r.choice(["S", "M", "L"], ROWS)})
    return frame, y, score


def mixed_columns():
    from sklearn import compose, linear_model, pipeline, preprocessing

    columns = [("numbers", preprocessing.StandardScaler(), ["a", "b"]), ("words", preprocessing.OneHotEncoder(handle_unknown="ignore"), ["colour", "size"])]
    return pipeline.make_pipeline(compose.ColumnTransformer(columns), linear_model.LogisticRegression())


def text_counts(weighted):
    def make():
        from sklearn import linear_model, pipeline
        from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

        kind = TfidfVectorizer if weighted else CountVectorizer
        return pipeline.make_pipeline(kind(ngram_range=(1, 2), token_pattern="[a-zA-Z0-9]+"), linear_model.LogisticRegression())

    return make


def exported(name):
    """The ONNX file, and arrays to run it on."""
    from onnxmltools import convert_lightgbm, convert_xgboost
    from onnxmltools.convert.common import data_types as other
    from skl2onnx import to_onnx
    from skl2onnx.common import data_types

    make, data, double, target, options = MODELS[name]
    x, *targets = data()
    model = make()
    y = targets[min(target, len(targets)) - 1]
    dtype = np.float64 if double else np.float32
    if not hasattr(x, "columns") and x.dtype.kind == "f":
        x = x.astype(dtype)
    model.fit(x, y) if y is not None else model.fit(x)
    if "lightgbm" in name or "xgboost" in name:
        convert = convert_lightgbm if "lightgbm" in name else convert_xgboost
        return convert(model, initial_types=[("x", other.FloatTensorType([None, COLUMNS]))], target_opset=15), {"x": x[::2]}
    if hasattr(x, "columns"):
        kind = lambda c: data_types.FloatTensorType if x[c].dtype == np.float32 else data_types.StringTensorType
        types = [(c, kind(c)([None, 1])) for c in x.columns]
        feeds = {c: x[c].to_numpy()[::2].reshape(-1, 1) for c in x.columns}
        feeds = {c: v if v.dtype == np.float32 else v.astype(str) for c, v in feeds.items()}
        return to_onnx(model, initial_types=types, target_opset=17), feeds
    if x.dtype.kind == "U":
        return to_onnx(model, initial_types=[("x", data_types.StringTensorType([None, 1]))], target_opset=17), {"x": x[::2].reshape(-1, 1)}
    given = {"options": {id(model): options["options"]}} if options and hasattr(model, "classes_") else {}
    return to_onnx(model, x[:1], target_opset={"": 17, "ai.onnx.ml": 3}, **given), {"X": x[::2]}


def runtime(path, feeds):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    found = {}
    for name, value in zip(names, session.run(names, {k: v.astype(object) if v.dtype.kind == "U" else v for k, v in feeds.items()})):
        found.update(flattened(name, value))
    return found


def unclear(wanted):
    """Rows whose two best scores nearly tie, so that rounding may choose either label."""
    for value in wanted.values():
        if value.ndim == 2 and value.shape[1] > 1 and value.dtype.kind == "f":
            best = np.sort(value, axis=1)
            return best[:, -1] - best[:, -2] < 1e-5
    return None


def differ(found, wanted):
    tied = unclear(wanted)
    for name, want in wanted.items():
        if name not in found:
            return f"{name} is missing; there are {list(found)}"
        got = np.asarray(found[name])
        if got.shape != want.shape:
            return f"{name}: shape {got.shape}, wanted {want.shape}"
        if want.dtype.kind in "OUS" or want.dtype.kind in "iu":
            other = got.astype(str) != want.astype(str)
            if tied is not None and other.ndim == 1 and len(other) == len(tied):
                other &= ~tied
            if np.any(other):
                return f"{name}: {int(other.sum())} of {other.size} labels differ"
        elif got.dtype != want.dtype:
            return f"{name}: type {got.dtype}, wanted {want.dtype}"
        else:
            near = np.isclose(got, want, rtol=1e-3, atol=2e-4 * max(1.0, float(np.nanmax(np.abs(want), initial=0))), equal_nan=True)
            if not np.all(near):
                return f"{name}: max difference {np.nanmax(np.abs(got.astype(float) - want)):.3g} where the largest is {np.nanmax(np.abs(want)):.3g}"
    return None


def judge(onnxd, name, folder):
    model, feeds = exported(name)
    for node in model.graph.node:
        if node.op_type == "StringNormalizer":  # the locale that every machine has
            node.attribute.append(onnx.helper.make_attribute("locale", "C.UTF-8"))
    path = os.path.join(folder, "model.onnx")
    onnx.save(model, path)
    wanted = runtime(path, feeds)
    problems = {}
    np.savez(os.path.join(folder, "inputs.npz"), **feeds)
    np.savez(os.path.join(folder, "outputs.npz"), **{k: v.astype(str) if v.dtype == object else v for k, v in wanted.items()})
    run = lambda *args: subprocess.run([onnxd, *args], capture_output=True, text=True)
    out = os.path.join(folder, "out.npz")
    done = run("eval", path, "--inputs", os.path.join(folder, "inputs.npz"), "--out", out)
    problems["eval"] = done.stderr.strip()[-300:] if done.returncode else differ(np.load(out), wanted)
    result = os.path.join(folder, "result")
    done = run("convert", path, os.path.join(folder, "inputs.npz"), os.path.join(folder, "outputs.npz"), "--out", result)
    written = os.path.join(result, "model.onnx")
    if done.returncode not in (0, 1) or not os.path.exists(written):
        problems["convert"] = f"exit {done.returncode}: {done.stderr.strip()[-300:]}"
        return problems
    try:
        onnx.checker.check_model(written, full_check=True)
        problems["convert"] = differ(runtime(written, feeds), wanted)
    except Exception as e:
        problems["convert"] = str(e)[:300]
    report = json.load(open(os.path.join(result, "report.json")))
    rows = {row["output"]: row["within"] for row in (report.get("numerics") or {}).get("outputs", [])}
    missing = [part for part in wanted if part not in rows]
    apart = [part for part, within in rows.items() if not within]
    tied = unclear(wanted)
    problems["check"] = f"not compared: {missing}" if missing else f"outside of the tolerance: {apart}" if apart and not (tied is not None and tied.any()) else None
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--onnxd", required=True)
    parser.add_argument("--only")
    parser.add_argument("--keep", help="folder that keeps models, inputs and results")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    register()
    wrong = unmade = 0
    for name in MODELS:
        if options.only and name not in options.only.split(","):
            continue
        with tempfile.TemporaryDirectory(prefix="ml-models-") as scratch:
            folder = os.path.join(options.keep, name) if options.keep else scratch
            os.makedirs(folder, exist_ok=True)
            try:
                problems = judge(os.path.abspath(options.onnxd), name, folder)
            except Exception as e:
                unmade += 1
                print(f"not exported {name}: {type(e).__name__}: {str(e).strip()[:300]}")
                continue
        bad = {k: v for k, v in problems.items() if v}
        wrong += bool(bad)
        for stage, why in bad.items():
            print(f"{name} {stage}: {why}")
        if options.verbose and not bad:
            print(f"{name}: agrees")
    made = len(MODELS if not options.only else options.only.split(",")) - unmade
    print(f"{made - wrong} of {made} models agree, {unmade} could not be exported")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
