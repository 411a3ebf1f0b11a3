#include "command/translation/augment_journal.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/files/file.h"
#include "base/text/format.h"
#include "base/values/json.h"

/* A line's record: these numbers, then the text. */
typedef struct numbers {
    double log_probability;
    int64_t source_tokens, tokens;
} numbers;

const char et_augment_key[] = "augment";

/* ---- the dependencies of translations ---- */

/* A missing key counts as null. */
static int compare(const char *path, const et_value *was, const et_value *is, et_error *error)
{
    static const et_value none = { .kind = ET_VALUE_NULL };
    for (const et_value *item = is->first; item; item = item->next) {
        const et_value *old = et_value_get(was, item->key);
        if (et_json_same(old ? old : &none, item))
            continue;
        et_strbuf before = ET_STRBUF_INIT, now = ET_STRBUF_INIT;
        et_json_print(&before, old ? old : &none, 0);
        et_json_print(&now, item, 0);
        et_fail(error, ET_ECONFIG,
                "%s has translations of other work: %s was %s, is %s; give the same options as "
                "before, or remove this file to begin again",
                path, item->key, et_strbuf_text(&before), et_strbuf_text(&now));
        et_strbuf_release(&before);
        et_strbuf_release(&now);
        return ET_ECONFIG;
    }
    return ET_OK;
}

static int foreign(const char *path, et_error *error)
{
    return et_fail(error, ET_EFORMAT,
                   "%s is not a file of `augment`, which keeps its translations under this name "
                   "while it works; choose another --output, or move this file",
                   path);
}

static int check_work(const char *path, const void *bytes, size_t length, const et_value *work,
                      et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *was;
    int status = et_json_parse(&was, &arena, bytes, length, path, error);
    if (!status && !et_value_get(was, et_augment_key))
        status = ET_EFORMAT;
    status = status == ET_EFORMAT ? foreign(path, error)
             : status             ? status
                                  : compare(path, was, work, error);
    et_arena_release(&arena);
    return status;
}

/* Whether the file is the first record, perhaps damaged by a power loss. Each byte must equal the
 * record's byte, or be zero if it never reached the disk. */
static bool began(const et_mapping *file, const et_strbuf *work)
{
    const et_record_frame frame = et_record_frame_of(et_strbuf_text(work), work->length);
    const unsigned char *bytes = (const unsigned char *)file->data;
    bool same = file->length <= work->length + ET_RECORD_OVERHEAD;
    for (size_t i = 0; same && i < file->length; i++) {
        const size_t at = i - ET_RECORD_HEAD;
        same = !bytes[i] || bytes[i] == (i < ET_RECORD_HEAD  ? frame.head[i]
                                         : at < work->length ? (unsigned char)work->data[at]
                                                             : frame.tail[at - work->length]);
    }
    return same;
}

/* ---- opening ---- */

