# What the tests of the demos share: made packages of help pages, and an apt-get that has them. The script
# that sources it is in its own folder, $work, and has set demo.
# shellcheck shell=sh disable=SC2154

fail() {
    echo "${0##*/}: $*" >&2
    cat said shown >&2 || true
    exit 1
}
# run EXIT WHAT [WORDS]: runs $demo, which must exit so.
run() {
    wanted=$1 what=$2
    shift 2
    status=0
    PATH=$work/bin:$PATH "$demo" "$@" >shown 2>said </dev/null || status=$?
    [ "$status" = "$wanted" ] || fail "$what: exit $status, wanted $wanted"
}

# apt-get fails as without a network until there are packages, and notes its calls.
mkdir bin
cat >bin/apt-get <<X
#!/bin/sh
echo "\$*" >>$work/calls
case "\$*" in
*" download "*) cp $work/packages/*.deb . 2>/dev/null || { echo "E: no network"; exit 100; } ;;
esac
X
chmod +x bin/apt-get
# make_packages REGION WORDS SENTENCE: two packages of 400 pages of three sentences from a small stock of
# words, in English and in another language: six adjectives, ";" and six nouns, and where two of both are.
make_packages() {
    for language in en-US "$1"; do
        root=package.$language
        pages=$root/usr/share/libreoffice/help/$language/text
        mkdir -p "$root/DEBIAN" "$pages"
        name=libreoffice-help-$(echo "$language" | tr '[:upper:]' '[:lower:]')
        printf 'Package: %s\nVersion: 1\nArchitecture: all\nMaintainer: none <none@example.org>\nDescription: pages\n' \
            "$name" >"$root/DEBIAN/control"
        words="red blue small old new empty;table page cell list formula file" sentence='The %s is now before the %s.'
        [ "$language" = en-US ] || words=$2 sentence=$3
        awk -v words="$words" -v sentence="$sentence" -v pages="$pages" 'BEGIN {
            split(words, half, ";")
            split(half[1], adjective, " ")
            split(half[2], noun, " ")
            for (i = 0; i < 400; i++) {
                file = pages "/" i ".html"
                for (k = 0; k < 3; k++) {
                    n = i * 3 + k
                    a = adjective[n % 6 + 1] " " noun[int(n / 6) % 6 + 1]
                    b = adjective[int(n / 36) % 6 + 1] " " noun[int(n / 216) % 6 + 1]
                    printf "<p id=\"par_" k "\">" sentence "</p>\n", a, b >file
                }
                close(file)
            }
        }'
        mkdir -p packages
        dpkg-deb --build --root-owner-group -Znone "$root" packages/"${name}"_1_all.deb >/dev/null
    done
}

# again: the same command once more does nothing twice, and shows the same.
again() {
    cp shown before
    rm calls
    run 0 "second run"
    [ ! -e calls ] || fail "second run: downloads again"
    cmp -s shown before || fail "second run: shows something else"
    ! grep -q '^step ' said || fail "second run: trains again"
}

# interrupt NAME RUN [WORDS]: ends the demo, which "make NAME" starts, after the first checkpoint of RUN.
# Fails if it was not saved; 1: it was trained before.
interrupt() {
    name=$1 run=$2
    shift 2
    PATH=$work/bin:$PATH setsid sh -c 'echo $$ >group; exec "$0" "$@"' "$demo" "$@" >shown 2>said </dev/null &
    waited=0
    until ls "$run"/checkpoints/ckpt-* >/dev/null 2>&1 || [ -e made/trained ]; do
        sleep 0.1
        waited=$((waited + 1))
        [ $waited -lt 3000 ] || fail "interrupted run: no checkpoint after five minutes"
    done
    kill -INT -"$(cat group)" 2>/dev/null || : # where it is at its end already
    interrupted=0
    wait $! || interrupted=$?
    if [ -e made/trained ]; then
        echo "SKIPPED: interrupt: trained before it was interrupted"
        return 1
    fi
    [ "$interrupted" = 75 ] || fail "interrupted run: exit $interrupted, wanted 75"
    grep -q "make $name. resumes" said || fail "interrupted run: does not say how to go on"
}
