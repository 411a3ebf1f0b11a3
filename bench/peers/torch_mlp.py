"""A small classifier trained by PyTorch. usage: torch_mlp.py LAYERS BATCH eager|compiled

LAYERS: 105-64-32-2. Amount: epochs of mlp.EXAMPLES examples; work: steps (worker.py). ReLU
between layers, softmax cross-entropy, fused Adam; examples are drawn in a new order each epoch.
The rate is the median of rounds of steps.
"""
import functools
import sys

import worker

import torch
from torch import nn

import mlp


def main(layers, batch, mode):
    sizes, batch = mlp.sizes(layers), int(batch)
    x, y = map(torch.from_numpy, mlp.examples(sizes))
    torch.manual_seed(1)
    parts = []
    for width, units in zip(sizes, sizes[1:]):
        parts += [nn.Linear(width, units), nn.ReLU()]
    model = nn.Sequential(*parts[:-1])
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    cross_entropy = nn.CrossEntropyLoss()

    def loss_of(inputs, labels):
        return cross_entropy(model(inputs), labels)

    if mode == "compiled":
        loss_of = torch.compile(loss_of)

    def step(chosen):
        loss_of(x[chosen], y[chosen]).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    def steps(epochs):
        for _ in range(epochs):
            for chosen in torch.randperm(len(x)).split(batch):
                yield functools.partial(step, chosen)

    worker.serve(lambda epochs: worker.in_rounds(steps(epochs)),
                 f"PyTorch {torch.__version__.split('+')[0]}")


if __name__ == "__main__":
    main(*sys.argv[1:])