/* The lock ends with the process. Some file systems have no locks. */
static int lock(et_augment_journal *journal, et_error *error)
{
    struct stat file;
    journal->lock = open(journal->path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (journal->lock < 0)
        return et_fail_errno(error, "%s", journal->path);
    if (fstat(journal->lock, &file) || !S_ISREG(file.st_mode))
        return et_fail(error, ET_EFORMAT, "%s is not a regular file; choose another --output",
                       journal->path);
    const bool taken = et_fd_lock(journal->lock) == ET_EBUSY;
    /* Another process may have finished and removed the file after this process opened it. */
    if (taken || fstat(journal->lock, &file) || !file.st_nlink)
        return et_fail(error, ET_EBUSY,
                       "%s: another process writes the same output; wait for it, or choose another "
                       "--output",
                       journal->path);
    return ET_OK;
}

/* Counts the whole lines. *empty: the file has no whole record. */
static int read_head(et_augment_journal *journal, const et_value *work, const et_strbuf *text,
                     bool *empty, et_error *error)
{
    et_record_scan scan;
    const void *bytes;
    size_t length;
    int status = et_record_scan_open(&scan, journal->path, error);
    if (status)
        return status;
    status = et_record_scan_next(&scan, &bytes, &length, error);
    *empty = !status && !bytes;
    if (status == ET_EFORMAT)
        status = foreign(journal->path, error);
    if (*empty && scan.torn && !began(&scan.mapping, text))
        status = foreign(journal->path, error);
    if (!status && bytes)
        status = check_work(journal->path, bytes, length, work, error);
    et_error why = ET_ERROR_INIT;
    while (!status && bytes && !(status = et_record_scan_next(&scan, &bytes, &length, &why)))
        journal->lines += bytes != NULL;
    if (why.status)
        et_fail(error, status, "%s%s", why.text,
                status == ET_EFORMAT ? "; remove this file to begin again" : "");
    if (!status && scan.torn)
        et_log(
            ET_LOG_WARNING,
            "%s ends in an incomplete record, as after a power loss: %s lines before it are kept",
            journal->path, et_format_count(journal->lines).text);
    et_record_scan_close(&scan);
    return status;
}

int et_augment_journal_open(et_augment_journal *journal, const char *output, const et_value *work,
                            et_error *error)
{
    et_assert(journal && output && work);
    bool empty = true;
    *journal = (et_augment_journal){ .lock = -1 };
    et_strbuf path = ET_STRBUF_INIT, text = ET_STRBUF_INIT;
    et_strbuf_printf(&path, "%s.part", output);
    journal->path = et_strbuf_detach(&path);
    et_json_print(&text, work, 0);
    int status = !journal->path ? et_alloc_failed(error, "a path")
                 : et_value_failed(work) || text.failed
                     ? et_alloc_failed(error, "what translations depend on")
                     : lock(journal, error);
    if (!status)
        status = read_head(journal, work, &text, &empty, error);
    if (!status) {
        status =
            et_record_log_open(&journal->log, journal->path, empty ? 0 : ET_APPEND_CONTINUE, error);
        journal->open = !status;
    }
    if (!status && empty)
        status = et_record_log_write(&journal->log, text.data, text.length, error);
    /* So that only a file without lines can have a torn first record. */
    if (!status && empty)
        status = et_record_log_flush(&journal->log, error);
    et_strbuf_release(&text);
    if (status) {
        /* Removes a file that is still empty. */
        struct stat file;
        et_assert(journal->lock < 0 || journal->path);
        if (journal->lock >= 0 && !fstat(journal->lock, &file) && file.st_nlink && !file.st_size)
            unlink(journal->path);
        et_augment_journal_close(journal);
    }
    return status;
}

void et_augment_journal_close(et_augment_journal *journal)
{
    et_error ignored;
    if (journal->open)
        et_record_log_close(&journal->log, &ignored);
    if (journal->path && journal->lock >= 0)
        close(journal->lock);
    et_free(journal->path);
    *journal = (et_augment_journal){ .lock = -1 };
}

int et_augment_journal_remove(et_augment_journal *journal, et_error *error)
{
    et_assert(journal->open);
    return unlink(journal->path) ? et_fail_errno(error, "%s", journal->path) : ET_OK;
}

/* ---- lines ---- */

int et_augment_journal_add(et_augment_journal *journal, const et_augment_line *line,
                           et_error *error)
{
    const numbers head = { line->log_probability, line->source_tokens, line->tokens };
    et_strbuf record = ET_STRBUF_INIT;
    et_assert(journal->open);
    et_strbuf_append_bytes(&record, (const char *)&head, sizeof head);
    et_strbuf_append_bytes(&record, line->text, line->length);
    int status = record.failed ? et_alloc_failed(error, "a translation")
                               : et_record_log_write(&journal->log, et_strbuf_text(&record),
                                                     record.length, error);
    et_strbuf_release(&record);
    journal->lines += !status;
    return status;
}

int et_augment_journal_flush(et_augment_journal *journal, et_error *error)
{
    return et_record_log_flush(&journal->log, error);
}

int et_augment_journal_read(et_augment_journal *journal, et_augment_journal_fn *use, void *self,
                            et_error *error)
{
    et_assert(use);
    et_record_scan scan;
    const void *bytes;
    size_t length;
    int status = et_record_scan_open(&scan, journal->path, error);
    if (status)
        return status;
    status = et_record_scan_next(&scan, &bytes, &length, error);
    while (!status && !(status = et_record_scan_next(&scan, &bytes, &length, error)) && bytes) {
        numbers head;
        if (length < sizeof head) {
            status = et_fail(error, ET_EFORMAT, "%s: damaged; remove this file to begin again",
                             journal->path);
            break;
        }
        memcpy(&head, bytes, sizeof head);
        const et_augment_line line = { head.log_probability, head.source_tokens, head.tokens,
                                       (const char *)bytes + sizeof head, length - sizeof head };
        status = use(self, &line, error);
    }
    et_record_scan_close(&scan);
    return status;
}
