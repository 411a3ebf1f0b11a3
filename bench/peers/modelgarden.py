"""TensorFlow Model Garden's TranslationTask under its own Trainer. usage:

    modelgarden.py BATCHES VOCABULARY tiny|base float32|bfloat16

Amount: steps; work: target tokens (worker.py). The options are those of Etude's experiments
translation/tiny and translation/base, so both train the same model, but that tiny is pre-norm
here: Model Garden 2.20's post-norm decoder refuses bfloat16 (it adds a float32 tensor to a
bfloat16 one). XLA is off, as it compiles anew for each shape of a batch.
"""
import os
import sys

import worker

os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", TF_USE_LEGACY_KERAS="1")

import tensorflow as tf
from official.core import base_trainer, exp_factory, train_utils
from official.modeling import performance
from official.nlp.configs import wmt_transformer_experiments  # registers the experiment
from official.nlp.tasks import translation

import batches

SIZES = {
    "tiny": dict(
        width=128,
        dropout=0.3,
        stack=dict(
            num_layers=4, num_attention_heads=4, intermediate_size=256, use_bias=True,
            norm_epsilon=1e-5, dropout_rate=0.3, attention_dropout_rate=0.0,
            intermediate_dropout=0.0,
        ),
        adam=dict(beta_1=0.9, beta_2=0.98, epsilon=1e-8),
    ),
    "base": dict(
        width=512,
        dropout=0.1,
        stack=dict(num_layers=6, num_attention_heads=8, intermediate_size=2048),
        adam=dict(beta_1=0.9, beta_2=0.997, epsilon=1e-9),
    ),
}


def configure(size, vocabulary):
    config = exp_factory.get_exp_config("wmt_transformer/large")
    chosen = SIZES[size]
    config.override(
        dict(
            runtime=dict(enable_xla=False, distribution_strategy="one_device", num_gpus=0),
            task=dict(
                sentencepiece_model_path=vocabulary,
                model=dict(
                    embedding_width=chosen["width"],
                    dropout_rate=chosen["dropout"],
                    encoder=chosen["stack"],
                    decoder=chosen["stack"],
                ),
            ),
            trainer=dict(optimizer_config=dict(optimizer=dict(type="adam", adam=chosen["adam"]))),
        ),
        is_strict=False,
    )
    # The task reads its validation data when it is made, even to train only.
    config.task.validation_data.tfds_name = config.task.validation_data.input_path = ""
    return config


def dataset(made):
    signature = {name: tf.TensorSpec([None, None], tf.int64) for name in ("inputs", "targets")}

    def forever():
        while True:
            yield from made

    return tf.data.Dataset.from_generator(forever, output_signature=signature).prefetch(4)


def main(path, vocabulary, size, precision):
    performance.set_mixed_precision_policy(precision)  # bfloat16 stands for mixed_bfloat16
    config = configure(size, vocabulary)
    task = translation.TranslationTask(config.task)
    made = batches.load(path)
    trainer = base_trainer.Trainer(
        config, task, model=task.build_model(),
        optimizer=train_utils.create_optimizer(task, config),
        train=True, evaluate=False, train_dataset=dataset(made),
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
