/* Files of records as TensorFlow writes them (TFRecord), plain or GZIP, and samples from the
 * tf.Examples (example.h) in them: data prepared for Model Garden.
 *
 *     const char *paths[] = { "mnist/train-*.tfrecord" };
 *     const et_record_field fields[] = { { .name = "image", .dtype = ET_F32,
 *                                          .shape = et_shape_1(784) },
 *                                        { .name = "label", .dtype = ET_I32 } };
 *     if (et_records_open(&samples, paths, 1, fields, 2, NULL, &error)) ...
 *
 * A record has two checksums and a file is read to its very end: what is cut, damaged or no record
 * is an error that names file, record, byte and cure, never a shorter data set. Whether a file is
 * GZIP its bytes say, not its name; members in a row are one file, zeros behind the last are
 * padding. Values are the caller's, one thread at a time. */
#ifndef ETUDE_RECORDS_H
#define ETUDE_RECORDS_H

#include <etude/data.h>
#include <etude/example.h>

/* ---- files ---- */

typedef struct et_record_writer et_record_writer;

/* file_type, in any case: "tfrecord" ("tfrecords", NULL), "tfrecord_compressed"
 * ("tfrecords_gzip"); ET_ECONFIG for others. "riegeli", which Model Garden writes too, is one of
 * them: no library for C reads it. The file has its name once it is whole and on the disk. */
ET_API int et_record_writer_open(et_record_writer **out, const char *path, const char *file_type,
                                 et_error *error);
ET_API int et_record_write(et_record_writer *writer, const void *bytes, size_t length,
                           et_error *error);
ET_API int et_record_write_example(et_record_writer *writer, et_example_builder *example,
                                   et_error *error);
/* Frees the writer in any case. close: the file gets its name, unless a write failed before;
 * abandon: nothing is left of it. */
ET_API int et_record_writer_close(et_record_writer *writer, et_error *error);
ET_API void et_record_writer_abandon(et_record_writer *writer); /* NULL allowed */

/* A whole file at once: Model Garden's write_small_dataset. */
ET_API int et_records_write(const char *path, const char *file_type,
                            et_example_builder *const *examples, size_t count, et_error *error);

typedef struct et_record_reader et_record_reader;

/* Memory: a buffer and the largest record so far. */
ET_API int et_record_reader_open(et_record_reader **out, const char *path, et_error *error);
/* The next record: *bytes NULL at the end of the file, else valid until the next read (and not
 * NULL, even of an empty record). After a failure only close is allowed. */
ET_API int et_record_read(et_record_reader *reader, const void **bytes, size_t *length,
                          et_error *error);
ET_API void et_record_reader_close(et_record_reader *reader); /* NULL allowed */

/* ---- samples ---- */

/* What Model Garden's input pipeline does in stages is done to numbers here, exactly and once:
 * decoding and parsing by the declared fields, sampling and filtering by et_filter_open (flows.h),
 * several inputs by et_mix_open, caching by the files themselves (mapped, or unpacked once).
 * Shuffling is of all samples, anew in each pass (et_batches_open): there is no buffer whose size
 * decides how well, and no repeat before it that blurs passes. The order is always the same, so a
 * position is a few integers. */

/* A feature as a field of batches. Integers become ET_I32 (those that do not fit are an error),
 * floats ET_F32; of a list of one string each byte is an element of either. */
typedef struct et_record_field {
    const char *name; /* of the feature and of the field */
    et_dtype dtype;
    et_shape shape; /* of what a record has of it; variable: of an item */
    bool variable;  /* any number of items: a kind of the layout that has its name, at most three;
                       "NAME_offsets" says where each sample's begin */
    const void *missing; /* [shape] of dtype, copied: what a record without the feature has; NULL:
                            every record has it. Variable: no item, if not NULL */
} et_record_field;

typedef struct et_records_options {
    const char *cache; /* a folder for GZIP files once they are unpacked, by their contents;
                          NULL: they are unpacked into memory at each start */
    int64_t shards; /* of the data, shared out; 0: it is not. With at least as many files as shards
                       a shard is every file number shard + n shards, else every such sample */
    int64_t shard;  /* which one this is, from 0 */
} et_records_options;

/* paths: files, patterns with * or ?, and lists of both with commas between, in the order given,
 * what a pattern finds by bytes; what finds no file is an error. A path that exists as it stands
 * is one file. Samples are numbered file after file, record after record. Every record is read
 * once here, and checked; plain files are mapped after that and must stay as they are. options
 * may be NULL. */
ET_API int et_records_open(et_samples **out, const char *const *paths, size_t count,
                           const et_record_field *fields, int field_count,
                           const et_records_options *options, et_error *error);

/* Samples of several parts in the order in which tf.data's interleave gives them: block_length of
 * one part, then of the next of cycle_length that are open; one that ends makes room for the next
 * part. 0: all parts at once; blocks of 1. Owns the parts once it has succeeded. ET_EUSAGE: one is
 * there twice. */
ET_API int et_interleave_open(et_samples **out, et_samples *const *parts, int count,
                              int cycle_length, int64_t block_length, et_error *error);

#endif
