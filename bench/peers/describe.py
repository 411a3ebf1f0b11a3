"""Reads a CSV file with polars or pandas and describes it: MB of file a second.

    describe.py PEER FILE THREADS

describe() computes count, mean, deviation, range and quartiles of each column; `etude data
analyze` computes these and more. The table is dropped before the next round."""
import os
import sys

import worker


def polars(path, threads):
    os.environ["POLARS_MAX_THREADS"] = threads
    import polars as pl

    return lambda: pl.read_csv(path, null_values=["NA"]).describe(), f"polars {pl.__version__}"


def pandas(path, _):
    import pandas as pd

    return lambda: pd.read_csv(path).describe(include="all"), f"pandas {pd.__version__}"


def main(peer, path, threads):
    describe, version = {"polars": polars, "pandas": pandas}[peer](path, threads)
    megabytes = os.path.getsize(path) / 1e6

    def work(times):
        for _ in range(times):
            describe()
        return megabytes * times

    worker.serve(work, version)


if __name__ == "__main__":
    main(*sys.argv[1:])
