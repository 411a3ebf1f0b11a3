"""A training step that does nothing, in Orbit's loop. usage: orbit_loop.py function|eager

Amount and work: steps (worker.py). A step takes the next element of a dataset and adds it to a
variable; `function` runs the inner loop in the graph, as Model Garden's trainer does.
"""
import os
import sys

import worker

os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", TF_USE_LEGACY_KERAS="1")

import orbit
import tensorflow as tf


class Empty(orbit.StandardTrainer):
    def __init__(self, in_graph):
        self.sum = tf.Variable(0.0)
        options = orbit.StandardTrainerOptions(
            use_tf_function=in_graph, use_tf_while_loop=in_graph
        )
        super().__init__(tf.data.Dataset.from_tensors(1.0).repeat(), options)

    def train_step(self, iterator):
        self.sum.assign_add(next(iterator))


def main(mode):
    trainer = Empty(mode == "function")

    def train(steps):
        trainer.train(tf.constant(steps))
        return steps

    worker.serve(train, f"TensorFlow {tf.__version__}")


if __name__ == "__main__":
    main(*sys.argv[1:])
