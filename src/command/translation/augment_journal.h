/* The translations of `etude augment` while it works, in one file next to its output, OUTPUT.part:
 * TFRecords. The first record is a JSON object with everything on which the translations depend;
 * each other record is a line. A killed process leaves whole lines and perhaps an incomplete
 * record, which the next process cuts off.
 *
 *     status = et_augment_journal_open(&journal, "synthetic.en", work, &error);
 *     while (journal.lines < count)
 *         status = et_augment_journal_add(&journal, &line, &error);
 *     status = et_augment_journal_read(&journal, use, self, &error);    all lines, in order
 *     status = et_augment_journal_remove(&journal, &error);
 *     et_augment_journal_close(&journal); */
#ifndef ETUDE_COMMAND_TRANSLATION_AUGMENT_JOURNAL_H
#define ETUDE_COMMAND_TRANSLATION_AUGMENT_JOURNAL_H

#include <etude/value.h>

#include "formats/records/record.h"

typedef struct et_augment_journal {
    char *path;    /* owned */
    int lock;      /* -1: none */
    bool open;     /* log is */
    int64_t lines; /* translated so far */
    et_record_log log;
} et_augment_journal;

/* A translated line. */
typedef struct et_augment_line {
    double log_probability;        /* nats */
    int64_t source_tokens, tokens; /* end tokens counted; tokens 0: not translated, for the line
                                      has no word */
    const char *text;              /* [length] the translation; not terminated when read */
    size_t length;
} et_augment_line;

/* A key that work must have. */
extern const char et_augment_key[];

/* Continues or makes the file. work: a dict of scalars. ET_ECONFIG: the file has translations of
 * other work; the message names the first difference. ET_EBUSY: another process writes it. On
 * failure the journal is closed. */
int et_augment_journal_open(et_augment_journal *journal, const char *output, const et_value *work,
                            et_error *error);

int et_augment_journal_add(et_augment_journal *journal, const et_augment_line *line,
                           et_error *error);
/* Makes the added lines durable. */
int et_augment_journal_flush(et_augment_journal *journal, et_error *error);

/* Calls use for each line, until one fails. */
typedef int et_augment_journal_fn(void *self, const et_augment_line *line, et_error *error);
int et_augment_journal_read(et_augment_journal *journal, et_augment_journal_fn *use, void *self,
                            et_error *error);

/* Removes the file, because the outputs have its translations. */
int et_augment_journal_remove(et_augment_journal *journal, et_error *error);

/* The file stays. A closed journal is allowed. */
void et_augment_journal_close(et_augment_journal *journal);

#endif
