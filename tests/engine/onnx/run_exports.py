"""Other programs on exports, for test_exports.sh.

    run_exports.py table MODEL.onnx METADATA ROWS PREDICTIONS
    run_exports.py onnx FOLDER SOURCES TARGETS SCORES
    run_exports.py greedy FOLDER SOURCES SCORED
    run_exports.py ctranslate2 FOLDER VOCABULARIES SOURCES TRANSLATIONS

PREDICTIONS are lines of `etude predict`, SCORES of `etude translate --score-targets`, SCORED and
TRANSLATIONS of `etude translate --beam-size 1 --max-length 20`, the first with --scores. VOCABULARIES:
the source's and the target's SentencePiece model, a comma between.
"""
import json
import sys

import numpy as np


def lines(path):
    with open(path, encoding="utf-8") as file:
        return file.read().splitlines()


def session(path):
    import onnxruntime

    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def table(model, metadata, rows, predictions):
    """Scores of rows long,wide,colour: numbers standardized, the colour by its place."""
    with open(metadata, encoding="utf-8") as file:
        facts = json.load(file)
    cells = [row.split(",") for row in lines(rows)]
    numbers = np.array([[float(a), float(b)] for a, b, *_ in cells])
    mean = np.array([facts[name]["mean"] for name in ("long", "wide")])
    std = np.array([facts[name]["std"] for name in ("long", "wide")])
    colours = facts["colour"]["vocab"]["entries"]
    places = np.array([[colours.index(row[2])] for row in cells])
    numbers = ((numbers - mean) / std).astype(np.float32)
    run = session(model)
    inputs = [value.name for value in run.get_inputs()]
    if inputs == ["X"]:
        width = run.get_inputs()[0].shape[1] - 2
        hot = np.eye(width, dtype=np.float32)[places[:, 0]]
        feed = {"X": np.concatenate([numbers, hot], 1)}
    else:
        feed = {"X": numbers, "ids": places}
    found = run.run(["scores"], feed)[0]
    wanted = np.array([list(json.loads(line)["scores"].values()) for line in lines(predictions)])
    return np.abs(found - wanted).max(), 1e-4


def padded(rows, padding):
    ids = np.full((len(rows), max(map(len, rows))), padding)
    for row, to in zip(rows, ids):
        to[: len(row)] = row
    return ids.astype(np.int64)


