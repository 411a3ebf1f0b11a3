"""Converts Etude's checkpoint to a model of CTranslate2. usage: ct2_model.py CHECKPOINT VOCABULARY
FOLDER

CHECKPOINT is a safetensors file of a translation run, VOCABULARY its SentencePiece model. Sizes
are those of the tensors; heads and the norm's epsilon come from the run's params.yaml, two
folders above the checkpoint. Weights are the last ones, not averages.

A dense layer is stored [inputs, units] here and [units, inputs] there; queries, keys and values
are concatenated in both. Pre-norm models have a norm at the end of each stack; CTranslate2
supports post-norm models only without it.
"""
import os
import re
import sys

import ctranslate2
import numpy as np
import sentencepiece
import yaml
from ctranslate2.specs import transformer_spec
from safetensors.numpy import load_file


def settings(checkpoint):
    """task.model of the run that saved the checkpoint."""
    run = os.path.dirname(os.path.dirname(os.path.abspath(checkpoint)))
    with open(os.path.join(run, "params.yaml"), encoding="utf-8") as file:
        return yaml.safe_load(file)["task"]["model"]


def positions(rows, width):
    """Sines in the first half of a row, cosines in the second; rates fall from 1 to 1e-4."""
    rates = np.exp(-np.arange(width // 2) * np.log(1e4) / (width // 2 - 1))
    angles = np.arange(rows)[:, None] * rates
    return np.concatenate([np.sin(angles), np.cos(angles)], 1).astype(np.float32)


class Copy:
    """Copies parts of a model by the names of Etude's tensors."""

    def __init__(self, tensors):
        self.tensors = tensors

    def norm(self, to, name):
        to.gamma, to.beta = self.tensors[f"{name}/scale"], self.tensors[f"{name}/offset"]

    def dense(self, to, name):
        to.weight = np.ascontiguousarray(self.tensors[f"{name}/weight"].T)
        if f"{name}/bias" in self.tensors:
            to.bias = self.tensors[f"{name}/bias"]

    def block(self, to, name, parts):
        self.norm(to.layer_norm, f"{name}/norm")
        for layer, part in parts:
            self.dense(layer, f"{name}/{part}")

    def stack(self, to, name, rows):
        table = self.tensors["embedding/table"]
        embeddings = to.embeddings if name == "decoder" else to.embeddings[0]
        embeddings.weight = table
        to.position_encodings.encodings = positions(rows, table.shape[1])
        for i, layer in enumerate(to.layer):
            at = f"{name}/layer_{i}"
            attention = layer.self_attention
            self.block(attention, f"{at}/self_attention", zip(attention.linear, ("qkv", "output")))
            if name == "decoder":
                cross = layer.attention
                parts = zip(cross.linear, ("query", "key_value", "output"))
                self.block(cross, f"{at}/cross_attention", parts)
            feed = ((layer.ffn.linear_0, "in"), (layer.ffn.linear_1, "out"))
            self.block(layer.ffn, f"{at}/feed_forward", feed)
        if hasattr(to, "layer_norm"):
            self.norm(to.layer_norm, f"{name}/final_norm")


def convert(checkpoint, vocabulary, folder, rows=512):
    tensors, model = load_file(checkpoint), settings(checkpoint)
    layers = [
        1 + max(int(n) for n in re.findall(rf"{stack}/layer_(\d+)/", "\n".join(tensors)))
        for stack in ("encoder", "decoder")
    ]
    encoder = model["encoder"]
    if encoder["final_norm"] != encoder["norm_first"]:
        sys.exit("ct2_model.py: CTranslate2 has a last norm in pre-norm models and only there")
    spec = transformer_spec.TransformerSpec.from_config(
        tuple(layers), encoder["num_attention_heads"], pre_norm=encoder["norm_first"]
    )
    copy = Copy(tensors)
    copy.stack(spec.encoder, "encoder", rows)
    copy.stack(spec.decoder, "decoder", rows)
    spec.decoder.projection.weight = tensors["embedding/table"]
    pieces = sentencepiece.SentencePieceProcessor(model_file=vocabulary)
    names = [pieces.id_to_piece(i) for i in range(pieces.vocab_size())]
    spec.register_source_vocabulary(names)
    spec.register_target_vocabulary(names)
    spec.config.add_source_eos = True
    spec.config.decoder_start_token = names[pieces.pad_id()]
    spec.config.eos_token = names[pieces.eos_id()]
    spec.config.unk_token = names[pieces.unk_id()]
    spec.config.layer_norm_epsilon = encoder["norm_epsilon"]
    spec.validate()
    spec.optimize(quantization=None)
    os.makedirs(folder, exist_ok=True)
    spec.save(folder)


if __name__ == "__main__":
    convert(*sys.argv[1:])
