/* Exports of trained models, for Etude (translator.h and predictor.h open them) and other programs.
 *
 *     et_export_options options = { .precision = "int8" };
 *     if (et_translator_export(t, "models/a.safetensors", &options, &error)) ...
 *     if (et_predictor_export(p, "models/iris.onnx", &(et_export_options){ .format = "onnx" },
 *                                &error)) ...
 *     if (et_export_onnx("model.onnx", params, layout, build, NULL, &error)) ...  a pass's function
 *     et_export_module module = { .layout = layout, .input = "pixels", .model = logits,
 *                                 .preprocessor = scale, .postprocessor = probabilities };
 *     if (et_pass_open(&pass, device, params, layout, et_export_module_serve, &module, NULL,
 *                      &error)) ...            the same function here; ready_actions.h exports it
 *
 * A file is written completely or not at all, and replaces an existing file. A directory is written
 * file by file; none of the files may exist before: ET_ECONFIG. */
#ifndef ETUDE_MODEL_EXPORT_H
#define ETUDE_MODEL_EXPORT_H

#include <etude/pass.h>
#include <etude/predictor.h>
#include <etude/translator.h>

typedef struct et_export_options {
    const char *precision; /* type of stored weight matrices: "float32", "bfloat16", or "int8"
                              (bytes with a scale for each column, or for each row of an embedding
                              table). NULL: "float32". Only for exports in one file; the format
                              "huggingface" has "float32", "bfloat16" and "float16" */
    const char *format; /* NULL: Etude's own. "onnx": for a translator a directory, as Optimum reads
                           it; for a predictor a file (see inputs). The others are directories and
                           only for a translator: "ctranslate2"; "huggingface", which MarianMT of
                           transformers loads; "marian", a release of Marian; "bergamot", the
                           folder that Firefox and translateLocally load, in int8. ET_ECONFIG: the
                           format cannot express a setting, which the error names */
    const char *source_text, *target_text; /* of "bergamot": files of parallel lines, on which the
                                              factors of int8 and the shortlist are measured. NULL:
                                              those of the import, if the model has any */
    const char *inputs; /* of a predictor's "onnx" model. "raw" (NULL): the table's columns, as
                           texts and numbers. "encoded": one input for each feature, whose values
                           the program encodes. ET_ECONFIG: ONNX cannot express the transform of a
                           column */
} et_export_options;

/* A model with the steps around it (Model Garden's ExportModule). Each step is a function of a
 * node; payload is passed to all. */
typedef struct et_export_module et_export_module;
typedef et_node *et_node_fn(et_scope *scope, et_node *inputs, void *payload);

struct et_export_module {
    const et_layout *layout; /* of the batches; borrowed */
    const char *input;       /* the field that the steps begin with */
    et_node_fn *model;
    /* Called instead of model, which it may call. NULL: model alone. */
    et_node *(*inference_step)(et_scope *scope, et_node *inputs, const et_export_module *module);
    et_node_fn *preprocessor, *postprocessor; /* NULL: none */
    void *payload;
    const char *output; /* name of the result; NULL: "outputs" */
};

/* The model function of a module: preprocessor, inference_step, postprocessor, et_output. payload:
 * the et_export_module. For et_pass_open and et_export_onnx. */
ET_API void et_export_module_serve(et_scope *scope, void *module);

/* Writes a model function of batches (pass.h) as one ONNX file with the weights of params. Inputs
 * are the fields that the function reads (float, int64). Outputs are the nodes of et_output, with
 * these names, for any number of rows. ET_ECONFIG: layout has kinds other than samples, or an op
 * cannot be written as ONNX. */
ET_API int et_export_onnx(const char *path, et_params *params, const et_layout *layout,
                          et_build_fn *build, void *payload, et_error *error);

#endif
