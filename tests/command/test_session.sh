#!/bin/sh
# test_session.sh ETUDE: train.log and info.json: what is in them; a kill at any moment leaves both
# readable; a run does not depend on them.
set -eu
etude=$1
work=$(mktemp -d "$PWD/session.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "test_session: $*" >&2
    exit 1
}

awk 'BEGIN { print "size,colour,kind"; for (i = 0; i < 600; i++)
    print i % 17 + i % 3 * 10 "," (i % 5 ? "red" : "blue") "," (i % 3 ? "round" : "flat") }' \
    >table.csv
# In a subshell, whose place it takes.
start() {
    exec "$etude" train --experiment tabular/mlp "$@" --data table.csv --target kind \
        --set trainer.checkpoint_interval=20,trainer.summary_interval=20
}
train() {
    (start "$@")
}
# Every line has a time of day, and the last one ends.
whole_log() {
    [ "$(grep -c -v '^2[0-9-]* [0-9:]*  ' "$1/train.log")" = 0 ] || fail "$1: a line without a time"
    [ "$(tail -c 1 "$1/train.log" | od -An -c | tr -d ' ')" = '\n' ] || fail "$1: no end of line"
}
sessions() {
    grep -c '"began"' "$1/info.json"
}

train a --steps 100 2>said || fail "$(cat said)"
whole_log a
grep -q 'session  *etude .*: .* train --experiment tabular/mlp a --steps 100 --data table.csv' a/train.log ||
    fail "no command line"
# All that was said.
grep -v '^step .*%' said >lines
sed 's/^[^ ]* [^ ]*  //' a/train.log >logged
while IFS= read -r line; do
    grep -q -x -F -e "$line" logged || fail "not in the log: $line"
done <lines
# And nothing else, but for who trained; --quiet has the same lines, --verbose also each log.
tail -n +2 logged | cmp -s - lines || fail "other lines in the log: $(diff logged lines)"
grep -q 'training_loss' logged && fail "logs of training in the log"
train quiet --steps 100 -q 2>said && [ ! -s said ] || fail "$(cat said)"
untimed() {
    sed 's/  [0-9:]*\(  \*\)*$//; s/in 0:.*//' "$@"
}
sed '1d; s/^[^ ]* [^ ]*  //; s|quiet/|a/|' quiet/train.log | untimed >other
untimed lines | cmp -s - other || fail "--quiet: $(diff lines other)"
train verbose --steps 20 --verbose 2>/dev/null
grep -q '  step  20  train  training_loss' verbose/train.log || fail "no logs of --verbose"
# A row of each validation: step, epoch, loss, two metrics, time.
[ "$(grep -c '^ *[0-9]*  *[0-9]  *[0-9.]*  *[0-9.]*  *[0-9.]*  *0:0[0-9]\(  \*\)*$' logged)" = \
    "$(grep -c '"validation":' a/metrics.jsonl)" ] || fail "no losses: $(cat logged)"
for key in '"version": "' '"command": \[' '"host": "' '"cpu": "' '"threads": ' '"ended": ' \
    '"reason": "done"' '"last_step": 100' '"train_steps": 100' '"parameters": [1-9]'; do
    grep -q "$key" a/info.json || fail "info.json has no $key: $(cat a/info.json)"
done
[ "$(sessions a)" = 1 ] || fail "sessions"

# Nothing left to do changes nothing; more to do is another session.
cp a/train.log log && cp a/info.json info
train a --steps 100 2>/dev/null
cmp -s log a/train.log && cmp -s info a/info.json || fail "a run that is over was written to"
train a --steps 140 2>/dev/null
[ "$(sessions a)" = 2 ] && grep -q '"first_step": 100' a/info.json || fail "no second session"
whole_log a

# An end by a signal is told.
start b --steps 1000000 --set trainer.early_stopping.patience=0 2>/dev/null &
while ! grep -q '"step":40,' b/metrics.jsonl 2>/dev/null; do sleep 0.05; done
kill -TERM $!
wait $! && fail "not interrupted" || [ $? = 75 ] || fail "exit code"
grep -q '"reason": "interrupted"' b/info.json && grep -q 'interrupted' b/train.log || fail "b"

