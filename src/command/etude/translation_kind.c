/* The kind of task for translation: its row. */
#include "tasks/translation/settings/translation_kind.h"

#include "command/translation/translation_commands.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/text/format.h"
#include "base/text/strbuf.h"
#include "command/exporting.h"
#include "tasks/translation/import/import.h"
#include "tasks/translation/interchange/marian_files.h"
#include "tasks/translation/translation_task_private.h"

static int open_task(et_task **out, const void *options, const et_task_context *context,
                     et_error *error)
{
    return et_translation_task_open(out, options, context, error);
}

/* If the size of a vocabulary is not set, the run's size is used. */
static void adopt(void *options, const void *kept)
{
    et_translation_vocabulary *vocabulary = &((et_translation_options *)options)->vocabulary;
    const et_translation_vocabulary *was = &((const et_translation_options *)kept)->vocabulary;
    if (!vocabulary->source.size)
        vocabulary->source.size = was->source.size;
    if (!vocabulary->target.size)
        vocabulary->target.size = was->target.size;
    if (vocabulary->size || !was->size)
        return;
    vocabulary->size = was->size;
    vocabulary->max_size = was->max_size;
}

static bool is_named(const char *path)
{
    return path && *path;
}

static int open_foreign(void **out, const char *path, const char **settings, et_error *error)
{
    et_import *from;
    int status = et_import_open(&from, path, error);
    if (!status)
        status = et_import_print_settings(from, settings, error);
    if (status)
        et_import_close(from);
    *out = status ? NULL : from;
    return status;
}

static void close_foreign(void *foreign)
{
    et_import_close(foreign);
}

static const et_foreign_class foreign_class = {
    .experiment = ET_TRANSLATION_BASE,
    .is = et_import_is_folder,
    .open = open_foreign,
    .close = close_foreign,
    .open_export = et_import_open_artifact,
};

static int inherit(void *settings, const char *model_dir, et_arena *arena, const char **taken,
                   et_error *error)
{
    et_translation_options *options = settings;
    if (et_import_is_folder(model_dir)) {
        /* The folder has a vocabulary for each side, which the task reads there. */
        et_translation_side *sides[ET_SIDES] = { &options->vocabulary.source,
                                                 &options->vocabulary.target };
        const char *path = et_arena_strdup(arena, model_dir);
        *taken = NULL;
        if (!path)
            return et_alloc_failed(error, "a path");
        if (is_named(options->sentencepiece_model_path))
            return ET_OK;
        if (options->vocabulary.shared)
            return et_fail(
                error, ET_ECONFIG,
                "%s has a vocabulary for each language, but task.vocabulary.shared is true; "
                "leave this setting out",
                model_dir);
        for (int i = 0; i < ET_SIDES; i++)
            if (!is_named(sides[i]->path)) {
                sides[i]->path = path;
                *taken = "vocabularies";
            }
        return ET_OK;
    }
    return et_vocabularies_inherit(&options->vocabulary, &options->sentencepiece_model_path,
                                   model_dir, arena, taken, error);
}

static void reads(const void *settings, void (*file)(void *payload, const char *path),
                  void *payload)
{
    const et_translation_options *options = settings;
    et_translation_input_reads(&options->train_data, file, payload);
    et_translation_input_reads(&options->validation_data, file, payload);
    const char *models[] = { options->sentencepiece_model_path, options->vocabulary.source.path,
                             options->vocabulary.target.path };
    for (int i = 0; i < 3; i++)
        if (is_named(models[i]))
            file(payload, models[i]);
}

/* "data         28,941 pairs; 59 filtered (0.2 %): 59 too long; 412,087 target tokens (cached)"
 * and, of several, "data 2 of 3 (weight 0.5) ...". */
static void describe_data(const et_translation_task *task)
{
    const et_translation_input *input = &task->training;
    for (size_t i = 0; i < input->count; i++) {
        const et_encoded *encoded = input->texts[i].encoded;
        et_strbuf counts = ET_STRBUF_INIT;
        char which[64] = "data         ";
        if (input->count > 1)
            snprintf(which, sizeof which, "data %zu of %zu  weight %g: ", i + 1, input->count,
                     input->texts[i].weight);
        et_corpus_counts_print(&encoded->counts, &counts);
        et_task_tell(&task->context, "%s%s; %s target tokens%s", which, et_strbuf_text(&counts),
                     et_format_count(encoded->sizes.target_tokens).text,
                     encoded->from_cache ? " (cached)" : "");
        et_strbuf_release(&counts);
    }
}

/* "augment      case 0.1, placeholders 0.1: 1,914 of the pairs are changed copies". Copies follow
 * their pairs. */
