#!/bin/sh
# test_members.sh SOURCE: compares doc/reference/members.md with the documents' members
# (members.txt), the public headers and the tests. Each member has one row; each C name of a row is
# declared in a public header (`et_call`, `ET_NAME`, or `et_struct.field`); each test
# (`tests/dir/file.c:case`) exists. If a member has no C name, its fourth column begins with
# "absent: ". A page with a fault of each kind fails.
set -eu
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$source"

# check PAGE
check() {
    awk '
    function fail(text) { print FILENAME ":" FNR ": " text; bad++ }
    function trim(s) { gsub(/^[ \t]+|[ \t]+$/, "", s); return s }

    # Words of headers; fields as struct.field. Comments are passed over.
    FILENAME ~ /\.h$/ {
        line = $0
        if (comment && sub(/^.*\*\//, "", line)) comment = 0
        if (comment) next
        gsub(/\/\*([^*]|\*+[^*\/])*\*+\//, "", line)
        if (sub(/\/\*.*$/, "", line)) comment = 1
        if (match(line, /struct et_[a-z0-9_]+ *\{/) || match(line, /enum et_[a-z0-9_]+ *\{/)) {
            inside = substr(line, RSTART, RLENGTH)
            sub(/^(struct|enum) /, "", inside); sub(/ *\{$/, "", inside)
        }
        n = split(line, word, /[^A-Za-z0-9_]+/)
        for (i = 1; i <= n; i++) declared[word[i]] = 1
        while (inside != "" && match(line, /[a-z0-9_]+(;|,|\)|\[)/)) {
            declared[inside "." substr(line, RSTART, RLENGTH - 1)] = 1
            line = substr(line, RSTART + RLENGTH)
        }
        if ($0 ~ /^}/) inside = ""
        next
    }

    FILENAME ~ /members\.txt$/ {
        split($0, part, / \| /)
        wanted[part[1] " " part[2] " " part[3]] = 1
        next
    }

    /^## / { document = $2; next }
    /^\| / && !/^\| (member|---)/ {
        n = split($0, cell, / *\| */)
        kind = trim(cell[2]); member = trim(cell[3])
        gsub(/`/, "", member)
        key = document " " kind " " member
        if (!(key in wanted)) fail("no member of the documents: " key)
        if (key in seen) fail("a second row for " key)
        seen[key] = 1
        names = cell[4]; differs = cell[5]; tests = cell[6]
        if (trim(names) == "-") {
            if (differs !~ /^absent: /) fail(key ": no C name, and not said to be absent")
            absent++
            next
        }
        if (!match(names, /`[^`]+`/)) fail(key ": no C name")
        while (match(names, /`[^`]+`/)) {
            name = substr(names, RSTART + 1, RLENGTH - 2)
            names = substr(names, RSTART + RLENGTH)
            if (!(name in declared)) fail(key ": " name " is in no public header")
        }
        if (!match(tests, /`[^`]+`/)) fail(key ": no test")
        while (match(tests, /`[^`]+`/)) {
            test = substr(tests, RSTART + 1, RLENGTH - 2)
            tests = substr(tests, RSTART + RLENGTH)
            colon = index(test, ":")
            if (!colon) { fail(key ": " test " names no case"); continue }
            file = substr(test, 1, colon - 1)
            if (!(file in text)) {
                text[file] = ""
                while ((status = (getline line < file)) > 0) text[file] = text[file] line "\n"
                close(file)
                if (status < 0) text[file] = "none"
            }
            if (text[file] == "none") fail(key ": there is no " file)
            else if (text[file] !~ ("(^|[^A-Za-z0-9_])" substr(test, colon + 1) "[^A-Za-z0-9_]"))
                fail(key ": " test ": no such case")
        }
        rows++
        next
    }
    END {
        for (key in wanted)
            if (!(key in seen)) { print "doc/reference/members.md: no row for " key; bad++ }
        printf "%d members shown, %d absent\n", rows, absent
        exit bad > 0 || rows == 0
    }' include/etude/*.h tests/tools/members.txt "$1"
}

check doc/reference/members.md

# A fault of each kind is found: SED makes it, TEXT is what is said of it.
finds() {
    sed "$1" doc/reference/members.md >"$work/page"
    if cmp -s doc/reference/members.md "$work/page"; then
        echo "test_members: $1 changes nothing" >&2
        exit 1
    fi
    if check "$work/page" >"$work/log" || ! grep -q "$2" "$work/log"; then
        echo "test_members: $1: not \"$2\", but:" >&2
        head -5 "$work/log" >&2
        exit 1
    fi
}

finds '/| epoch |/d' 'no row for L attributes epoch'
finds '/| epoch |/p' 'a second row for L attributes epoch'
finds 's/| epoch |/| epochs |/' 'no member of the documents: L attributes epochs'
finds 's/`et_loop_epoch`/`et_loop_epochs`/' 'et_loop_epochs is in no public header'
finds 's/`et_loop_options.max_epoch`/`et_loop_options.max_epochs`/' 'max_epochs is in no public'
finds 's/`et_loop_epoch`/et_loop_epoch/' 'epoch: no C name'
finds 's/`et_loop_epoch`/-/' 'not said to be absent'
finds 's/| `[^`]*test_train_loop__get_progress`[^|]*|$/| none |/' 'get_eta: no test'
finds 's/:test_train_loop__get_progress`/:test_train_loop__regress`/' 'no such case'
finds 's/:test_train_loop__get_progress`/`/' 'names no case'
finds 's/test_train_loop.c:test_train_loop__get_progress`/test_lop.c:test_train_loop__get_progress`/' 'there is no tests/references/tfsnippet/test_lop.c'

