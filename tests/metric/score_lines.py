"""What sacrebleu says of pairs: one line each, which the C tests compare with their own.

    score_lines.py PAIRS.tsv [SENTENCES]     HYPOTHESIS TAB REFERENCE on each line
    score_lines.py --edits PAIRS.tsv         edits and reference words of TER, pair by pair
    score_lines.py --bootstrap OUTPUTS.tsv   score, mean, interval and p-value of each OUTPUT,
                                             REFERENCE TAB OUTPUT TAB OUTPUT... on each line
    score_lines.py --draws                   draws of numpy, for several seeds and bounds
    score_lines.py --unicode                 what Python knows of code points

The version in the signature reads "version:-", since each scorer puts its own there."""

import sys
import unicodedata

TOKENS = ["13a", "none", "char"]


def line(score, metric, width):
    signature = str(metric.get_signature()).split("version:")[0] + "version:-"
    return score.format(width, signature=signature)


def read_pairs(path):
    with open(path, encoding="utf-8", newline="\n") as file:
        return [text.rstrip("\n").split("\t") for text in file]


def edits(path):
    from sacrebleu.metrics import TER

    for hypothesis, reference in read_pairs(path):
        score = TER().sentence_score(hypothesis, [reference])
        print("%d %d" % (score.num_edits, score.ref_length))


def bootstrap(path):
    from sacrebleu.metrics import BLEU, CHRF, TER
    from sacrebleu.significance import PairedTest

    columns = list(zip(*read_pairs(path)))
    systems = [(str(i), list(column)) for i, column in enumerate(columns[1:])]
    metrics = {"BLEU": BLEU(), "chrF2": CHRF(), "TER": TER()}
    test = PairedTest(systems, metrics, [list(columns[0])], test_type="bs", n_samples=1000)
    for name, results in test()[1].items():
        for i, r in enumerate(results if name in metrics else []):
            p = 1 if r.p_value is None else r.p_value
            print("%s %d %.3f %.3f %.3f %.6f" % (name, i, r.score, r.mean, r.ci, p))


def draws():
    import numpy

    for seed in (0, 1, 12345, 2**32 - 1, 2**32, 2**64 - 1):
        for bound in (1, 2, 7, 1000, 2**31 + 1, 3 * 10**9, 2**32):
            draw = numpy.random.default_rng(seed).choice(bound, size=9)
            print(seed, bound, *draw)


def scores(path, sentences):
    from sacrebleu.metrics import BLEU, CHRF, TER

    pairs = read_pairs(path)
    hypotheses = [pair[0] for pair in pairs]
    references = [pair[1] for pair in pairs]
    metrics = [BLEU(tokenize=t, lowercase=lower) for t in TOKENS for lower in (False, True)]
    metrics += [CHRF(lowercase=lower) for lower in (False, True)]
    metrics += [TER(case_sensitive=case) for case in (False, True)]
    for metric in metrics:
        score = metric.corpus_score(hypotheses, [references])
        print(score.format())
        for width in (1, 4, 10):
            print(line(score, metric, width))
    metrics = [
        BLEU(effective_order=True),
        BLEU(effective_order=True, tokenize="none", lowercase=True),
        BLEU(smooth_method="none", effective_order=True),
        CHRF(),
        TER(),
    ]
    for hypothesis, reference in pairs[:sentences]:
        for metric in metrics:
            score = metric.sentence_score(hypothesis, [reference])
            print(line(score, metric, 6))


def code_points():
    # Only code points of Unicode 3.2, whose properties no longer change; versions of Python and
    # utf8proc differ in newer ones.
    for code in range(0x110000):
        if unicodedata.ucd_3_2_0.category(chr(code)) in ("Cn", "Cs", "Co"):
            continue
        text = chr(code)
        category = unicodedata.category(text)
        lower = "".join(" %x" % ord(c) for c in text.lower())
        sigma = ("A" + text + "\u03a3!", text + "\u03a3 a", "A\u03a3" + text + "A")
        print("%x %d%d%d%d%s %s" % (
            code, text.isspace(), category[0] == "P", category[0] == "S", category == "Nd", lower,
            " ".join("%d" % context.lower().count("\u03c2") for context in sigma)))


if sys.argv[1] == "--unicode":
    code_points()
elif sys.argv[1] == "--edits":
    edits(sys.argv[2])
elif sys.argv[1] == "--bootstrap":
    bootstrap(sys.argv[2])
elif sys.argv[1] == "--draws":
    draws()
else:
    scores(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0)
