#!/bin/sh
# test_watch.sh ETUDE: `watch` reports what the logs of runs contain; it follows a run that is
# training, also if its log is cut off; it changes nothing, and serves no files except samples. The
# page is tested in a headless Chromium if there is one. Everything is skipped without curl.
set -eu
etude=$1
here=$(cd "$(dirname "$0")" && pwd)
command -v curl >/dev/null || {
    echo "SKIPPED: all cases: no curl"
    exit 77
}
work=$(mktemp -d "$PWD/watch.XXXXXX")
server= writer=
trap 'for p in $server $writer; do kill -9 "$p" 2>/dev/null || true; done; rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "test_watch: $*" >&2
    exit 1
}

# lines FROM TO: of a log, a validation at each tenth step.
lines() {
    awk -v from="$1" -v to="$2" 'BEGIN {
        for (i = from; i <= to; i++) {
            printf("{\"step\":%d,\"train\":{\"training_loss\":%.6f,\"learning_rate\":%.9f," \
                   "\"time\":{\"steps_per_second\":%.3f}},\"time\":{\"wall\":%.3f}}\n",
                   i, 5 / i + 0.123456, i / 1e5, 10 + i % 3, 1.7e9 + i)
            if (i % 10 == 0)
                printf("{\"step\":%d,\"validation\":{\"validation_loss\":%.6f},\"time\":{\"wall\":%.3f}}\n",
                       i, 6 / i, 1.7e9 + i)
        }
    }'
}
mkdir -p runs/first runs/deep/second 'runs/<b>third'
lines 1 50 >runs/first/metrics.jsonl
lines 1 20 >runs/deep/second/metrics.jsonl
printf '{"step":7,"train":{"training_loss":null}}\n{"step":8,"train":{"training_loss":' \
    >'runs/<b>third/metrics.jsonl'
i=0
while [ $i -lt 20 ]; do
    echo "$((40 + i % 3)),$((i % 2)),$([ $((i % 2)) = 1 ] && echo yes || echo no)"
    i=$((i + 1))
done | { echo age,male,likes; cat; } >table.csv
"$etude" train --experiment tabular/mlp --data table.csv --target likes runs/real --steps 20 \
    --set trainer.summary_interval=5,trainer.steps_per_loop=5 >log 2>&1 || { cat log >&2; fail "no run"; }
# Samples as a translation has them: its settings say so.
mkdir -p runs/first/translations
echo '{experiment: translation/tiny, task: {train_data: {tsv_path: a.tsv}}}' >runs/first/params.yaml
printf 'ein <i>Hund</i>\nzwei\n' >runs/first/translations/10.txt
printf 'ein Hund\nzwei\n' >runs/first/translations/9.txt
ln -s /etc/passwd runs/first/translations/11.txt
echo secret >runs/first/secret.txt
echo '2026-01-01 00:00:00  warning: step 12: <script>nothing</script>' >runs/first/train.log

before=$(find runs -exec ls -ld --time-style=full-iso {} + | sort)
start_of=runs
# start WORD...: serves $start_of; $url is its address, without the page.
start() {
    : >address
    "$etude" watch $start_of --port 0 "$@" >address 2>log &
    server=$!
    for _ in $(seq 600); do
        [ ! -s address ] && kill -0 "$server" 2>/dev/null || break
        sleep 0.1
    done
    url=$(sed 's/#.*//' address)
    [ -n "$url" ] || fail "no address: $(cat log)"
}
stop() {
    kill "$server"
    code=0
    wait "$server" || code=$?
    server=
    [ "$code" = 0 ] || fail "ended with $code: $(cat log)"
}
get() {
    curl -s -m 30 "$@"
}
# points RUN GENERATION HAVE
points() {
    get -H 'Content-Type: application/json' \
        -d "{\"runs\": [{\"id\": $1, \"generation\": $2, \"have\": [$3]}]}" "${url}api/points"
}
# id NAME
id() {
    get "${url}api/runs" | sed -n "s/.*{\"id\": \([0-9]*\), .*\"name\": \"$1\".*/\1/p"
}
start

