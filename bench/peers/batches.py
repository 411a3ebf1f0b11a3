"""Padded batches of token ids from parallel text, for peers that need rectangles. usage:

    batches.py BATCHES VOCABULARY SOURCE TARGET

Pairs are sorted by length and cut so that a batch has at most `budget` tokens a side, including
padding: the fullest rectangles that the text allows. Ids are those of the SentencePiece model
that Etude trained (padding 0, end 1), so every system learns from the same pieces. Batches are
made once and kept in a file, as Etude keeps its encoded text.
"""
import gzip
import sys

import numpy as np

END = 1


def read_lines(path):
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rt", encoding="utf-8", newline="\n") as file:
        return file.read().splitlines()


def pad(rows):
    matrix = np.zeros((len(rows), max(map(len, rows))), np.int64)
    for i, row in enumerate(rows):
        matrix[i, : len(row)] = row
    return matrix


def cut(pairs, budget):
    """Lists of pairs whose rectangles have at most `budget` places on each side."""
    pairs = sorted(pairs, key=lambda p: (max(map(len, p)), len(p[0])))
    rows, width = [], 0
    for pair in pairs:
        wider = max(width, *map(len, pair))
        if rows and wider * (len(rows) + 1) > budget:
            yield rows
            rows, wider = [], max(map(len, pair))
        rows.append(pair)
        width = wider
    if rows:
        yield rows


def make(path, model_path, source_path, target_path, budget=4096, longest=256, seed=1):
    """Writes the batches, shuffled once, to `path` (.npz)."""
    import sentencepiece

    pieces = sentencepiece.SentencePieceProcessor(model_file=model_path)
    sides = [pieces.encode(read_lines(name)) for name in (source_path, target_path)]
    pairs = [(s + [END], t + [END]) for s, t in zip(*sides)]
    pairs = [p for p in pairs if 1 < min(map(len, p)) and max(map(len, p)) <= longest]
    made = list(cut(pairs, budget))
    order = np.random.default_rng(seed).permutation(len(made))
    arrays = {}
    for place, i in enumerate(order):
        arrays[f"inputs{place}"] = pad([s for s, _ in made[i]])
        arrays[f"targets{place}"] = pad([t for _, t in made[i]])
    np.savez(path, count=len(made), vocabulary=pieces.vocab_size(), **arrays)


def vocabulary(path):
    """Number of tokens; ids are below it."""
    with np.load(path) as arrays:
        return int(arrays["vocabulary"])


def load(path):
    """A list of {"inputs", "targets"}."""
    with np.load(path) as arrays:
        return [
            {side: arrays[f"{side}{i}"] for side in ("inputs", "targets")}
            for i in range(int(arrays["count"]))
        ]


def tokens(batch):
    """Target tokens of a batch, without padding."""
    return int(np.count_nonzero(batch["targets"]))


if __name__ == "__main__":
    make(*sys.argv[1:])