def log_softmax(logits):
    logits = logits.astype(np.float64)
    logits -= logits.max(-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


class Translator:
    """What ORTModelForSeq2SeqLM does with a folder: names of files, inputs and outputs are its own."""

    def __init__(self, folder):
        import sentencepiece

        def vocabulary(side):
            return sentencepiece.SentencePieceProcessor(model_file=f"{folder}/{side}.spm")

        def read(name):
            with open(f"{folder}/{name}.json", encoding="utf-8") as file:
                return json.load(file)

        self.source, self.target = vocabulary("source"), vocabulary("target")
        self.config, facts = read("config"), read("tokenizer_config")
        self.never = [word[0] for word in read("generation_config").get("bad_words_ids", [])]
        self.unknown = facts["unk_token"]
        self.numbers = read("vocab")
        self.target_numbers = read("target_vocab") if facts["separate_vocabs"] else self.numbers
        self.eos, self.start, self.pad = (
            self.config[name] for name in ("eos_token_id", "decoder_start_token_id", "pad_token_id")
        )
        names = ("encoder_model", "decoder_model", "decoder_with_past_model")
        self.encoder, self.decoder, self.with_past = (session(f"{folder}/{n}.onnx") for n in names)

    def ids(self, model, numbers, line):
        """Numbers of a line's pieces, as MarianTokenizer gives them: those of vocab.json."""
        pieces = model.encode(line, out_type=str)
        return [numbers.get(piece, numbers[self.unknown]) for piece in pieces] + [self.eos]

    def encode(self, texts):
        """The inputs that both decoders share, and what the encoder gives."""
        rows = [self.ids(self.source, self.numbers, line) for line in texts]
        mask = padded([[1] * len(row) for row in rows], 0)
        feed = {"input_ids": padded(rows, self.pad), "attention_mask": mask}
        return mask, self.encoder.run(["last_hidden_state"], feed)[0]

    def run(self, part, feed):
        """Logits, and what the outputs present.X are for the next run: past_key_values.X."""
        names = [value.name for value in part.get_outputs()]
        given = dict(zip(names, part.run(names, feed)))
        logits = given.pop("logits")
        return logits, {name.replace("present", "past_key_values"): x for name, x in given.items()}

    def greedy(self, texts, longest):
        """Tokens, and their log-probabilities with that of the end."""
        mask, states = self.encode(texts)
        ids = np.full((len(texts), 1), self.start, np.int64)
        feed = {"encoder_attention_mask": mask, "input_ids": ids, "encoder_hidden_states": states}
        logits, past = self.run(self.decoder, feed)
        if logits.shape[-1] != self.config["vocab_size"]:  # a search goes by it
            sys.exit(f"vocab_size {self.config['vocab_size']}, and {logits.shape[-1]} logits")
        tokens, sums = [[] for _ in texts], np.zeros(len(texts))
        done = np.zeros(len(texts), bool)
        for _ in range(longest):
            logits[:, -1, self.never] = -np.inf
            chances = log_softmax(logits[:, -1])
            best = chances.argmax(-1)
            sums += np.where(done, 0, chances.max(-1))
            done |= best == self.eos
            for row, token, over in zip(tokens, best, done):
                if not over:
                    row.append(int(token))
            if done.all():
                break
            feed = {"encoder_attention_mask": mask, "input_ids": best[:, None].astype(np.int64), **past}
            logits, present = self.run(self.with_past, feed)
            past.update(present)
        return tokens, sums


def onnx(folder, sources, targets, scores):
    """Log-probabilities of targets, several sentences of different lengths together: all at once,
    and the first token alone, the rest behind it."""
    model = Translator(folder)
    target = [model.ids(model.target, model.target_numbers, line) for line in lines(targets)]
    ids = padded([[model.start] + row[:-1] for row in target], model.pad)
    mask, states = model.encode(lines(sources))
    feed = {"encoder_attention_mask": mask, "encoder_hidden_states": states}
    whole, _ = model.run(model.decoder, {**feed, "input_ids": ids})
    first, past = model.run(model.decoder, {**feed, "input_ids": ids[:, :1]})
    rest, _ = model.run(
        model.with_past, {"encoder_attention_mask": mask, "input_ids": ids[:, 1:], **past}
    )
    wanted = np.array([float(line.split("logp=")[1].split()[0]) for line in lines(scores)])
    off = 0
    for logits in whole, np.concatenate([first, rest], 1):
        chances = log_softmax(logits)
        found = [sum(chances[i, k, p] for k, p in enumerate(row)) for i, row in enumerate(target)]
        off = max(off, np.abs(np.array(found) - wanted).max())
    return off, 1e-4


def greedy(folder, sources, scored):
    """Searching with the cache: the same translations, log-probabilities, alone or together."""
    model, texts = Translator(folder), lines(sources)
    parts = [line.split(" ||| ") for line in lines(scored)]
    wanted = np.array([float(one[2].split("logp=")[1].split()[0]) for one in parts])
    off = 0
    for rows in (slice(None), slice(0, 1), slice(3, 8)):
        tokens, found = model.greedy(texts[rows], 20)
        for row, one in zip(tokens, parts[rows]):
            if model.target.decode(row) != one[1]:
                sys.exit(f"ONNX Runtime: {model.target.decode(row)}\netude:        {one[1]}")
        off = max(off, np.abs(found - wanted[rows]).max())
    return off, 1e-4


def ctranslate2(folder, vocabularies, sources, translations):
    """How many translations differ."""
    import ctranslate2 as peer
    import sentencepiece

    source, target = (
        sentencepiece.SentencePieceProcessor(model_file=name) for name in vocabularies.split(",")
    )
    translator = peer.Translator(folder, compute_type="float32")
    split = [source.encode(line, out_type=str) for line in lines(sources)]
    found = translator.translate_batch(
        split, beam_size=1, max_decoding_length=20, min_decoding_length=0
    )
    texts = [target.decode(one.hypotheses[0]) for one in found]
    wanted = lines(translations)
    for one, other in zip(texts, wanted):
        if one != other:
            print(f"CTranslate2: {one}\netude:       {other}")
    return sum(a != b for a, b in zip(texts, wanted)) + (len(texts) != len(wanted)), 0


kind = {"table": table, "onnx": onnx, "greedy": greedy, "ctranslate2": ctranslate2}[sys.argv[1]]
off, allowed = kind(*sys.argv[2:])
print(" ".join(sys.argv[1:3]), "off by", off)
sys.exit(not off <= allowed)