# ---- what is told ----
[ "$(get "${url}api/runs" | grep -c '"id"')" = 4 ] || fail "runs: $(get "${url}api/runs")"
step=$(sed -n '1s/^{"step":\([0-9]*\),.*/\1/p' runs/real/metrics.jsonl)
get "${url}api/runs" | grep '"name": "real"' | grep -q "\"first\": $step," || fail "the step of the first values is $step"
first=$(id first)
points "$first" 1 "" >got
for want in '"train.training_loss", "lower": true, "points": \[\[1, 1700000001.0, 5.123456\], \[2, ' \
    '\[50, 1700000050.0, 0.223456\]\]' '"validation.validation_loss", "lower": true, "points": \[\[10, 1700000010.0, 0.6\]' \
    '"train.time.steps_per_second", "lower": false, "points": \[\[1, 1700000001.0, 11.0\]' '"more": false'; do
    grep -q -e "$want" got || fail "no $want in $(cat got)"
done
points "$first" 1 "49,50,50,5" >got
grep -q '"at": 0, "name": "train.training_loss", "lower": true, "points": \[\[50, 1700000050.0, 0.223456\]\]' got ||
    fail "what came since: $(cat got)"
[ "$(grep -c '"at"' got)" = 1 ] || fail "more than what came since: $(cat got)"
points "$(id '<b>third')" 1 "" | grep -q '\[\[7, null, null\]\]' || fail "a value that is not a number"
points "$(id real)" 1 "" >got
value=$(sed -n 's/.*"training_loss":\([^,]*\),.*/\1/p' runs/real/metrics.jsonl | tail -1)
grep -q "$value" got || fail "$value of a real run is not in $(cat got)"
grep -q '"validation.validation_loss", "lower": true, "points"' got &&
    grep -q '"validation.validation_log_loss", "lower": true, "repeats": true' got ||
    fail "what repeats a loss: $(cat got)"
get "${url}api/run?id=$first" >got
grep -q '"samples":\["9.txt","10.txt"\]' got || fail "samples: $(cat got)"
grep -q '"warnings":\["2026-01-01 00:00:00  warning: step 12:' got || fail "warnings: $(cat got)"
get "${url}api/sample?id=$first&name=10.txt" | cmp - runs/first/translations/10.txt ||
    fail "another sample"

# ---- what is refused ----
refused() {
    want=$1
    shift
    got=$(curl -s -m 30 -o body -w '%{http_code}' "$@")
    if [ "$got" != "$want" ] || ! grep -q '^{"error": "' body; then
        fail "$*: $got, wanted $want: $(cat body)"
    fi
}
for name in ../secret.txt ..%2Fsecret.txt %2Fetc%2Fpasswd 12.txt .. 9.txt%00 ''; do
    refused 404 "${url}api/sample?id=$first&name=$name"
done
refused 404 "${url}api/sample?id=$first&name=11.txt"
refused 404 "${url}api/sample?id=99&name=9.txt"
refused 404 "${url}api/run?id=99999999999999999999"
refused 404 "${url}api/run"
refused 404 "${url}runs/first/secret.txt"
json='Content-Type: application/json'
refused 400 -H "$json" -d '{"runs": 1}' "${url}api/points"
refused 400 -H "$json" -d '{}' "${url}api/points"
refused 400 -H "$json" -d '{' "${url}api/points"
refused 400 -H "$json; charset=UTF8" -d 'nothing' "${url}api/points"
refused 415 -d '{"runs": []}' "${url}api/points"
refused 415 -H 'Content-Type:' -d '{"runs": []}' "${url}api/points"
refused 415 -H 'Content-Type: text/plain' -d '{"runs": []}' "${url}api/points"
refused 415 -H "$json; charset=latin1" -d '{"runs": []}' "${url}api/points"
refused 415 -H "$json" -H 'Content-Encoding: gzip' -d '{"runs": []}' "${url}api/points"
refused 404 -H "$json" -d '{"runs": [{"id": 99, "generation": 1}]}' "${url}api/points"
refused 400 "${url}%00api/runs"
refused 405 -d '{}' "${url}api/runs"
refused 403 -H 'Host: evil.org' "${url}api/runs"
for origin in http://evil.org http://203.0.113.5 "http://203.0.113.5:${url##*:}" http://localhost:1 \
    'http://[2001:db8::1]' null; do
    refused 403 -H "Origin: ${origin%/}" "${url}api/runs"
done
get -H "Origin: ${url%/}" "${url}api/runs" >/dev/null

