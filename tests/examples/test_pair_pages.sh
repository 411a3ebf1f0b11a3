#!/bin/sh
# test_pair_pages.sh PROGRAM: pair-pages on small pages that the test makes, good and bad.
set -eu
pair_pages=$1
work=$(mktemp -d "$PWD/pair_pages.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "test_pair_pages: $*" >&2
    cat said complaints >&2 || true
    exit 1
}
# page FILE: a page of the lines on standard input, below en/ or de/.
page() {
    mkdir -p "$(dirname "$1")"
    { echo '<html><head><title>T</title></head><body>'; cat; echo '</body></html>'; } >"$1"
}
# run EXIT: pairs en/ and de/ into out/, and must exit so.
run() {
    status=0
    rm -rf out
    mkdir out
    "$pair_pages" en de en de out >said 2>complaints || status=$?
    [ "$status" = "$1" ] || fail "$2: exit $status, wanted $1"
}
# expect WHAT: the pairs of all parts, source TAB target, are those on standard input.
expect() {
    for part in train valid test; do
        paste out/$part.en out/$part.de
    done | LC_ALL=C sort >found
    LC_ALL=C sort >wanted
    cmp -s wanted found || {
        diff wanted found >&2 || true
        fail "$1"
    }
}
fresh() {
    rm -rf en de
    mkdir en de
}

# Entities, nested tags, white space of every kind, line breaks, comments, missing ids.
fresh
page en/a/one.html <<'X'
<h1 id="hd_1"><a name="x"></a>Saving &amp; loading</h1>
<p id="par_1" class="paragraph">  Choose <span class="emph">File&nbsp;-
	<b>Save</b></span><br>and&#160;&#8239;wait. </p>
<p>Without an id nobody knows its translation.</p>
<p id="">An empty id is none at all.</p>
<p id="par_2">Only English has this one.</p>
<p id="par_3">Click <!-- not this -->OK&#8203; now&shy;adays.<script>var p = "none of this";</script></p>
<p id="par_4" class="code">Print "this is code"</p>
<p id="par_5">First of two with an id.</p><p id="par_5">Second of two with an id.</p>
<p id="par_6">   </p>
X
page de/a/one.html <<'X'
<p id="par_5">Erstes von zweien mit Kennung.</p><p id="par_5">Zweites von zweien mit Kennung.</p>
<h2 id="hd_1">Speichern &#38; Laden</h2>
<p id="par_1">W&auml;hlen Sie <i><b>Datei - Speichern</b> und</i> warten.</p>
<p>Ohne Kennung wei&szlig; das niemand.</p>
<p id="">Leer ist keine Kennung.</p>
<p id="par_3">Klicken Sie heutzutage auf „OK“.</p>
<p id="par_4" class="code">Print "das ist Code"</p>
<p id="par_6">Hier steht etwas.</p>
<p id="par_7">Nur Deutsch hat diesen.</p>
X
run 0 entities
expect entities <<'X'
Choose File - Save and wait.	Wählen Sie Datei - Speichern und warten.
Click OK nowadays.	Klicken Sie heutzutage auf „OK“.
First of two with an id.	Erstes von zweien mit Kennung.
Saving & loading	Speichern & Laden
X

# A text for each system: the default's.
fresh
page en/one.html <<'X'
<p id="par_1">Press <span class="switchinline"><span hidden="true" class="MAC">Command</span><span
 hidden="true" id="defaulttext_1">Ctrl</span></span>+C to copy.</p>
<p id="par_2">Open <span class="switch"> <b>this</b> <i>that</i></span> file first.</p>
X
page de/one.html <<'X'
<p id="par_1">Zum Kopieren <span class="switchinline"><span hidden="true" class="MAC">Befehl</span><span
 hidden="true" id="defaulttext_1">Strg</span></span>+C drücken.</p>
<p id="par_2">Zuerst <span class="switch"><b>diese</b><i>jene</i></span> Datei öffnen.</p>
X
run 0 switches
expect switches <<'X'
Open this file first.	Zuerst diese Datei öffnen.
Press Ctrl+C to copy.	Zum Kopieren Strg+C drücken.
X

# Pages pair by path; other files, and pages of one side, do not count.
fresh
echo '<p id="par_1">One page in English.</p>' | page en/x/same.html
echo '<p id="par_1">Eine Seite auf Deutsch.</p>' | page de/x/same.html
echo '<p id="par_1">Another folder than there.</p>' | page en/y/other.html
echo '<p id="par_1">Ein anderer Ordner als dort.</p>' | page de/z/other.html
echo '<p id="par_1">This is no page.</p>' | page en/x/note.txt
echo '<p id="par_1">Das ist keine Seite.</p>' | page de/x/note.txt
run 0 paths
expect paths <<'X'
One page in English.	Eine Seite auf Deutsch.
X
grep -q '^ *1 of them not translated' said || fail "the page without translation is not counted"

