"""A language model of characters by PyTorch, with the recipe of examples/charlm_orbit.c. usage:

    torch_text.py TEXT [STEPS]

The last tenth of the text is held out; its loss is measured every 500 steps and at the end, over
adjacent windows. The last line is the validation loss in nats a character."""
import math
import sys

import numpy as np
import torch
from torch import nn
from torch.nn import functional

LAYERS, HEADS, WIDTH, CONTEXT, BATCH, KINDS = 4, 4, 128, 64, 12, 256


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.mixed = nn.Linear(WIDTH, WIDTH, bias=False)
        self.hidden = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.out = nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x):
        batch = len(x)
        heads = self.qkv(self.norm(x)).view(batch, CONTEXT, 3, HEADS, WIDTH // HEADS)
        q, k, v = heads.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.mixed(mixed.transpose(1, 2).reshape(batch, CONTEXT, WIDTH))
        return x + self.out(functional.gelu(self.hidden(self.norm2(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(KINDS, WIDTH) * 0.02)
        self.places = nn.Parameter(torch.randn(CONTEXT, WIDTH) * 0.02)
        self.blocks = nn.Sequential(*[Block() for _ in range(LAYERS)])
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, windows, reduction="mean"):
        x = self.norm(self.blocks(self.table[windows[:, :-1]] + self.places))
        logits = (x @ self.table.T).view(-1, KINDS)
        return functional.cross_entropy(logits, windows[:, 1:].reshape(-1), reduction=reduction)


@torch.no_grad()
def evaluate(model, text):
    windows = text.unfold(0, CONTEXT + 1, CONTEXT)
    total = sum(model(part, "sum").item() for part in windows.split(BATCH))
    return total / (len(windows) * CONTEXT)


def rate(step, steps=2000, warmup=100):
    factor = 0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * min(step / steps, 1)))
    return factor * min((step + 1) / warmup, 1)


def main(path, steps):
    torch.manual_seed(1)
    text = torch.from_numpy(np.fromfile(path, np.uint8).astype(np.int64))
    held_out = len(text) // 10
    training, validation = text[:-held_out], text[-held_out:]
    windows = training.unfold(0, CONTEXT + 1, 1)
    model = Model()
    norms = [p for name, p in model.named_parameters() if "norm" in name]
    others = [p for name, p in model.named_parameters() if "norm" not in name]
    groups = [{"params": others, "weight_decay": 0.1}, {"params": norms, "weight_decay": 0}]
    optimizer = torch.optim.AdamW(groups, 0.001, betas=(0.9, 0.99))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    order = torch.randperm(len(windows))
    for step in range(steps):
        optimizer.zero_grad()
        model(windows[order[step * BATCH : (step + 1) * BATCH]]).backward()
        optimizer.step()
        schedule.step()
        if (step + 1) % 500 == 0:
            loss = evaluate(model, validation)
            print(f"step {step + 1}: {loss:.4f}", file=sys.stderr)
    print(f"validation loss: {loss if steps % 500 == 0 else evaluate(model, validation):.4f}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 2000)