# ---- what comes, and what goes ----
lines 51 60 >>runs/first/metrics.jsonl
sleep 1
get "${url}api/runs" >/dev/null
points "$first" 1 "50,50,50,5" | grep -q '"points": \[\[51, .*\[60, ' || fail "new lines are not told"
lines 1 30 >new && mv new runs/first/metrics.jsonl
sleep 1
get "${url}api/runs" >/dev/null
points "$first" 1 "60,60,60,6" >got
grep -q '"generation": 2' got && grep -q '\[\[1, 1700000001.0, ' got ||
    fail "a log that was cut off: $(cat got)"
stop
rm -rf runs/first/metrics.jsonl
lines 1 50 >runs/first/metrics.jsonl

# ---- the page ----
browser=
for name in chromium chromium-browser google-chrome; do
    command -v $name >/dev/null && browser=$name && break
done
# dom ADDRESS MILLISECONDS: the page as it is after so long.
dom() {
    HOME=$work timeout 300 $browser --headless --no-sandbox --disable-gpu --disable-dev-shm-usage \
        --virtual-time-budget="$2" --dump-dom "$1" 2>err | sed 's/<li/\n&/g; s/<\/li>/&\n/g'
}
# shows RUN SERIES COUNT STEP VALUE
shows() {
    grep -F "data-run=\"$1\" data-series=\"$2\" data-count=\"$3\" data-step=\"$4\" data-value=\"$5\"" \
        page >/dev/null || fail "$* is not on the page: $(grep data-series page | cut -c1-200)"
}
start
get "$url" | grep -q '<title>etude watch</title>' || fail "no page"
! get "$url" | grep -E 'https?://[a-z]' | grep -v www.w3.org/2000/svg || fail "something from elsewhere"
if [ -z "$browser" ]; then
    echo "SKIPPED: the page in a browser: no chromium"
