"""Scores of Etude, scikit-learn, LightGBM and CatBoost on tables that `tools/tabular-data` wrote. usage:

    baselines.py TABLES [--only NAME,...] [--first SEED] [--count N]
                 [--models mlp,trees,lightgbm,catboost,etude,...] [--epochs N]
                 [--etude PROGRAM] [--output FILE]

TABLES has NAME-SEED-train.csv and NAME-SEED-test.csv, or NAME-train.csv and NAME-test.csv. The
script writes those of scikit-learn's own tables (wine, breast_cancer, digits, diabetes), with a
fifth of the rows in the test part.

The models are scikit-learn's MLPClassifier or MLPRegressor (of a standardised target),
HistGradientBoosting, LightGBM and CatBoost, all with their defaults, except 1,000 iterations for
the first, since with fewer some do not converge. For them numbers are standardised, missing ones
replaced by the median, and words one-hot; CatBoost gets the words as they are. `etude` is
`etude train --data TABLE --target NAME`, and task.target_type=number for numbers.

With --epochs N, realmlp and tabm are RealMLP-TD and TabM-D of pytabkit (PyTorch), and etude-realmlp
and etude-tabm the same networks here: N passes, batches of 256, a fifth of the rows held out, the
best pass kept, two threads. TabM has two layers of 128, 16 bins, numbers by their quantiles, and
AdamW without decay, clip and average in both; the rest are defaults.

A line for each table and model has the mean over the splits of the accuracy or the RMSE on the test
part, its spread, and the median seconds of a fit, of processor time and by the clock. Each fit is also a line of
FILE, and is not repeated if it is there. At the end, the mean rank of each model over all splits
that all models were measured on."""
import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.metrics import accuracy_score, root_mean_squared_error
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

# name, target, whether it is classes, splits
TABLES = [
    ("adult", "income", True, 3),
    ("california", "MedHouseVal", False, 3),
    ("iris", "species", True, 10),
    ("penguins", "species", True, 10),
    ("titanic", "Survived", True, 10),
    ("wine_red", "quality", False, 3),
    ("wine_white", "quality", False, 3),
    ("wine", "target", True, 3),
    ("breast_cancer", "target", True, 3),
    ("digits", "target", True, 3),
    ("diabetes", "target", False, 3),
]
# The settings of pytabkit's TabM-D that are not Etude's defaults.
OPTIMIZER = "trainer.optimizer_config"
OF_TABM = ["--set", "task.features.numeric=quantile", "--set", f"{OPTIMIZER}.ema.enabled=false"]
OF_TABM += ["--set", f"{OPTIMIZER}.optimizer.adamw.weight_decay_rate=0"]
OF_TABM += ["--set", f"{OPTIMIZER}.optimizer.adamw.gradient_clip_norm=0"]
OF_SCIKIT = ("wine", "breast_cancer", "digits", "diabetes")


def write_splits(tables, name, seeds):
    """NAME-SEED-train.csv and NAME-SEED-test.csv of a table of scikit-learn."""
    from sklearn import datasets

    if all(os.path.exists(f"{tables}/{name}-{seed}-test.csv") for seed in seeds):
        return
    # Numbers as measured: diabetes is scaled unless it is asked not to be.
    options = {"scaled": False} if name == "diabetes" else {}
    rows = getattr(datasets, f"load_{name}")(as_frame=True, **options).frame
    rows.columns = [column.replace(" ", "_") for column in rows.columns]
    for seed in seeds:
        order = np.random.RandomState(seed).permutation(len(rows))
        test = round(len(rows) * 0.2)
        rows.iloc[order[test:]].to_csv(f"{tables}/{name}-{seed}-train.csv", index=False)
        rows.iloc[order[:test]].to_csv(f"{tables}/{name}-{seed}-test.csv", index=False)


def mlp(classes, seed):
    if classes:
        return MLPClassifier(max_iter=1000, random_state=seed)
    return TransformedTargetRegressor(
        MLPRegressor(max_iter=1000, random_state=seed), transformer=StandardScaler()
    )


def trees(classes, seed):
    model = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
    return model(random_state=seed)


def lightgbm(classes, seed):
    import lightgbm as package

    model = package.LGBMClassifier if classes else package.LGBMRegressor
    return model(random_state=seed, verbose=-1, n_jobs=2)


class Catboost:
    """CatBoost with the columns of words as its categories."""

    def __init__(self, classes, seed):
        import catboost as package

        model = package.CatBoostClassifier if classes else package.CatBoostRegressor
        self.model = model(random_seed=seed, verbose=0, thread_count=2, allow_writing_files=False)

    @staticmethod
    def columns(x):
        words = [name for name in x if not pd.api.types.is_numeric_dtype(x[name])]
        return x.assign(**{name: x[name].fillna("?").astype(str) for name in words}), words

    def fit(self, x, y):
        x, words = self.columns(x)
        self.model.fit(x, y, cat_features=words)

    def predict(self, x):
        return np.ravel(self.model.predict(self.columns(x)[0]))


def pytabkit(model, classes, seed, epochs):
    import pytabkit as package

    kind = "Classifier" if classes else "Regressor"
    options = {"device": "cpu", "random_state": seed, "n_threads": 2, "n_epochs": epochs}
    if model == "realmlp":
        return getattr(package, f"RealMLP_TD_{kind}")(**options)
    shape = {"num_emb_type": "pwl", "num_emb_n_bins": 16, "d_block": 128, "n_blocks": 2}
    return getattr(package, f"TabM_D_{kind}")(patience=epochs, **shape, **options)


