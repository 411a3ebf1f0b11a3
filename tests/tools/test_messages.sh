#!/bin/sh
# test_messages.sh SOURCE ETUDE: writes every text that a user may see (tools/messages) to one file,
# messages.txt in the current folder, by folder and kind, for people to read. It checks:
#
#   words        hard ones (hard_words.sh) are at most 1.5 in 1,000; no contraction, no exclamation mark
#   length       a line of a text has at most 220 characters; lists of names for the program, which
#                begin and end with a blank, may be longer
#   ends         no blank or full stop at the end of a message, and no two blanks within help
#   begins       a message begins with a small letter, a value, a sign or a name
#   options      each --option is one of a command; each trainer., task. or runtime. setting exists
#
# A tree with a fault of each kind fails.
set -eu
source=$1 etude=$2
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/tools/hard_words.sh
. "$here/hard_words.sh"
# A message is short: words that a page may use now and then are hard to read there.
hard="$hard|whoever|likewise|anew|[^e] (is|are) no|(is|are) none|no such way|heeded|learnt"
work=$(mktemp -d "$PWD/messages.XXXXXX")
trap 'rm -rf "$work"' EXIT

# Functions that take a whole message: an error, a warning, a refusal.
messages='^(et_fail|et_fail_errno|et_fail_while|et_log|et_graph_poison|et_http_refuse|refuse|bad_header|fail_at|fail_line|et_task_tell)$'
# Functions and tables that take a line of help.
help='^(ET_(OPTION|FIELD)_[A-Z]*|help|NO_[A-Z]*|ET_NO_DATA_SERVICE)$'
# Names that begin with a capital, and messages that are another system's to the letter.
names='JSON|ONNX|BLEU|CTranslate2|SentencePiece|TMPDIR|NULL|Content-Type|Content-Encoding|Content-Length|Transfer-Encoding|MPI|OpenMP|ZeroMQ|ETUDE_ISA|CR|Model Garden|Etude|SIGUSR1'
others='Invalid request: |At least one DataSource must|Looping until exhausted|An epoch or a step loop|A loop is not left|Another (step|epoch) loop has been|Step loop must be|Checkpoint directory is not configured'
# Options of other programs, and those whose end is filled in.
foreign='build|hidden-layers|top-'

{
    "$etude" help | sed -n 's/^    \([a-z][a-z0-9_-]*\) .*/\1/p' | while read -r command; do
        "$etude" help --man "$command"
    done
    "$etude" help --man
} | sed 's/\\f[BIR]//g; s/\\//g' | grep -oE -e '--[a-z][a-z0-9-]*' | sed 's/^--//' | sort -u >"$work/options"
grep -ohE 'ET_FIELD_[A-Z]+\([a-z_]+, [a-z_]+' "$source"/src/tasks/tabular/builders/arguments.c |
    sed 's/.*, //; y/_/-/' >>"$work/options"
"$etude" list --markdown | grep -oE '[a-z_0-9]+' | sort -u >"$work/settings"

