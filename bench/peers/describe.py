"""polars or pandas: a CSV file read and described, MB of file a second.

    describe.py PEER FILE THREADS

describe() gives count, mean, deviation, range and quartiles of each column, as `etude data analyze`
does beside more; what was read is dropped before the next turn."""
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
