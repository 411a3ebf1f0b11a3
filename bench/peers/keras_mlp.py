"""A small classifier trained by Keras. usage: keras_mlp.py LAYERS BATCH

Like torch_mlp.py, with model.fit and its defaults: Keras decides about XLA.
"""
import os
import sys

import worker

os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", KERAS_BACKEND="tensorflow")

import keras

import mlp


def main(layers, batch):
    sizes, batch = mlp.sizes(layers), int(batch)
    x, y = mlp.examples(sizes)
    hidden = [keras.layers.Dense(units, activation="relu") for units in sizes[1:-1]]
    model = keras.Sequential(hidden + [keras.layers.Dense(sizes[-1])])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss)

    def train(epochs):
        model.fit(x, y, batch_size=batch, epochs=epochs, verbose=0)
        return epochs * (len(x) // batch)

    worker.serve(train, f"Keras {keras.__version__}")


if __name__ == "__main__":
    main(*sys.argv[1:])
