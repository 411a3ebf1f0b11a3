#!/bin/sh
# test_serve_table.sh ETUDE: `serve` of a table answers with the bytes of `predict`: rows as JSON
# and as CSV, answers as JSON, JSON lines and CSV; bad rows are refused and named. Skipped without
# curl.
set -eu
etude=$1
command -v curl >/dev/null || {
    echo "SKIPPED: all cases: no curl"
    exit 77
}
work=$(mktemp -d "$PWD/serve_table.XXXXXX")
server=
trap '[ -z "$server" ] || kill -9 "$server" 2>/dev/null || true; rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "test_serve_table: $*" >&2
    exit 1
}

awk 'BEGIN {
    print "id,long,wide,colour,kind"
    for (i = 0; i < 600; i++) {
        x = (i * 37 % 100) / 50; y = (i * 53 % 100) / 50
        kind = x > 1 ? "\"rose, wild\"" : (y > 1 ? "lily" : "iris")
        printf("n%d,%.2f,%.2f,%s,%s\n", i, x, y, i % 4 ? "red" : "blue", kind)
    }
}' >train.csv
cut -d, -f2- train.csv >learn.csv
# Without clip, so that a row of huge numbers has no scores.
"$etude" train --experiment tabular/mlp --data learn.csv --target kind run --steps 40 \
    --set task.features.numeric=standardize >log 2>&1 || { cat log >&2; fail "no model"; }
cut -d, -f1-4 train.csv >rows.csv
"$etude" predict run <rows.csv >expected.jsonl
"$etude" predict run --output-format csv <rows.csv >expected.csv
[ "$(wc -l <expected.jsonl)" = 600 ] || fail "another number of lines"

start() {
    rm -f address
    "$etude" serve "$@" --port 0 >address 2>log &
    server=$!
    for _ in $(seq 600); do
        [ ! -s address ] && kill -0 "$server" 2>/dev/null || break
        sleep 0.1
    done
    url=$(cat address)
    case $url in
    http://127.0.0.1:*/predict) ;;
    *) fail "no address: $url $(cat log)" ;;
    esac
}
start run
ask() {
    curl -s -m 30 -o got -w '%{http_code}' "$@"
}

# A browser gets a page, which loads nothing from elsewhere; a program the facts.
[ "$(ask -H 'Accept: text/html,*/*;q=0.8' "${url%/predict}/")" = 200 ] || fail "page: $(cat got)"
grep -q '<title>etude serve</title>' got || fail "no page"
! grep -E '(src|href)="(https?:)?//' got || fail "something from elsewhere"
[ "$(ask "${url%/predict}/")" = 200 ] && grep -q '"columns": \[' got || fail "facts: $(cat got)"
[ "$(grep -c '"GET /"' got)" = 1 ] || fail "a path twice"
for name in chromium chromium-browser google-chrome; do
    command -v $name >/dev/null || continue
    HOME=$work timeout 120 $name --headless --no-sandbox --disable-gpu --disable-dev-shm-usage \
        --virtual-time-budget=3000 --dump-dom "${url%/predict}/" >page 2>err
    grep -q 'data-mode="rows"' page && grep -q 'name="colour"' page || fail "the form: $(cat err)"
    break
done

# CSV to JSON lines, CSV and a list.
[ "$(ask -H 'Content-Type: text/csv' -H 'Accept: application/x-ndjson' --data-binary @rows.csv \
    "$url")" = 200 ] || fail "CSV: $(cat got)"
cmp got expected.jsonl || fail "CSV in, JSON lines out"
tail -n +2 rows.csv | cut -d, -f2- | sed 's/,/;/g' >plain.csv
[ "$(ask -H 'Content-Type: text/csv' -H 'Accept: text/csv' --data-binary @plain.csv "$url")" = 200 ] ||
    fail "CSV without a header: $(cat got)"
cmp got expected.csv || fail "CSV in, CSV out"
for accept in 'Text/CSV' 'application/json;q=0.1, text/csv;q=0.2' 'application/x-ndjson;q=0, text/csv'; do
    ask -H 'Content-Type: text/csv' -H "Accept: $accept" --data-binary @plain.csv "$url" >code
    cmp got expected.csv || fail "$accept: no CSV"
