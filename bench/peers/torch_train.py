"""An encoder-decoder Transformer trained by PyTorch. usage:

    torch_train.py BATCHES tiny|base float32|bfloat16 eager|compiled

Amount: steps; work: target tokens (worker.py). The model is torch.nn.Transformer with what users
usually add: one embedding table for both sides and the output, sinusoids, label smoothing, fused
Adam. Dropout is where Etude's experiments have it. They have none on attention weights and in
the feed-forward; there it is switched off, which is faster. bfloat16 is autocast; compiled is
torch.compile with dynamic shapes, because batches differ in shape.
"""
import math
import sys

import worker

import torch
from torch import nn
from torch.nn import functional

import batches

SIZES = {  # width, feed-forward, heads, layers, dropout, dropout inside of sub-layers, beta 2
    "tiny": (128, 256, 4, 4, 0.3, 0.0, 0.98),
    "base": (512, 2048, 8, 6, 0.1, 0.1, 0.997),
}
POSITIONS = 512


def sinusoids(width):
    rates = torch.exp(torch.arange(0, width, 2) * (-math.log(1e4) / width))
    angles = torch.arange(POSITIONS)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], 1)


class Model(nn.Module):
    def __init__(self, vocabulary, size):
        super().__init__()
        width, inner, heads, layers, self.dropout, inside, _ = SIZES[size]
        self.table = nn.Embedding(vocabulary, width)
        nn.init.normal_(self.table.weight, std=width**-0.5)
        self.register_buffer("positions", sinusoids(width))
        self.core = nn.Transformer(
            width, heads, layers, layers, inner, self.dropout, batch_first=True, norm_first=True
        )
        for module in self.core.modules():
            if isinstance(module, nn.MultiheadAttention):
                module.dropout = inside
            elif isinstance(module, (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)):
                module.dropout.p = inside  # the one behind the feed-forward's activation

    def embed(self, ids):
        x = self.table(ids) * self.table.embedding_dim**0.5 + self.positions[: ids.size(1)]
        return functional.dropout(x, self.dropout, self.training)

    def forward(self, source, target):
        # Padding is at the end of the target, so causal attention does not read it.
        padding = torch.zeros(source.shape).masked_fill(source == 0, -math.inf)
        causal = nn.Transformer.generate_square_subsequent_mask(target.size(1))
        h = self.core(
            self.embed(source), self.embed(target), tgt_mask=causal, tgt_is_causal=True,
            src_key_padding_mask=padding, memory_key_padding_mask=padding,
        )
        return functional.linear(h, self.table.weight)


def shifted(targets):
    return functional.pad(targets[:, :-1], (1, 0))


def main(path, size, precision, mode):
    made = batches.load(path)
    torch.manual_seed(1)
    model = Model(batches.vocabulary(path), size)
    beta_2 = SIZES[size][-1]
    optimizer = torch.optim.Adam(model.parameters(), 1e-3, betas=(0.9, beta_2), fused=True)

    def loss_of(source, inputs, labels):
        logits = model(source, inputs).float().flatten(0, 1)
        return functional.cross_entropy(
            logits, labels.flatten(), ignore_index=0, label_smoothing=0.1
        )

    if mode == "compiled":
        loss_of = torch.compile(loss_of, dynamic=True)

    def step(batch):
        source, labels = (torch.from_numpy(batch[side]) for side in ("inputs", "targets"))
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
            loss = loss_of(source, shifted(labels), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss

    done = 0

    def train(steps):
        nonlocal done
        todo = [made[i % len(made)] for i in range(done, done + steps)]
        for batch in todo:
            loss = step(batch)
        done += steps
        parameters = sum(p.numel() for p in model.parameters())
        if not math.isfinite(loss.item()):
            raise ArithmeticError(f"the loss is {loss.item()}")
        return sum(map(batches.tokens, todo)), {"parameters": parameters}

    worker.serve(train, f"PyTorch {torch.__version__.split('+')[0]}")


if __name__ == "__main__":
    main(*sys.argv[1:])
