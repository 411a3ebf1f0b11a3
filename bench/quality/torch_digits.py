"""MNIST by PyTorch, with the recipes of examples/mnist_loop.c and mnist_cnn.c. usage:

    torch_digits.py mlp|cnn DATA [EPOCHS]

DATA has the four files *-ubyte.gz. 5,000 images of the training set are held out, and the epoch
that is best on them is tested. The last line is the test accuracy."""
import copy
import gzip
import math
import os
import sys

import numpy as np
import torch
from torch import nn

TRAIN, BATCH = 55000, 128


def read(folder, name):
    with gzip.open(os.path.join(folder, f"{name}-images-idx3-ubyte.gz")) as file:
        images = np.frombuffer(file.read(), np.uint8, offset=16)
    with gzip.open(os.path.join(folder, f"{name}-labels-idx1-ubyte.gz")) as file:
        labels = np.frombuffer(file.read(), np.uint8, offset=8)
    images = images.reshape(-1, 1, 28, 28).astype(np.float32) / 255
    return torch.from_numpy(images), torch.from_numpy(labels.astype(np.int64))


def mlp():
    return nn.Sequential(
        nn.Flatten(), nn.Dropout(0.2),
        nn.Linear(784, 512), nn.ReLU(), nn.Dropout(0.4),
        nn.Linear(512, 512), nn.ReLU(), nn.Dropout(0.4),
        nn.Linear(512, 10),
    )


def cnn():
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Dropout(0.25),
        nn.Linear(64 * 49, 128), nn.ReLU(), nn.Dropout(0.5),
        nn.Linear(128, 10),
    )


def moved(images):
    """Moves each image by -2 to 2 pixels in both directions and fills with zeros."""
    padded = nn.functional.pad(images, (2, 2, 2, 2))
    down, right = torch.randint(0, 5, (2, len(images)))
    rows = (down[:, None] + torch.arange(28))[:, :, None]
    columns = (right[:, None] + torch.arange(28))[:, None, :]
    return padded[torch.arange(len(images))[:, None, None], 0, rows, columns][:, None]


@torch.no_grad()
def accuracy(model, images, labels):
    model.eval()
    found = torch.cat([model(part).argmax(1) for part in images.split(1000)])
    model.train()
    return (found == labels).float().mean().item()


def main(kind, folder, epochs):
    torch.manual_seed(1)
    images, labels = read(folder, "train")
    model = {"mlp": mlp, "cnn": cnn}[kind]()
    optimizer = torch.optim.Adam(model.parameters(), 0.001)
    per_epoch = math.ceil(TRAIN / BATCH)
    steps = epochs * per_epoch
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: 0.5 * (1 + math.cos(math.pi * min(step / steps, 1)))
    )
    best, kept = 0, None
    for _ in range(epochs):
        for rows in torch.randperm(TRAIN).split(BATCH):
            x = moved(images[rows]) if kind == "cnn" else images[rows]
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), labels[rows]).backward()
            optimizer.step()
            schedule.step()
        value = accuracy(model, images[TRAIN:], labels[TRAIN:])
        if value > best:
            best, kept = value, copy.deepcopy(model.state_dict())
    model.load_state_dict(kept)
    print(f"test accuracy: {100 * accuracy(model, *read(folder, 't10k')):.2f} %")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else {"mlp": 20, "cnn": 12}[sys.argv[1]])
