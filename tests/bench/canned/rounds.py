"""Records of three peers, one of them measured twice: the output of figures.py."""
import sys

import figures

HERE = dict(machine="a processor", threads=2)


def one(name, unit, rising, of, rounds, **more):
    return figures.record(name, unit, rising, rounds, of=of, etude_mb=100.0, **HERE | more)


path = sys.argv[1]
tokens = ("step.tiny.f32.tokens_s", "target tokens/s", True)
old = [
    one(*tokens, "PyTorch 2.9.0 eager", [(100, 50)], peer_mb=900.0),
    one(*tokens, "PyTorch 2.9.0 compiled", [(100, 40)], peer_mb=900.0),
    one("start.tiny.ms", "ms", False, "PyTorch 2.9.0 eager", [(10, 9000)], peer_mb=900.0,
        machine="another processor"),
]
figures.write(path, figures.merge([], old))
new = [
    one(*tokens, "PyTorch 2.15.0 eager", [(90, 30), (100, 20), (110, 22)], peer_mb=2000.0),
    one(*tokens, "TensorFlow 2.20.0 Model Garden", [(100, 80)], peer_mb=2200.0),
    one("start.tiny.ms", "ms", False, "TensorFlow 2.20.0 Model Garden", [(50, 20000), (40, 10000)],
        peer_mb=2200.0),
]
new.append(figures.memory_of(new[1]))
figures.write(path, figures.merge(figures.read(path), new))
print("\n".join(figures.table(figures.read(path))))
