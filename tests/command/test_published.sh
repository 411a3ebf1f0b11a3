#!/bin/sh
# test_published.sh ETUDE MAKE_MARIAN: commands that use a trained model take the folder of a published
# one as they take its import, and write nothing there; a run that continues from such a folder keeps
# its lexicon.
set -u
. "$(dirname "$0")/command.sh"
make=$2
"$make" . || fail "no folder of transformers"
"$make" . bergamot || fail "no folder of Bergamot"
printf 'a b c\nh g\n\nd e f a\n' >in.txt
printf 'c b a\ng h\n\na f e d\n' >out.txt
files() {
    find hf bergamot -type f -exec cksum {} + | sort -k 3
}
files >before

for folder in hf bergamot; do
    says 0 imported import $folder --output made.safetensors
    "$etude" translate made.safetensors <in.txt >expected 2>said || fail "the import"
    [ -s expected ] || fail "$folder translates nothing"
    for name in $folder "$folder/" "./$folder"; do
        "$etude" translate $name <in.txt >got 2>said || fail "translate $name"
        cmp -s got expected || fail "$name translates otherwise"
    done
    "$etude" translate $folder $folder <in.txt >got 2>said || fail "an ensemble"
    "$etude" evaluate made.safetensors in.txt out.txt 2>said | sed 1d >expected
    "$etude" evaluate $folder in.txt out.txt 2>said | sed 1d >got
    [ -s got ] && cmp -s got expected || fail "evaluate $folder"
    texts='task.validation_data.source_path=in.txt,task.validation_data.target_path=out.txt'
    says 0 "^checkpoint $folder, step 0" evaluate $folder \
        --set "task.train_data.source_path=in.txt,task.train_data.target_path=out.txt,$texts"
    grep -q '^loss ' out || fail "no loss of $folder"
    for name in $folder made.safetensors; do
        says 0 '^augmented ' augment $name --data in.txt --output one.$name.a two.$name.a --max-ratio 0
    done
    cmp -s one.$folder.a one.made.safetensors.a && [ -s two.$folder.a ] || fail "augment $folder"
    says 0 "exported $folder, step 0" export $folder --output again.safetensors
    cmp -s again.safetensors made.safetensors || fail "another export of $folder"
    tells 0 '' plot $folder --attention 'a b' --output attention.svg
    tells 0 '' compare --translations $folder made.safetensors --source in.txt --reference out.txt
    grep -q '^equal' out || fail "two results of $folder: $(cat out)"
    says 3 "$folder is a published model with one set of weights: leave out checkpoint best" \
        translate $folder --checkpoint best in.txt
    says 3 "$folder.*: choose a new directory (--init $folder begins with its weights)" \
        train $folder --data in.txt out.txt --steps 1
done
says 3 '^etude: 0 of 4 pairs kept' augment bergamot --data in.txt --output kept.a kept.b --min-score 0
says 3 'other work: shortlist was true, is false' augment bergamot --data in.txt --output kept.a kept.b \
    --shortlist off
says 0 'published model with one set of weights; live weights are ignored' \
    translate hf --live-weights in.txt
says 0 'hf does not name its languages; `etude import hf --languages' translate hf in.txt
! grep -q languages said || fail "a model of Bergamot needs no languages"
says 0 'exported' export bergamot --format bergamot --output again
files | cmp -s - before || fail "a folder has changed: $(files | diff - before)"

# What can not be used says so as the import does.
mkdir less && cp bergamot/vocab* less
head -c 9000 bergamot/model* >less/model.xxyy.intgemm.alphas.bin
"$etude" import less --output x.safetensors 2>expected && fail "a model that is cut"
"$etude" translate less in.txt 2>got && fail "a model that is cut"
cmp -s got expected || fail "two messages: $(cat got expected)"
says 3 'in.txt is a file; name the folder of a published model, or NAME.zip' import in.txt --output x
says 0 imported import hf --output made
says 3 'made is a run; use it without `etude import`' import made --output x

# The lexicon goes from the folder to the run, to its export, to the next run, and into a folder.
data='--data in.txt out.txt --steps 2'
cp bergamot/lex* lexicon
# shellcheck disable=SC2086 # words
says 0 '^done ' train first --init bergamot $data
grep -q '^punctuation' out && fail "a model of Bergamot reads plain text"
cmp -s first/lexicon.bin lexicon || fail "first has no lexicon"
says 0 exported export first --output first.safetensors
says 0 exported export first --output first.export
for from in first first.safetensors first.export; do
    rm -rf second
    # shellcheck disable=SC2086
    says 0 '^done ' train second --init $from $data
    cmp -s second/lexicon.bin lexicon || fail "no lexicon from $from"
done
# shellcheck disable=SC2086
says 0 '^done ' train second --init first $data --steps 3 --accept-changes
says 0 exported export second --format bergamot --data in.txt out.txt --output fitted
head -3 out.txt >short.txt
says 3 'short.txt ends after 3 lines, but in.txt has more' export second --format bergamot \
    --data in.txt short.txt --output unequal
[ "$(wc -c <fitted/lex.50.50.xxyy.s2t.bin)" -ge "$(wc -c <lexicon)" ] || fail "words are lost"
mkdir bare && mv second/lexicon.bin bare/
says 0 exported export second --format bergamot --data in.txt out.txt --output counted
[ "$(wc -c <counted/lex.50.50.xxyy.s2t.bin)" -lt "$(wc -c <lexicon)" ] || fail "nothing to lose"
mv bare/lexicon.bin second/
# A trained model considers all tokens, unless it is asked for.
"$etude" translate second --shortlist off <in.txt >all 2>said || fail "all tokens"
"$etude" translate second <in.txt >got 2>said || fail "the default"
cmp -s got all || fail "the shortlist of a trained model"
"$etude" translate second --shortlist on <in.txt >got 2>said || fail "the shortlist"
mkdir plain
cp first/source_vocabulary.model plain/s.model
cp first/target_vocabulary.model plain/t.model
cp lexicon plain/lexicon.bin
for vocabularies in 'plain/s.model plain/t.model' \
    'first/source_vocabulary.model second/target_vocabulary.model'; do
    rm -rf other
    # shellcheck disable=SC2086
    says 0 '^done ' train other --init bergamot $data --vocabs $vocabularies
    [ ! -e other/lexicon.bin ] || fail "a lexicon of other vocabularies: $vocabularies"
done
