#!/bin/sh
# test_published.sh ETUDE MAKE_MARIAN: commands that use a trained model take the folder of a published
# one as they take its import, and write nothing there.
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
