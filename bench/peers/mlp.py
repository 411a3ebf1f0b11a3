"""Examples for small classifiers: noise with labels, because only the time is measured."""
import numpy as np

EXAMPLES = 32768  # a multiple of every batch, so that an epoch has no short one


def sizes(layers):
    """"105-64-32-2" as numbers."""
    return [int(size) for size in layers.split("-")]


def examples(layers):
    draw = np.random.default_rng(1)
    x = draw.standard_normal((EXAMPLES, layers[0]), dtype=np.float32)
    return x, draw.integers(0, layers[-1], EXAMPLES)
