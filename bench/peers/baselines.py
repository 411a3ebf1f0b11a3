"""Accuracy of scikit-learn and LightGBM on tables that `tools/tabular-data` wrote. usage:

    baselines.py TABLES [--only NAME,...] [--first SEED] [--count N] [--models mlp,trees,lightgbm]

TABLES has NAME-SEED-train.csv and NAME-SEED-test.csv, or NAME-train.csv and NAME-test.csv.
Numbers are standardised, missing ones replaced by the median, and words one-hot. The models are
scikit-learn's MLPClassifier or MLPRegressor (of a standardised target), HistGradientBoosting,
and LightGBM, all with their defaults, except 1,000 iterations for the first, since with fewer
some do not converge. A line for each table and model has the mean over the splits of the
accuracy or the RMSE on the test part, its spread, and the seconds of a fit."""
import argparse
import os
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
]


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


MODELS = {"mlp": mlp, "trees": trees, "lightgbm": lightgbm}


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


def measure(stem, target, classes, model, seed):
    x, y = read(stem + "-train.csv", target)
    x_test, y_test = read(stem + "-test.csv", target)
    fitted = make_pipeline(features(x), MODELS[model](classes, seed))
    began = time.perf_counter()
    fitted.fit(x, y)
    seconds = time.perf_counter() - began
    found = fitted.predict(x_test)
    score = accuracy_score if classes else root_mean_squared_error
    return score(y_test, found), seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("tables")
    parser.add_argument("--only", default="")
    parser.add_argument("--models", default="mlp,trees,lightgbm")
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--count", type=int, default=0)
    options = parser.parse_args()
    for name, target, classes, splits in TABLES:
        if options.only and name not in options.only.split(","):
            continue
        for model in options.models.split(","):
            values, seconds = [], []
            for seed in range(options.first, options.first + (options.count or splits)):
                stem = os.path.join(options.tables, f"{name}-{seed}")
                if not os.path.exists(stem + "-test.csv"):
                    stem = os.path.join(options.tables, name)
                value, took = measure(stem, target, classes, model, seed)
                values.append(value)
                seconds.append(took)
            print(
                f"{name:12} {model:10} {'accuracy' if classes else 'RMSE':9}"
                f"{np.mean(values):.4f} +- {np.std(values):.4f} of {len(values)}"
                f"  {np.median(seconds):.2f} s a fit",
                flush=True,
            )


if __name__ == "__main__":
    main()
