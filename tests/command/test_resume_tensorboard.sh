#!/bin/sh
# test_resume_tensorboard.sh BUILD_DIR ETUDE: TensorBoard's own reader finds every step of a killed
# and resumed run once, without a warning. 77 if it cannot be installed.
set -u
here=$(cd "$(dirname "$0")" && pwd)
etude=$2
python=$("$here/../tools/venv" "$1" tensorboard) || exit $?
. "$here/counting.sh"
directory=$(mktemp -d "$PWD/tensorboard-XXXXXX") || exit 2
trap 'rm -rf "$directory"' EXIT
cd "$directory" || exit 2

count_pairs 100 400

# In a subshell, whose place it takes.
train() {
    exec "$etude" train --experiment translation/tiny --model-dir run \
        --set task.train_data.source_path=source --set task.train_data.target_path=target \
        --set task.validation_data.source_path=source --set task.validation_data.target_path=target \
        --set task.train_data.global_batch_size=128 --set task.vocabulary.size=40 \
        --set task.model.encoder.num_layers=1 --set task.model.decoder.num_layers=1 \
        --set task.print_translations=2 --set task.model.embedding_width=16 --set task.model.extra_decode_length=2 \
        --set trainer.train_steps=40 --set trainer.checkpoint_interval=5 \
        --set trainer.summary_interval=2 --set trainer.validation_interval=20 2>>log
}

# Killed as soon as the log has that step, so after a checkpoint and not at one.
for step in 8 18 26; do
    train &
    while kill -0 $! 2>/dev/null && ! grep -q "^{\"step\":$step," run/metrics.jsonl 2>/dev/null; do
        sleep 0.01
    done
    kill -9 $! 2>/dev/null
    wait $! 2>/dev/null
    grep -q "^{\"step\":$step," run/metrics.jsonl || { cat log; exit 1; }
done
(train) || { cat log; exit 1; }

"$python" - <<'END'
import io, logging, sys, warnings

said = io.StringIO()
for name in (None, "tensorboard"):
    logging.getLogger(name).addHandler(logging.StreamHandler(said))
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of the packages themselves
    from tensorboard.backend.event_processing import event_accumulator

for name, expected in (("train", list(range(2, 41, 2))), ("validation", [20, 40])):
    reader = event_accumulator.EventAccumulator("run/" + name, size_guidance={"scalars": 0})
    reader.Reload()
    tags = reader.Tags()["scalars"]
    if len(tags) < 4:
        sys.exit(f"{name}: only {tags}")
    for tag in tags:
        steps = [event.step for event in reader.Scalars(tag)]
        if steps != expected:
            sys.exit(f"{name}/{tag}: steps {steps}, expected {expected}")
    print(f"{name}: {len(tags)} tags, each step once")
    tagged = set(tags) if name == "train" else tagged & set(tags)
if not {"loss", "nll", "accuracy"} <= tagged:
    sys.exit(f"training and validation share no chart but {tagged}")

# Translations, as texts.
texts = [event.step for event in reader.Tensors("translations")]
if texts != [20, 40] or b"| input | output |" not in reader.Tensors("translations")[0].tensor_proto.string_val[0]:
    sys.exit(f"translations: {texts}")

# Settings as HParams reads them: those of params.yaml.
from tensorboard.backend.event_processing import event_file_loader
from tensorboard.plugins.hparams import metadata

found = []
for event in event_file_loader.EventFileLoader("run/events.out.tfevents.0000000000.config").Load():
    for value in event.summary.value:
        if value.tag == metadata.SESSION_START_INFO_TAG:
            found.append(metadata.parse_session_start_info_plugin_data(
                value.metadata.plugin_data.content))
if len(found) != 1:
    sys.exit(f"{len(found)} sessions for HParams")
settings = {name: getattr(value, value.WhichOneof("kind")) for name, value in found[0].hparams.items()}
for name, value in (("experiment", "translation/tiny"), ("trainer.train_steps", 40.0),
                    ("task.model.embedding_width", 16.0), ("task.train_data.static_batch", False),
                    ("task.train_data.source_path", '["source"]')):
    if settings.get(name) != value:
        sys.exit(f"HParams: {name} is {settings.get(name)}, not {value}")
print(f"HParams: {len(settings)} settings")
if said.getvalue():
    sys.exit("the public reader complains:\n" + said.getvalue())
END
