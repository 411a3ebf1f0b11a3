#!/bin/sh
# test_serve_published.sh ETUDE MAKE_MARIAN: a server of folders of published models: languages, the
# page, a pair of each folder, and one that goes through English. Skipped without curl.
set -u
command -v curl >/dev/null || {
    echo "SKIPPED: all cases: no curl"
    exit 77
}
. "$(dirname "$0")/command.sh"
server=
trap '[ -z "$server" ] || kill -9 "$server" 2>/dev/null; rm -rf "$work"' EXIT
"$2" . bergamot || fail "no folder"

# name PAIR: the folder without settings, its files with the languages of a pair.
name() {
    mkdir "$1"
    for file in bergamot/*.xxyy.*; do
        base=${file#bergamot/}
        cp "$file" "$1/${base%%xxyy*}$1${base#*xxyy}"
    done
}
name pten
name enes
gzip enes/*.bin enes/*.spm
find pten enes -type f -exec cksum {} + >before

"$etude" serve pten enes --port 0 >address 2>said &
server=$!
for _ in $(seq 600); do
    [ ! -s address ] && kill -0 "$server" 2>/dev/null || break
    sleep 0.1
done
url=$(cat address)
url=${url%/translate}
case $url in
http://127.0.0.1:*) ;;
*) fail "no address: $url" ;;
esac
curl -s -m 30 "$url/languages" >out
printf '%s' '[{"code": "pt", "name": "Portuguese", "targets": ["en", "es"]}, {"code": "en", "name": "English", "targets": ["es"]}, {"code": "es", "name": "Spanish", "targets": []}]' >wanted
tr -d '\n' <out | cmp -s - wanted || fail "languages"
curl -s -m 30 -H 'Accept: text/html' "$url/" >out
grep -q '<title>etude serve</title>' out || fail "no page"

# ask SOURCE TARGET: the answer to a line, in out.
ask() {
    curl -s -m 30 -H 'Content-Type: application/json' "$url/translate" \
        -d "{\"lines\": [\"a b c\", \"d e f\"], \"source\": \"$1\", \"target\": \"$2\"}" >out
}
printf 'a b c\nd e f\n' >in.txt
"$etude" translate pten <in.txt >pten.out 2>said.pten || fail "translate pten"
"$etude" translate enes <in.txt >enes.out 2>said.enes || fail "translate enes"
"$etude" translate enes <pten.out >ptes.out 2>said.ptes || fail "translate through English"
for pair in pt,en en,es pt,es; do
    ask "${pair%,*}" "${pair#*,}"
    awk '{ printf "%s\"%s\"", (NR > 1 ? ", " : ""), $0 } END { print "" }' \
        "${pair%,*}${pair#*,}.out" | sed 's/.*/{"translations": [&]}/' >wanted
    cmp -s out wanted || fail "$pair: wanted $(cat wanted)"
done
curl -s -m 30 -d q='a b c' -d source=pt -d target=es "$url/translate" >out
grep -q '"through": "en"' out || fail "does not say that it goes through English"
grep -q '^languages    pt to es goes through English$' said || fail "the start does not say it: $(cat said)"
ask es pt
grep -q '"error"' out || fail "a pair that is not there"
kill "$server"
wait "$server" || fail "the server failed"
server=
find pten enes -type f -exec cksum {} + | cmp -s - before || fail "a folder has changed"
