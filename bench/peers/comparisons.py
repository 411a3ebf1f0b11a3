"""The comparisons: a table of workloads, with the peers that take part in each.

A workload has the name of its figure in Etude's own benchmarks, so that bench/join finds it. Its
sides are created just before they run (sides.py). To add a peer: a script that serves
(worker.py), its packages in requirements/, and a Candidate here.
"""
import fnmatch
import importlib.util
import os
from dataclasses import dataclass, field
from typing import Callable

import batches
import sides

SHORT = {"float32": "f32", "bfloat16": "bf16"}
STEPS = {"tiny": 20, "base": 4}
SENTENCES = {"tiny": 1000, "base": 200}
LENGTHS = 14, 16  # tokens of a drawn sentence, and of what is made of it
CLASSIFIERS = {"adult": "105-64-32-2", "mnist": "784-512-512-10"}
LEARNT = {"tiny": 300, "base": 2}  # steps before a model translates
MODULES = {
    "tensorflow": "official", "torch": "torch", "marian": "pymarian", "ctranslate2": "ctranslate2",
    "tables": "polars",
}
# A program's training data, its steps in a third of a round, and peers' steps in a round.
EXAMPLES = {
    "mnist_loop": ("mnist", 600, 640), "mnist_cnn": ("mnist", 60, 64), "vae_loop": ("mnist", 250, 320),
    "gan_orbit": ("", 2000, 1280), "charlm_orbit": ("text/tinyshakespeare.txt", 80, 96),
}
COPIES = 40  # of the 16,281 rows of Adult's test set
TABLES = {"floats": 200, "digits": 200, "integers": 100, "words": 100}  # MB


@dataclass
class Candidate:
    group: str  # of requirements/
    label: str  # what stands behind its version: "eager"
    make: Callable  # of a peer's side
    amount: int  # of a round
    warm_up: int = 1  # amount before the first: it compiles, touches pages


@dataclass
class Workload:
    name: str  # by which it is chosen
    unit: str
    rising: bool  # more is better
    ours: Callable  # makes Etude's side
    amount: int = 1
    figure: str = ""  # "": as Etude's side says
    warm_up: int = 0  # Etude's amount before the first round
    memory: bool = False  # peak memory is a figure of its own
    remark: Callable = lambda: ""  # what else to say once all rounds are done
    peers: list = field(default_factory=list)

    def chosen(self, pattern):
        return fnmatch.fnmatch(self.name, pattern) or fnmatch.fnmatch(self.name, pattern + ".*")