static void describe_copies(const et_translation_task *task)
{
    const et_translation_input *input = &task->training;
    et_strbuf kinds = ET_STRBUF_INIT;
    int64_t copies = 0;
    for (size_t i = 0; i < input->count; i++) {
        const et_encoded *encoded = input->texts[i].encoded;
        for (int64_t k = 1; k < encoded->pairs; k++)
            copies += encoded->lines[k] == encoded->lines[k - 1];
    }
    if (input->count)
        et_augment_print(&input->texts[0].paths.augment, &kinds);
    if (kinds.length)
        et_task_tell(&task->context, "augment      %s: %s of the pairs are changed copies",
                     et_strbuf_text(&kinds), et_format_count(copies).text);
    et_strbuf_release(&kinds);
}

static void describe(et_task *self)
{
    const et_translation_task *task = (const et_translation_task *)(const void *)self;
    const et_translation_model *model = &task->options.model;
    describe_data(task);
    describe_copies(task);
    et_translation_describe_validation(task, false);
    /* "vocabulary   8,000 unigram tokens, trained in 3.1 s  (runs/a/vocabulary.model)". The time is
     * shown only if the vocabulary was trained now. */
    for (int i = 0; i < task->vocabularies.count; i++) {
        const et_vocabulary *vocabulary = task->vocabularies.models[i];
        const bool one = task->vocabularies.count == 1;
        char trained[64] = "";
        if (task->vocabulary_seconds[i] > 0)
            snprintf(trained, sizeof trained, ", trained in %.1f s", task->vocabulary_seconds[i]);
        et_task_tell(&task->context, "vocabulary   %s%s%s %s tokens%s  (%s)",
                     one ? "" : task->vocabularies.roles[i].side, one ? "" : ": ",
                     et_format_count(et_vocabulary_size(vocabulary)).text,
                     et_vocabulary_kind(vocabulary), trained, task->vocabulary_paths[i]);
    }
    const et_translation_vocabulary *v = &task->options.vocabulary;
    const bool source = is_named(v->source_punctuation), target = is_named(v->target_punctuation);
    if (source || target)
        et_task_tell(&task->context, "punctuation  normalized as Moses does:%s%s%s%s%s",
                     source ? " source " : "", source ? v->source_punctuation : "",
                     source && target ? "," : "", target ? " target " : "",
                     target ? v->target_punctuation : "");
    else if (task->context.foreign && et_import_normalizes(task->context.foreign))
        et_task_tell(&task->context, "punctuation  not normalized; models of OPUS-MT need it: add "
                                     "--normalize-punctuation SOURCE TARGET, such as en de");
    int64_t interval = task->context.validation_interval; /* negative: see et_field_steps */
    if (!task->validation.count && interval)
        et_task_tell(&task->context,
                     "validation   none: task.validation_data names no text "
                     "(trainer.validation_interval: %s%s)",
                     et_format_count(interval < 0 ? -interval / 1000 : interval).text,
                     interval < 0 ? "ep" : "");
    et_task_tell(&task->context,
                 "model        %s parameters: encoder %lld x %lld, decoder %lld x %lld%s, "
                 "%s embeddings%s",
                 et_format_count(et_params_elements(task->context.params)).text,
                 (long long)model->encoder.num_layers, (long long)model->embedding_width,
                 (long long)model->decoder.num_layers, (long long)model->embedding_width,
                 model->decoder.recurrence == ET_RECURRENCE_SSRU ? " with SSRU" : "",
                 task->vocabularies.count == 1 || model->shared_embeddings ? "shared" : "separate",
                 model->tied_embeddings ? "" : ", a separate output");
}

/* ---- export: a model in a form that `translate` and et_translator_open read ---- */

static const char *const export_formats[] = { "onnx",   "ctranslate2", "huggingface",
                                              "marian", "bergamot",    NULL };

/* float16 only for huggingface. */
static const char *const export_precisions[] = { "float32", "bfloat16", "int8", "float16", NULL };

static const et_option export_options[] = {
    ET_OPTION_ROW(et_exporting_args, text, et_option_uses, STRING, WORDS, "data", "SOURCE TARGET",
                  "parallel files on which --format bergamot measures the factors of int8 and the "
                  "shortlist (default: the imported factors and shortlist)"),
    ET_EXPORTING_OPTIONS(export_formats, "for other programs: a directory", export_precisions)
};

static const et_usage export_usage = { export_options, sizeof(et_exporting_args),
                                       ET_EXPORTING_ABOUT("translating", "translate"),
                                       ET_EXPORTING_EXAMPLE };

