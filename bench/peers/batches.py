"""Padded batches of sub-word ids from parallel text, for peers that want rectangles.

Pairs are sorted by length and cut so that a batch has at most `budget` tokens a side, padding
counted: the fullest rectangles that the text allows. Ids are those of the SentencePiece model
that Etude trained (padding 0, end 1), so that every system learns from the same pieces.
"""
import gzip

import numpy as np
import sentencepiece

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


def make(model_path, source_path, target_path, budget=4096, longest=256, seed=1):
    """A list of {"inputs", "targets"}, shuffled once."""
    pieces = sentencepiece.SentencePieceProcessor(model_file=model_path)
    sides = [pieces.encode(read_lines(path)) for path in (source_path, target_path)]
    pairs = [(s + [END], t + [END]) for s, t in zip(*sides)]
    pairs = [p for p in pairs if 1 < min(map(len, p)) and max(map(len, p)) <= longest]
    pairs.sort(key=lambda p: (max(map(len, p)), len(p[0])))
    batches, rows, width = [], [], 0
    for pair in pairs:
        wider = max(width, *map(len, pair))
        if rows and wider * (len(rows) + 1) > budget:
            batches.append(rows)
            rows, wider = [], max(map(len, pair))
        rows.append(pair)
        width = wider
    batches.append(rows)
    order = np.random.default_rng(seed).permutation(len(batches))
    return [
        {"inputs": pad([s for s, _ in batches[i]]), "targets": pad([t for _, t in batches[i]])}
        for i in order
    ]
