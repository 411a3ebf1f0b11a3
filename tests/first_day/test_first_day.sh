#!/bin/sh
# test_first_day.sh ETUDE [LIST]: runs the commands of LIST, and compares their exit codes and
# output (an expression).
set -eu
list=${2:-$(cd "$(dirname "$0")" && pwd)/commands.txt}
work=$(mktemp -d "$PWD/first_day.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir bin
ln -s "$1" bin/etude
PATH=$PWD/bin:$PATH

words() {
    awk -v first="$1" 'BEGIN { for (i = first; i < first + 200; i++) { line = ""
        for (k = 0; k <= i % 7; k++)
            line = line sprintf("%c%c ", 97 + (i * 7 + k * 3) % 26, 97 + (i + k * 5) % 26)
        print line } }'
}
words 0 >text
words 1000 >valid
awk 'BEGIN { print "size,colour,kind"; for (i = 0; i < 300; i++)
    print i % 17 + i % 3 * 10 "," (i % 5 ? "red" : "blue") "," (i % 3 ? "round" : "flat") }' >table.csv
head -n 41 table.csv >new.csv
for side in en de; do
    cp text text.$side
    cp valid valid.$side
done
paste text.en text.de >pairs.tsv
cat >small.yaml <<'END'
task:
  model: {embedding_width: 32, encoder.num_layers: 1, decoder.num_layers: 1}
  train_data: {global_batch_size: 256, shuffle_pool: 64}
END

typed=0 failed=0 command=
while IFS= read -r line; do
    case $line in
    '$ '*) command=${line#??} ;;
    '= '*)
        want=${line#??}
        code=${want%% *} pattern=${want#* } got=0
        sh -c "$command" >out 2>&1 </dev/null || got=$?
        typed=$((typed + 1))
        if [ "$got" != "$code" ] || ! grep -q -e "$pattern" out; then
            failed=$((failed + 1))
            echo "first_day: $command: exit code $got, wanted $code and: $pattern" >&2
            sed 's/^/    /' out | tail -n 12 >&2
        fi
        ;;
    esac
done <"$list"
echo "first_day: $typed commands, $failed failed"
[ "$failed" = 0 ] && [ "$typed" -ge 20 ]
