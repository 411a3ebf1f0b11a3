#!/bin/sh
# The page of `etude serve` for translators, in a browser and without a server: typing, languages, the
# other direction, files, errors.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
page=$here/../../src/command/web/serve
work=$(mktemp -d "$PWD/serve_page.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"

browser=
for name in chromium chromium-browser google-chrome; do
    command -v $name >/dev/null && browser=$name && break
done
[ -n "$browser" ] || {
    echo "SKIPPED: the page in a browser: no chromium"
    exit 77
}
{
    sed -e "/^@serve.css@$/{r $page/serve.css
d}" -e "/^<script>$/r $here/serve_stub.js" -e "/^@serve.js@$/{r $page/serve.js
d}" "$page/serve.html" | sed '/^<\/body>$/,$d'
    echo '<script>'
    cat "$here/serve_hands.js"
    echo '</script></body></html>'
} >page.html
HOME=$work timeout 300 $browser --headless --no-sandbox --disable-gpu --disable-dev-shm-usage \
    --virtual-time-budget=20000 --dump-dom "file://$work/page.html" 2>err >shown
grep -q 'data-result="all of it"' shown || {
    echo "on the page: $(sed -n 's/.*data-result="\([^"]*\)".*/\1/p' shown)" >&2
    exit 1
}
