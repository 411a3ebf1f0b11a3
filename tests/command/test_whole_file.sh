#!/bin/sh
# test_whole_file.sh ETUDE: a file that names every field of Model Garden's configuration tree for
# translation, with its default or with the value of wmt_transformer/large, trains unchanged. Other
# values of fields without a meaning here are refused, with the reason.
set -eu
etude=$1
work=$(mktemp -d "$PWD/whole_file.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"

cat >data <<'END'
    input_path: ''
    tfds_name: ''
    tfds_split: ''
    tfds_data_dir: ''
    tfds_as_supervised: false
    tfds_skip_decoding_feature: ''
    drop_remainder: true
    shuffle_buffer_size: 100
    cache: false
    cycle_length: null
    block_length: 1
    ram_budget: null
    deterministic: null
    seed: null
    sharding: true
    enable_tf_data_service: false
    tf_data_service_address: null
    tf_data_service_job_name: null
    enable_shared_tf_data_service_between_parallel_trainers: false
    apply_tf_data_service_before_batching: false
    trainer_id: null
    prefetch_buffer_size: null
    autotune_algorithm: null
    static_batch: true
    sentencepiece_model_path: ''
    src_lang: en
    tgt_lang: de
    transform_and_batch: true
    has_unique_id: false
END
cat >stack <<'END'
      num_layers: 6
      activation: relu
      dropout_rate: 0.1
      attention_dropout_rate: 0.1
      intermediate_dropout: 0.1
      use_bias: false
      norm_first: true
      norm_epsilon: 1.0e-06
      num_attention_heads: 16
      intermediate_size: 4096
END
{
    cat <<'END'
task:
  init_checkpoint: ''
  name: null
  allow_image_summary: false
  differential_privacy_config: {clipping_norm: 100000000.0, noise_multiplier: 0.0}
  sentencepiece_model_path: ''
  print_translations: null
  train_data:
    is_training: true
    global_batch_size: 24576
    max_seq_length: 64
END
    cat data
    cat <<'END'
  validation_data:
    is_training: false
    global_batch_size: 32
    max_seq_length: 100
END
    cat data
    cat <<'END'
  model:
    embedding_width: 1024
    dropout_rate: 0.1
    padded_decode: true
    decode_max_length: 100
    beam_size: 4
    alpha: 0.6
    label_smoothing: 0.1
    encoder:
END
    cat stack
    echo '    decoder:'
    cat stack
    cat <<'END'
trainer:
  train_steps: 300000
  validation_steps: -1
  validation_interval: 5000
  steps_per_loop: 1000
  summary_interval: 1000
  checkpoint_interval: 5000
  max_to_keep: 1
  continuous_eval_timeout: 3600
  train_tf_while_loop: true
  train_tf_function: true
  eval_tf_function: true
  eval_tf_while_loop: false
  allow_tpu_summary: false
  best_checkpoint_export_subdir: ''
  best_checkpoint_eval_metric: ''
  best_checkpoint_metric_comp: higher
  loss_upper_bound: 1000000.0
  recovery_begin_steps: 0
  recovery_max_trials: 0
  validation_summary_subdir: validation
  preemption_on_demand_checkpoint: true
  optimizer_config:
    ema: null
    optimizer:
      type: adam
      adam: {name: Adam, beta_1: 0.9, beta_2: 0.997, epsilon: 1.0e-09, amsgrad: false,
        clipnorm: null, clipvalue: null, global_clipnorm: null}
    learning_rate:
      type: power
      power: {name: DirectPowerDecay, initial_learning_rate: 0.0625, power: -0.5}
    warmup:
      type: linear
      linear: {name: linear, warmup_learning_rate: 0.0, warmup_steps: 16000}
runtime:
  distribution_strategy: mirrored
  enable_xla: true
  gpu_thread_mode: null
  dataset_num_private_threads: null
  per_gpu_thread_count: 0
  tpu: null
  num_gpus: 0
  worker_hosts: null
  task_index: -1
  all_reduce_alg: null
  num_packs: 1
  mixed_precision_dtype: null
  loss_scale: null
  run_eagerly: false
  batchnorm_spatial_persistent: false
  tpu_enable_xla_dynamic_padder: null
  num_cores_per_replica: 1
  default_shard_dim: -1
  use_tpu_mp_strategy: false
END
} >whole.yaml

awk 'BEGIN { for (i = 0; i < 200; i++) { line = ""; for (k = 0; k <= i % 7; k++)
    line = line sprintf("%c%c ", 97 + (i * 7 + k * 3) % 26, 97 + (i + k * 5) % 26)
    print line } }' >text

# train CODE TEXT [OPTION]...: on data that are here, with a small model
small=task.model.embedding_width=32,task.train_data.global_batch_size=256,trainer.train_steps=2
for side in encoder decoder; do
    small=$small,task.model.$side.num_layers=1,task.model.$side.intermediate_size=32
    small=$small,task.model.$side.num_attention_heads=4
done
train() {
    code=$1 words=$2 got=0
    shift 2
    rm -rf run
    "$etude" train --experiment wmt_transformer/large --config_file whole.yaml --model_dir run \
        --data text text --vocab-size 60 --set "$small" "$@" >out 2>&1 || got=$?
    [ "$got" = "$code" ] && grep -q -e "$words" out || {
        echo "test_whole_file: $*: exit code $got, wanted $code and: $words" >&2
        cat out >&2
        exit 1
    }
}

train 0 '^done  *2 steps'
# lacks TEXT: of the run's settings.
lacks() {
    ! grep -e "$1" run/params.yaml || {
        echo "test_whole_file: params.yaml has $1" >&2
        exit 1
    }
}
lacks ' name:'
lacks 'enabled: true'
cat >ema.yaml <<'END'
trainer:
  optimizer_config:
    ema: {name: ExponentialMovingAverage, trainable_weights_only: true, average_decay: 0.99,
      start_step: 0, dynamic_decay: true, clipnorm: null, clipvalue: null, global_clipnorm: null}
END
train 0 '^done  *2 steps' --config_file ema.yaml
grep -q 'enabled: true' run/params.yaml
train 0 '^done  *2 steps' --config_file ema.yaml --params_override trainer.optimizer_config.ema=null
lacks 'enabled: true'
train 3 'Etude trains on the CPU' --set runtime.tpu=local
train 3 'not on a GPU' --set runtime.num_gpus=1
train 3 'no tf.data service' --set task.train_data.enable_tf_data_service=true
train 3 'always compiled as a whole' --set trainer.train_tf_function=false
train 3 'a model cannot be split across devices' --set runtime.num_cores_per_replica=2
train 3 'no images to the logs' --set task.allow_image_summary=true
train 3 'beam_size: 40 is more than half of the 60 tokens in the vocabulary; choose at most 30' \
    --valid text text --set task.model.beam_size=40
train 0 '^done  *2 steps' --set task.validation_data.global_batch_size=4,task.model.decode_max_length=9 \
    --valid text text --set task.validation_data.limit=9
