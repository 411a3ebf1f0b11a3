"""Predictions of rows by Keras. usage: keras_predict.py BATCH

A table like Adult: 6 numbers and 8 columns of words, embedded; three layers of 128 units, two
classes. The rows are arrays in memory: no file is read or written. Amount: passes of ROWS rows
through model.predict; work: rows (worker.py).
"""
import os
import sys

import worker

os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", KERAS_BACKEND="tensorflow")

import keras
import numpy as np

ROWS = 65536
WORDS = [9, 16, 7, 15, 6, 5, 2, 42]  # values of each column of words


def model():
    numbers = keras.Input((6,))
    words = [keras.Input((1,), dtype="int32") for _ in WORDS]
    parts = [
        keras.layers.Flatten()(keras.layers.Embedding(values + 1, min(16, values))(column))
        for values, column in zip(WORDS, words)
    ]
    h = keras.layers.Concatenate()([numbers, *parts])
    for _ in range(3):
        h = keras.layers.Dense(128, activation="relu")(h)
    return keras.Model([numbers, *words], keras.layers.Dense(2, activation="softmax")(h))


def main(batch):
    draw = np.random.default_rng(1)
    rows = [draw.standard_normal((ROWS, 6), dtype=np.float32)]
    rows += [draw.integers(0, values, (ROWS, 1)).astype(np.int32) for values in WORDS]
    made = model()

    def predict(times):
        for _ in range(times):
            made.predict(rows, batch_size=int(batch), verbose=0)
        return times * ROWS

    worker.serve(predict, f"Keras {keras.__version__}")


if __name__ == "__main__":
    main(*sys.argv[1:])
