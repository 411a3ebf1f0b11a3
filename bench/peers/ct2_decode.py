"""Decoding by CTranslate2. usage:

    ct2_decode.py MODEL float32|int8 BEAM THREADS made SENTENCES SOURCE TARGET
    ct2_decode.py MODEL float32|int8 BEAM THREADS text VOCABULARY FILE OUTPUT

MODEL is a folder that ct2_model.py wrote. `made`: SENTENCES of SOURCE random tokens; exactly
TARGET tokens are produced for each, so that two systems do the same steps whatever the weights
are. `text`: the lines of FILE are split into tokens, translated without a length penalty, and
joined again in OUTPUT. Amount: the number of repetitions; work: sentences. The rate is the
median of the times (worker.py).

The threads work together on one batch or each on its own batch; CTranslate2 leaves the choice to
its users. Both ways are tried first, and the faster one counts.
"""
import json
import sys
import time

import worker

import ctranslate2
import numpy as np

LENGTHS = dict(max_batch_size=2048, batch_type="tokens")


def made(model, beam, sentences, source, target):
    """A function that decodes drawn sentences once, and how many they are."""
    count, source, target = int(sentences), int(source), int(target)
    with open(f"{model}/shared_vocabulary.json", encoding="utf-8") as file:
        names = json.load(file)
    draw = np.random.default_rng(1).integers(4, len(names), (count, source))
    rows = [[names[i] for i in row] for row in draw]

    def run(translator):
        translator.translate_batch(
            rows, beam_size=beam, min_decoding_length=target, max_decoding_length=target, **LENGTHS
        )

    return run, count


def text(beam, vocabulary, path, output):
    import sentencepiece

    pieces = sentencepiece.SentencePieceProcessor(model_file=vocabulary)
    with open(path, encoding="utf-8") as file:
        lines = file.read().splitlines()

    def run(translator):
        rows = pieces.encode(lines, out_type=str)
        results = translator.translate_batch(
            rows, beam_size=beam, length_penalty=0, max_decoding_length=128, **LENGTHS
        )
        with open(output, "w", encoding="utf-8") as file:
            for result in results:
                file.write(pieces.decode(result.hypotheses[0]) + "\n")

    return run, len(lines)


def fastest(model, kind, threads, run):
    """The translator with the faster use of the threads."""
    best, least = None, None
    for together in sorted({1, threads}):
        translator = ctranslate2.Translator(
            model, device="cpu", compute_type=kind,
            inter_threads=threads // together, intra_threads=together,
        )
        run(translator)
        begin = time.perf_counter()
        run(translator)
        seconds = time.perf_counter() - begin
        if best is None or seconds < least:
            best, least = translator, seconds
    return best


def main(model, kind, beam, threads, what, *rest):
    run, count = made(model, int(beam), *rest) if what == "made" else text(int(beam), *rest)
    translator = fastest(model, kind, int(threads), run)

    def decode(times):
        rounds = []
        for _ in range(times):
            begin = time.perf_counter()
            run(translator)
            rounds.append(time.perf_counter() - begin)
        return worker.median_rate(count, rounds)

    worker.serve(decode, f"CTranslate2 {ctranslate2.__version__}")


if __name__ == "__main__":
    main(*sys.argv[1:])
