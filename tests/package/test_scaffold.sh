#!/bin/sh
# test_scaffold.sh BUILD CMAKE CC: the projects that `scaffold` writes are built against an
# installed library, train, resume, and predict, started directly and by `tfx`.
set -eu
build=$1 cmake=$2 cc=$3
work=$(mktemp -d "$PWD/scaffold.XXXXXX")
trap 'rm -rf "$work"' EXIT

fail() {
    echo "test_scaffold: $*" >&2
    [ ! -f "$work/log" ] || tail -20 "$work/log" >&2
    exit 1
}

"$cmake" --install "$build" --prefix "$work/prefix" >"$work/log" 2>&1 || fail "install"
etude=$work/prefix/bin/etude
cd "$work"
[ -x "$etude" ] || fail "the command is not installed"
lib=$(dirname "$(find "$work/prefix" -name libetude.so)")
LD_LIBRARY_PATH=$lib
export LD_LIBRARY_PATH

# says CODE TEXT COMMAND...: it ends with CODE, and TEXT is in what it prints.
says() {
    code=$1 text=$2 got=0
    shift 2
    "$@" >log 2>&1 || got=$?
    [ "$got" = "$code" ] && grep -q -e "$text" log || fail "$*: exit code $got, not $code with: $text"
}

# Two kinds of points, told apart by the sum of two numbers.
awk 'BEGIN { for (i = 0; i < 400; i++) { x = (i * 37 % 101) / 100; y = (i * 53 % 97) / 96
    print x "," y "," (x + y > 1 ? "above" : "below") } }' >all.csv
head -320 all.csv >train.csv
tail -80 all.csv >eval.csv
cut -d, -f1-2 eval.csv >rows.csv
printf 'fields:\n- {name: x, type: real}\n- {name: y, type: real}\n- {name: side, type: discrete}\n' \
    >schema.yaml
echo '{"x": {"min": 0, "max": 1}, "y": {"min": 0, "max": 1}, "side": {"entries": ["above", "below"]}}' \
    >metadata.json
cat >features.yaml <<END
features:
  - {name: X, type: concat, features: [{name: x, type: scale}, {name: y, type: scale}]}
  - {name: Y, type: target, fields: side}
END
data="--data-schema schema.yaml --data-metadata metadata.json --data-features features.yaml \
    --data-train train.csv --data-eval eval.csv"

# right FILE: how many of the rows' labels are right.
right() {
    awk -F '[ ,"]+' -v column="$2" 'NR == FNR { label[NR] = $column; next }
        { n += label[FNR] == $3 } END { print n + 0 }' "$1" eval.csv
}

for model in custom feed_forward; do
    "$etude" scaffold --name points_$model --model $model >log 2>&1 || fail "scaffold $model"
    "$cmake" -S points_$model -B points_$model/build -DCMAKE_PREFIX_PATH="$work/prefix" \
        -DCMAKE_C_COMPILER="$cc" -DCMAKE_C_FLAGS="-Wall -Wextra -Werror -Wno-unused-parameter" \
        >log 2>&1 && "$cmake" --build points_$model/build >>log 2>&1 || fail "$model does not build"
    program=./points_$model/build/points_$model
    says 0 'hidden-layers:N units' $program --help
    says 1 'data-train is missing' $program --job-dir nothing
    says 1 'Nearest: --max-steps' $program --max-step 3
    # shellcheck disable=SC2086 # flags are words
    {
        says 0 'Global steps: 300; .*Loss: ' $program $data --job-dir job_$model --max-steps 300 \
            --hidden-layers:1 16 --learning-rate 0.1 --log-interval-steps 100
        says 0 'Global steps: 300; resuming' "$etude" tfx train --module $program \
            --output job_$model $data --max-steps 400 --hidden-layers:1 16 --learning-rate 0.1
        says 0 'logits/weight: /job:master/task:0$' $program $data --job-dir placed --max-steps 1 \
            --log-device-placement
        rm -r placed
        says 1 'not an integer' "$etude" tfx train --module $program $data --max-steps many
    }
    $program predict job_$model/model <rows.csv >predicted 2>log || fail "$model predicts nothing"
    [ "$(right predicted 1)" -ge 72 ] || fail "$model: $(right predicted 1) of 80 are right"