done
for accept in 'application/json, text/csv;q=0.5' 'text/csv;q=0' 'text/csv;q=0.3, */*'; do
    ask -H 'Content-Type: text/csv' -H "Accept: $accept" --data-binary @plain.csv "$url" >code
    grep -q '^{"predictions": ' got || fail "$accept: no list"
done

# One row without a header whose text holds other delimiters.
[ "$(ask -H 'Content-Type: text/csv' -H 'Accept: text/csv' --data-binary '1,1,r;e;d;d' "$url")" = 200 ] ||
    fail "a text with other delimiters: $(cat got)"

# The same rows as JSON, a column in another order and one that is missing as null.
awk -F, 'NR > 1 { printf("%s{\"colour\": \"%s\", \"wide\": %s, \"long\": %s, \"kind\": null}",
    NR > 2 ? ", " : "{\"rows\": [", $4, $3, $2) } END { print "]}" }' rows.csv >rows.json
[ "$(ask -H 'Content-Type: application/json' --data-binary @rows.json "$url")" = 200 ] ||
    fail "JSON: $(cat got)"
sed -e '1s/^{"predictions": \[//' -e '$s/\]}$//' -e 's/},$/}/' got >lines
cmp lines expected.jsonl || fail "JSON in, a list out"

# Each is refused with what is wrong; the next is answered.
refused() {
    code=$1 words=$2 type=$3 body=$4
    got=$(ask -H "Content-Type: $type" --data-binary "$body" "$url")
    if [ "$got" != "$code" ] || ! grep -q -e "$words" got; then
        fail "$body: $got, wanted $code and $words: $(cat got)"
    fi
}
refused 400 'rows: expected a list of objects, found nothing' application/json '{}'
refused 400 'rows: expected a list of objects, found an object' application/json '{"rows": {}}'
refused 400 'the body is a row; rows go in a list' application/json '{"wide": 1, "colour": "red"}'
refused 400 'Nearest: rows' application/json '{"row": []}'
refused 400 'rows: .*found text' application/json '{"rows": "a"}'
refused 400 'row 1 is an integer' application/json '{"rows": [1]}'
refused 400 'column wide is an object' application/json '{"rows": [{"wide": {}}]}'
refused 400 'row 2: .*Nearest: wide' application/json '{"rows": [{"wide": 1}, {"wid": 1}]}'
refused 400 'row 1.*long' application/json '{"rows": [{"long": "much", "wide": 1, "colour": "red"}]}'
refused 400 'row 1: column wide is a list' application/json '{"rows": [{"wide": [1]}]}'
refused 400 'the body:2' text/csv 'long,wide,colour
1,much,red'
refused 400 'the body:3' text/csv 'long,wide,colour
1,1,red
1,1'
refused 400 'the body:2' text/csv 'long,wide,colour
1,1,"red'
refused 400 "row 2: the model's scores for this row are not numbers" application/json \
    '{"rows": [{"long": 1, "wide": 1, "colour": "red"}, {"long": 1.5e38, "wide": -1.5e38, "colour": "red"}]}'
refused 400 "the body:2: the model's scores" text/csv '1,1,red
1.5e38,-1.5e38,red'
refused 415 'application/json or text/csv' text/plain '1,1,red'
refused 413 'more than 1024' text/csv "$(yes 1,1,red | head -2000)"
[ "$(ask -H 'Content-Type: application/json' --data-binary '{"rows": []}' "$url")" = 200 ] ||
    fail "no rows: $(cat got)"
[ "$(cat got)" = '{"predictions": []}' ] || fail "no rows: $(cat got)"
[ "$(ask -H 'Content-Type: application/json' --data-binary @rows.json "$url")" = 200 ] ||
    fail "after bad requests: $(cat got)"