else
    dom "$url#run=first" 4000 >page
    shows first train.training_loss 50 50 0.223456
    shows first train.learning_rate 50 50 0.0005
    shows first validation.validation_loss 5 50 0.12
    shows first train.time.steps_per_second 50 50 12
    shows deep/second train.training_loss 20 20 0.373456
    shows '&lt;b&gt;third' train.training_loss 1 7 nan
    count=$(grep -c '"training_loss"' runs/real/metrics.jsonl)
    step=$(sed -n 's/^{"step":\([0-9]*\),"train.*/\1/p' runs/real/metrics.jsonl | tail -1)
    shows real train.training_loss "$count" "$step" "$value"
    grep -q 'data-chart="loss"' page || fail "no chart of the loss"
    ! grep 'data-chart="\(nll\|log_loss\|log_likelihood\)"' page || fail "a number in two charts"
    grep -q '&lt;script&gt;nothing' page || fail "no warning on the page"
    grep -q 'memory planned' page || [ -f runs/real/info.json ] || fail "no memory"
    dom "$url#run=first&tab=samples" 4000 >page
    grep -q 'ein Hund\|ein &lt;i&gt;Hund' page || fail "no sample on the page: $(tail -5 page)"

    # Zoom, scales, smoothing: what a person does, without a server.
    {
        get "$url" | sed '/^<script>$/,$d'
        echo '<script>'
        cat "$here/watch_stub.js"
        echo '</script>'
        get "$url" | sed -n '/^<script>$/,/^<\/script>$/p'
        echo '<script>'
        cat "$here/watch_hands.js"
        echo '</script></body></html>'
    } >hands.html
    dom "file://$work/hands.html" 3000 >page
    grep -q 'data-result="all of it"' page ||
        fail "on the page: $(sed -n 's/.*data-result="\([^"]*\)".*/\1/p' page)"

    # A run at work: its log grows while the page is open.
    (
        i=51
        while [ $i -lt 500 ]; do
            lines $i $i >>runs/first/metrics.jsonl
            sleep 0.05
            i=$((i + 1))
        done
    ) &
    writer=$!
    dom "$url" 40000 >page
    kill $writer 2>/dev/null || true
    wait $writer 2>/dev/null || true
    writer=
    count=$(sed -n 's/.*data-run="first" data-series="train.training_loss" data-count="\([0-9]*\)".*/\1/p' page)
    updates=$(sed -n 's/.*data-updates="\([0-9]*\)".*/\1/p' page)
    [ "$count" -gt 52 ] || fail "the page does not follow: $count points"
    [ "$updates" -ge 2 ] || fail "the page asked once"
    step=$count
    shows first train.training_loss "$count" "$step" \
        "$(lines "$step" "$step" | sed -n 's/.*"training_loss":\([0-9.]*[1-9]\)0*,.*/\1/p' | head -1)"
fi
stop
rm -f runs/first/metrics.jsonl
lines 1 50 >runs/first/metrics.jsonl

# ---- links ----
# What they lead to outside is not shown, also in a run where the rest is; inside they are followed.
mkdir -p outside/translations outside/validation links/all links/some links/inner/validation
lines 1 9 | sed 's/training_loss/hidden_loss/' | tee outside/metrics.jsonl >outside/validation/metrics.jsonl
echo '{experiment: translation/tiny, task: {train_data: {tsv_path: hidden.tsv}}}' >outside/params.yaml
echo '{"sessions": [{"command": "hidden", "parameters": 98765432}]}' >outside/info.json
echo 'a hidden sample' >outside/translations/1.txt
echo 'warning: a hidden line' >outside/train.log
for name in metrics.jsonl params.yaml info.json translations validation train.log; do
    ln -s "$PWD/outside/$name" links/all/$name
done
sed 's/hidden/shown/' outside/params.yaml >links/some/params.yaml
lines 1 9 >links/some/metrics.jsonl
ln -s ../../outside/info.json links/some/info.json
ln -s ../../outside/translations links/some/translations
ln -s ../some/metrics.jsonl links/inner/metrics.jsonl
ln -s "$PWD/outside/metrics.jsonl" links/inner/validation/metrics.jsonl
ln -s links named
start_of=named
start
get "${url}api/runs" >got
grep -q 'a symbolic link points outside of' got || fail "nothing is said of links: $(cat got)"
for name in all some inner; do
    run=$(id $name)
    get "${url}api/run?id=$run" >>got
    points "$run" 1 "" >>got
    curl -s -m 30 "${url}api/sample?id=$run&name=1.txt" >>got
done
! grep hidden got >&2 || fail "what is outside is shown"
! grep 98765432 got >&2 || fail "what is outside is counted"
grep -q 'shown.tsv' got || fail "settings inside are not shown"
[ "$(grep -c '"train.training_loss", .*"points": \[\[1, ' got)" = 2 ] || fail "points inside are not shown"
stop
start_of=runs

# ---- who may ask ----
start --listen 0.0.0.0
url=http://127.0.0.1:${url##*:}
[ "$(curl -s -m 30 -o body -w '%{http_code}' "$url")" = 200 ] || fail "the page asks for a token"
refused 401 "${url}api/runs"
token=$(sed -n 's/.*#token=//p' address)
[ ${#token} = 64 ] || fail "1: the token has ${#token}: $(cat address)"
get -H "Authorization: Bearer $token" "${url}api/runs" | grep -q first || fail "the token is no use"
if [ -n "$browser" ]; then
    dom "$url#token=$token" 4000 >page
    shows deep/second train.training_loss 20 20 0.373456
    dom "$url" 4000 >page
    grep -q 'a token is needed' page || fail "the page does not say that it needs a token"
fi
stop

# Nothing was changed, but what this changed itself.
after=$(find runs -exec ls -ld --time-style=full-iso {} + | sort)
other() {
    printf '%s\n' "$1" | grep -v 'runs/first$\|runs/first/metrics.jsonl$'
}
[ "$(other "$before")" = "$(other "$after")" ] || fail "something was changed: $after"

# ---- hundreds ----
i=0
while [ $i -lt 300 ]; do
    mkdir -p "runs/many/r$i"
    cp runs/first/metrics.jsonl "runs/many/r$i/"
    i=$((i + 1))
done
start
grep -q '304 runs' log || fail "not all runs: $(cat log)"
[ "$(get "${url}api/runs" | grep -c '"points": 155')" = 301 ] || fail "not all points"
stop

# ---- the command line ----
code=0
"$etude" watch 2>log || code=$?
[ "$code" = 2 ] || fail "no directory: $code"
code=0
"$etude" watch none 2>log || code=$?
[ "$code" = 3 ] && grep -q none log || fail "a directory that is not there: $code $(cat log)"
echo "the page has what the logs have"
