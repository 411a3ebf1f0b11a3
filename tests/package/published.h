/* Options of the public headers as programs were built with: test_options.sh compares today's with
 * these. When a version is published, fields that it added are added here; nothing else is
 * changed. */
typedef struct et_checkpoint_options {
    int64_t max_to_keep;
    bool other_optimizer;
    const struct et_inside *inside;
    ET_RESERVED(8);
} et_checkpoint_options;

typedef struct et_batches_options {
    uint64_t seed;
    bool shuffle;
    bool bucket;
    bool repeat;
    bool drop_remainder;
    int64_t pool;
    int64_t capacity[ET_LAYOUT_KINDS];
    const char *setting;
    const char *cure;
    ET_RESERVED(8);
} et_batches_options;

typedef struct et_records_options {
    const char *cache;
    int64_t shards;
    int64_t shard;
    ET_RESERVED(8);
} et_records_options;

typedef struct et_split_options {
    double portion;
    int64_t size;
    bool no_shuffle;
    uint64_t seed;
    ET_RESERVED(8);
} et_split_options;

typedef struct et_dense_options {
    bool no_bias;
    et_activation activation;
    float init_limit;
    int64_t row_tile;
    bool recomputable;
    ET_RESERVED(8);
} et_dense_options;

typedef struct et_optimizer_setup {
    const char *rule;
    double learning_rate;
    const char *settings;
    ET_RESERVED(8);
} et_optimizer_setup;

typedef struct et_pass_options {
    bool training;
    bool scaled;
    bool bfloat16;
    int recompute;
    const char *trains;
    const char *name;
    ET_RESERVED(8);
} et_pass_options;

typedef struct et_observer {
    void *self;
    void (*show)(void *self, const et_showing *showing);
    void (*tell)(void *self, const char *text);
    ET_RESERVED(2);
} et_observer;

typedef struct et_run_options {
    const char *model_dir;
    et_state *state;
    int64_t max_to_keep;
    int on_failed_save;
    const char *best_metric;
    int best_comparison;
    et_observer observer;
    bool verbose;
    et_sink *console;
    bool other_optimizer;
    const et_value *identity;
    const volatile sig_atomic_t *stop;
    volatile sig_atomic_t *save;
    const struct et_inside *inside;
    ET_RESERVED(8);
} et_run_options;

typedef struct et_bleu_options {
    et_bleu_tokens tokens;
    et_bleu_smooth smooth;
    bool lowercase;
    bool effective_order;
    ET_RESERVED(4);
} et_bleu_options;

typedef struct et_chrf_options {
    bool lowercase;
    ET_RESERVED(4);
} et_chrf_options;

typedef struct et_privacy_options {
    double clipping_norm;
    double noise_multiplier;
    bool per_example;
    ET_RESERVED(8);
} et_privacy_options;

typedef struct et_task_trainer_options {
    const et_optimizer_setup *optimizer;
    const struct et_optimization_options *optimization;
    uint64_t seed;
    bool bfloat16;
    int recompute;
    int batches;
    const volatile sig_atomic_t *stop;
    ET_RESERVED(8);
} et_task_trainer_options;

typedef struct et_async_options {
    int64_t max_staleness;
    bool synchronous;
    double peer_timeout;
    int64_t steps;
    ET_RESERVED(8);
} et_async_options;

typedef struct et_multitask_options {
    const et_task_trainer_options *trainer;
    int order;
    double alpha;
    int64_t steps_in_epoch;
    int64_t epochs;
    ET_RESERVED(8);
} et_multitask_options;

typedef struct et_translator_options {
    const char *checkpoint;
    int beam_size;
    double alpha;
    bool no_length_penalty;
    int64_t max_length;
    int sentences;
    const char *precision;
    bool live_weights;
    const et_translator *shares;
    ET_RESERVED(8);
} et_translator_options;

typedef struct et_decoding_options {
    int results;
    bool sampling;
    int64_t top_k;
    double top_p;
    double temperature;
    double noise;
    uint64_t seed;
    const char *const *ends;
    const char *const *first;
    ET_RESERVED(8);
} et_decoding_options;

typedef struct et_controller_options {
    et_trainer *trainer;
    et_evaluator *evaluator;
    et_action *const *actions;
    int action_count;
    et_run_options run;
    int64_t train_steps;
    int64_t steps_per_loop;
    int64_t summary_interval;
    int64_t validation_interval;
    int64_t checkpoint_interval;
    ET_RESERVED(8);
} et_controller_options;

typedef struct et_outer_loop_options {
    int64_t (*steps_per_loop)(void *payload, int64_t step);
    void *payload;
    et_action *const *train_actions;
    et_action *const *eval_actions;
    int train_action_count, eval_action_count;
    et_sink *summaries, *eval_summaries;
    et_params *weights;
    bool live_weights;
    ET_RESERVED(8);
} et_outer_loop_options;

typedef struct et_standard_trainer_options {
    bool no_tf_function;
    bool no_tf_while_loop;
    bool tpu_summary_optimization;
    ET_RESERVED(4);
} et_standard_trainer_options;

