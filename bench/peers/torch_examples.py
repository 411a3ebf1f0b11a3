"""The models of Etude's examples/ trained by PyTorch. usage: torch_examples.py NAME eager|compiled

NAME: mnist_loop, mnist_cnn, vae_loop, gan_orbit or charlm_orbit: the same layers, losses, batch
and optimizer, on made examples in memory, drawn anew each epoch. Amount and work: steps
(worker.py). The rate is the median of rounds of steps.
"""
import sys

import worker

import torch
from torch import nn
from torch.nn import functional as F

EXAMPLES = 16384


def batches(count, size):
    while True:
        yield from torch.randperm(count)[:count // size * size].split(size)


def adam(model, **options):
    return torch.optim.Adam(model.parameters(), fused=True, **options)


def updating(optimizer, loss_of):
    """A step of one loss and one optimizer; arguments are the loss's."""
    def update(*arguments):
        loss_of(*arguments).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return update


def dense(*sizes):
    parts = []
    for width, units in zip(sizes, sizes[1:]):
        parts += [nn.Linear(width, units), nn.ReLU()]
    return nn.Sequential(*parts[:-1])


def mnist_loop(compiled):
    x, y = torch.rand(EXAMPLES, 784), torch.randint(10, (EXAMPLES,))
    model = nn.Sequential(
        nn.Dropout(0.2), nn.Linear(784, 512), nn.ReLU(), nn.Dropout(0.4), nn.Linear(512, 512),
        nn.ReLU(), nn.Dropout(0.4), nn.Linear(512, 10),
    )
    loss = compiled(lambda rows, labels: F.cross_entropy(model(rows), labels))
    update, chosen = updating(adam(model), loss), batches(EXAMPLES, 128)

    def step():
        rows = next(chosen)
        update(x[rows], y[rows])
    return step


def mnist_cnn(compiled):
    """Images are moved a batch at once: the windows of images with a margin are gathered."""
    side, batch = 28, 128
    x = F.pad(torch.rand(EXAMPLES, side, side), (2, 2, 2, 2))
    y, line = torch.randint(10, (EXAMPLES,)), torch.arange(side)
    model = nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Dropout(0.25), nn.Linear(49 * 64, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, 10),
    ).to(memory_format=torch.channels_last)
    loss = compiled(lambda images, labels: F.cross_entropy(model(images), labels))
    update, chosen = updating(adam(model), loss), batches(EXAMPLES, batch)

    def step():
        rows = next(chosen)
        down, right = torch.randint(5, (2, batch, 1))
        moved = x[rows[:, None, None], (down + line)[:, :, None], (right + line)[:, None, :]]
        update(moved[:, None], y[rows])
    return step


class AutoEncoder(nn.Module):
    def __init__(self, code=40):
        super().__init__()
        self.encoder = nn.Sequential(dense(784, 500, 500), nn.ReLU())
        self.mean, self.ln_sigma = nn.Linear(500, code), nn.Linear(500, code)
        self.decoder = dense(code, 500, 500, 784)

    def forward(self, x):
        h = self.encoder(x)
        mean, ln_sigma = self.mean(h), self.ln_sigma(h)
        e = torch.randn_like(mean)
        z = mean + torch.exp(ln_sigma) * e
        code = ((e.square() - z.square()) / 2 + ln_sigma).sum(1)
        pixels = F.binary_cross_entropy_with_logits(self.decoder(z), x, reduction="none").sum(1)
        return (pixels - code).mean()


def vae_loop(compiled):
    x, model = torch.rand(EXAMPLES, 784), AutoEncoder()
    update, chosen = updating(adam(model), compiled(model)), batches(EXAMPLES, 128)
    return lambda: update(torch.bernoulli(x[next(chosen)]))


def gan_orbit(compiled):
    real = torch.rand(4096, 2)
    generator, judge = dense(8, 64, 64, 2), dense(2, 64, 64, 1)

    def judged(points, noise):
        return ((judge(points) - 1).square() + judge(generator(noise).detach()).square()).mean()

    def deceived(noise):
        return (judge(generator(noise)) - 1).square().mean()

    turns = updating(adam(judge), compiled(judged)), updating(adam(generator), compiled(deceived))
    chosen = batches(4096, 256)

    def step():
        noise = torch.rand(256, 8) * 2 - 1
        turns[0](real[next(chosen)], noise)
        judge.requires_grad_(False)
        turns[1](noise)
        judge.requires_grad_(True)
    return step


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.mixed = nn.Linear(width, width, bias=False)
        self.hidden = nn.Linear(width, 4 * width, bias=False)
        self.out = nn.Linear(4 * width, width, bias=False)

    def forward(self, x):
        batch, length, width = x.shape
        qkv = self.qkv(self.norms[0](x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.mixed(mixed.transpose(1, 2).reshape(x.shape))
        return x + self.out(F.gelu(self.hidden(self.norms[1](x))))


class Characters(nn.Module):
    def __init__(self, kinds=256, context=64, width=128, layers=4, heads=4):
        super().__init__()
        self.table = nn.Embedding(kinds, width)
        self.places = nn.Parameter(torch.randn(context, width) * 0.02)
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        nn.init.normal_(self.table.weight, std=0.02)

    def forward(self, windows):
        x = self.table(windows[:, :-1]) + self.places
        logits = self.norm(self.blocks(x)) @ self.table.weight.T
        return F.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())


def charlm_orbit(compiled):
    text, window, model = torch.randint(256, (1 << 20,)), torch.arange(65), Characters()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.001, betas=(0.9, 0.99),
                                  weight_decay=0.1, fused=True)
    update = updating(optimizer, compiled(model))
    return lambda: update(text[torch.randint(len(text) - 65, (12, 1)) + window])


EXAMPLE = {make.__name__: make
           for make in (mnist_loop, mnist_cnn, vae_loop, gan_orbit, charlm_orbit)}


def main(name, mode):
    torch.manual_seed(1)
    step = EXAMPLE[name](torch.compile if mode == "compiled" else lambda made: made)

    worker.serve(lambda steps: worker.in_rounds([step] * steps),
                 f"PyTorch {torch.__version__.split('+')[0]}")


if __name__ == "__main__":
    main(*sys.argv[1:])