# What the model has never seen, in an answer that is asked for it and in the counts of all.
asks() {
    [ "$(ask -H 'Content-Type: application/json' -H "Accept: $2" --data-binary "$1" "$url")" = "$3" ] &&
        grep -qF -e "$4" got || fail "$1: $(cat got)"
}
row='{"long": 1, "wide": 1, "colour": "red"}'
asks "{\"rows\": [$row, {\"wide\": 1, \"colour\": 7.50}, {\"long\": 1, \"wide\": 1, \"colour\": true}], \"unknown\": true}" \
    application/json 200 '}}], "unknown": [{"column":"long","values":1,"row":2,"value":null},{"column":"colour","values":2,"row":2,"value":"7.50"}]}'
asks "{\"rows\": [$row], \"unknown\": true}" application/json 200 '}}], "unknown": []}'
asks "{\"rows\": [$row], \"unknown\": true}" application/x-ndjson 200 '{"unknown": []}'
asks "$(printf '\357\273\277{"rows": [%s]}' "$row")" application/json 200 '"label"'
# A row may have other columns, if it has those of the model.
asks '{"rows": [{"id": 7, "long": 1, "wide": null, "colour": "red", "note": [{}]}]}' application/json 200 '"label"'
asks '{"rows": [{"id": 7, "long": 1, "colour": "red"}]}' application/json 400 \
    'row 1: the model has no column id. The row lacks wide: give this column, with null for a missing value'
asks '{"rows": [], "unknown": true}' application/json 200 '{"predictions": [], "unknown": []}'
asks "{\"rows\": [{\"long\": 1, \"wide\": 1, \"colour\": \"re\\u001bd\"}]}" application/json 200 '}}]}'
asks "{\"rows\": [$row], \"unknown\": 1}" application/json 400 'unknown: expected true or false'
asks "{\"rows\": [$row], \"unknown\": true}" text/csv 400 'unknown: not possible in CSV'
# A request that is refused counts for nothing.
asks "{\"rows\": [{\"long\": 1, \"colour\": \"no\"}, {\"long\": \"no\"}]}" application/json 400 'row 2'
curl -s -m 30 "${url%predict}metrics" >got
grep -qx 'etude_unknown_values_total{column="colour"} 4' got &&
    grep -qx 'etude_unseen_missing_total{column="long"} 1' got || fail "unknown values: $(cat got)"

# A number of any size is JSON.
asks '{"rows": [{"long": 0, "wide": 1, "colour": "red"}], "request": 1}' application/json 400 request
asks '{"rows": [{"long": 0, "wide": 1, "colour": "red", "kind": 9223372036854775808}]}' application/json 200 label
asks '{"rows": [{"long": 1e999, "wide": 1, "colour": "red"}]}' application/json 400 '" is too large for a double: correct it'

# The facts have each column with an example, and a row that can be sent.
# fields: one line of JSON.
fields() {
    curl -s -m 30 "${url%predict}" | tr -d '\n' | sed 's/  */ /g'
}
# sends_example: the row of the facts is answered, and no value of it is unknown.
sends_example() {
    fields | sed 's/.*"example": "\({\\"rows.*\]}\)", .*/\1/; s/\\"/"/g; s/}$/,"unknown":true}/' >example
    [ "$(ask -H 'Content-Type: application/json' --data-binary @example "$url")" = 200 ] ||
        fail "the example $(cat example): $(cat got)"
    grep -q '"unknown": \[\]' got || fail "the example has unknown values: $(cat example) $(cat got)"
}
fields >facts
for text in '"columns": [ "long", "wide", "colour" ]' '{ "name": "long", "kind": "number", "example": "' \
    '{ "name": "colour", "kind": "class", "example": "red", "values": [ "red", "blue" ] }'; do
    grep -qF "$text" facts || fail "no $text in $(cat facts)"
done
sends_example
browser=
for name in chromium chromium-browser google-chrome; do
    command -v $name >/dev/null && browser=$name && break
done
# page: the page of the server as a browser shows it.
page() {
    HOME=$work timeout 300 "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage \
        --virtual-time-budget=4000 --dump-dom "${url%predict}" 2>err >page
}
if [ -n "$browser" ]; then
    page
    grep -q '<select name="colour"><option value="">(missing)</option><option value="red">red</option><option value="blue">' page ||
        fail "no list of classes: $(cat page)"
    grep -q '<input name="long" type="text" value="[0-9.]*" [^>]*inputmode="decimal"' page || fail "no number: $(cat page)"