def multiplies_bfloat16():
    """Whether the processor does. Without it bfloat16 is emulated, and nobody trains with it."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        flags = next((line for line in file if line.startswith("flags")), "").split()
    return bool({"avx512_bf16", "amx_bf16"} & set(flags))


def installed(group):
    return importlib.util.find_spec(MODULES[group]) is not None


# ---- training ------------------------------------------------------------------------------

# Model Garden's post-norm decoder refuses bfloat16; torch.nn.Transformer ends with norms.
PRE_NORM = {
    f"task.model.{stack}.{name}": "true"
    for stack in ("encoder", "decoder") for name in ("norm_first", "final_norm")
}


def training(options, size, precision, kind=sides.Training):
    name = f"{size}-{SHORT[precision]}"
    return kind(options, name, size, precision, PRE_NORM)


def rectangles(options, size, precision):
    """The peers' batches and the vocabulary, which Etude's first steps make if they are missing."""
    etude = training(options, size, precision)
    if not etude.done:
        etude.go_on(1)
    path = os.path.join(options.work, "batches.npz")
    if not os.path.exists(path):
        sides.prepare("batches.py", path, etude.vocabulary, options.source, options.target)
    return path, etude.vocabulary


def trainers(options, size, precision, amount, kind=sides.Peer):
    def model_garden():
        return kind(options, "modelgarden.py", *rectangles(options, size, precision), size,
                    precision)

    def torch(mode):
        path, _ = rectangles(options, size, precision)
        return kind(options, "torch_train.py", path, size, precision, mode)

    def marian():
        _, vocabulary = rectangles(options, size, precision)
        folder = os.path.join(options.work, f"marian-{size}")
        return kind(options, "marian_train.py", folder, vocabulary, options.source,
                    options.target, size, options.threads)

    return [
        Candidate("tensorflow", "Model Garden", model_garden, amount, 2),
        Candidate("torch", "eager", lambda: torch("eager"), amount, 2),
        # It compiles twice: for the first shape of a batch, then for any shape.
        Candidate("torch", "compiled", lambda: torch("compiled"), amount, 6),
        # On a CPU it has only float32, whatever Etude's precision is. Its first steps touch
        # new memory, gigabytes of it for base, and take several times as long.
        Candidate("marian", "float32", marian, amount, 8),
    ]


def train(options):
    for size in options.models:
        for precision in options.precisions:
            amount = options.steps or STEPS[size]
            figure = f"{size}.{SHORT[precision]}"
            yield Workload(
                f"train.{figure}", "target tokens/s", True,
                lambda s=size, p=precision: training(options, s, p),
                amount, f"step.{figure}.tokens_s", warm_up=2, memory=True,
                peers=trainers(options, size, precision, amount),
            )


def start(options):
    yield Workload(
        "start.tiny", "ms", False,
        lambda: training(options, "tiny", "float32", sides.Starting),
        figure="start.tiny.ms", warm_up=2,
        peers=trainers(options, "tiny", "float32", 1, sides.PeerStart),
    )


# ---- decoding ------------------------------------------------------------------------------

def learnt(options, size):
    """An unchanged run of the experiment, and its model in CTranslate2's format."""
    rate = "trainer.optimizer_config.learning_rate.inverse_sqrt"
    hurry = {f"{rate}.warmup_steps": 200, f"{rate}.peak_learning_rate": 0.002}
    run = sides.Training(options, f"learnt-{size}", size, "float32",
                         hurry if size == "tiny" else {})
    model = run.folder + ".ct2"
    if not run.done:
        run.go_on(LEARNT[size])
    if not os.path.exists(os.path.join(model, "model.bin")):
        sides.prepare("ct2_model.py", run.checkpoint(), run.vocabulary, model)
    return run, model


def decode(options):
    """The same steps on both sides: drawn sentences, a fixed length."""
    def peer(size, kind, beam):
        _, model = learnt(options, size)
        return sides.Peer(options, "ct2_decode.py", model, kind, beam, options.threads, "made",
                          SENTENCES[size], *LENGTHS)

    for size in options.models:
        for precision in (*options.precisions, "int8"):
            for beam in (1, 4):
                yield Workload(
                    f"decode.{size}.{SHORT.get(precision, precision)}.beam{beam}", "sentences/s", True,
                    lambda s=size, p=precision, b=beam: sides.Program(
                        options, "bench_decode", s, p, b, SENTENCES[s], ending="sentences_s"),
                    peers=[
                        Candidate("ctranslate2", kind,
                                  lambda s=size, k=kind, b=beam: peer(s, k, b), 3)
                        for kind in ("float32", "int8")
                    ],
                )


def first_lines(options, count=1000):
    path = os.path.join(options.work, "source.txt")
    if not os.path.exists(path):
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(line + "\n" for line in batches.read_lines(options.source)[:count])
    return path


def translate(options):
    """The same model and text on both sides, from text to text; equal lines are counted."""
    beam = 4
    outputs = [os.path.join(options.work, name) for name in ("etude.txt", "ctranslate2.txt")]

    def ours():
        run, _ = learnt(options, "tiny")
        return sides.Translating(options, run, first_lines(options), outputs[0], "float32", beam)

    def theirs(kind):
        run, model = learnt(options, "tiny")
        return sides.Peer(options, "ct2_decode.py", model, kind, beam, options.threads, "text",
                          run.vocabulary, first_lines(options), outputs[1])

    def equal():
        made = [batches.read_lines(path) for path in outputs]
        same = sum(a == b for a, b in zip(*made))
        return f", {same} of {len(made[0])} translations equal"

    yield Workload(
        "translate.tiny", "sentences/s", True, ours, figure="translate.tiny.sentences_s", amount=3,
        remark=equal,
        peers=[Candidate("ctranslate2", kind, lambda k=kind: theirs(k), 3)
               for kind in ("float32", "int8")],
    )


# ---- small models --------------------------------------------------------------------------