done

cat >role <<'END'
#!/bin/sh
case $TF_CONFIG in
*'"type":"master"'* | *'"type": "master"'*) echo master "$@" ;;
*) sleep 1000 ;;
esac
END
chmod +x role
# Master, parameter server and worker, each the program, where the build has ZeroMQ.
if "$etude" keys keys >log 2>&1; then
    # shellcheck disable=SC2086 # flags are words
    says 0 'roles/model: step' "$etude" tfx train --module ./points_feed_forward/build/points_feed_forward \
        --distributed --output roles $data --max-steps 300 --hidden-layers:1 16 --learning-rate 0.1
    grep -q 'worker:0: Run: .* sec; Steps: 1; Duration: ' log || fail "roles: the worker says nothing"
    grep -q 'master:0: Global steps: 300; Duration: ' log || fail "roles: the master says nothing"
    grep -q '"\?worker"\?: \["127.0.0.1:1"\]' roles/job.yaml || fail "roles: no cluster in job.yaml"
    [ ! -e "$(sed -n 's/.*keys: //p' roles/job.yaml)" ] || fail "roles: keys are left"
    "$etude" tfx predict --model roles/model --input rows.csv >predicted 2>log || fail "roles: predict"
    [ "$(right predicted 4)" -ge 72 ] || fail "roles: $(right predicted 4) of 80 are right"
    says 1 'points_feed_forward: ' "$etude" tfx train --distributed --output roles/x \
        --module ./points_feed_forward/build/points_feed_forward
    says 3 'nowhere: No such file' "$etude" tfx train --module ./nowhere --distributed
    [ "$(grep -c nowhere log)" = 1 ] || fail "nowhere: said more than once"
    says 0 '^master --job-dir /c$' "$etude" tfx train --distributed --module ./role --output /c
fi

# The ready model needs no program to predict with; one's own does, and is told so.
"$etude" tfx predict --model job_feed_forward/model --input rows.csv >predicted 2>log ||
    fail "tfx predict"
[ "$(right predicted 4)" -ge 72 ] || fail "tfx predict: $(right predicted 4) of 80 are right"
says 3 'a model of builder points_custom; predict with the program' \
    "$etude" predict --model-dir job_custom/model --input rows.csv
[ "$(grep -o 'builder\.yaml' log | wc -l)" = 1 ] || fail "the path is said more than once"
says 3 'job_custom: a job of another program, not a run of etude: use that program' "$etude" evaluate job_custom
says 3 'use that program, or its export, the folder model in the job, with `etude predict`' "$etude" export job_custom --output x.st

says 2 'module is missing' "$etude" tfx train
says 3 'nowhere: No such file' "$etude" tfx train --module ./nowhere
says 0 '^--job-dir '"$PWD"'/output$' "$etude" tfx train --module echo
says 0 '^--a 1 b --job-dir /c$' "$etude" tfx train --a 1 --module=echo b --output /c
printf '#!/bin/sh\necho seven\nexit 7\n' >seven
chmod +x seven
says 7 seven "$etude" tfx train --module ./seven
# A cluster that the environment names is none of a job that is started here.
printf '#!/bin/sh\necho "$TF_CONFIG"\n' >where
chmod +x where
says 0 '^{"task": {"type": "master", "index": 0}, "job": {"local": true}}$' \
    env TF_CONFIG='{"task": {"type": "worker"}}' "$etude" tfx train --module ./where
says 2 'tfx: no command trian. Nearest: train' "$etude" tfx trian
says 2 'name is missing' "$etude" scaffold
says 2 'letters, digits and _' "$etude" tfx scaffold --name 1x
says 2 'model: no choice is called linear (allowed: custom, feed_forward)' "$etude" scaffold --name x --model linear
says 3 'is not empty' "$etude" scaffold --name points_custom
"$etude" tfx scaffold --name x --dir below/here >log 2>&1 && [ -f below/here/x/main.c ] || fail "--dir"
echo "projects of scaffold build, train, go on and predict"