static int write_export(const et_exporting_args *args, et_error *error)
{
    et_translator *translator;
    const et_translator_options how = { .checkpoint = args->checkpoint,
                                        .live_weights = args->live_weights };
    et_export_options what = args->options;
    if (args->text.times) {
        const et_option_given *last = &args->text.given[args->text.times - 1];
        what.source_text = last->items[0];
        what.target_text = last->count > 1 ? last->items[1] : NULL;
    }
    int status = et_translator_open(&translator, args->model_dir, &how, error);
    if (status)
        return status;
    status = et_translator_export(translator, args->output, &what, error);
    if (!status)
        et_exporting_tell(args, et_translator_checkpoint(translator),
                          et_translator_step(translator));
    et_translator_close(translator);
    return status;
}

static int export_model(const et_call *call, et_error *error)
{
    static const et_exporting kind = { export_formats, false, write_export };
    return et_exporting_run(&kind, call, error);
}

/* ---- the row ---- */

static const et_run_file files[] = {
    { ET_TRANSLATION_VOCABULARY, ET_RUN_MADE_AT_START | ET_RUN_COMPARED },
    { ET_TRANSLATION_VOCABULARY_SOURCE, ET_RUN_MADE_AT_START | ET_RUN_COMPARED },
    { ET_TRANSLATION_VOCABULARY_TARGET, ET_RUN_MADE_AT_START | ET_RUN_COMPARED },
    { ET_TRANSLATION_LEXICON, ET_RUN_MADE_AT_START },
    { ET_TRANSLATION_CACHE "/train.pairs", ET_RUN_MADE_AT_START },
    /* Caches of a mix: ET_TRANSLATION_MIX_MAX in all. */
    { ET_TRANSLATION_CACHE "/train.1.pairs", ET_RUN_MADE_AT_START },
    { ET_TRANSLATION_CACHE "/train.2.pairs", ET_RUN_MADE_AT_START },
    { ET_TRANSLATION_CACHE "/train.3.pairs", ET_RUN_MADE_AT_START },
    { ET_TRANSLATION_CACHE "/train.4.pairs", ET_RUN_MADE_AT_START },
    { ET_TRANSLATION_CACHE "/train.5.pairs", ET_RUN_MADE_AT_START },
    { ET_TRANSLATION_CACHE "/train.6.pairs", ET_RUN_MADE_AT_START },
    { ET_TRANSLATION_CACHE "/train.7.pairs", ET_RUN_MADE_AT_START },
    { ET_TRANSLATION_CACHE "/validation.pairs", ET_RUN_MADE_AT_START },
    /* Caches of several sets: ET_TRANSLATION_SETS_MAX in all. */
    { ET_TRANSLATION_CACHE "/validation.1.pairs", ET_RUN_MADE_AT_START },
    { ET_TRANSLATION_CACHE "/validation.2.pairs", ET_RUN_MADE_AT_START },
    { ET_TRANSLATION_CACHE "/validation.3.pairs", ET_RUN_MADE_AT_START },
    { ET_TRANSLATION_CACHE "/validation.4.pairs", ET_RUN_MADE_AT_START },
    { ET_TRANSLATION_CACHE "/validation.5.pairs", ET_RUN_MADE_AT_START },
    { ET_TRANSLATION_CACHE "/validation.6.pairs", ET_RUN_MADE_AT_START },
    { ET_TRANSLATION_CACHE "/validation.7.pairs", ET_RUN_MADE_AT_START },
    { ET_TRANSLATION_CACHE, ET_RUN_FOLDER | ET_RUN_MADE_AT_START },
    { ET_TRANSLATION_OUTPUT, ET_RUN_FOLDER | ET_RUN_SAMPLES },
    { NULL, 0 },
};

static const et_command commands[] = {
    ET_COMMAND("evaluate", et_cmd_evaluate_translation, "evaluate a trained model",
               &et_usage_evaluate_translation),
    ET_COMMAND("translate", et_cmd_translate, "translate lines from standard input",
               &et_usage_translate),
    ET_COMMAND("augment", et_cmd_augment, "make training data by back-translation",
               &et_usage_augment),
    ET_COMMAND("compare", et_cmd_compare_translation, "compare runs, or their translations",
               &et_usage_compare_translation),
    ET_COMMAND("export", export_model, "export a trained model", &export_usage),
    ET_COMMAND("import", et_cmd_import,
               "make a run from a model of OPUS-MT, Marian, transformers, Firefox",
               &et_usage_import),
    ET_COMMAND("score", et_cmd_score, "print BLEU, chrF and TER of translations", &et_usage_score),
    ET_COMMAND_END,
};

