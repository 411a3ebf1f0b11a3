"""ONNX Runtime on what test_onnx.c, test_onnx_tables.c and test_onnx_columns.c wrote: run_onnx.py MODEL
[INTEGERS [TOLERANCE]]. Inputs and results are raw arrays, MODEL.NAME.raw: floats, doubles, integers
(int32 or int64), and texts, a line each. Floats are compared to TOLERANCE (1e-4) of the largest,
doubles to TOLERANCE of their range, texts must be equal."""
import sys

import numpy as np
import onnxruntime

name = sys.argv[1]
session = onnxruntime.InferenceSession(f"{name}.onnx", providers=["CPUExecutionProvider"])
integers = np.int64 if sys.argv[2:3] == ["int64"] else np.int32
tolerance = float((sys.argv[3:] or ["1e-4"])[0])
kinds = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(int64)": integers}


def read(value):
    """The array of an input or an output; unknown sizes follow from the size of the file."""
    path = f"{name}.{value.name}.raw"
    if value.type == "tensor(string)":
        with open(path, encoding="utf-8") as file:
            data = np.array(file.read().split("\n")[:-1], dtype=object)
    else:
        data = np.fromfile(path, kinds[value.type])
    shape = [size if isinstance(size, int) else -1 for size in value.shape]
    return data.reshape(shape)


inputs = {
    v.name: read(v).astype(np.int64) if v.type == "tensor(int64)" else read(v)
    for v in session.get_inputs()
}
wrong = []
for value, found in zip(session.get_outputs(), session.run(None, inputs)):
    wanted = read(value)
    if value.type == "tensor(string)":
        if not np.array_equal(found, wanted):
            wrong.append(f"{name}: {value.name}: other texts")
        continue
    error = np.abs(found - wanted).max() if found.shape == wanted.shape else np.inf
    scale = np.ptp(wanted) if wanted.dtype == np.float64 else np.abs(wanted).max()
    if not error <= tolerance * max(1, scale):
        wrong.append(f"{name}: {value.name}: {found.shape}, {wanted.shape}, off by {error}")
# Half of the rows alone: the same numbers as with all rows.
rows = {key: array[:2] for key, array in inputs.items()}
for value, all_rows, found in zip(
    session.get_outputs(), session.run(None, inputs), session.run(None, rows)
):
    by_row = value.shape and value.shape[0] == "batch"
    numbers = value.type != "tensor(string)"
    if by_row and numbers and not np.allclose(found, all_rows[: len(found)], atol=1e-5):
        wrong.append(f"{name}: {value.name}: other numbers for fewer rows")
    if by_row and len(found) != 2:
        wrong.append(f"{name}: {value.name}: {len(found)} rows of 2")
print("\n".join(wrong), end="\n" if wrong else "")
sys.exit(bool(wrong))
