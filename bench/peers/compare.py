"""Measures Etude and peers (what users would otherwise choose) in turn, A B A B, on the same work.
usage:

    compare.py BUILD SOURCE TARGET [--only NAMES] [--peers GROUPS] [--rounds N] [--list] ...

BUILD is Etude's build folder: it has the command and the benchmarks. Runs, models and batches
are kept in BUILD/peers/runs, figures in BUILD/peers.jsonl (figures.py). SOURCE and TARGET are
text, line by line translations. A round is some work of one side, then as much of the other. The
program prints the medians of the rounds' values and of their ratios, with the range: above 1
Etude is better. All sides have the same text, tokens, sizes and processors.

    --only train.tiny,mlp      only workloads whose names begin so (--list shows all)
    --peers torch,ctranslate2  only these groups of requirements/
"""
import argparse
import os
import sys
import time
import zlib

import comparisons
import figures
import sides


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    return names[0] if names else "unknown processor"


def compare(options, workload, candidate):
    """A record of the candidate beside Etude."""
    ours, theirs, rounds = None, None, []
    try:
        ours = workload.ours()
        if workload.warm_up:
            ours.measure(workload.warm_up)
        theirs = candidate.make()
        theirs.measure(candidate.warm_up)
        for _ in range(options.rounds):
            rounds.append((ours.measure(workload.amount), theirs.measure(candidate.amount)))
    finally:
        for side in filter(None, (ours, theirs)):
            side.close()
    known = [getattr(side, "parameters", 0) for side in (ours, theirs)]
    if all(known) and abs(known[0] - known[1]) > 0.02 * known[0]:
        raise sides.Failure(f"parameters differ: {known[0]} and {known[1]}")
    return figures.record(
        workload.figure or ours.figure, workload.unit, workload.rising, rounds,
        of=f"{theirs.version} {candidate.label}", peer_mb=theirs.peak_mb, etude_mb=ours.peak_mb,
        machine=machine(), threads=options.threads,
    )


def chosen(options):
    """(workload, candidate) of all comparisons that run; missing peers are named once."""
    missing = {group for group in options.peers if not comparisons.installed(group)}
    for group in sorted(missing):
        print(f"{group} is not installed: left out", file=sys.stderr)
    return [
        (workload, candidate)
        for workload in comparisons.workloads(options) for candidate in workload.peers
        if candidate.group in options.peers and candidate.group not in missing
    ]


def measure(options):
    if "bfloat16" in options.precisions and not comparisons.multiplies_bfloat16():
        options.precisions.remove("bfloat16")
        print("this processor does not multiply bfloat16: left out", file=sys.stderr)
    todo, records, begin = chosen(options), [], time.time()
    for i, (workload, candidate) in enumerate(todo, 1):
        where = f"[{i}/{len(todo)}] {workload.name:24} {candidate.group} {candidate.label}"
        try:
            one = compare(options, workload, candidate)
        except sides.Failure as failure:
            print(f"{where}: left out: {failure}", file=sys.stderr)
            continue
        records.append(one)
        if workload.memory:
            records.append(figures.memory_of(one))
        figures.write(options.output, figures.merge(figures.read(options.output), records))
        print(f"{where}: {one['ratio']:.2f} x ({one['least']:.2f} to {one['most']:.2f}), memory "
              f"{one['peer_mb']:.0f} MB to {one['etude_mb']:.0f}{workload.remark()}; "
              f"{time.time() - begin:.0f} s so far", file=sys.stderr)
    return records


def words(text):
    return text.split(",")


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("build", "source", "target"):
        parser.add_argument(name)
    parser.add_argument("--only", type=words, default=["*"])
    parser.add_argument("--peers", type=words, default=list(comparisons.MODULES))
    parser.add_argument("--models", type=words, default=["tiny", "base"])
    parser.add_argument("--precisions", type=words, default=list(comparisons.SHORT))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=0, help="of a round; 0: by the model's size")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--data", default="../shared/data", help="folder of what examples learn from")
    parser.add_argument("--list", action="store_true", help="names of all comparisons")
    options = parser.parse_args()
    build = os.path.abspath(options.build)
    options.etude = os.path.join(build, "etude")
    options.programs = os.path.join(build, "bench")
    options.work = os.path.join(build, "peers", "runs")
    options.output = os.path.join(build, "peers.jsonl")
    return options


def main():
    options = parse()
    if options.list:
        for workload in comparisons.workloads(options):
            print(workload.name)
        return
    for path in (options.etude, options.source, options.target):
        if not os.path.exists(path):
            sys.exit(f"compare.py: {path} does not exist")
    options.source, options.target, options.data = map(
        os.path.abspath, (options.source, options.target, options.data))
    of_text = zlib.crc32(f"{options.source} {options.target}".encode())
    options.work = os.path.join(options.work, f"{of_text:08x}")
    processors = sorted(os.sched_getaffinity(0))[: options.threads]
    options.threads = len(processors)
    os.sched_setaffinity(0, processors)  # children inherit it, and so choose their threads
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    os.makedirs(options.work, exist_ok=True)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(options.work, "compiled")
    records = measure(options)
    print(f"Etude beside others: {machine()}, {options.threads} threads, {options.rounds} rounds; "
          "above 1 Etude is better")
    print("\n".join(figures.table(sorted(records, key=lambda one: one["name"]))))
    if not records:
        sys.exit("compare.py: nothing was compared")


if __name__ == "__main__":
    main()