# What teaches nothing, and duplicates.
fresh
long=$(awk 'BEGIN { for (i = 0; i < 61; i++) printf "word%c ", 97 + i % 26 }')
lang=$(awk 'BEGIN { for (i = 0; i < 61; i++) printf "wort%c ", 97 + i % 26 }')
page en/one.html <<X
<p id="a">This stays as it is.</p>
<p id="b">Tools - Options - Writer</p>
<p id="c">Scale</p>
<p id="d">1 + 2 = 3 (sum)</p>
<p id="i">OK</p>
<p id="e">Short and sweet.</p>
<p id="f">$long</p>
<p id="g">This stays as it is.</p>
<p id="h">This stays as it is.</p>
X
page de/one.html <<X
<p id="a">Das bleibt, wie es ist.</p>
<p id="b">Tools - Options - Writer</p>
<p id="c">Maßstab</p>
<p id="d">1 + 2 = 3 (Summe)</p>
<p id="i">Ja</p>
<p id="e">Hier steht so viel mehr als auf der anderen Seite, dass es keine Übersetzung sein kann.</p>
<p id="f">$lang</p>
<p id="g">Das bleibt, wie es ist.</p>
<p id="h">Dies bleibt so.</p>
X
run 0 cleaning
expect cleaning <<'X'
Scale	Maßstab
This stays as it is.	Das bleibt, wie es ist.
This stays as it is.	Dies bleibt so.
X
for count in '9 paragraphs' '1 copies' '2 fragments' '1 lopsided' '1 long' '1 duplicates'; do
    grep -q "$count" said || fail "cleaning: no '$count'"
done

# Damaged HTML is read as far as it goes; what is not UTF-8 is named and left out.
fresh
page en/bad.html <<'X'
<p id="par_1">Never <b>closed <i>anywhere &unknown; <<< here
<p id="par_2" id="par_9" class=>Twice an id.</p></p></b></table>
<p id="par_3">Cut in the mid<
X
page de/bad.html <<'X'
<p id="par_1">Nirgends geschlossen
<p id="par_2">Zweimal eine Kennung.
<p id="par_3">In der Mitte abgeschnitten
X
printf '<p id="par_1">Not \377 UTF-8 at all.</p>' | page en/latin.html
echo '<p id="par_1">Gar kein UTF-8.</p>' | page de/latin.html
printf '<p id="par_1">A zero \000 inside.</p>' | page en/zero.html
echo '<p id="par_1">Eine Null darin.</p>' | page de/zero.html
: >en/empty.html
: >de/empty.html
awk 'BEGIN { for (i = 0; i < 100000; i++) printf "<b>"; print "<p id=\"par_1\">Nested too deep.</p>" }' \
    >en/deep.html
echo '<p id="par_1">Zu tief verschachtelt.</p>' >de/deep.html
run 0 damaged
grep -q 'Zweimal eine Kennung' out/*.de || fail "the paragraph after unclosed tags is lost"
grep -q 'en/latin.html: not UTF-8, skipped' complaints || fail "latin.html is not named"
grep -q 'en/zero.html: not UTF-8, skipped' complaints || fail "zero.html is not named"
! grep -q 'UTF-8 at all' out/*.en || fail "the bad page is not left out"

# Whole pages are held out, the same ones each time, and nothing of theirs is trained on.
fresh
i=0
while [ $i -lt 300 ]; do
    echo "<p id='a'>The page of number n$i.</p><p id='b'>It says what n$i means.</p>
<p id='c'>All pages say this.</p>" >en/$i.html
    echo "<p id='a'>Die Seite der Nummer n$i.</p><p id='b'>Sie sagt, was n$i bedeutet.</p>
<p id='c'>Das sagen alle Seiten.</p>" >de/$i.html
    i=$((i + 1))
done
run 0 hold-out
cp -r out first
run 0 hold-out
diff -r first out >complaints || fail "not the same text twice"
for part in train valid test; do
    [ -s out/$part.en ] || fail "$part is empty"
    [ "$(wc -l <out/$part.en)" = "$(wc -l <out/$part.de)" ] || fail "$part: lines of its sides differ"
    grep -o 'n[0-9]*[0-9]' out/$part.en | sort -u >numbers.$part
done
[ "$(sort numbers.* | uniq -d | grep -c '')" = 0 ] || fail "a page stands in two parts"
[ "$(cat out/*.en | grep -c 'All pages')" = 1 ] || fail "a line of training is held out too"
grep -q 'All pages' out/train.en || fail "the shared line is not trained on"
held=$(cat out/valid.en out/test.en | wc -l)
[ "$held" -ge 6 ] && [ "$held" -le 60 ] || fail "$held of 600 lines are held out"

# No pairs, no pages, no folders: one line that says so, and no files.
fresh
echo '<p id="par_1">No such id there.</p>' | page en/one.html
echo '<p id="par_2">Keine solche Kennung dort.</p>' | page de/one.html
run 3 "no pairs"
grep -q 'no pairs: 1 pages below en, 0 paragraphs' complaints || fail "no pairs: not said"
[ -z "$(ls out)" ] || fail "no pairs: files are there"
rm -rf en/*
run 3 "no pages"
grep -q 'en: no .html file' complaints || fail "no pages: not said"
rm -rf de
run 1 "other users can use this folder, so it cannot hold keys; remove it, set TMPDIR, or name a folder of \`etude keys DIR\`: \"job\": {\"keys\": \"DIR\"}"
grep -q 'de: No such file' complaints || fail "no folder: not said"
"$pair_pages" en >said 2>complaints && fail "one argument passes"
grep -q '^usage:' complaints || fail "no usage"

# A disk without room: no file gets its name.
fresh
echo '<p id="par_1">One page in English.</p>' | page en/same.html
echo '<p id="par_1">Eine Seite auf Deutsch.</p>' | page de/same.html
rm -rf out
mkdir out
ln -s /dev/full out/train.de.tmp
! "$pair_pages" en de en de out >said 2>complaints || fail "a full disk passes"
grep -q 'out/train.de.tmp: No space left' complaints || fail "full disk: not said"
[ -z "$(find out -name '*.en' -o -name '*.de')" ] || fail "full disk: files got their names"
echo "pair-pages: entities, switches, paths, cleaning, damage, hold-out, failures"
