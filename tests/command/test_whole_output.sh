#!/bin/sh
# test_whole_output.sh ETUDE: a command prints and writes its whole output, or fails and says so:
# standard output on a full disk, in a pipe without a reader, or closed; files beyond a size limit,
# of which nothing remains. Every command has a row.
set -eu
. "$(dirname "$0")/command.sh"
[ -w /dev/full ] || {
    echo "SKIPPED: all cases: no /dev/full"
    exit 77
}
OMP_NUM_THREADS=1
export OMP_NUM_THREADS

make_table
make_pairs 60 'rot hund rennt baum haus blau katze' de
head -3 a.en >3.en
head -1 a.en >1.en
head -3 a.de >3.de
table='--experiment tabular/mlp_small --data t.csv --target kind'
# shellcheck disable=SC2086 # words
for run in t u; do
    "$etude" train $run $table --set trainer.train_steps=4,trainer.checkpoint_interval=2,trainer.max_to_keep=2 2>said || fail train
done
data='source_path: a.en, target_path: a.de'
"$etude" train m --experiment translation/tiny --set trainer.train_steps=4 \
    --set "{task: {train_data: {$data}, validation_data: {$data}, vocabulary: {size: 32}}}" \
    --set '{task: {model: {embedding_width: 32}}}' 2>said || fail train

# INPUT|ARGUMENT...: results on standard output.
cat >prints <<END
-|--help
-|--version
-|version
-|help
-|help train
-|help --man
-|help --man train
-|list
-|list tabular/mlp_small
-|list tabular/mlp_small --yaml
-|list tabular/mlp_small --json
-|list --markdown
-|init -
-|inspect t
-|inspect m --json
-|runs .
-|runs . --json
-|runs . --csv
-|compare t u
-|compare t u --json
-|plot t u
-|completion bash
-|completion zsh
-|completion fish
-|data analyze t.csv
-|data analyze t.csv --json
t.csv|data analyze -
t.csv|predict t
t.csv|predict t --output-format csv --quiet
t.csv|tfx predict --model t
3.de|score 3.de
3.de|score 3.de --json
3.en|translate m
3.en|translate m --json --n-best 2
3.en|translate m --scores --alignments
3.en|translate m --sampling --n-best 2
3.en|translate m --score-targets 3.de
-|evaluate m --source 3.en --reference 3.de
-|evaluate m
-|evaluate m --json
-|evaluate t
-|evaluate t --json
-|evaluate t --charts
-|explain t t.csv
-|explain t t.csv --json
-|explain t t.csv --partial size
-|report t --output new.html
-|tune tabular/mlp_small new --data t.csv --target kind --steps 4 --trials 1 --search lr=1e-4..1e-2
-|tfx predict --model t --input t.csv
-|average t --last 2 --output new.safetensors --json
-|train v $table --set trainer.train_steps=2 --dry-run --json
-|tune tabular/mlp new --data t.csv --target kind --search lr=1e-3,1e-2 --trials 2 --steps 4 --json
-|scaffold --name new
-|tfx scaffold --name new
-|serve t --port 0
-|serve m --port 0
-|watch . --port 0
END
"$etude" --help | awk '/^    [a-z]/ { print "-|" $1 " --help" }' >>prints

# The same: results in new files.
cat >writes <<END
-|init new.yaml
-|data analyze t.csv --output new
t.csv|predict t --output new.jsonl
3.en|translate m --output new.de
-|augment m --data 3.en --output new.de new.en --sampling --max-ratio 0
-|translate m --input 1.en --attention new.svg --output new.de
-|evaluate m --source 3.en --reference 3.de --output new.de
-|plot t --output new.svg
-|evaluate t --roc new.svg --calibration new2.svg
-|report t --output new.html
-|average t --last 2 --output new.safetensors
-|export t --output new.safetensors
-|export t --output new
-|export m --output new.safetensors
-|export m --output new
-|export m --output new --format onnx
-|keys new
-|scaffold --name new
-|tfx scaffold --name new
-|train new $table --set trainer.train_steps=2
-|launch -n 2 -- train new $table --set trainer.train_steps=2,runtime.data_shards=2
END

# import prints nothing to standard output, and writes as export does; test_import has its folders.
for command in $("$etude" --help | awk '/^    [a-z]/ && $1 != "import" { print $1 }'); do
    grep -v -e ' --help$' prints writes | grep -q "|$command " || grep -q "|$command\$" prints ||
        fail "no row of $command"
done

# ends CODE TEXT ROW: what it was, and what it said.
ends() {
    [ "$got" = "$1" ] || fail "$3: exit code $got, wanted $1"
    tail -1 said | grep -q "^etude: .*$2" || fail "$3: does not say $2"
}

mkfifo pipe
while IFS='|' read -r input words; do
    [ "$input" != - ] || input=/dev/null
    got=0
    # shellcheck disable=SC2086 # words
    timeout 60 "$etude" $words <$input >/dev/full 2>said || got=$?
    ends 4 'standard output: No space left' "full: $words"
    rm -rf new*
    cat pipe >/dev/null &
    reader=$!
    exec 3>pipe
    kill $reader
    wait $reader 2>/dev/null || :
    got=0
    # shellcheck disable=SC2086 # words
    (trap '' PIPE && exec timeout 60 "$etude" $words <$input >&3 2>said) || got=$?
    exec 3>&-
    ends 1 'standard output: Broken pipe' "a pipe: $words"
    rm -rf new*
    got=0
    # shellcheck disable=SC2086 # words
    timeout 60 "$etude" $words <$input >&- 2>said || got=$?
    ends 1 'standard output: ' "closed: $words"
    rm -rf new*
done <prints
got=0 # measures each checkpoint only once
"$etude" train t --mode continuous_eval >/dev/full 2>said || got=$?
ends 4 'standard output: No space left' continuous_eval

if [ -n "${TSAN_OPTIONS-}" ]; then
    echo "SKIPPED: limits of files: ThreadSanitizer keeps a file of its own, which they would cut" >&2
    : >writes
fi
while IFS='|' read -r input words; do
    [ "$input" != - ] || input=/dev/null
    # Standard error is a pipe: a file would end as well.
    # shellcheck disable=SC2086 # words
    { { (ulimit -f 0 && exec timeout 60 "$etude" $words <$input >/dev/null) || echo $? >code; } 2>&1 |
        cat >said; } || :
    [ -s code ] || fail "limit: $words: exit code 0"
    got=$(cat code)
    ends 4 'File too large' "limit: $words"
    left=$(find . -name 'new*')
    [ -z "$left" ] || fail "limit: $words: leaves $left"
    rm -f code
    got=0
    # shellcheck disable=SC2086 # words
    timeout 60 "$etude" $words <$input >out 2>said || fail "$words"
    rm -rf new*
done <writes
