"""A Transformer trained by Marian on the CPU, with the package pymarian. usage:

    marian_train.py FOLDER VOCABULARY SOURCE TARGET tiny|base THREADS

Amount: steps; work: target tokens (worker.py). Marian reads text, so this script once writes the
pieces of all lines, made with Etude's vocabulary, and the table of pieces to FOLDER; Etude keeps
its encoded text, too. As for the other peers, all pairs are sorted by length before they are cut
into batches of 4,096 tokens. Each thread is a worker, and all make a step together (--sync-sgd);
asynchronous workers were not faster.

On a CPU Marian computes only in float32. It runs in a process of its own, which is stopped as
soon as it has printed the line of the last step, and continued for the next amount.
"""
import importlib.metadata
import json
import os
import re
import signal
import subprocess
import sys

import worker

SIZES = {
    "tiny": dict(
        depth=4, width=128, heads=4, inner=256, dropout=0.3, inside=0.0, adam="0.9 0.98 1e-8",
        workspace=2048,
    ),
    "base": dict(
        depth=6, width=512, heads=8, inner=2048, dropout=0.1, inside=0.1, adam="0.9 0.997 1e-9",
        workspace=6144,
    ),
}
PROGRAM = os.path.join(os.path.dirname(sys.executable), "pymarian")
UPDATE = re.compile(r" Up\. \d+ .* \* ([\d,]+) @")  # its line about an update: labels of it


def write_pieces(folder, model_path, source_path, target_path):
    """Files of both sides' pieces and of the vocabulary: [source, target, vocabulary]."""
    names = [os.path.join(folder, name) for name in ("source", "target", "vocabulary.yml")]
    if os.path.exists(names[2]):
        return names
    import sentencepiece

    import batches

    pieces = sentencepiece.SentencePieceProcessor(model_file=model_path)
    for name, path in zip(names, (source_path, target_path)):
        with open(name, "w", encoding="utf-8") as file:
            for line in batches.read_lines(path):
                file.write(" ".join(pieces.encode(line, out_type=str)) + "\n")
    ids = [i for i in range(pieces.vocab_size())
           if not (pieces.is_control(i) or pieces.is_unknown(i))]
    table = ["</s>", "<unk>", *map(pieces.id_to_piece, ids)]  # the names by which Marian knows them
    with open(names[2], "w", encoding="utf-8") as file:
        file.writelines(f"{json.dumps(piece)}: {i}\n" for i, piece in enumerate(table))
    return names


def command(files, size, threads, model):
    source, target, vocabulary = files
    chosen = SIZES[size]
    options = {
        "model": model,
        "type": "transformer",
        "train-sets": f"{source} {target}",
        "vocabs": f"{vocabulary} {vocabulary}",
        "tied-embeddings-all": "true",
        "output-omit-bias": "true",
        "enc-depth": chosen["depth"],
        "dec-depth": chosen["depth"],
        "dim-emb": chosen["width"],
        "transformer-heads": chosen["heads"],
        "transformer-dim-ffn": chosen["inner"],
        "transformer-ffn-activation": "relu",
        "transformer-preprocess": "n",  # pre-norm: norm, sub-layer, dropout, add; a norm at the end
        "transformer-postprocess": "da",
        "transformer-postprocess-emb": "d",
        "transformer-postprocess-top": "n",
        "transformer-dropout": chosen["dropout"],
        "transformer-dropout-attention": chosen["inside"],
        "transformer-dropout-ffn": chosen["inside"],
        "label-smoothing": 0.1,
        "optimizer": "adam",
        "optimizer-params": chosen["adam"],
        "clip-norm": 0,
        "max-length": 256,
        "mini-batch": 4096,  # sentences, of which the next limit leaves some hundred
        "mini-batch-words": 4096,
        "mini-batch-round-up": "false",
        "maxi-batch": 1000,  # sorted together: all
        "shuffle-in-ram": "true",
        "seed": 1,
        "cpu-threads": threads,
        "sync-sgd": "true",
        # MB a worker, of which it touches what it needs. Where it has to ask for more, a step
        # takes several times as long.
        "workspace": chosen["workspace"],
        "disp-freq": "1u",
    }
    words = [f"--{name} {value}" for name, value in options.items()]
    return [PROGRAM, "train", *" ".join(words).split()]


def count_parameters(files, size, threads):
    """Parameters of the model after one step; the file is kept for the next time."""
    import numpy as np

    path = files[0] + ".model.npz"
    if not os.path.exists(path):
        line = command(files, size, threads, path)
        subprocess.run(line + ["--after", "1u", "--overwrite"], check=True)
    with np.load(path) as arrays:
        return sum(arrays[name].size for name in arrays if not name.startswith("special:"))


class Marian:
    """A training process, stopped except within go_on."""

    def __init__(self, line):
        self.process = subprocess.Popen(
            line, stderr=subprocess.PIPE, text=True, preexec_fn=worker.die_with_parent
        )

    def go_on(self, steps):
        """Makes so many steps; returns their target tokens."""
        labels = []
        self.process.send_signal(signal.SIGCONT)
        while len(labels) < steps:
            line = self.process.stderr.readline()
            if not line:
                raise ChildProcessError(f"Marian ended with {self.process.wait()}")
            sys.stderr.write(line)
            if found := UPDATE.search(line):
                labels.append(int(found[1].replace(",", "")))
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        return sum(labels)

    def peak_mb(self):
        with open(f"/proc/{self.process.pid}/status", encoding="utf-8") as file:
            peak = next(line for line in file if line.startswith("VmHWM:"))
        return int(peak.split()[1]) * 1024 / 1e6


def main(folder, vocabulary, source, target, size, threads):
    # Workers are its threads, so MKL must not start more.
    os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
    os.makedirs(folder, exist_ok=True)
    files = write_pieces(folder, vocabulary, source, target)
    parameters = count_parameters(files, size, threads)
    marian = Marian(command(files, size, threads, os.path.join(folder, "model.npz")))

    def train(steps):
        tokens = marian.go_on(steps)
        return tokens, {"parameters": parameters, "peak_mb": marian.peak_mb()}

    worker.serve(train, f"Marian {importlib.metadata.version('pymarian')}")


if __name__ == "__main__":
    main(*sys.argv[1:])
