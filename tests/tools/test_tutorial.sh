#!/bin/sh
# test_tutorial.sh SOURCE ETUDE: types what doc/tutorial.md says, in a short version: a small text made
# here stands for the pages, a small model and few updates for its own. Each `    $ etude ...` has to
# succeed and to print lines that begin as those below it do. What fetches, installs or needs another
# program is not run.
set -eu
source=$1 etude=$2
work=$(mktemp -d "$PWD/tutorial.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir bin
ln -s "$etude" bin/etude
PATH=$work/bin:$PATH
OMP_NUM_THREADS=1
export OMP_NUM_THREADS

# text FILE LINES FIRST: as many lines of made words.
text() {
    awk -v lines="$2" -v first="$3" 'BEGIN { for (i = first; i < first + lines; i++) { line = ""
        for (k = 0; k <= i % 6; k++)
            line = line sprintf("%c%c ", 97 + (i * 7 + k * 3) % 26, 97 + (i + k * 5) % 26)
        print line } }' >"$1"
}
mkdir text
for side in en de; do
    text text/train.$side 300 0
    text text/valid.$side 20 1000
    text text/test.$side 20 2000
done

# Commands, each with the lines that the page shows below it: "$ command" and "= line".
awk '
    /^    / {
        line = substr($0, 5)
        if (more) { command = command line; more = 0 }
        else if (line ~ /^\$ /) { command = line }
        else { if (!file) print "= " line; next }
        if (command ~ /\\$/) { sub(/\\$/, "", command); more = 1; next }
        print command
        next
    }
    /./ { print "%" } # text: what is indented below it is not what the command printed
    ' "$source/doc/tutorial.md" >page
[ "$(grep -c '^\$ .*etude ' page)" -ge 12 ] || {
    echo "test_tutorial: the page has few commands" >&2
    exit 1
}

# The settings that the page has one write into help.yaml, and smaller ones on top.
awk '/^    # help.yaml$/ { on = 1 } on && /^    / { print substr($0, 5) } on && !/^    / { exit }' \
    "$source/doc/tutorial.md" >help.yaml
grep -q '^trainer:' help.yaml
sed -i 's/train_steps: .*/train_steps: 12/' help.yaml
cat >>help.yaml <<'END'
task.model.embedding_width: 16
task.model.encoder.num_layers: 1
task.model.decoder.num_layers: 1
task.vocabulary.max_size: 60
END

typed=0 failed=0 skipped=1
while IFS= read -r line; do
    case $line in
    '$ '*)
        command=${line#??} skipped=1
        case $command in
        *etude*) ;;
        *) continue ;;
        esac
        case $command in *sbatch* | *apt* | *make*) continue ;; esac
        skipped=0 typed=$((typed + 1)) code=0
        # Few updates; the second training goes on to a few more.
        short=$(printf '%s' "$command" | sed 's/--steps 2000/--steps 24/; s/--steps [0-9][0-9][0-9]*/--steps 24/')
        sh -c "$short" >out 2>&1 </dev/null || code=$?
        # A time limit is an interruption: 75.
        [ $code = 0 ] || { [ $code = 75 ] && printf '%s' "$command" | grep -q 'time-limit'; } || {
            echo "test_tutorial: $command: exit code $code" >&2
            tail -n 5 out >&2
            failed=1
        }
        ;;
    %) skipped=1 ;;
    '= '*)
        [ $skipped = 0 ] || continue
        word=$(printf '%s' "${line#??}" | sed -n 's/^\([a-zA-Z_][a-zA-Z_]*\)\( .*\|$\)/\1/p')
        case $word in '' | step | Klicken | Mit) continue ;; esac
        grep -q "^$word\b" out || {
            echo "test_tutorial: $command: prints no line that begins with $word" >&2
            failed=1
        }
        ;;
    esac
done <page
echo "$typed commands"
[ $failed = 0 ] && [ $typed -ge 12 ]