def mlp(options):
    for name, layers in CLASSIFIERS.items():
        def torch(mode, layers=layers):
            return sides.Peer(options, "torch_mlp.py", layers, 128, mode)

        def keras(layers=layers):
            return sides.Peer(options, "keras_mlp.py", layers, 128)

        amount = 4 if name == "adult" else 1
        yield Workload(
            f"mlp.{name}", "steps/s", True,
            lambda n=name: sides.Program(options, "bench_mlp", n, 2, ending="steps_s"),
            peers=[
                Candidate("torch", "eager", lambda t=torch: t("eager"), amount),
                Candidate("torch", "compiled", lambda t=torch: t("compiled"), amount),
                Candidate("tensorflow", "fit", keras, amount),
            ],
        )


def examples(options):
    """Etude's whole program, with its data; only a peer's steps, on made examples."""
    def ours(name, data, steps):
        path = os.path.join(options.data, data)
        if not os.path.exists(path):
            raise sides.Failure(f"{path} is not there: --data FOLDER has {data or 'nothing'}")
        return sides.Example(options, name, [path] if data else [], steps)

    def share(*of):
        shares = ours(*of).shares()
        return f", {100 * shares[0]:.0f} % of the roof ({100 * shares[1]:.0f})" if shares else ""

    for name, (data, steps, peers_steps) in EXAMPLES.items():
        yield Workload(
            f"example.{name}", "steps/s", True, lambda of=(name, data, steps): ours(*of),
            figure=f"example.{name}.steps_s", memory=True,
            remark=lambda of=(name, data, steps): share(*of),
            peers=[
                Candidate("torch", mode, lambda n=name, m=mode: sides.Peer(
                    options, "torch_examples.py", n, m), peers_steps, 64)
                for mode in ("eager", "compiled")
            ],
        )


def loop(options):
    def orbit(mode):
        return sides.Peer(options, "orbit_loop.py", mode, unit=lambda rate: 1e6 / rate)

    yield Workload(
        "loop.empty", "us", False,
        lambda: sides.Program(options, "bench_loop", ending="loop.empty.us"),
        peers=[
            Candidate("tensorflow", "Orbit, tf.function", lambda: orbit("function"), 20000),
            Candidate("tensorflow", "Orbit, eager", lambda: orbit("eager"), 2000),
        ],
    )


# ---- tables --------------------------------------------------------------------------------

def tables(options):
    """Describes a file: Etude's command including its start; peers in their process."""
    def made(kind):
        path = os.path.join(options.work, f"table-{kind}.csv")
        if not os.path.exists(path):
            sides.run([os.path.join(options.programs, "bench_csv"), "write", kind,
                       str(TABLES[kind]), path])
        return path

    for kind in TABLES:
        yield Workload(
            f"table.{kind}", "MB/s", True, lambda k=kind: sides.Analyzing(options, made(k)),
            figure=f"csv.{kind}.command.mb_s", warm_up=1, memory=True,
            peers=[
                Candidate("tables", "", lambda k=kind, p=peer: sides.Peer(
                    options, "describe.py", p, made(k), options.threads), 1)
                for peer in ("polars", "pandas")
            ],
        )


def predict(options):
    """Etude from CSV to JSON, including its start; Keras from arrays to arrays."""
    def rows():
        folder = os.path.join(options.work, "tables")
        test, path = os.path.join(folder, "adult-test.csv"), os.path.join(folder, "adult-rows.csv")
        if not os.path.exists(test):
            tool = os.path.join(sides.HERE, "..", "..", "tools", "tabular-data")
            sides.run([tool, options.data, folder])
        if not os.path.exists(test):
            raise sides.Failure(f"{options.data}/tabular/adult.data is not there (--data)")
        if not os.path.exists(path):
            head, *lines = batches.read_lines(test)
            with open(path, "w", encoding="utf-8") as file:
                file.writelines(line + "\n" for line in [head, *lines * COPIES])
        return os.path.join(folder, "adult-train.csv"), path

    yield Workload(
        "predict.adult", "rows/s", True, lambda: sides.Predicting(options, *rows()),
        figure="predict.adult.rows_s", warm_up=1, memory=True,
        peers=[Candidate("tensorflow", f"batches of {batch}", lambda b=batch: sides.Peer(
            options, "keras_predict.py", b), 1) for batch in (32, 1024)],
    )


def workloads(options):
    """The workloads that the command line chose."""
    for make in (train, start, decode, translate, mlp, examples, loop, tables, predict):
        for workload in make(options):
            if any(map(workload.chosen, options.only)):
                yield workload