# check FILE: prints what is wrong with texts as tools/messages prints them.
check() {
    awk -F '\t' -v messages="$messages" -v help="$help" -v names="$names" -v others="$others" \
        -v foreign="$foreign" -v options="$work/options" -v settings="$work/settings" '
    function wrong(what) { printf "%s/%s: %s: %s\n", $1, $3, what, $4 }
    BEGIN {
        while ((getline line < options) > 0) option[line]
        while ((getline line < settings) > 0) setting[line]
    }
    {
        text = $4
        if (text ~ /[a-z]n\47t[^a-z]|[a-z]n\47t$|[^a-z](it|that|there|what)\47s[^a-z]|(I|you|we|they)\47(ll|re|ve|d)/)
            wrong("a contraction")
        bare = text
        gsub(/!=|\[!|#!/, "", bare)
        if (bare ~ /!/) wrong("an exclamation mark")
        count = split(text, row, /\\n/)
        for (i = 1; i <= count; i++)
            if (length(row[i]) > 220 && text !~ /^ .* $/) wrong("a line of " length(row[i]) " characters, at most 220")
        if ($2 ~ messages) {
            if (text ~ /[ .]$/ && text !~ /[.][.][.]$/ && text !~ others && text !~ /[.][^.]+[.]$/ && text !~ /^[ ,;]/)
                wrong("a blank or a full stop at the end")
            if (text ~ /^[A-Z][a-z]/ && text !~ ("^(" names ")([^a-z]|$)") && text !~ ("^(" others ")"))
                wrong("begins with a capital letter")
        }
        if ($2 ~ help) {
            if (text ~ /  /) wrong("two blanks")
            if (text ~ /^ |[^:] $/) wrong("a blank at the end of a sentence")
            if (text ~ /[^.][.]$/ && text !~ /[a-z]_[a-z]+[.]$/) wrong("a full stop at the end")
        }
        rest = text
        while (match(rest, /(^|[^a-z-])--[a-z][a-z0-9-]*/)) {
            name = substr(rest, RSTART, RLENGTH)
            rest = substr(rest, RSTART + RLENGTH)
            sub(/.*--/, "", name)
            if (!(name in option) && name !~ ("^(" foreign ")$")) wrong("no option --" name)
        }
        rest = text
        while (match(rest, /(^|[^a-z_.])(trainer|task|runtime)[.][a-z_]+([.][a-z_]+)*/)) {
            name = substr(rest, RSTART, RLENGTH)
            rest = substr(rest, RSTART + RLENGTH)
            sub(/^[^a-z]/, "", name)
            count = split(name, part, ".")
            for (i = 2; i <= count; i++)
                if (!(part[i] in setting) && name !~ /^task[.](index|type)$/) wrong("no setting " name)
        }
    }' "$1"
    cut -f 4 "$1" | sed 's/%[-+0-9.*lhzjt]*[a-zA-Z]//g; s/\\n/ /g' >"$work/texts"
    hard_words "$work/texts" | sed 's/^[^:]*: /messages: /'
}

# finds KIND TEXT FAULT: a message TEXT of a function KIND is refused with FAULT.
finds() {
    mkdir -p "$work/tree/src/base" "$work/tree/include"
    printf 'int f(et_error *error)\n{\n    return %s(error, 1, "%s");\n}\n' "$1" "$2" >"$work/tree/src/base/f.c"
    "$source/tools/messages" "$work/tree" >"$work/one"
    check "$work/one" >"$work/log"
    grep -q -e "$3" "$work/log" || {
        echo "test_messages: $1(\"$2\"): not \"$3\", but:" >&2
        cat "$work/one" "$work/log" >&2
        exit 1
    }
}

finds et_fail "the file can't be read" 'src/base/f.c:3: a contraction'
finds et_log "this is wrong!" 'an exclamation mark'
finds et_fail "cannot open %s " 'a blank or a full stop at the end'
finds et_fail "cannot open %s." 'a blank or a full stop at the end'
finds et_fail "Cannot open %s" 'begins with a capital'
finds ET_FIELD_INT "rows  of a batch" 'two blanks'
finds et_fail "give --no-such-option" 'no option --no-such-option'
finds et_fail "set trainer.no_such_setting" 'no setting trainer.no_such_setting'
finds et_fail "a file that is said to stand beside it" 'words make it hard to read'
finds et_fail "$(printf 'word %.0s' $(seq 50))" 'characters, at most 220'

"$source/tools/messages" "$source" >"$work/all"
awk -F '\t' '
    $1 != folder { printf "\n%s\n", $1 }
    $1 != folder || $2 != kind { printf "  %s\n", $2 }
    { folder = $1; kind = $2; printf "    %-28s %s\n", $3, $4 }' "$work/all" >messages.txt
lines=$(wc -l <"$work/all")
[ "$lines" -ge 3000 ] || {
    echo "test_messages: $lines texts alone: tools/messages misses some" >&2
    exit 1
}
check "$work/all" >"$work/wrong"
[ ! -s "$work/wrong" ] || {
    cat "$work/wrong" >&2
    exit 1
}
echo "$lines texts in $PWD/messages.txt"
