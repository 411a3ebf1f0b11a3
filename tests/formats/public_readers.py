"""The public readers read the files of samples.c; any warning is a failure."""
import io
import logging
import struct
import sys
import warnings
import zlib

directory = sys.argv[1]

# TensorBoard warns through logging, others through warnings.
said = io.StringIO()
logging.getLogger().addHandler(logging.StreamHandler(said))
logging.getLogger("tensorboard").addHandler(logging.StreamHandler(said))

import numpy as np
import safetensors
import safetensors.numpy

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of the packages themselves
    from tensorboard.backend.event_processing import event_accumulator, event_file_loader
    from tensorboard.backend.event_processing import plugin_event_accumulator
    from tensorboard.util import tensor_util

warnings.simplefilter("error")


def equal(found, expected, what):
    if not np.array_equal(found, expected):
        sys.exit(f"{what}: found {found}, expected {expected}")


# Weights.
path = directory + "/weights.safetensors"
weight = (np.float32(1) / np.arange(1, 36, dtype=np.float32)).reshape(5, 7)
bits = weight.view(np.uint32)
shadow = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")
with open(path, "rb") as file:
    raw = file.read()
found = dict(safetensors.deserialize(raw))
equal(sorted(found), sorted(["layer/shadow", "layer/weight", "tokens", "step", 'empty é "x"']), "names")
equal(found["layer/shadow"]["dtype"], "BF16", "dtype")
equal(np.frombuffer(found["layer/shadow"]["data"], "<u2").reshape(5, 7), shadow, "layer/shadow")
with safetensors.safe_open(path, framework="np") as file:
    equal(file.get_tensor("layer/weight"), weight, "layer/weight")
    equal(file.get_tensor("tokens"), np.array([1 << (7 * i % 31) for i in range(5)], np.int32), "tokens")
    equal(file.get_tensor("step"), np.float32(1234.5), "step")
    equal(file.get_tensor('empty é "x"').shape, (3, 0), "empty")
    metadata = file.metadata()
equal(metadata["format"], "etude-1", "format")
equal(metadata["state"], '{"step":1234,"note":"grüß e\\n"}', "state")
equal((struct.unpack("<Q", raw[:8])[0] + 8) % 64, 0, "alignment")

# Events: every step once, although steps 20 to 24 were written twice.
name = "/events.out.tfevents.0000000000.etude"
steps = [e.step for e in event_file_loader.EventFileLoader(directory + "/train" + name).Load()
         if e.HasField("summary")]
equal(steps, list(range(40)), "steps")
old = event_accumulator.EventAccumulator(directory + "/train", size_guidance={"scalars": 0})
old.Reload()
equal(sorted(old.Tags()["scalars"]), ["epoch", "loss", "time/rate"], "tags")
loss = [np.float32(8.0 / (step + 1)) for step in range(40)]
equal([e.step for e in old.Scalars("loss")], list(range(40)), "steps of loss")
equal(np.array([e.value for e in old.Scalars("loss")], np.float32), loss, "loss")
new = plugin_event_accumulator.EventAccumulator(directory + "/validation", tensor_size_guidance={"scalars": 0})
new.Reload()
equal(sorted(new.Tags()["tensors"]), ["BLEU", "sample"], "tags")
equal([float(tensor_util.make_ndarray(e.tensor_proto)) for e in new.Tensors("BLEU")],
      [0, 2.5, 5, 7.5], "BLEU")
texts = [tensor_util.make_ndarray(e.tensor_proto)[0].decode() for e in new.Tensors("sample")]
equal(texts, ["", "Grüß e", "Grüß e", "Grüß e"], "sample")
equal(new.PluginTagToContent("text").keys() == {"sample"}, True, "text plugin")
equal(new.PluginTagToContent("scalars").keys() == {"BLEU"}, True, "scalars plugin")

# Serialised summaries, and a graph as the page of graphs reads it.
from tensorboard.compat.proto import graph_pb2

messages = plugin_event_accumulator.EventAccumulator(directory + "/messages", tensor_size_guidance={"images": 0})
messages.Reload()
equal(sorted(messages.Tags()["tensors"]), ["__run_graph__", "one", "picture", "values"], "tags of messages")
for plugin, tag in (("scalars", "one"), ("histograms", "values"), ("images", "picture")):
    equal(messages.PluginTagToContent(plugin).keys() == {tag}, True, plugin + " plugin")
equal([e.step for e in messages.Tensors("values")], [7], "step of messages")
buckets = tensor_util.make_ndarray(messages.Tensors("values")[0].tensor_proto)
equal(buckets[:, 2].sum(), 100, "values of the histogram")
image = tensor_util.make_ndarray(messages.Tensors("picture")[0].tensor_proto)
equal([image[0], image[1]], [b"3", b"2"], "size of the image")
png = image[2]
equal(png[:8], b"\x89PNG\r\n\x1a\n", "PNG")
at, rows = 8, b""
while at < len(png):
    length = struct.unpack(">I", png[at:at + 4])[0]
    kind, data = png[at + 4:at + 8], png[at + 8:at + 8 + length]
    equal(struct.unpack(">I", png[at + 8 + length:at + 12 + length])[0], zlib.crc32(kind + data), "CRC")
    rows += zlib.decompress(data) if kind == b"IDAT" else b""
    at += 12 + length
equal(rows, bytes([0, 255, 0, 0, 0, 255, 0, 0, 0, 255, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9]), "pixels")
graph = messages.Graph()
equal(isinstance(graph, graph_pb2.GraphDef), True, "graph")
equal([n.name + ":" + n.op + ":" + ",".join(n.input) for n in graph.node],
      ["layer/weight:param:", "layer/out:relu:layer/weight"], "nodes")
equal([d.size for d in graph.node[1].attr["_output_shapes"].list.shape[0].dim], [2, 3], "shape")

# A file of the public writer, for ours.
safetensors.numpy.save_file({"w": np.arange(4, dtype=np.float32).reshape(2, 2),
                             "i": np.array([5, -6], np.int32)}, directory + "/foreign.safetensors")

if said.getvalue():
    sys.exit("the public readers complain:\n" + said.getvalue())
print("numpy", np.__version__, "safetensors", safetensors.__version__, "tensorboard: equal")
