#!/bin/sh
# test_peers.sh BENCH: tests of bench/peers and bench/join that need no peer. Every script compiles;
# a script that serves answers as worker.py says; peers that cannot be installed are left out;
# records become medians of ratios, and the joined table is equal to the canned one.
set -eu
bench=$(cd "$1" && pwd)
canned=$(cd "$(dirname "$0")/canned" && pwd)
work=$(mktemp -d "$PWD/peers.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
export PYTHONPATH="$bench/peers" PYTHONDONTWRITEBYTECODE=1

command -v python3 >/dev/null || {
    echo "SKIPPED: no python3" >&2
    exit 77
}

fail() {
    echo "$*" >&2
    exit 1
}

# ---- scripts ------------------------------------------------------------------------------
for script in "$bench"/peers/*.py; do
    python3 - "$script" <<'P' || fail "$script does not compile"
import sys
compile(open(sys.argv[1], encoding="utf-8").read(), sys.argv[1], "exec")
P
done
for script in $(grep -oh '"[a-z0-9_]*\.py"' "$bench/peers/comparisons.py" | tr -d '"'); do
    [ -f "$bench/peers/$script" ] || fail "comparisons.py names $script, which is not there"
done

# ---- the pipe -----------------------------------------------------------------------------
cat >serve.py <<'P'
import worker
print("noise that must not reach the pipe")
worker.serve(lambda n: worker.median_rate(6, [1, 2, 30]) if n == 2 else (n, {"loss": 1.5}), "X 1")
P
printf '5\n2\n' | python3 serve.py >said 2>noise
python3 - <<'P' || fail "worker.py answers wrongly: $(cat said)"
import json
first, second = map(json.loads, open("said"))
assert first["rate"] > 5 and first["loss"] == 1.5 and first["version"] == "X 1"
assert second["rate"] == 3 and second["peak_mb"] > 1
P
grep -q noise noise || fail "what a peer prints is lost"

# A program that writes Marian's lines and counts what it has done in a file.
cat >marian <<'P'
#!/bin/sh
echo "[training] Using 2 CPUs" >&2
i=0
while [ $i -lt 4 ]; do
    i=$((i + 1))
    echo $i >counted
    echo "Ep. 1 : Up. $i : Sen. $i : Cost 9.5 * 1,00$i @ 7 after 9,000 : Time 1.6s : 2.8 words/s" >&2
    sleep 0.2
done
P
chmod +x marian
python3 - 2>noise <<'P' || fail "marian_train.py does not follow Marian: $(cat noise)"
import time
import marian_train
marian = marian_train.Marian(["./marian"])
assert marian.go_on(2) == 1001 + 1002
counted = open("counted").read()
time.sleep(0.6)
assert open("counted").read() == counted, "it goes on between two amounts"
assert marian.go_on(1) == 1003
assert marian.peak_mb() > 0.1
try:
    marian.go_on(5)
except ChildProcessError:
    pass
else:
    raise AssertionError("its end goes unnoticed")
P
grep -q 'Using 2 CPUs' noise || fail "what Marian says is lost"

# ---- setup --------------------------------------------------------------------------------
# A Python whose environments have a pip that knows no torch.
cat >python <<'P'
#!/bin/sh
mkdir -p "$3/bin"
cat >"$3/bin/pip" <<'Q'
#!/bin/sh
case "$*" in *torch.txt*) echo "ERROR: no matching distribution" && exit 1 ;; esac
echo "$*" >>pip.said
Q
cp "$3/bin/pip" "$3/bin/python"
chmod +x "$3/bin/pip" "$3/bin/python"
P
chmod +x python
PYTHON=$work/python "$bench/peers/setup" "$work/venv" torch ctranslate2 2>said ||
    fail "one peer that is missing stops setup: $(cat said)"
grep -q '^torch could not be installed and is left out: ERROR: no matching' said ||
    fail "setup does not name what is missing: $(cat said)"
[ -f venv/installed.ctranslate2 ] && [ ! -f venv/installed.torch ] || fail "wrong stamps"
: >pip.said
PYTHON=$work/python "$bench/peers/setup" "$work/venv" ctranslate2
[ ! -s pip.said ] || fail "setup installs again: $(cat pip.said)"
if PYTHON=$work/python "$bench/peers/setup" "$work/venv" torch 2>said; then
    fail "setup goes on with nothing to compare"
fi

# ---- figures ------------------------------------------------------------------------------
python3 "$canned/rounds.py" "$work/peers.jsonl" >table
cp "$canned/figures.jsonl" figures.jsonl
echo >>table
"$bench/join" figures.jsonl peers.jsonl >>table
echo >>table
cat figures.jsonl >>table
diff "$canned/table.txt" table >difference || fail "not the canned table: $(cat difference)"
cp "$canned/figures.jsonl" alone.jsonl
"$bench/join" alone.jsonl nothing.jsonl >/dev/null
cmp "$canned/figures.jsonl" alone.jsonl || fail "figures change without a peer"
echo "bench/peers: scripts, pipe, setup, figures as they should be"
