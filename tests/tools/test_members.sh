#!/bin/sh
# test_members.sh SOURCE: doc/members.md against the documents' members (members.txt), the public
# headers and the tests. Each member has one row; each C name of a row is declared in a public
# header (`et_call`, `ET_NAME`, or `et_struct.field`); each test (`tests/dir/file.c:case`) is there.
# A member without a C name says so: its fourth column begins with "absent: ".
set -eu
source=$1
cd "$source"

awk '
    function fail(text) { print FILENAME ":" FNR ": " text; bad++ }
    function trim(s) { gsub(/^[ \t]+|[ \t]+$/, "", s); return s }

    # Words of headers; fields as struct.field. Comments are passed over.
    FILENAME ~ /\.h$/ {
        line = $0
        if (comment && sub(/^.*\*\//, "", line)) comment = 0
        if (comment) next
        gsub(/\/\*[^*]*\*\//, "", line)
        if (sub(/\/\*.*$/, "", line)) comment = 1
        if (match(line, /struct et_[a-z0-9_]+ *\{/) || match(line, /enum et_[a-z0-9_]+ *\{/)) {
            inside = substr(line, RSTART, RLENGTH)
            sub(/^(struct|enum) /, "", inside); sub(/ *\{$/, "", inside)
        }
        n = split(line, word, /[^A-Za-z0-9_]+/)
        for (i = 1; i <= n; i++) {
            declared[word[i]] = 1
            if (inside != "") declared[inside "." word[i]] = 1
        }
        if (line ~ /^}/) inside = ""
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
            file = colon ? substr(test, 1, colon - 1) : test
            if (!(file in text)) {
                text[file] = ""
                while ((status = (getline line < file)) > 0) text[file] = text[file] line "\n"
                close(file)
                if (status < 0) text[file] = "none"
            }
            if (text[file] == "none") fail(key ": there is no " file)
            else if (colon && text[file] !~ ("(^|[^A-Za-z0-9_])" substr(test, colon + 1) "[^A-Za-z0-9_]"))
                fail(key ": " test ": no such case")
        }
        rows++
        next
    }
    END {
        for (key in wanted)
            if (!(key in seen)) { print "doc/members.md: no row for " key; bad++ }
        printf "%d members shown, %d absent\n", rows, absent
        exit bad > 0 || rows == 0
    }' include/etude/*.h tests/tools/members.txt doc/members.md
