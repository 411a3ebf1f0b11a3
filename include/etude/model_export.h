/* Exports of trained models, for Etude (translator.h and predictor.h open them) and other programs.
 *
 *     et_export_options options = { .precision = "int8" };
 *     if (et_translator_export(t, "models/a.safetensors", &options, &error)) ...
 *     if (et_predictor_export(p, "models/iris.onnx", &(et_export_options){ .format = "onnx" },
 *                                &error)) ...
 *     if (et_export_onnx("model.onnx", params, layout, build, NULL, &error)) ...  a pass's function
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
                           transformers loads; "marian", a release of Marian. ET_ECONFIG: the
                           format cannot express a setting, which the error names */
    const char *inputs; /* of a predictor's "onnx" model. "raw" (NULL): the table's columns, as
                           texts and numbers. "encoded": one input for each feature, whose values
                           the program encodes. ET_ECONFIG: ONNX cannot express the transform of a
                           column */
} et_export_options;

/* Writes a model function of batches (pass.h) as one ONNX file with the weights of params. Inputs
 * are the fields that the function reads (float, int64). Outputs are the nodes of et_output, with
 * these names, for any number of rows. ET_ECONFIG: layout has kinds other than samples, or an op
 * cannot be written as ONNX. */
ET_API int et_export_onnx(const char *path, et_params *params, const et_layout *layout,
                          et_build_fn *build, void *payload, et_error *error);

#endif