else
    echo "SKIPPED: the page in a browser: no chromium"
fi

stop() {
    code=0
    kill "$server"
    wait "$server" || code=$?
    server=
    [ "$code" = 0 ] || fail "ended with $code: $(cat log)"
    grep -q '^stopped .* rows' log || fail "says otherwise: $(cat log)"
}
stop

# A model in one file answers the same, where there is no run.
"$etude" export run --output m.safetensors >log 2>&1 || fail "$(cat log)"
mv run gone
start m.safetensors
[ "$(ask -H 'Content-Type: text/csv' -H 'Accept: application/x-ndjson' --data-binary @rows.csv \
    "$url")" = 200 ] || fail "of one file: $(cat got)"
cmp got expected.jsonl || fail "one file answers otherwise"
stop
mv gone run
"$etude" serve run --port 0 --precision int8 2>log && fail "a precision of a table"
grep -q 'leave it out' log || fail "says otherwise: $(cat log)"

# Dates and numbers as their columns write them, many values, times of day.
awk 'BEGIN {
    print "when;price;at;street;kind"
    for (i = 0; i < 600; i++)
        printf("%02d.%02d.2024;1.%03d,%02d;%02d:30;street %d;%s\n", 1 + i % 28, 1 + i % 12, i * 7 / 100,
               i * 7 % 100, i % 24, i % 150, i % 3 ? "a" : "b")
}' >dated.csv
"$etude" train --experiment tabular/mlp_small --data dated.csv --target kind dated --steps 20 >log 2>&1 ||
    { cat log >&2; fail "no model of dates"; }
start dated
fields >facts
for text in '{ "name": "when", "kind": "date", "example": "2024-' '{ "name": "price", "kind": "number", "example": "1020,965"' \
    '{ "name": "at", "kind": "time", "example": "' '{ "name": "street", "kind": "text", "example": "street '; do
    grep -qF "$text" facts || fail "no $text in $(cat facts)"
done
sends_example
if [ -n "$browser" ]; then
    page
    grep -q '<input name="when" type="date" value="2024-' page && grep -q 'name="at" type="time" value="' page ||
        fail "no dates: $(cat page)"
    grep -q 'list="values3"><datalist id="values3"><option value="street ' page || fail "no suggestions: $(cat page)"
fi
stop

# Labels by costs and by a threshold, also of a model of several folds, are those of predict.
cut -d, -f1-3 learn.csv >two.csv
"$etude" train --experiment tabular/mlp --data two.csv --target colour folds --folds 2 --steps 20 >log 2>&1 ||
    { cat log >&2; fail "no model of folds"; }
# decides RUN OPTION VALUE
decides() {
    "$etude" predict "$1" <rows.csv >usual.jsonl
    "$etude" predict "$1" "$2" "$3" <rows.csv >expected.jsonl
    ! cmp -s usual.jsonl expected.jsonl || fail "$2 changes no label"
    start "$@"
    [ "$(ask -H 'Content-Type: text/csv' -H 'Accept: application/x-ndjson' --data-binary @rows.csv \
        "$url")" = 200 ] || fail "$2: $(cat got)"
    cmp got expected.jsonl || fail "$2: other labels than predict"
    stop
}
decides run --costs 'iris:lily=0.01,lily:iris=20'
decides folds --threshold 0.1
decides folds --costs 'blue:red=9'
# refuses TEXT ARGUMENTS...
refuses() {
    text=$1
    shift
    ! "$etude" serve "$@" --port 0 >address 2>log || fail "$*: served"
    grep -q -- "$text" log || fail "$*: no \"$text\": $(cat log)"
}
refuses '--threshold is for two classes, but kind has 3; give --costs' run --threshold 0.3
refuses '--costs rose:iris=2: write CLASS:PREDICTION=COST' run --costs rose:iris=2
echo "predictions as of the command"
