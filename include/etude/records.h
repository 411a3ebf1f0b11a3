/* TFRecord files, plain or GZIP, and samples from the tf.Examples (example.h) in them: data
 * prepared for Model Garden.
 *
 *     const char *paths[] = { "mnist/train-*.tfrecord" };
 *     const et_record_field fields[] = { { .name = "image", .dtype = ET_F32,
 *                                          .shape = et_shape_1(784) },
 *                                        { .name = "label", .dtype = ET_I32 } };
 *     if (et_records_open(&samples, paths, 1, fields, 2, NULL, &error)) ...
 *
 * A record has two checksums, and a file is read to its very end. A cut or damaged file gives an
 * error with file, record, byte and cure, never a smaller data set. GZIP is recognized by the
 * bytes, not by the name. Several GZIP members in a row are one file; zeros after the last are
 * padding. The caller owns the objects; use each from one thread at a time. */
#ifndef ETUDE_RECORDS_H
#define ETUDE_RECORDS_H

#include <etude/data.h>
#include <etude/example.h>

/* ---- files ---- */

typedef struct et_record_writer et_record_writer;

/* file_type, in any case: "tfrecord" ("tfrecords", NULL) or "tfrecord_compressed"
 * ("tfrecords_gzip"). ET_ECONFIG: others, also Model Garden's "riegeli", for which there is no C
 * library. The file gets its name when it is complete and durable. */
ET_API int et_record_writer_open(et_record_writer **out, const char *path, const char *file_type,
                                 et_error *error);
ET_API int et_record_write(et_record_writer *writer, const void *bytes, size_t length,
                           et_error *error);
ET_API int et_record_write_example(et_record_writer *writer, et_example_builder *example,
                                   et_error *error);
/* Both always free the writer. close: the file gets its name, unless a write failed before.
 * abandon: deletes the file. */
ET_API int et_record_writer_close(et_record_writer *writer, et_error *error);
ET_API void et_record_writer_abandon(et_record_writer *writer); /* NULL allowed */

/* Writes a whole file (Model Garden's write_small_dataset). */
ET_API int et_records_write(const char *path, const char *file_type,
                            et_example_builder *const *examples, size_t count, et_error *error);

typedef struct et_record_reader et_record_reader;

/* Opens a file. Memory: a buffer and the largest record so far. */
ET_API int et_record_reader_open(et_record_reader **out, const char *path, et_error *error);
/* Reads the next record. *bytes is NULL at the end of the file. Otherwise it is valid until the
 * next read, and not NULL even for an empty record. After a failure only close is allowed. */
ET_API int et_record_read(et_record_reader *reader, const void **bytes, size_t *length,
                          et_error *error);
ET_API void et_record_reader_close(et_record_reader *reader); /* NULL allowed */

/* ---- samples ---- */

/* Model Garden's input pipeline works in stages. Etude does the same work by sample numbers,
 * exactly and once:
 * - decoding and parsing by the declared fields;
 * - sampling and filtering with et_filter_open (flows.h);
 * - several inputs with et_mix_open;
 * - caching by the files themselves (mapped, or unpacked once);
 * - shuffling of all samples, anew in each pass (et_batches_open), without a buffer, and without
 *   mixing passes.
 *
 * The order of samples is always the same, so a position is a few integers. */

/* A feature as a field of batches. Integers become ET_I32 (error if they do not fit), floats
 * ET_F32. If the feature is a list of one string, each byte is an element, of either type. */
typedef struct et_record_field {
    const char *name; /* name of the feature and of the field */
    et_dtype dtype;
    et_shape shape; /* shape of the feature in a record; variable: of one item */
    bool variable;  /* any number of items. The layout gets a kind with the field's name (at most
                       three such), and "NAME_offsets" has the first item of each sample */
    const void *missing; /* [shape] of dtype, copied: the value for records without the feature.
                            NULL: every record must have it. Variable: not NULL means no items */
} et_record_field;

typedef struct et_records_options {
    const char *cache; /* folder for unpacked GZIP files, named by their contents; NULL: unpack into
                          memory at each start */
    int64_t shards; /* number of shards of the data; 0: no sharding. If there are at least as many
                       files as shards, a shard is every file number shard + n shards, else every
                       such sample */
    int64_t shard;  /* number of this shard, from 0 */
} et_records_options;

/* paths: files, patterns with * or ?, and lists of both with commas between, in the given order.
 * The files of a pattern are sorted by bytes. A path that exists literally is one file. A path or
 * pattern without files is an error. Samples are numbered file after file, record after record. The
 * call reads and checks every record once. Plain files are then mapped and must not change. options
 * may be NULL. */
ET_API int et_records_open(et_samples **out, const char *const *paths, size_t count,
                           const et_record_field *fields, int field_count,
                           const et_records_options *options, et_error *error);

/* Interleaves parts in the order of tf.data's interleave: block_length samples of one part, then of
 * the next of the cycle_length open parts. A part that ends is replaced by the next one.
 * cycle_length 0: all parts at once. block_length 0: 1. Owns the parts on success. ET_EUSAGE: a
 * part is given twice. */
ET_API int et_interleave_open(et_samples **out, et_samples *const *parts, int count,
                              int cycle_length, int64_t block_length, et_error *error);

#endif
