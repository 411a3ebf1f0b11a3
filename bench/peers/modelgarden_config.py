"""Model Garden's wmt_transformer experiment with the sizes and rates of Etude's translation/tiny
and translation/base. The model is the same, except that tiny is pre-norm here: Model Garden
2.20's post-norm decoder refuses bfloat16 (it adds a float32 tensor to a bfloat16 one). XLA is
off, because it compiles again for each shape of a batch. Imported before TensorFlow: it makes
TensorFlow quiet and selects Keras 2."""
import os

os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", TF_USE_LEGACY_KERAS="1")

import tensorflow as tf
from official.core import exp_factory
from official.nlp.configs import wmt_transformer_experiments  # registers the experiment

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
    # The task reads its validation data when it is created, even if it only trains.
    config.task.validation_data.tfds_name = config.task.validation_data.input_path = ""
    return config


def rectangles(orders):
    """A data set of batches, {"inputs", "targets"}; orders: yields one after another without end."""
    signature = {name: tf.TensorSpec([None, None], tf.int64) for name in ("inputs", "targets")}
    return tf.data.Dataset.from_generator(orders, output_signature=signature).prefetch(4)
