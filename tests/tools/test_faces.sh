#!/bin/sh
# test_faces.sh SOURCE: the headers of the four documented systems (orbit.h, modelgarden.h,
# tfsnippet.h, tensorfx.h) list every documented member once, in the order of members.txt and of the
# documentation. The C name beside a member is the one in doc/reference/members.md, so it is
# declared (test_members.sh). Each header begins with a program whose first part has fewer than 40
# lines.
set -eu
source=$1
work=$(mktemp -d "$PWD/faces.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$source"

# check HEADER...: the lists of headers against members.txt and members.md.
check() {
    awk '
    BEGIN {
        kinds["Arguments"] = "ctor args"; kinds["Events"] = "events"; kinds["Class variables"] = "class var"
        letters["Trainer"] = "T"; letters["TranslationTask"] = "X"
        letters["TrainLoop"] = "L"; letters["AbstractTrainer"] = "O"
    }
    function fail(text) { print FILENAME ":" FNR ": " text; bad++ }
    function trim(text) { gsub(/^ +| +$/, "", text); return text }
    # A member of the list, with the texts that stand beside it.
    function member(kind, name, names,    key, n, part, i, known) {
        key = letter " | " kind " | " name
        if (key != order[++shown])
            fail("\"" key "\" stands where \"" order[shown] "\" belongs")
        for (i in beside) known += index(here[key], "`" i "`") > 0
        if (!known) fail(name ": beside it is nothing that members.md has: " here[key])
    }
    # What was read of a row: NAME or NAME(ARGUMENT, ...), and names.
    function end_row(    n, part, i, word, kind, name, all) {
        if (row == "") return
        split("", beside)
        n = split(names, part, /, */)
        for (i = 1; i <= n; i++) if (trim(part[i]) != "") beside[trim(part[i])] = 1
        name = row
        sub(/\(.*/, "", name)
        if (section in kinds) kind = kinds[section]
        else kind = index(row, "(") ? "methods" : "attributes"
        word = letter == "F" && kind !~ /^methods/ ? class "." name : name
        all = here[letter " | " kind " | " word]
        member(kind, word)
        if (match(row, /\([^)]+\)/)) {
            n = split(substr(row, RSTART + 1, RLENGTH - 2), part, /, */)
            for (i = 1; i <= n; i++) {
                member("method args", name "." part[i])
                all = all here[letter " | method args | " name "." part[i]]
            }
        }
        for (i in beside)
            if (!index(all, "`" i "`")) fail(row ": members.md does not name " i)
        row = names = ""
    }
    FILENAME ~ /members\.txt$/ { order[++wanted] = $0; next }
    FILENAME ~ /members\.md$/ {
        if (/^## /) document = $2
        if (/^\| /) {
            n = split($0, cell, / *\| */)
            here[document " | " trim(cell[2]) " | " trim(cell[3])] = cell[4]
        }
        next
    }
    /---- class / {
        end_row()
        match($0, /class [A-Za-z]+: /)
        class = substr($0, RSTART + 6, RLENGTH - 8)
        names = substr($0, RSTART + RLENGTH)
        sub(/ ----$/, "", names)
        letter = class in letters ? letters[class] : "F"
        split("", beside)
        n = split(names, part, /, */)
        for (i = 1; i <= n; i++) beside[part[i]] = 1
        names = ""
        member(letter == "F" ? "classes" : "class", class)
        inside = 1
        next
    }
    !inside { next }
    /^ \* ?$/ { end_row(); next }
    /^#endif/ || /^$/ { inside = 0; end_row(); next }
    match($0, /^ \* (Arguments|Attributes|Methods|Members|Events|Class variables)( |$)/) {
        length_ = RLENGTH
        end_row()
        section = trim(substr($0, 4, length_ - 3))
        next
    }
    match($0, /^ \*   [A-Za-z_]+(\([a-z_, ]*\))?/) {
        length_ = RLENGTH
        end_row()
        row = trim(substr($0, 3, length_ - 2))
        names = substr($0, length_ + 1)
        sub(/ *\*\/$/, "", names)
        next
    }
    /^ \*          / {
        line = substr($0, 3)
        sub(/ *\*\/$/, "", line)
        names = names " " line
        next
    }
    { fail("neither a member nor a section: " $0) }
    END {
        if (shown != wanted) fail(shown + 0 " members are listed, not " wanted)
        printf "%d members in their order\n", shown
        exit bad > 0
    }' tests/tools/members.txt doc/reference/members.md "$@"
}

# In the order of members.txt.
headers="modelgarden tensorfx tfsnippet orbit"
list=
for name in $headers; do
    list="$list include/etude/$name.h"
done
# shellcheck disable=SC2086 # words
check $list

# The first program of a head: its first part, which is the documentation told in C.
for name in $headers; do
    lines=$(awk '/^ \*     #include <stdio.h>/ { code = 1 } /^ \* [^ ]/ && code { exit } code && !/^ \*$/ { n++ } END { print n + 0 }' \
        "include/etude/$name.h")
    [ "$lines" -gt 10 ] && [ "$lines" -lt 40 ] || {
        echo "include/etude/$name.h: its first example has $lines lines" >&2
        exit 1
    }
done

# A fault of each kind is found: SED makes it in HEADER, TEXT is what is said of it.
finds() {
    mkdir -p "$work/include/etude"
    for name in $headers; do
        cp "include/etude/$name.h" "$work/include/etude/"
    done
    sed -i "$2" "$work/include/etude/$1"
    if cmp -s "include/etude/$1" "$work/include/etude/$1"; then
        echo "test_faces: $2 changes nothing" >&2
        exit 1
    fi
    copies=
    for name in $headers; do
        copies="$copies $work/include/etude/$name.h"
    done
    # shellcheck disable=SC2086 # words
    if check $copies >"$work/log" || ! grep -qF "$3" "$work/log"; then
        echo "test_faces: $2: not \"$3\", but:" >&2
        head -5 "$work/log" >&2
        exit 1
    fi
}
finds tfsnippet.h '/^ \*   epoch /d' '"L | attributes | events" stands where "L | attributes | epoch" belongs'
finds tfsnippet.h 's/et_loop_epoch$/et_loop_epochs/' 'members.md does not name et_loop_epochs'
finds tfsnippet.h 's/^ \*   timeit.*et_loop_time_end/ * /' 'are listed, not'
finds orbit.h 's/train(num_steps)/train(steps)/' '"O | method args | train.steps" stands where'
finds tensorfx.h 's/parse(args, parse_job) /parse(parse_job, args) /' '"F | method args | parse.parse_job" stands where'
finds modelgarden.h 's/et_task_step.optimizer,//' 'train_step.optimizer: beside it is nothing'
finds modelgarden.h 's/^ \* Attributes/ * Fields/' 'neither a member nor a section'