typedef struct et_standard_evaluator_options {
    bool no_tf_function;
    bool tf_while_loop;
    bool keep_iterator;
    ET_RESERVED(4);
} et_standard_evaluator_options;

typedef struct et_new_best_options {
    const char *metric;
    int (*value)(void *payload, const et_value *logs, double *out, et_error *error);
    void *payload;
    bool lower_is_better;
    const char *filename;
    bool read_only;
    ET_RESERVED(8);
} et_new_best_options;

typedef struct et_exports_options {
    int64_t (*next_id)(void *payload);
    void *payload;
    const char *subdirectory;
    ET_RESERVED(8);
} et_exports_options;

typedef struct et_matmul_options {
    bool transpose_a, transpose_b;
    bool relu;
    bool f32;
    int64_t row_tile;
    ET_RESERVED(4);
} et_matmul_options;

typedef struct et_attention_options {
    int heads;
    bool causal;
    float rate;
    int longest_key;
    ET_RESERVED(4);
} et_attention_options;

typedef struct et_convolution_options {
    int stride[2];
    int dilation[2];
    bool same;
    bool relu;
    ET_RESERVED(4);
} et_convolution_options;

typedef struct et_conv2d_options {
    et_convolution_options window;
    bool no_bias;
    et_activation activation;
    ET_RESERVED(4);
} et_conv2d_options;

typedef struct et_pool_options {
    int window[2];
    int stride[2];
    bool same;
    ET_RESERVED(4);
} et_pool_options;

typedef struct et_annealing_scalar_options {
    double initial_value, ratio;
    int64_t epochs, steps;
    const double *minimum, *maximum;
    ET_RESERVED(8);
} et_annealing_scalar_options;

typedef struct et_loop_evaluator_options {
    et_source *source;
    et_pass *pass;
    const et_loop_measure *metrics;
    int metric_count;
    int (*run_batch)(void *payload, const et_batch *batch, double *values, et_error *error);
    double (*weight)(void *payload, const et_batch *batch);
    void *payload;
    bool equal_weights;
    const char *time_metric;
    const et_bound_value *bound_values;
    int bound_value_count;
    uint64_t seed;
    ET_RESERVED(8);
} et_loop_evaluator_options;

typedef struct et_loop_trainer_options {
    et_source *source;
    et_pass *pass;
    et_optimizer *optimizer;
    int (*step)(void *payload, et_loop *loop, et_error *error);
    void *payload;
    uint64_t seed;
    const et_loop_measure *metrics;
    int metric_count;
    const char *const *summaries;
    int summary_count;
    const et_bound_value *bound_values;
    int bound_value_count;
    ET_RESERVED(8);
} et_loop_trainer_options;
typedef struct et_loop_options {
    const et_group *group;
    const char *const *var_groups;
    int var_group_count;
    bool no_eta;
    et_loop_print_fn *print;
    void *print_payload;
    int64_t max_epoch, max_step;
    const et_metric_formatter *formatter;
    const et_device *device;
    const char *checkpoint_dir;
    int64_t checkpoint_epoch_freq;
    int64_t checkpoint_max_to_keep;
    const char *restore_checkpoint;
    const char *summary_dir;
    et_sink *summary_writer;
    const char *summary_graph;
    const char *summary_metric_prefix;
    const char *summary_skip_pattern;
    const et_loop_frequency *summary_commit_freqs;
    int summary_commit_freq_count;
    const char *valid_metric_name;
    int valid_metric_better;
    bool early_stopping;
    const volatile sig_atomic_t *stop;
    ET_RESERVED(8);
} et_loop_options;

typedef struct et_predictor_options {
    const char *checkpoint;
    bool live_weights;
    int64_t batch_size;
    const et_predictor *shares;
    const struct et_model_builder_class *builder;
    ET_RESERVED(8);
} et_predictor_options;

typedef struct et_export_options {
    const char *precision;
    const char *format;
    ET_RESERVED(6);
} et_export_options;

typedef struct et_data_set_options {
    const et_schema *schema;
    const char *schema_path;
    const et_metadata *metadata;
    const char *metadata_path;
    const et_feature_set *features;
    const char *features_path;
    ET_RESERVED(8);
} et_data_set_options;

typedef struct et_read_options {
    int64_t batch;
    bool shuffle;
    int64_t shuffle_buffer;
    int64_t epochs;
    int threads;
    uint64_t seed;
    bool keep_unlabelled;
    const char *cache;
    uint64_t memory;
    ET_RESERVED(8);
} et_read_options;

typedef struct et_comm_options {
    double peer_timeout;
    ET_RESERVED(8);
} et_comm_options;

typedef struct et_shards_options {
    int64_t count;
    et_comm *comm;
    ET_RESERVED(8);
} et_shards_options;

typedef struct et_share_options {
    et_comm *comm;
    et_metrics *const *metrics;
    int sets;
    bool (*kept)(void *, int, et_kept_rows *);
    int (*output)(void *, const et_value *, et_error *);
    void *self;
    ET_RESERVED(6);
} et_share_options;

typedef struct et_service_options {
    const char *checkpoint;
    const char *precision;
    bool live_weights;
    int64_t items_max;
    ET_RESERVED(8);
} et_service_options;