static const et_option options[] = {
    ET_OPTION_SETS(
        "data", "SOURCE TARGET",
        "text to train on, one file per side, or one file of pairs, PAIRS.tsv; may be given "
        "again, for several texts",
        .settings = { "task.train_data.source_path", "task.train_data.target_path" },
        .pairs = "task.train_data.tsv_path", .parts = "task.train_data.mix", .weights = "weights",
        .tags = "tags", .experiment = ET_TRANSLATION_AUTO),
    ET_OPTION_SETS("weights", "W,W",
                   "with several --data: sampling weight of each text (default: equal)",
                   .of = "data"),
    ET_OPTION_SETS("tags", "T,T",
                   "for each --data: a tag in front of each source line, or nothing: ,<BT>",
                   .settings = { "task.train_data.tag" }, .of = "data"),
    ET_OPTION_SETS(
        "valid", "SOURCE TARGET",
        "text to validate on, as --data; several texts are scored one by one",
        .settings = { "task.validation_data.source_path", "task.validation_data.target_path" },
        .pairs = "task.validation_data.tsv_path", .parts = "task.validation_data.sets",
        .named = true),
    ET_OPTION_SETS("augment", "WAY:RATE,WAY",
                   "also train on modified copies of some pairs: case, placeholders",
                   .settings = { "task.train_data.augment" }),
    ET_OPTION_SETS("batch-size", "N", "tokens per batch, on each side",
                   .settings = { "task.train_data.global_batch_size" }),
    ET_OPTION_SETS("label-smoothing", "RATE",
                   "probability that training spreads over the other tokens",
                   .settings = { "task.model.label_smoothing" }),
    ET_OPTION_SETS("dropout", "RATE", "fraction of units dropped in training",
                   .settings = { "task.model.dropout_rate", "task.model.encoder.dropout_rate",
                                 "task.model.decoder.dropout_rate" }),
    ET_OPTION_SETS(
        "layers", "N", "layers of the encoder and of the decoder",
        .settings = { "task.model.encoder.num_layers", "task.model.decoder.num_layers" }),
    ET_OPTION_SETS("vocab-size", "N", "number of tokens of a trained vocabulary, or auto",
                   .settings = { "task.vocabulary.size" }),
    ET_OPTION_SETS("separate-vocabularies", NULL,
                   "train a vocabulary and embeddings for each language",
                   .settings = { "task.vocabulary.shared=false" }),
    ET_OPTION_SETS("vocab-sizes", "SOURCE TARGET",
                   "numbers of tokens of separate vocabularies that are trained",
                   .settings = { "task.vocabulary.source.size", "task.vocabulary.target.size",
                                 "task.vocabulary.shared=false" }),
    ET_OPTION_SETS(
        "normalize-punctuation", "SOURCE TARGET",
        "normalize punctuation as Moses does, for these languages: en de",
        .settings = { "task.vocabulary.source_punctuation", "task.vocabulary.target_punctuation" }),
    ET_OPTION_SETS("vocabs", "SOURCE TARGET", "SentencePiece models of separate vocabularies",
                   .settings = { "task.vocabulary.source.path", "task.vocabulary.target.path",
                                 "task.vocabulary.shared=false" }),
    ET_OPTION_END,
};

static const char *const of_weights[] = { "task.vocabulary.source_punctuation",
                                          "task.vocabulary.target_punctuation",
                                          "task.train_data.src_lang", "task.train_data.tgt_lang",
                                          NULL };

static const char *const kept[] = { "task.sentencepiece_model_path", "task.vocabulary.source.path",
                                    "task.vocabulary.target.path", NULL };

const et_task_kind et_translation_kind = {
    .name = "translation",
    .fields = &et_translation_fields,
    .size = sizeof(et_translation_options),
    .experiments = et_translation_experiments,
    .open = open_task,
    .close = et_translation_task_close,
    .check = et_translation_check,
    .check_metric = et_translation_check_metric,
    .adopt = adopt,
    .inherit = inherit,
    .of_weights = of_weights,
    .kept = kept,
    .foreign = &foreign_class,
    .reads = reads,
    .describe = describe,
    .identify = et_translation_identify,
    .belongs = et_translation_belongs,
    .files = files,
    .commands = commands,
    .example = "--data train.en train.de",
    .rate = "tok/s",
    .amount = "tokens per side",
    .next = "translate",
    .next_help = "translates lines",
    .service = &et_translation_service,
    .options = options,
    .batch = "task.train_data.global_batch_size",
    .attention = et_attention_plot,
    .recipe = &et_translation_recipe,
    .finetuning = &et_translation_finetuning,
};
