"""Figures of comparisons: medians of ratios, lines of JSON, the table.

A record is one peer and Etude in one comparison:
    name, unit      of the figure, as Etude's own programs call it: step.tiny.f32.tokens_s
    value, etude    medians of the peer's and of Etude's rounds
    of              the peer, with its version
    ratio, least, most, rounds
                    how many times better Etude is: median and range over the rounds
    peer_mb, etude_mb    peak memory
    machine, threads     where it was measured
Records are kept from run to run, so that a part may be measured again. Records of other machines
are removed; a new record replaces the old one of the same peer and figure. Lines of one name are
adjacent, with the best peer last: bench/join compares Etude's figure with this one.
"""
import json
import os
import statistics


def record(name, unit, rising, rounds, **more):
    """rounds: (Etude's value, the peer's) of each; rising: more is better."""
    ratios = [a / b if rising else b / a for a, b in rounds]
    return {
        "name": name,
        "value": statistics.median(b for _, b in rounds),
        "unit": unit,
        "etude": statistics.median(a for a, _ in rounds),
        "ratio": statistics.median(ratios),
        "least": min(ratios),
        "most": max(ratios),
        "rounds": len(rounds),
    } | more


def memory_of(one):
    """The record of peak memory that goes with a record of speed."""
    ratio = one["peer_mb"] / one["etude_mb"]
    same = {key: one[key] for key in ("of", "rounds", "machine", "threads")}
    return same | {
        "name": one["name"].rsplit(".", 1)[0] + ".peak_mb",
        "value": one["peer_mb"], "unit": "MB", "etude": one["etude_mb"],
        "ratio": ratio, "least": ratio, "most": ratio,
    }


def read(path):
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def merge(old, new):
    """Old records with the new ones in their place, in the order of the file."""
    def key(one):
        # Versions change; the name before them stays. "PyTorch 2.9 eager" -> PyTorch, eager.
        return one["name"], tuple(w for w in one["of"].split() if not w[0].isdigit())

    machines = {(one["machine"], one["threads"]) for one in new}
    kept = {key(one): one for one in old if (one.get("machine"), one.get("threads")) in machines}
    kept.update((key(one), one) for one in new)
    return sorted(kept.values(), key=lambda one: (one["name"], -one["ratio"]))


def write(path, records):
    with open(path + ".tmp", "w", encoding="utf-8") as file:
        for one in records:
            file.write(json.dumps(one) + "\n")
    os.replace(path + ".tmp", path)


def table(records):
    """Lines for people."""
    yield (f"{'figure':34} {'unit':16} {'etude':>10} {'peer':>10} {'ratio':>7} "
           f"{'range':>15}  peer")
    for one in records:
        spread = f"{one['least']:.2f}-{one['most']:.2f}"
        yield (f"{one['name']:34} {one['unit']:16} {one['etude']:10.4g} {one['value']:10.4g} "
               f"{one['ratio']:7.2f} {spread:>15}  {one['of']}")
