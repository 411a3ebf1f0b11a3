#!/bin/sh
# test_right_words.sh ETUDE: messages that were once misleading. A row has the exit code, the
# present message, and the command.
set -eu
. "$(dirname "$0")/command.sh"
make_table
awk 'BEGIN { for (i = 0; i < 300; i++) { line = ""; for (k = 0; k <= i % 7; k++)
    line = line sprintf("%c%c ", 97 + (i * 7 + k * 3) % 26, 97 + (i + k * 5) % 26)
    print line } }' >text
small=task.model.embedding_width=32,task.model.encoder.num_layers=1,task.model.decoder.num_layers=1
table='--experiment tabular/mlp --data t.csv --target kind'
says 0 done train a.table $table --steps 5
says 0 done train a.translator --experiment translation/tiny --data text text --vocab-size 60 --steps 1 \
    --set $small,task.train_data.global_batch_size=512
says 0 exported export a.table --output table.safetensors
says 0 exported export a.translator --output translator.safetensors
ln -s elsewhere dangling
echo here >there
ln -s there link

huge=trainer.optimizer_config.learning_rate
huge=$huge.type=constant,$huge.constant.learning_rate=1e6,trainer.loss_upper_bound=2
linear='--experiment tabular/linear --data t.csv --target kind --steps 50'

# Code, text, command: 2 and 3 are of what is asked for, 4 of memory, 5 of the loss.
while IFS='|' read -r code text words; do
    [ -z "$code" ] || says "$code" "$text" $words </dev/null
done <<END
3|this is a tabular model; use .etude predict.|translate a.table
3|this is a tabular model; use .etude predict.|translate table.safetensors
3|attention: a.table is a model of tabular, which has no attention to draw|plot a.table --attention x --output x.svg
3|this is a translation model; use .etude translate.|predict a.translator
3|this is a translation model; use .etude translate.|predict --model-dir translator.safetensors
3|evaluate: no SOURCE and TARGET are given, .* has no validation data|evaluate a.translator
3|explain: this is a translation model; .etude explain. takes tabular models|explain a.translator
3|report: this is a translation model; .etude report. takes tabular models|report translator.safetensors
3|augment: this is a tabular model; .etude augment. takes trans|augment a.table --data text --output b
0|usage: etude translate|translate a.table --help
2|score: a.table is a run, .*to evaluate the run: `etude evaluate a.table`|score a.table
2|alignment-layer 0: layers are counted from 1|translate a.translator --alignments --alignment-layer 0
2|top-p 0: cannot sample|translate a.translator --top-p 0
2|top-k 0: cannot sample|translate a.translator --top-k 0
2|help --man: x: name one command only|help --man train x
2|help --man: x: name one command only|help train --man x
0|^.TH|help --man train
127|launch: cannot start ./nothing: neither a program|launch -n 2 -- ./nothing
126|launch: cannot start ./text: not a program|launch -n 2 -- ./text
3|--init: a.translator is a run of translation/tiny, a task of translation|train b $table --init a.translator
3|--init: translator.safetensors is a model of translation/tiny, a task of tran|train b $table --init translator.safetensors
0|^done|train b $table --steps 1 --init table.safetensors
4|memory 100 kB is too little; the smallest possible batch, 8, needs|train c $table --memory 100k
4|too little; the smallest possible batch, [0-9]*, needs [0-9.]* MB|train c --experiment translation/tiny --data text text --vocab-size 60 --memory 1M
5|nothing was saved yet: with --accept-changes the run starts again|train d $linear --set $huge
5|with --accept-changes the run resumes from its last checkpoint|train e $linear --set $huge,trainer.checkpoint_interval=1
3|dangling exists, a symbolic link: add --force|init dangling
3|link exists, a symbolic link: add --force|init link
3|a.table is a directory, not a file; name a regular file|init a.table
2|watch: takes one directory, but found a.table and a.translator|watch a.table a.translator
0|written: link, in place of the symbolic link; the file that the link pointed to is unchanged|init link --force
END
[ "$(cat there)" = here ] || fail 'init --force wrote through a link'
[ ! -e elsewhere ] || fail 'init wrote through a link that leads nowhere'

# As much memory as is said to be needed is enough.
says 4 'too little' train m $table --memory 100k --steps 1
need=$(sed -n 's/.*needs \([0-9]*\) kB$/\1/p' out)
says 0 '^done' train m $table --memory "${need}k" --steps 1

# Which rank was killed, and not who has lost it.
(
    for i in $(seq 1200); do
        sleep 0.1
        set -- r/checkpoints/ckpt-*.safetensors # the newest alone is kept
        [ -e "$1" ] || continue
        for process in /proc/[0-9]*; do
            tr '\0' '\n' <"$process/environ" 2>/dev/null | grep -qx "ETUDE_RANK=2/4" || continue
            [ "$(readlink "$process/cwd")" != "$PWD" ] || kill -9 "${process#/proc/}"
        done
        break
    done
) &
says 137 'rank 2 of 4 was killed by signal 9' launch -n 4 -- train r $table --steps 1000000 \
    --set runtime.data_shards=4,trainer.checkpoint_interval=20,trainer.early_stopping.patience=0
grep -q 'lost rank . of 4, which has ended (the first rank that failed says why)' out ||
    fail 'the others do not say that they have lost a rank'
wait
