#!/bin/sh
# test_score.sh ETUDE: scores of one output and of several, and whether they differ.
set -eu
. "$(dirname "$0")/command.sh"

# 60 lines of 4 to 12 words; a, b and c have more and more of them wrong.
awk 'BEGIN {
    split("the a dog cat runs sees tree house red blue small big", word)
    for (i = 0; i < 60; i++) {
        ref = a = b = c = ""
        for (k = 0; k < 4 + i * 5 % 9; k++) {
            w = word[(i * 7 + k * 5 + int(i / 3) * k) % 12 + 1]
            ref = ref w " "
            a = a ((i * 3 + k) % 11 ? w : "x") " "
            b = b ((i * 5 + k) % 9 ? w : "x") " "
            c = c ((i + k) % 4 ? w : "x") " "
        }
        print ref >"ref"; print a >"a"; print b >"b"; print c >"c"
    }
}'

# One output: a line for each metric, in the order asked for.
says 0 '^BLEU|nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:.* = [0-9.]* .*BP = ' score ref a
[ "$(wc -l <out)" = 2 ] || fail "BLEU and chrF2"
cp out usual
says 0 '^TER|nrefs:1|case:lc|tok:tercom|norm:no|punct:yes|asian:no|version:etude-[0-9.]* = [0-9.]*$' \
    score ref a --metrics ter
[ "$(wc -l <out)" = 1 ] || fail "TER alone"
says 0 '^TER' score ref --metrics ter,chrf --metrics bleu <a
[ "$(sed 's/|.*//' out | tr '\n' ' ')" = "TER chrF2 BLEU " ] || fail "the order of metrics"
sed 1d out | sort >found
sort usual | cmp - found || fail "--metrics changes scores"
tr a-z A-Z <a >loud
says 0 '^TER|nrefs:1|case:mixed|.* = 9[0-9.]*$\|= 1[0-9][0-9]' score ref loud --metrics ter --ter-case-sensitive
"$etude" score ref a --metrics ter >quiet
says 0 '^TER' score ref loud --metrics ter
cmp out quiet || fail "TER sees case"

# Several outputs: a table, then the signatures.
says 0 '^output  *BLEU  *chrF2  *TER$' score ref a b c --metrics bleu,chrf,ter
[ "$(awk 'NR > 1 && NR < 5 { printf "%s ", $1 }' out)" = "a b c " ] || fail "rows"
[ "$(grep -c '^BLEU|nrefs:1|case\|^chrF2|nrefs:1|case\|^TER|nrefs:1|case' out)" = 3 ] || fail "signatures"
one=$("$etude" score ref b --metrics ter | sed 's/.* = //')
[ "$(awk 'NR == 3 { print $4 }' out)" = "$one" ] || fail "a table has other scores"

# Significance: the first is the one that others are compared with.
says 0 '^BLEU|nrefs:1|bs:1000|seed:12345|case:mixed|eff:no|' score ref a b c --significance
[ "$(grep -c '^output  *score  *mean  *+-  *p$' out)" = 2 ] || fail "heads"
awk '$1 == "c" && $5 > 0.01 { exit 1 } $1 == "a" && NF != 4 { exit 1 }' out || fail "p-values"
cp out first
"$etude" score ref a b c --significance | cmp - first || fail "not the same twice"
"$etude" score ref a b c --significance --samples 1000 --seed 12345 | cmp - first || fail "defaults"
says 0 '|bs:50|seed:3|' score ref a b --significance --samples 50 --seed 3 --width 6
! cmp -s out first || fail "another seed changes nothing"
says 0 '^standard input  *[0-9.]*  *[0-9.]*  *[0-9.]*$' score ref --significance <a
says 0 ' 1.0000$' score ref a a --significance

# The same as JSON.
says 0 '"ter_score": ' score ref a b --metrics bleu,ter --significance --json
tr -d ' \n' <out >flat
for key in '"signatures":{"sacrebleu_score":"nrefs:1|bs:1000' '"outputs":\[{"output":"a","values":{' \
    '"means":{"sacrebleu_score":' '"intervals":{"sacrebleu_score":' '"p_values":{"sacrebleu_score":'; do
    grep -q "$key" flat || fail "JSON has no $key"
done
[ "$(grep -o p_values flat | wc -l)" = 1 ] || fail "p-values of the first output"
says 0 '"chrf_score"' score ref a b --json
! grep -q means out || fail "means without --significance"

# What cannot be.
head -59 b >short
says 3 'short has 59 lines' score ref a short
says 2 '^.*--metrics meteor: choose bleu, chrf and ter' score ref a --metrics meteor
says 2 'ter is given twice' score ref a --metrics ter,ter
says 2 'samples: only with --significance' score ref a b --samples 10
says 2 'seed: only with --significance' score ref a b --seed 10
says 2 'samples' score ref a b --significance --samples 0
says 2 'give a file of references' score
says 3 'nowhere' score ref a nowhere
: >none
says 3 'none' score none none --significance
