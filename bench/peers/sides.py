"""The two sides of a comparison: Etude's programs, and peers behind a pipe.

A side has measure(), which does one round and returns its value in the figure's unit, peak_mb,
its peak memory so far, and close(). Etude's side is a new process for each round. A peer is one
process for all rounds; it is stopped between them, so that none of its threads spins.
"""
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PATIENCE = 3600  # seconds in which a peer answers; compiling takes minutes


class Failure(Exception):
    """Ends one comparison; the others continue."""


def run(command, **streams):
    """Runs a program; returns its output, the seconds from before fork to its end, and peak MB."""
    begin = time.perf_counter()
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT} | streams
    child = subprocess.Popen(command, **options)
    said = child.stdout.read().decode() if child.stdout else ""
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise Failure(f"{' '.join(command)} ended with {child.returncode}:\n{said[-2000:]}")
    return said, time.perf_counter() - begin, usage.ru_maxrss * 1024 / 1e6


def prepare(script, *arguments):
    """Runs a script of this folder in a process of its own. A child's peak memory begins with its
    parent's, so this process, the parent of what is measured, must stay small."""
    run([sys.executable, os.path.join(HERE, script), *arguments])


class Side:
    peak_mb = 0.0
    figure = None  # the full name, where the side knows it better than the comparison

    def remember(self, megabytes):
        self.peak_mb = max(self.peak_mb, megabytes)

    def fastest(self, times, work, command, source=os.devnull, output=os.devnull):
        """Runs a command so many times from file to file; returns the best rate."""
        rate = 0.0
        for _ in range(times):
            with open(source, "rb") as taken, open(output, "wb") as written:
                _, seconds, megabytes = run(
                    command, stdin=taken, stdout=written, stderr=subprocess.DEVNULL
                )
            self.remember(megabytes)
            rate = max(rate, work / seconds)
        return rate

    def close(self):
        pass


class Training(Side):
    """`etude train`, resumed in each round; the rate is in its log."""

    def __init__(self, options, name, size, precision, settings=()):
        self.folder = os.path.join(options.work, name)
        self.vocabulary = os.path.join(self.folder, "vocabulary.model")
        self.parameters = 0
        self.command = [
            options.etude, "train", "--experiment", f"translation/{size}",
            "--model-dir", self.folder,
        ]
        chosen = {
            "task.train_data.source_path": options.source,
            "task.train_data.target_path": options.target,
            "task.train_data.global_batch_size": 4096,
            "task.train_data.max_seq_length": 256,
            "task.vocabulary.size": 10000,
            "task.vocabulary.model_type": "bpe",
            "trainer.checkpoint_interval": 0,
            "runtime.mixed_precision_dtype": precision,
            "runtime.seed": 1,
        }
        for setting, value in (chosen | dict(settings)).items():
            self.command += ["--set", f"{setting}={value}"]
        self.done = self.last()["step"]

    def last(self):
        """The last line of the run's log."""
        path = os.path.join(self.folder, "metrics.jsonl")
        if not os.path.exists(path):
            return {"step": 0}
        with open(path, encoding="utf-8") as file:
            return json.loads(file.read().splitlines()[-1])

    def go_on(self, steps):
        """Resumes the run; returns the seconds of the command. A run's first steps also make its
        vocabulary and cache; the peers get these ready, so that time and memory do not count."""
        prepared = self.done > 0
        self.done += steps
        said, seconds, megabytes = run(self.command + [
            "--set", f"trainer.train_steps={self.done}",
            "--set", f"trainer.summary_interval={steps}",
        ])
        if prepared:
            self.remember(megabytes)
        found = re.search(r"([\d,]+) parameters", said)
        self.parameters = int(found[1].replace(",", "")) if found else 0
        return seconds

    def measure(self, steps):
        self.go_on(steps)
        last = self.last()
        if last["step"] != self.done:
            raise Failure(f"{self.folder}: the log ends at step {last['step']}, not {self.done}")
        return last["train"]["time"]["tokens_per_second"]

    def checkpoint(self):
        folder = os.path.join(self.folder, "checkpoints")
        return os.path.join(folder, f"ckpt-{self.done}.safetensors")


class Starting(Training):
    """From exec to the end of one step, with a checkpoint written after it: milliseconds."""

    def measure(self, _):
        return 1e3 * self.go_on(1)


class Translating(Side):
    """`etude translate` from exec to its end, including loading the model: sentences a second."""

    def __init__(self, options, training, path, output, precision, beam):
        self.path, self.output = path, output
        self.command = [
            options.etude, "translate", "--model-dir", training.folder, "--alpha", "0",
            "--max-length", "128", "--precision", precision, "--beam-size", str(beam),
        ]

    def measure(self, times):
        with open(self.path, encoding="utf-8") as file:
            lines = len(file.read().splitlines())
        return self.fastest(times, lines, self.command, self.path, self.output)


