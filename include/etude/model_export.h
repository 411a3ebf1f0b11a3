/* Exports: what people take along of a trained model (translator.h and predictor.h open ours).
 *
 *     et_export_options options = { .precision = "int8" };
 *     if (et_translator_export_as(t, "models/a.safetensors", &options, &error)) ...
 *     if (et_predictor_export_as(p, "models/iris.onnx", &(et_export_options){ .format = "onnx" },
 *                                &error)) ...
 *     if (et_export_onnx("model.onnx", params, layout, build, NULL, &error)) ...  a pass's function
 *
 * A file is written whole or not at all, in place of one that may be there; a directory file by
 * file, none of which may be there before: ET_ECONFIG. */
#ifndef ETUDE_MODEL_EXPORT_H
#define ETUDE_MODEL_EXPORT_H

#include <etude/pass.h>
#include <etude/predictor.h>
#include <etude/translator.h>

typedef struct et_export_options {
    const char *precision; /* how matrices of weights are stored: "float32", "bfloat16", "int8"
                              (bytes, with a scale for each column, or each row of a table that is
                              looked up). NULL: "float32". Others than that are of one file alone */
    const char *format; /* NULL: Etude's own. "onnx": of a translator a directory, as Optimum reads
                           it, of a predictor a file that takes encoded rows. "ctranslate2": of a
                           translator, a directory */
} et_export_options;

/* options NULL: the defaults, as et_translator_export and et_predictor_export. */
ET_API int et_translator_export_as(const et_translator *translator, const char *path,
                                   const et_export_options *options, et_error *error);
ET_API int et_predictor_export_as(const et_predictor *predictor, const char *path,
                                  const et_export_options *options, et_error *error);

/* A model function of batches (pass.h) as one file of ONNX, with the weights of params: inputs are
 * the fields that it reads (float, int64), outputs what et_output names, under these names, of any
 * number of rows. ET_ECONFIG: layout has more than samples, or an op has no form in ONNX. */
ET_API int et_export_onnx(const char *path, et_params *params, const et_layout *layout,
                          et_build_fn *build, void *payload, et_error *error);

#endif
