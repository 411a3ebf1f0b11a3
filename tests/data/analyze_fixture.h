/* et_analyze of one file. Include after cmocka.h. */
#ifndef ETUDE_TESTS_DATA_ANALYZE_FIXTURE_H
#define ETUDE_TESTS_DATA_ANALYZE_FIXTURE_H

#include "base/text/strbuf.h"
#include "data/table/analysis/analyze.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static inline int analyze(et_analysis *out, const char *path, const et_analyze_options *options,
                          et_error *error)
{
    return et_analyze(out, &(et_strings){ &path, 1 }, options, error);
}

static inline void must_analyze(et_analysis *out, const char *path,
                                const et_analyze_options *options)
{
    et_error error = ET_ERROR_INIT;
    if (analyze(out, path, options, &error))
        fail_msg("%s", error.text);
}

/* Checks the schema "name:type name:type"; an inferred integer takes fractions. */
static inline void check_schema(const et_analysis *analysis, const char *expected)
{
    et_strbuf text = ET_STRBUF_INIT;
    for (int i = 0; i < et_schema_count(analysis->schema); i++) {
        const et_schema_field *field = et_schema_at(analysis->schema, i);
        et_strbuf_printf(&text, "%s%s:%s", i ? " " : "", field->name,
                         et_schema_type_name(field->type));
        assert_int_equal(field->fractions, field->type == ET_SCHEMA_INTEGER);
    }
    assert_string_equal(et_strbuf_text(&text), expected);
    et_strbuf_release(&text);
}

/* "column:kind column:kind" */
static inline void append_suspicious(et_strbuf *text, const et_analysis *analysis)
{
    for (const et_value *item = et_value_get(analysis->report, "suspicious")->first; item;
         item = item->next)
        et_strbuf_printf(text, "%s%s:%s", text->length ? " " : "",
                         et_value_get(item, "column")->string, et_value_get(item, "kind")->string);
}

#endif