def features(rows):
    numbers = [name for name in rows if pd.api.types.is_numeric_dtype(rows[name])]
    words = [name for name in rows if name not in numbers]
    of_words = make_pipeline(
        SimpleImputer(strategy="constant", fill_value="?"),
        OneHotEncoder(handle_unknown="ignore", sparse_output=False),
    )
    return ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), numbers),
            ("words", of_words, words),
        ]
    )


def read(path, target):
    rows = pd.read_csv(path)
    return rows.drop(columns=target), rows[target]


def processor_seconds():
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def fit_peer(stem, target, classes, model, seed, epochs):
    x, y = read(stem + "-train.csv", target)
    x_test, y_test = read(stem + "-test.csv", target)
    if model == "catboost":
        fitted = Catboost(classes, seed)
    elif model in ("realmlp", "tabm"):
        middle = x.median(numeric_only=True)  # since pytabkit refuses missing numbers
        x, x_test = x.fillna(middle), x_test.fillna(middle)
        fitted = pytabkit(model, classes, seed, epochs)
    else:
        maker = {"mlp": mlp, "trees": trees, "lightgbm": lightgbm}[model]
        fitted = make_pipeline(features(x), maker(classes, seed))
    fitted.fit(x, y)
    found = fitted.predict(x_test)
    score = accuracy_score if classes else root_mean_squared_error
    return score(y_test, found)


def fit_etude(program, stem, target, classes, model, seed, epochs):
    with tempfile.TemporaryDirectory() as folder:
        run = f"{folder}/run"
        command = [program, "train", run, "--data", stem + "-train.csv", "--target", target]
        command += ["--seed", str(seed), "--quiet"]
        command += [] if classes else ["--set", "task.target_type=number"]
        if model != "etude":
            command += ["--experiment", model.replace("etude-", "tabular/"), "--epochs", str(epochs)]
            command += ["--set", "task.held_out=0.2", "--batch-size", "256"]
        command += OF_TABM if model == "etude-tabm" else []
        subprocess.run(command, check=True, stdout=sys.stderr)
        command = [program, "evaluate", run, stem + "-test.csv", "--json"]
        values = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        return values["values"]["validation_accuracy" if classes else "validation_rmse"]


def measure(options, name, target, classes, model, seed):
    stem = os.path.join(options.tables, f"{name}-{seed}")
    if not os.path.exists(stem + "-test.csv"):
        stem = os.path.join(options.tables, name)
    began, used = time.perf_counter(), processor_seconds()
    fit, *first = (fit_etude, options.etude) if model.startswith("etude") else (fit_peer,)
    score = fit(*first, stem, target, classes, model, seed, options.epochs)
    return {
        "table": name,
        "seed": seed,
        "model": model,
        "metric": "accuracy" if classes else "rmse",
        "score": score,
        "seconds": round(time.perf_counter() - began, 2),
        "cpu_seconds": round(processor_seconds() - used, 2),
    }


def read_scores(path):
    if not path or not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        scores = [json.loads(line) for line in file]
    return {(row["table"], row["seed"], row["model"]): row for row in scores}


def ranks(scores, models):
    """The mean rank of each model over the splits that all were measured on, 1 for the best score."""
    splits = sorted({key[:2] for key in scores})
    found = []
    for split in splits:
        rows = [scores.get((*split, model)) for model in models]
        if all(rows):
            sign = -1 if rows[0]["metric"] == "accuracy" else 1
            found.append(pd.Series([sign * row["score"] for row in rows]).rank().to_numpy())
    return len(found), np.mean(found, axis=0) if found else []


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("tables")
    parser.add_argument("--only", default="")
    parser.add_argument("--models", default="mlp,trees,lightgbm")
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=16)
    parser.add_argument("--etude", default="build/etude")
    parser.add_argument("--output")
    options = parser.parse_args()
    scores, models = read_scores(options.output), options.models.split(",")
    if {"realmlp", "tabm"} & set(models):
        __import__("pytabkit")  # seconds, which are no part of a fit
    for name, target, classes, splits in TABLES:
        if options.only and name not in options.only.split(","):
            continue
        seeds = range(options.first, options.first + (options.count or splits))
        if name in OF_SCIKIT:
            write_splits(options.tables, name, seeds)
        for model in models:
            for seed in seeds:
                if (name, seed, model) not in scores:
                    row = measure(options, name, target, classes, model, seed)
                    scores[name, seed, model] = row
                    if options.output:
                        with open(options.output, "a", encoding="utf-8") as file:
                            file.write(json.dumps(row) + "\n")
            rows = [scores[name, seed, model] for seed in seeds]
            values = [row["score"] for row in rows]
            print(
                f"{name:13} {model:10} {rows[0]['metric']:9}"
                f"{np.mean(values):.4f} +- {np.std(values):.4f} of {len(values)}"
                f"  {np.median([row['cpu_seconds'] for row in rows]):.2f} s a fit,"
                f" {np.median([row['seconds'] for row in rows]):.2f} s by the clock",
                flush=True,
            )
    splits, means = ranks(scores, models)
    print(f"mean rank over {splits} splits")
    for model, mean in sorted(zip(models, means), key=lambda pair: pair[1]):
        print(f"{model:10} {mean:.2f}")


if __name__ == "__main__":
    main()
