#!/bin/sh
# test_two_kinds.sh TWO_KINDS: a program with two kinds of task has the experiments and commands of
# both; if both have a command of the same name, the run decides which is called.
set -eu
. "$(dirname "$0")/command.sh"

mkdir plain none words
echo 'experiment: plain/five' >plain/params.yaml
echo 'experiment: plain/none' >none/params.yaml
{
    echo 'experiment: translation/tiny'
    echo 'task: {train_data: {tsv_path: a.tsv}}'
} >words/params.yaml

says 0 '^    greet      say hello$' --help
says 0 '^    translate  ' --help
[ "$(grep -c '^    evaluate ' out)" = 1 ]
says 0 '^greet of two_kinds: hello, you$' greet you
says 2 '^two_kinds: greet: whom?$' greet
says 0 '^hello you$' wave you
says 0 '^HELLO you$' wave --times=2 -l you
[ "$(wc -l <out)" = 2 ]
says 2 '^two_kinds: wave: no option --tines. Nearest: --times; `two_kinds wave --help` lists the options$' wave --tines 2
says 2 'times: 10 is out of range' wave you --times 10
says 2 'wave: at whom?' wave
says 0 '^    --loud  *in capitals (or -l)$' wave --help
says 0 '^    two_kinds wave you --times 2$' wave --help
says 0 '^plain/five  *five$' list
says 0 '^translation/tiny ' list
says 0 '^task.size: 5 ' list plain/five
says 0 '^task.size: 3 ' list plain/none
says 3 'experiment plain/bad: .*task.size: 50 is ' list plain/bad

# evaluate: translation has its own, plain has the general one, each for its runs.
says 3 'cannot open a.tsv' evaluate --model-dir words
says 0 '^Translates a file' evaluate --help
says 3 'no such setting. Nearest: size (task has: size, most)' \
    evaluate --model-dir=plain --set trainer.train_steps=1,trainer.optimizer_config.optimizer.type=adam,trainer.optimizer_config.learning_rate.type=constant,task.sise=4
settings=trainer.train_steps=1,trainer.optimizer_config.optimizer.type=adam
settings=$settings,trainer.optimizer_config.learning_rate.type=constant
says 3 'plain of size 5 opened in plain$' evaluate --model_dir plain --set "$settings"
says 3 'cannot open a: ' \
    evaluate --model-dir plain --model_dir=words --source a --reference a
says 3 'plain of size 3 opened in none$' evaluate --set "$settings" --model-dir none
says 3 'plain of size 7 opened in new$' \
    train --experiment plain/none --model-dir new --set "$settings,task.size=7"
[ ! -e new ]
WRONG=open says 2 'kind of task 3, wrong: needs a name, fields' list
WRONG=option says 2 'kind of task 3, wrong: option size: it needs settings and a help' list
WRONG=kind says 2 'kinds of task 2 and 3 are both called plain' list
WRONG=plain/five says 2 'experiment plain/five is registered twice' list
WRONG=plain says 2 'experiments plain and plain/five' list
WRONG=plain/five/six says 2 'experiments plain/five and plain/five/six' list
WRONG=plain/fives says 0 '^plain/fives ' list
says 3 'no experiment is called plain/fife. Nearest: plain/five; .*(plain/ has no fife)' list plain/fife
says 3 'no experiment is called plain/five/six. .*(plain/ has no five/six)' list plain/five/six
says 3 'no experiment is called nothing; `two_kinds list` shows all$' list nothing

# Restrictions: of the kind, and of one experiment; looked at when everything has been set.
set="$settings,task.most=4"
says 3 'these settings contradict each other: task.size <= task.most .*task.size is 7, task.most is 4' \
    train --experiment plain/none --model-dir new --set "$set,task.size=7"
says 3 'plain of size 3 opened in new$' \
    train --experiment plain/none --model-dir new --set "$set,task.size=7" --set task.size=3
says 3 'task.size == 5 .*task.size is 4' \
    train --experiment plain/five --model-dir new --set "$settings,task.size=4"
[ ! -e new ]
# Tasks of a program's own kinds among several.
SEVERAL=yes says 0 '^multitask/joint ' list
several='task.task_routines=[{task_name: a, task_config: {type: plain, plain: {size: 4}}}]'
SEVERAL=yes says 3 'task a: plain of size 4 opened in new/task_1$' \
    train --experiment multitask/joint --model-dir new --set "$several"
several='task.task_routines=[{task_name: a, task_config: {type: plain, plain: {size: 4, most: 2}}}]'
SEVERAL=yes says 3 'task_routines\[0\], a (plain): .*task.size is 4, task.most is 2' \
    train --experiment multitask/joint --model-dir new --set "$several"
[ ! -e new ]
SEVERAL=broken says 1 'kind 2 of a multitask: needs a name' list
# A service of its own.
says 3 'words have no precision$' serve plain --port 0 --precision int8
WRONG=plain/fives says 3 'the service echo is not open' serve plain --port 0
if command -v curl >/dev/null && ! "$etude" serve plain --port 0 --precision int8 2>&1 |
    grep -q 'this build has no HTTP server: install libmicrohttpd-dev, and build Etude again'; then
    "$etude" serve plain --port 0 >address 2>log &
    server=$!
    trap 'kill -9 "$server" 2>/dev/null || true; rm -rf "$work"' EXIT
    for _ in $(seq 600); do
        [ ! -s address ] && kill -0 "$server" 2>/dev/null || break
        sleep 0.1
    done
    # echoes TEXT BODY
    echoes() {
        got=$(curl -s -m 30 -H 'Content-Type: application/json' -d "$2" "$(cat address)")
        [ "$got" = "$1" ] || { echo "$2: $got, wanted $1" >&2; exit 1; }
    }
    echoes 'a b ' '{"words": ["a", "b"]}'
    echoes 'a! b! ' '{"words": ["a", "b"], "loud": 1}'
    echoes '' '{"words": []}'
    echoes '{"error": "no word"}' '{"words": ["a", 1]}'
    echoes '{"error": "words are missing"}' '{}'
    echoes '{"error": "unknown key word. Nearest: words; known keys: words, loud, until"}' \
        '{"word": ["a"]}'
    echoes '{"error": "loud: expected a whole number from 0 to 1"}' '{"words": [], "loud": 2}'
    # While a request is read, all paths that need no reading are answered.
    url=$(cat address)
    body='{"words": ["c"], "until": "go"}'
    curl -s -m 60 -H 'Content-Type: application/json' -d "$body" "$url" >read &
    reader=$!
    for _ in $(seq 600); do
        curl -s -m 30 "${url%/echo}/metrics" >metrics
        ! grep -q '^etude_queue_items 1$' metrics || break
        sleep 0.1
    done
    grep -q '^etude_queue_items 1$' metrics
    [ "$(curl -s -m 30 "${url%/echo}/health")" = '{
  "status": "ok"
}' ]
    curl -s -m 30 "${url%/echo}/" | grep -q '"server"'
    [ ! -s read ]
    touch go
    wait "$reader"
    [ "$(cat read)" = 'c ' ]
    kill "$server"
    wait "$server"
    grep -q '^stopped      4 requests answered, 5 words; 4 refused$' log
else
    echo "SKIPPED: a service: no curl or no libmicrohttpd"
fi
echo "two kinds of task in one program"
