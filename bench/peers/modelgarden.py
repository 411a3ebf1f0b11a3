"""TensorFlow Model Garden's TranslationTask under its own Trainer. usage:

    modelgarden.py BATCHES VOCABULARY tiny|base float32|bfloat16

Amount: steps; work: target tokens (worker.py). Models and options: modelgarden_config.py.
"""
import itertools
import sys

import worker
from modelgarden_config import configure, rectangles  # before TensorFlow

import tensorflow as tf
from official.core import base_trainer, train_utils
from official.modeling import performance
from official.nlp.tasks import translation

import batches


def main(path, vocabulary, size, precision):
    performance.set_mixed_precision_policy(precision)  # bfloat16 stands for mixed_bfloat16
    config = configure(size, vocabulary)
    task = translation.TranslationTask(config.task)
    made = batches.load(path)
    trainer = base_trainer.Trainer(
        config, task, model=task.build_model(),
        optimizer=train_utils.create_optimizer(task, config),
        train=True, evaluate=False, train_dataset=rectangles(lambda: itertools.cycle(made)),
    )
    done = 0

    def train(steps):
        nonlocal done
        trainer.train(tf.constant(steps, tf.int32))
        done += steps
        return (
            sum(batches.tokens(made[i % len(made)]) for i in range(done - steps, done)),
            {"parameters": int(trainer.model.count_params())},
        )

    worker.serve(train, f"TensorFlow {tf.__version__}")


if __name__ == "__main__":
    main(*sys.argv[1:])