class Analyzing(Side):
    """`etude data analyze` from exec to its end: MB of file a second."""

    def __init__(self, options, path):
        self.megabytes = os.path.getsize(path) / 1e6
        self.command = [options.etude, "data", "analyze", path, "--dry-run", "--json"]

    def measure(self, times):
        return self.fastest(times, self.megabytes, self.command)


class Predicting(Side):
    """`etude predict` from exec to its end, CSV read and JSON written: rows a second."""

    def __init__(self, options, learnt, path):
        self.path, folder = path, os.path.join(options.work, "predicting")
        if not os.path.exists(os.path.join(folder, "info.json")):
            run([options.etude, "train", folder, "--experiment", "tabular/mlp", "--data", learnt,
                 "--target", "income", "--epochs", "1", "--quiet"])
        self.command = [options.etude, "predict", folder]
        with open(path, "rb") as file:
            self.rows = sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1 << 20), b"")) - 1

    def measure(self, times):
        return self.fastest(times, self.rows, self.command, self.path)


class Program(Side):
    """A program of bench/: the value is its figure whose name has the given end."""

    # The command shortens OpenMP's spinning by itself (command/etude/waiting.h).
    environment = {"GOMP_SPINCOUNT": "2000"}
    measuring = ()  # arguments of a round

    def __init__(self, options, name, *arguments, ending):
        path = os.path.join(options.programs, name)
        if not os.path.exists(path):
            raise Failure(f"{path} is not built")
        self.command, self.ending = [path, *map(str, arguments)], ending
        self.json = os.path.join(options.work, f"{name}.jsonl")

    def figures(self, *more):
        """Runs it; returns all its figures by name. more: further arguments."""
        open(self.json, "w", encoding="utf-8").close()
        given = self.environment | {"BENCH_JSON": self.json}
        _, _, megabytes = run([*self.command, *more], env=os.environ | given)
        self.remember(megabytes)
        with open(self.json, encoding="utf-8") as file:
            return {figure["name"]: figure["value"] for figure in map(json.loads, file)}

    def measure(self, _):
        for name, value in self.figures(*self.measuring).items():
            if name.endswith(self.ending):
                self.figure = name
                return value
        raise Failure(f"{' '.join(self.command)} gave no figure that ends in {self.ending}")


class Example(Program):
    """A program of examples/ in bench_example: steps a second, including making batches."""

    environment = {}  # like the program itself, with OpenMP's own way of waiting
    measuring = ("roof=no",)

    def __init__(self, options, name, data, steps):
        super().__init__(options, "bench_example", name, *data, f"steps={steps}",
                         ending=f"{name}.steps_s")

    def shares(self):
        """Its steps' shares of the roof: of products with weights, of all products. Empty if the
        roof of a product is not known."""
        return [value for name, value in self.figures().items() if "roof_share" in name]


class Peer(Side):
    """A script of this folder that serves (worker.py). unit: from a rate to the figure."""

    def __init__(self, options, script, *arguments, unit=float):
        self.unit, self.version, self.parameters = unit, "", 0
        self.log_path = os.path.join(options.work, script + ".log")
        self.begin = time.perf_counter()
        with open(self.log_path, "w", encoding="utf-8") as log:
            self.child = subprocess.Popen(
                [sys.executable, os.path.join(HERE, script), *map(str, arguments)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, bufsize=0,
            )

    def ask(self, amount):
        """Makes it do `amount`; returns its answer."""
        self.child.send_signal(signal.SIGCONT)
        line = b""
        try:
            self.child.stdin.write(f"{amount}\n".encode())
            if select.select([self.child.stdout], [], [], PATIENCE)[0]:
                line = self.child.stdout.readline()
        except BrokenPipeError:
            pass
        if not line:
            raise Failure(self.last_words())
        self.child.send_signal(signal.SIGSTOP)
        answer = json.loads(line)
        self.remember(answer["peak_mb"])
        self.version = answer["version"]
        self.parameters = answer.get("parameters", 0)
        return answer

    def last_words(self):
        self.close()
        with open(self.log_path, encoding="utf-8", errors="replace") as log:
            lines = [line for line in log.read().splitlines() if line.strip()]
        return f"{lines[-1] if lines else 'no answer'} ({self.log_path})"

    def measure(self, amount):
        return self.unit(self.ask(amount)["rate"])

    def close(self):
        if self.child.poll() is None:
            self.child.kill()
        self.child.wait()


class PeerStart(Side):
    """From exec to the end of one step, in a new process each time: milliseconds."""

    def __init__(self, options, script, *arguments):
        self.make = lambda: Peer(options, script, *arguments)
        self.version, self.parameters = "", 0

    def measure(self, _):
        peer = self.make()
        try:
            answer = peer.ask(1)
            milliseconds = 1e3 * (time.perf_counter() - peer.begin)
        finally:
            peer.close()
        self.remember(peer.peak_mb)
        self.version, self.parameters = peer.version, answer.get("parameters", 0)
        return milliseconds
