"""Multi30k by TensorFlow Model Garden's TranslationTask with the recipe of
configs/multi30k-tiny.yaml. usage:

    modelgarden_translation.py VOCABULARY FOLDER EPOCHS...

VOCABULARY: Etude's SentencePiece model of the same text. FOLDER: train.en, train.de, val.en and
val.de, tokenised. After each of EPOCHS the model with the mean of the last ten epochs' weights
translates the validation set with beams of 5; training ends when BLEU reaches TARGET (40). The
last line has the result.

The model is post-norm and float32, because Model Garden's post-norm decoder refuses bfloat16.
Batches are rectangles of at most 4,096 tokens a side, made once and shuffled each epoch."""
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "peers"))
from modelgarden_config import configure, rectangles  # before TensorFlow

import numpy as np
import sacrebleu
import sentencepiece
import tensorflow as tf
from official.core import base_trainer, train_utils
from official.nlp.tasks import translation

import batches

LAST, BEAMS, ALPHA = 10, 5, 1.3
EVALUATED = 64  # sentences at once; the task's beam search wants to know how many


def recipe(vocabulary):
    config = configure("tiny", vocabulary)
    post_norm = {"norm_first": False}
    config.override({
        "task": {"model": {"encoder": post_norm, "decoder": post_norm, "beam_size": BEAMS, "alpha": ALPHA,
                           "decode_max_length": 80, "label_smoothing": 0.1}},
        "trainer": {"optimizer_config": {
            "learning_rate": {"type": "power", "power": {"initial_learning_rate": 0.005 * 2000**0.5, "power": -0.5}},
            "warmup": {"type": "linear", "linear": {"warmup_steps": 2000, "warmup_learning_rate": 0.0}},
        }},
    }, is_strict=False)
    return config


def epochs_of(made):
    """Each in a new order."""
    generator = np.random.default_rng(1)
    while True:
        for i in generator.permutation(len(made)):
            yield made[i]


class Validation:
    def __init__(self, folder, pieces):
        self.pieces = pieces
        sources = batches.read_lines(os.path.join(folder, "val.en"))
        self.references = batches.read_lines(os.path.join(folder, "val.de"))
        rows = [ids + [batches.END] for ids in pieces.encode(sources)]
        order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
        self.parts = [order[i : i + EVALUATED] for i in range(0, len(order), EVALUATED)]
        self.inputs = [batches.pad([rows[i] for i in part] + [[batches.END]] * (EVALUATED - len(part)))
                       for part in self.parts]

    def text(self, ids):
        ids = [int(i) for i in ids]
        return self.pieces.decode(ids[: ids.index(batches.END)] if batches.END in ids else ids)

    def bleu(self, model):
        decode = tf.function(lambda inputs: model({"inputs": inputs}, training=False)["outputs"],
                             input_signature=[tf.TensorSpec([EVALUATED, None], tf.int64)])
        made = [""] * len(self.references)
        for part, inputs in zip(self.parts, self.inputs):
            for i, ids in zip(part, decode(tf.constant(inputs)).numpy()):
                made[i] = self.text(ids)
        return sacrebleu.corpus_bleu(made, [self.references], tokenize="none", force=True).score


def averaged(model, kept, measure):
    """Calls measure() while the model has the mean of the kept weights."""
    own = model.get_weights()
    model.set_weights([np.mean(of, axis=0) for of in zip(*kept)])
    value = measure()
    model.set_weights(own)
    return value


def main(vocabulary, folder, *ends):
    target = float(os.environ.get("TARGET", 40))
    tf.keras.utils.set_random_seed(1)
    with tempfile.TemporaryDirectory() as work:
        path = os.path.join(work, "batches.npz")
        batches.make(path, vocabulary, *(os.path.join(folder, f"train.{side}") for side in ("en", "de")))
        made = batches.load(path)
    config = recipe(vocabulary)
    task = translation.TranslationTask(config.task)
    trainer = base_trainer.Trainer(
        config, task, model=task.build_model(), optimizer=train_utils.create_optimizer(task, config),
        train=True, evaluate=False, train_dataset=rectangles(lambda: epochs_of(made)),
    )
    validation = Validation(folder, sentencepiece.SentencePieceProcessor(model_file=vocabulary))
    kept, reached = [], 0
    for epoch in range(1, max(ends) + 1):
        trainer.train(tf.constant(len(made), tf.int32))
        kept = [*kept[1 - LAST :], trainer.model.get_weights()]
        if epoch in ends:
            reached = averaged(trainer.model, kept, lambda: validation.bleu(trainer.model))
            print(f"epoch {epoch}: validation BLEU: {reached:.2f}", flush=True)
            if reached >= target:
                break
    print(f"validation BLEU: {reached:.2f}")


if __name__ == "__main__":
    main(*sys.argv[1:3], *map(int, sys.argv[3:]))