# A start reads the settings of its run twice, to compare them and to see that they are the same,
# and does not wait for the disk: only the session's own thread does.
if strace -f -o /dev/null true 2>/dev/null; then
    # A sanitizer cannot look for leaks in a process that is traced.
    (export ASAN_OPTIONS="${ASAN_OPTIONS-}:detect_leaks=0"
        exec strace -f -e trace=openat,write,fsync -o calls "$etude" train --experiment tabular/mlp b \
        --steps 1000000 --data table.csv --target kind \
        --set trainer.checkpoint_interval=20,trainer.summary_interval=20 \
        --set trainer.early_stopping.patience=0 2>/dev/null) &
    until [ "$(sessions b)" = 2 ] && grep -q '  resuming ' b/train.log; do
        kill -0 $! || fail "it does not resume"
        sleep 0.05
    done
    kill -TERM "$(sed 's/ .*//' /proc/$!/task/$!/children)"
    wait $! && fail "not interrupted" || [ $? = 75 ] || fail "exit code"
    awk 'NR == 1 { first = $1 } $1 == first && /write\(2, "resuming / { exit } 1' calls >start
    [ "$(grep -c 'b/params.yaml' start)" = 2 ] || fail "settings: $(grep params.yaml start)"
    awk 'NR == 1 { first = $1 } $1 == first && /fsync\(/ { print }' start >waits
    [ ! -s waits ] || fail "a start waited for the disk"
    [ "$(sessions b)" = 2 ] || fail "the session of a start that was not waited for"
fi

# Killed at any moment. A session that was killed has no end.
train whole --steps 200 2>/dev/null
for i in 1 2 3 4 5 6 7 8; do
    start c --steps 200 2>/dev/null &
    sleep 0.$i
    kill -9 $! 2>/dev/null || :
    wait $! 2>/dev/null || :
    [ ! -s c/train.log ] || whole_log c # it is made before a line is in it
done
train c --steps 200 2>/dev/null
cmp whole/checkpoints/ckpt-200.safetensors c/checkpoints/ckpt-200.safetensors ||
    fail "not the same as without kills"
whole_log c
"$etude" plot c >/dev/null || fail "info.json is none"
[ "$(find c -name '*.tmp.*' | wc -l)" = 0 ] || fail "temporary files stay"

# A line that a crash has cut off is ended; what is none of ours is left alone, and said.
printf '2026-01-01 00:00:00  cut' >>c/train.log
echo 'no json' >c/info.json
train c --steps 220 2>said
grep -q '  cut$' c/train.log && whole_log c || fail "a line that was cut off"
[ "$(cat c/info.json)" = 'no json' ] || fail "info.json was replaced"
grep -q 'warning: c/info.json.*Etude does not record sessions' said || fail "not said: $(cat said)"

# Of very many sessions the first stays and the last ones.
awk 'BEGIN { print "{\"format\": \"etude-run-1\", \"sessions\": ["
    for (i = 1; i <= 1200; i++) print "{\"began\": " i ", \"ended\": " i "}" (i < 1200 ? "," : "")
    print "]}" }' >c/info.json
train c --steps 225 2>/dev/null
[ "$(sessions c)" = 1000 ] && grep -q '"began": 1,$' c/info.json &&
    grep -q '"began": 1200,$' c/info.json && grep -q '"train_steps": 225' c/info.json &&
    ! grep -q '"began": 2,$' c/info.json || fail "too many sessions"

# Neither stops a run.
rm c/train.log c/info.json
mkdir c/train.log c/info.json
train c --steps 240 2>said || fail "a run was stopped: $(cat said)"
grep -q 'warning: c/train.log: cannot write lines:' said || fail "not said: $(cat said)"
rmdir c/train.log c/info.json

# They are files of a run, so nothing else is written there.
for file in train.log info.json; do
    "$etude" plot a --output "a/$file" 2>said && fail "written to a/$file" || :
    "$etude" average --output "a/$file" a/checkpoints/ckpt-140.safetensors 2>said &&
        fail "written to a/$file" || :
    grep -q 'a file that a run writes' said || fail "$(cat said)"
done

# A start that fails leaves nothing, and in a run that is there no word of itself.
cp a/train.log log
train a --steps 200 --set task.model.mlp.width=7 2>/dev/null && fail "another model" || :
cmp -s log a/train.log || fail "a start that failed was logged"
train d --set task.target=none --steps 3 2>/dev/null && fail "no such target" || :
[ ! -e d ] || fail "d stays"

# In a folder with other files it leaves these, and the next start may have other settings.
mkdir -p e/train e/cache e/checkpoints && echo mine >e/note && echo mine >e/train/note && echo mine >e/checkpoints/note
train e --set task.target=none --steps 3 2>/dev/null && fail "no such target" || :
[ "$(find e | sort | xargs)" = 'e e/cache e/checkpoints e/checkpoints/note e/note e/train e/train/note' ] || fail "e: $(find e)"
train e --set task.model.mlp.width=7 --steps 3 2>said || fail "e: $(cat said)"
