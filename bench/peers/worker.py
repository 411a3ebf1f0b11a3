"""The peer's end of a pipe: it reads numbers and answers each with a line of JSON.

A script of a peer prepares everything, then calls serve. Each line on standard input says how
much to do (steps, epochs, runs: the script says which); the answer has
    rate      work a second: target tokens, sentences or steps
    peak_mb   the peak memory of this process so far, in MB
    version   of the peer
and whatever else the script returned. Importing this module sends the peer's output to standard
error, so that only answers are in the pipe. Between two lines nothing is computed.

The rate is the mean over the whole amount. If Etude's own figure is the median of many short
rounds, so is the script's, so that other processes disturb both sides equally.
"""
import ctypes
import json
import os
import resource
import signal
import statistics
import sys
import time

ROUND = 16  # steps
PR_SET_PDEATHSIG = 1  # linux/prctl.h


def die_with_parent():
    """A stopped process does not notice that its pipe closed, so the end of its parent kills it."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


die_with_parent()
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)


def peak_mb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def median_rate(work, rounds):
    """What `do` returns if each round did `work`; rounds: seconds of each."""
    return len(rounds) * work, {"rate": work / statistics.median(rounds)}


def in_rounds(steps):
    """Does all `steps`; returns what `do` returns: the median rate of rounds of ROUND steps."""
    begin, rounds = time.perf_counter(), []
    for i, step in enumerate(steps, 1):
        step()
        if i % ROUND == 0:
            begin, last = time.perf_counter(), begin
            rounds.append(begin - last)
    return median_rate(ROUND, rounds)


def serve(do, version):
    """do(amount) returns the work done, or (work, {more to answer})."""
    for line in sys.stdin:
        begin = time.perf_counter()
        work = do(int(line))
        seconds = time.perf_counter() - begin
        work, more = work if isinstance(work, tuple) else (work, {})
        answer = {"rate": work / seconds, "peak_mb": peak_mb(), "version": version}
        print(json.dumps(answer | more), file=answers, flush=True)
