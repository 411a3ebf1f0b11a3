"""Etude and TensorFlow Model Garden in turn, A B A B, on the same text with the same threads.

usage: compare.py ETUDE WORK SOURCE TARGET OUTPUT [--models tiny,base]
                  [--precisions float32,bfloat16] [--rounds N] [--steps N] [--threads N]

A round is a number of steps of one system, then as many of the other. Both see the same text,
the same sub-words (the vocabulary that Etude trains in WORK), batches of 4,096 tokens a side,
and may use the same processors. Printed are the medians of the rounds' rates, and the median of
the rounds' ratios. OUTPUT gets one line of JSON per figure of the peer, as bench/run reads it.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SHORT = {"float32": "f32", "bfloat16": "bf16"}
STEPS = {"tiny": 20, "base": 4}


def fail(message):
    sys.exit(f"compare.py: {message}")


class Etude:
    """`etude train`, gone on with for each round: what its own log says of the round's steps."""

    def __init__(self, options, size, precision):
        self.run = os.path.join(options.work, f"{size}-{SHORT[precision]}")
        self.vocabulary = os.path.join(self.run, "vocabulary.model")
        self.done = 0
        self.peak_mb = 0.0
        self.command = [
            options.etude, "train", "--experiment", f"translation/{size}",
            "--model-dir", self.run,
        ]
        settings = {
            "task.train_data.source_path": options.source,
            "task.train_data.target_path": options.target,
            "task.train_data.global_batch_size": 4096,
            "task.train_data.max_seq_length": 256,
            "task.vocabulary.size": 10000,
            "task.vocabulary.model_type": "bpe",
            "runtime.mixed_precision_dtype": precision,
            "runtime.seed": 1,
        }
        for stack in ("encoder", "decoder"):  # see modelgarden.py
            settings[f"task.model.{stack}.norm_first"] = "true"
            settings[f"task.model.{stack}.final_norm"] = "true"
        for name, value in settings.items():
            self.command += ["--set", f"{name}={value}"]

    def train(self, steps):
        self.done += steps
        command = self.command + [
            "--set", f"trainer.train_steps={self.done}",
            "--set", f"trainer.summary_interval={steps}",
        ]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        said = child.stdout.read().decode()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if status:
            fail(f"etude ended with {child.returncode}:\n{said}")
        self.peak_mb = max(self.peak_mb, usage.ru_maxrss * 1024 / 1e6)
        with open(os.path.join(self.run, "metrics.jsonl"), encoding="utf-8") as file:
            last = json.loads(file.read().splitlines()[-1])
        if last["step"] != self.done:
            fail(f"{self.run}: the log ends at step {last['step']}, not {self.done}")
        return last["train"]["time"]["tokens_per_second"]

    def close(self):
        pass


class ModelGarden:
    """modelgarden.py, kept alive between rounds; it waits on a pipe and takes no time."""

    def __init__(self, options, size, precision, vocabulary):
        self.peak_mb = 0.0
        self.first = None
        self.child = subprocess.Popen(
            [sys.executable, os.path.join(HERE, "modelgarden.py"), vocabulary,
             options.source, options.target, size, precision],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )

    def train(self, steps):
        self.child.stdin.write(f"{steps}\n".encode())
        self.child.stdin.flush()
        line = self.child.stdout.readline()
        if not line:
            fail(f"modelgarden.py ended with {self.child.wait()}")
        result = json.loads(line)
        self.first = self.first or result
        self.peak_mb = result["peak_mb"]
        return result["tokens"] / result["seconds"]

    def close(self):
        self.child.stdin.close()
        self.child.wait()


def measure(options, size, precision):
    steps = options.steps or STEPS[size]
    begin = time.time()
    etude = Etude(options, size, precision)
    etude.train(2)  # vocabulary and cache are made, pages touched
    etude_first = time.time() - begin
    peer = ModelGarden(options, size, precision, etude.vocabulary)
    peer.train(2)  # the graph is traced
    rates = []
    for _ in range(options.rounds):
        rates.append((etude.train(steps), peer.train(steps)))
    etude.close()
    peer.close()
    return dict(
        name=f"{size}.{SHORT[precision]}",
        etude=statistics.median(a for a, _ in rates),
        peer=statistics.median(b for _, b in rates),
        ratio=statistics.median(a / b for a, b in rates),
        least=min(a / b for a, b in rates),
        most=max(a / b for a, b in rates),
        etude_mb=etude.peak_mb,
        peer_mb=peer.peak_mb,
        etude_first=etude_first,
        peer_first=peer.first["start_seconds"],
        parameters=peer.first["parameters"],
        version=peer.first["version"],
    )


def show(results):
    print(f"{'':12} {'etude':>10} {'peer':>10} {'ratio':>7} {'range':>13} "
          f"{'etude MB':>9} {'peer MB':>9} {'share':>6} {'peer start':>11}")
    for r in results:
        print(f"{r['name']:12} {r['etude']:10.0f} {r['peer']:10.0f} {r['ratio']:7.2f} "
              f"{r['least']:6.2f}-{r['most']:<6.2f} {r['etude_mb']:9.0f} {r['peer_mb']:9.0f} "
              f"{r['etude_mb'] / r['peer_mb']:6.2f} {r['peer_first']:9.1f} s")


def write(results, path):
    with open(path, "w", encoding="utf-8") as file:
        for r in results:
            for name, value in (("tokens_s", r["peer"]), ("peak_mb", r["peer_mb"])):
                file.write(json.dumps({"name": f"step.{r['name']}.{name}", "value": value}) + "\n")
            size, precision = r["name"].split(".")
            if precision == "f32":
                start = {"name": f"start.{size}.ms", "value": 1e3 * r["peer_first"]}
                file.write(json.dumps(start) + "\n")


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("etude", "work", "source", "target", "output"):
        parser.add_argument(name)
    parser.add_argument("--models", default="tiny,base")
    parser.add_argument("--precisions", default="float32,bfloat16")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=0, help="of a round; 0: by the model's size")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    return parser.parse_args()


def main():
    options = parse()
    for path in (options.etude, options.source, options.target):
        if not os.path.exists(path):
            fail(f"{path} does not exist")
    processors = sorted(os.sched_getaffinity(0))[: options.threads]
    os.sched_setaffinity(0, processors)  # children inherit it, and so choose their threads
    os.environ["OMP_NUM_THREADS"] = str(len(processors))
    os.makedirs(options.work, exist_ok=True)
    results = []
    for size in options.models.split(","):
        for precision in options.precisions.split(","):
            results.append(measure(options, size, precision))
            print(f"{results[-1]['name']}: {results[-1]['ratio']:.2f} x", file=sys.stderr)
    print(f"Etude beside TensorFlow {results[0]['version']} Model Garden, target tokens/s, "
          f"{len(processors)} threads")
    show(results)
    write(results, options.output)


if __name__ == "__main__":
    main()
