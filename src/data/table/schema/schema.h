/* Schemas and metadata, for the library, beyond <etude/schema.h> and <etude/metadata.h>; and tables
 * of keys, from which the texts of schemas, metadata and features are read and written. */
#ifndef ETUDE_DATA_TABLE_SCHEMA_SCHEMA_H
#define ETUDE_DATA_TABLE_SCHEMA_SCHEMA_H

#include <etude/metadata.h>
#include <etude/schema.h>

#include "base/values/value.h"

/* YAML that et_schema_parse reads, terminated. The caller frees the text (et_free). */
int et_schema_format(const et_schema *schema, char **text, et_error *error);

int et_schema_position(const et_schema *schema, const char *name); /* -1: none */
bool et_schema_numeric(const et_schema_field *field);              /* integer or real */

/* JSON that et_metadata_parse reads, terminated. The caller frees the text (et_free). */
int et_metadata_format(const et_metadata *metadata, char **text, et_error *error);

int et_metadata_position(const et_metadata *metadata, const char *name); /* -1: none */

/* The index of a text [length] among a column's entries; -1: no entry, or no such column. Takes
 * constant time. The function with a position needs no search for the name. */
int et_metadata_entry(const et_metadata *metadata, const char *column, const char *text,
                      size_t length);
int et_metadata_entry_at(const et_metadata *metadata, int position, const char *text,
                         size_t length);

/* ---- keys of texts: text_keys.c ---- */

/* A group of keys in a text fills a struct. A table has a row for each key, in the order of
 * writing, and ends with a row without a name. Reading walks the keys of the text, so the first
 * fault in it is reported. Writing leaves out members with their usual value, 0 or NULL. */
typedef enum et_key_kind {
    ET_KEY_OWN,     /* for the reading's own function; the caller writes it */
    ET_KEY_TEXT,    /* const char *: a scalar as it is written, so 007 and 2024 may be names */
    ET_KEY_TRUTH,   /* bool */
    ET_KEY_FALSE,   /* bool, the opposite of the key */
    ET_KEY_COUNT,   /* int64_t */
    ET_KEY_NUMBER,  /* double */
    ET_KEY_WORD,    /* enum: a position in words, plus least; less is not written */
    ET_KEY_TEXTS,   /* const char *const *, and an int; a list, or one text with commas */
    ET_KEY_NUMBERS, /* const double *, and an int; a list, or one text with commas */
    ET_KEY_KINDS,
} et_key_kind;

typedef struct et_text_key {
    const char *name;
    et_key_kind kind;
    size_t offset;
    bool nullable; /* TEXT: null is allowed and sets nothing */
    size_t with;   /* COUNT, NUMBER: another member that is written if this one is, and the reverse;
                      lists: the int */
    int64_t least, usual;     /* COUNT, WORD */
    const char *const *words; /* WORD: ended by NULL */
    const char *all;          /* WORD: the end of a message about an unknown one, or NULL */
} et_text_key;

#define ET_TEXT_KEY(kind_, type, member, ...)                                                      \
    {                                                                                              \
        .kind = ET_KEY_##kind_, .offset = offsetof(type, member), .name = __VA_ARGS__              \
    }
#define ET_TEXT_KEYS_END                                                                           \
    {                                                                                              \
        .name = NULL                                                                               \
    }

/* The first failure stays, and ends the reading. */
typedef struct et_text_reading {
    const char *name;         /* of the text */
    const char *column;       /* messages are about this group of a text without lines; else NULL */
    const char *const *wrong; /* [ET_KEY_KINDS]: texts for et_text_keys_wrong, by kind of key */
    void (*own)(struct et_text_reading *r, const et_value *value, void *to);
    et_arena *arena; /* of lists */
    et_error *error;
    int status;
} et_text_reading;

/* Fails with the place, the key of the value, and `what`: " is ...", or another text, which is put
 * after a colon. After "not " at the end, adds the kind of the value. ET_ECONFIG; for a column,
 * ET_EFORMAT. */
void et_text_keys_wrong(et_text_reading *r, const et_value *at, const char *what);

/* Zeroed items, one more than count, so an array is never empty. NULL: no memory, a failure. */
void *et_text_keys_array(et_text_reading *r, size_t count, size_t size);

/* The text of a scalar; "" on failure. */
const char *et_text_keys_scalar(et_text_reading *r, const et_value *value);

/* The list that is the only key of a text; NULL on failure. of: "of a schema ", or "". */
const et_value *et_text_keys_list(et_text_reading *r, const et_value *root, const char *key,
                                  const char *of);

/* Reads one key, or all keys of a group. what: name of the group in messages ("a field"). */
void et_text_key_read(et_text_reading *r, const et_text_key *row, const et_value *value, void *to);
void et_text_keys_read(et_text_reading *r, const et_text_key *rows, const char *what,
                       const et_value *group, void *to);

/* Adds the members to a dict. A failure is remembered by dict's arena. */
void et_text_keys_write(et_value *dict, const et_text_key *rows, const void *from);

/* A tree as YAML, for et_free; NULL: no memory, or the tree is incomplete. */
char *et_text_keys_print(const et_value *root);

#endif
