"""Other programs on exports, for test_exports.sh.

    run_exports.py table MODEL.onnx METADATA ROWS PREDICTIONS
    run_exports.py onnx FOLDER SOURCES TARGETS SCORES
    run_exports.py ctranslate2 FOLDER VOCABULARY SOURCES TRANSLATIONS

PREDICTIONS are lines of `etude predict`, SCORES of `etude translate --score-targets`, TRANSLATIONS of
`etude translate --beam-size 1 --max-length 20`.
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
    wanted = np.array([json.loads(line)["scores"] for line in lines(predictions)])
    return np.abs(found - wanted).max(), 1e-4


def onnx(folder, sources, targets, scores):
    """Log-probabilities of targets, several sentences of different lengths together."""
    import sentencepiece

    pieces = sentencepiece.SentencePieceProcessor(model_file=f"{folder}/source.spm")
    with open(f"{folder}/config.json", encoding="utf-8") as file:
        config = json.load(file)
    encoder, decoder = (session(f"{folder}/{n}_model.onnx") for n in ("encoder", "decoder"))
    eos, start = config["eos_token_id"], config["decoder_start_token_id"]
    source = [pieces.encode(line) + [eos] for line in lines(sources)]
    target = [pieces.encode(line) + [eos] for line in lines(targets)]

    def padded(rows):
        ids = np.full((len(rows), max(map(len, rows))), config["pad_token_id"])
        for row, to in zip(rows, ids):
            to[: len(row)] = row
        return ids.astype(np.int64)

    mask = padded([[1] * len(row) for row in source])
    mask[padded(source) == config["pad_token_id"]] = 0
    states = encoder.run(None, {"input_ids": padded(source), "attention_mask": mask})[0]
    logits = decoder.run(
        None,
        {
            "encoder_attention_mask": mask,
            "input_ids": padded([[start] + row[:-1] for row in target]),
            "encoder_hidden_states": states,
        },
    )[0].astype(np.float64)
    logits -= logits.max(-1, keepdims=True)
    logits -= np.log(np.exp(logits).sum(-1, keepdims=True))
    found = [sum(logits[i, k, p] for k, p in enumerate(row)) for i, row in enumerate(target)]
    wanted = [float(line.split("logp=")[1].split()[0]) for line in lines(scores)]
    return np.abs(np.array(found) - wanted).max(), 2e-4


def ctranslate2(folder, vocabulary, sources, translations):
    """How many translations differ."""
    import ctranslate2 as peer
    import sentencepiece

    pieces = sentencepiece.SentencePieceProcessor(model_file=vocabulary)
    translator = peer.Translator(folder, compute_type="float32")
    split = [pieces.encode(line, out_type=str) for line in lines(sources)]
    found = translator.translate_batch(split, beam_size=1, max_decoding_length=20)
    texts = [pieces.decode(one.hypotheses[0]) for one in found]
    wanted = lines(translations)
    for one, other in zip(texts, wanted):
        if one != other:
            print(f"CTranslate2: {one}\netude:       {other}")
    return sum(a != b for a, b in zip(texts, wanted)) + (len(texts) != len(wanted)), 0


kind = {"table": table, "onnx": onnx, "ctranslate2": ctranslate2}[sys.argv[1]]
off, allowed = kind(*sys.argv[2:])
print(" ".join(sys.argv[1:3]), "off by", off)
sys.exit(not off <= allowed)
