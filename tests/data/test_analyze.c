#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "base/scarce.h"
#include "base/values/json.h"
#include "calls.h"
#include "data/analyze_fixture.h"
#include "data/fixture.h"
#include "data/golden_tables.h"
#include "data/table/analysis/analyze.h"
#include "skip.h"

/* ---- what columns are ---- */

static const struct {
    const char *text, *schema, *suspicious;
    const char *target;
    et_header header;
} tables[] = {
    /* headers */
    { "a,b\n1,x\n2,y\n", "a:integer b:discrete", "", NULL, 0 },
    { "1,x\n2,y\n", "column_1:integer column_2:discrete", "", NULL, 0 },
    { "1,x\n2,y\n", "1:integer x:discrete", "1:constant x:constant", NULL, ET_HEADER_THERE },
    { "a,b\n1,x\n2,y\n", "column_1:discrete column_2:discrete",
      "column_1:key column_1:mixed column_2:key", NULL, ET_HEADER_ABSENT },
    { "name,town\nann,rome\nbob,oslo\n", "name:discrete town:discrete", "", NULL, 0 },
    { "p,x\np,y\ne,x\n", "column_1:discrete column_2:discrete", "", NULL, 0 },
    { "x,x\np,y\ne,z\n", "column_1:discrete column_2:discrete", "column_1:key column_2:key", NULL,
      0 },
    { ",a\n0,5\n1,6\n", "column_1:integer a:integer", "", NULL, 0 },
    { "a,NA\n1,2\n3,5\n", "a:integer NA:integer", "", NULL, 0 },
    { "\"a, b\";c\n1;2\n4;3\n", "a, b:integer c:integer", "", NULL, 0 },
    /* types */
    { "a,b,c,d\n1,1.0,-3,1e3\n2,2,+4,2\n", "a:integer b:real c:real d:real", "d:number", NULL, 0 },
    { "a,b\n007,-0\n8,-1\n", "a:discrete b:real", "a:code", NULL, 0 },
    { "a\n1\n2\n3\n4\n5\n6\n7\n8\n9\nx\n", "a:integer", "a:text", NULL, 0 },
    { "a\n1\n2\n3\n4\n5\n6\n7\n8\ny\nx\n", "a:discrete", "a:key a:mixed", NULL, 0 },
    { "a,b\n1e999,1\n2,2\n3,3\n", "a:real b:integer", "a:large", NULL, 0 },
    { "a,b\nnan,NaN\n?,1\n,2\n", "a:discrete b:integer", "a:missing", NULL, 0 },
    { "a,b\ninf,1\n-inf,0x1p3\n", "a:discrete b:discrete", "b:mixed", NULL, 0 },
    { "a,b\n1,1e308\n2,-1e308\n", "a:integer b:real", "b:wide", NULL, 0 },
    { "a,b\n1,1e-200\n2,-1e-200\n", "a:integer b:real", "b:wide", NULL, 0 },
    { "a,b\n1,1e-150\n2,-1e-150\n", "a:integer b:real", "", NULL, 0 },
    { "a,b\n1,1e-200\n2,1e-200\n", "a:integer b:real", "b:constant", NULL, 0 },
    { "a,b\n\"1\",\"2\"\n\"3\",\"4\"\n", "a:integer b:integer", "", NULL, 0 },
    /* suspicious columns */
    { "a,b\n1,x\n1,x\n", "a:integer b:discrete", "a:constant b:constant", NULL, 0 },
    { "a,b\n1,\n2,\n3,\n4,x\n5,y\n", "a:integer b:discrete", "b:sparse", NULL, 0 },
    { "a\n2024-05-31\n2023-01-01T10:00\n", "a:discrete", "", NULL, 0 },
    { "a\n31.05.2024\n1/2/99\n", "a:discrete", "a:order", NULL, 0 },
    { "a\n31/05/2024\n1/2/99\n", "a:discrete", "", NULL, 0 },
    { "a\n31/05/2024\n05/31/2024\n", "a:discrete", "a:date", NULL, 0 },
    { "a\n31.13.2024\n1/32/99\n", "a:discrete", "a:date", NULL, 0 },
    { "a;b\n1,5;2\n-3,25;3\n1.000,5;4\n", "a:real b:integer", "", NULL, 0 },
    { "a;b\n12,34,567;2\n-3,25,000.5;3\n", "a:real b:integer", "", NULL, 0 },
    { "a,b\n12%,$5\n13%,$-6.5\n", "a:integer b:real", "", NULL, 0 },
    { "a,b\n12%,$5\n13 m,5 kg\n", "a:discrete b:discrete", "a:unit b:unit", NULL, 0 },
    { "a,b\n\" x\",\"y \"\nx,z\n", "a:discrete b:discrete", "a:blanks a:spelling b:blanks", NULL,
      0 },
    /* targets */
    { "a,b\n1,5\n2,6\n1,7\n1,6\n2,5\n2,7\n", "a:discrete b:integer", "", "a", 0 },
    { "a,b\n1.0,5\n0.0,6\n1.0,7\n0.0,6\n", "a:discrete b:integer", "", "a", 0 },
    { "a,b\n1,5\n2,6\n3,7\n1,6\n2,5\n3,7\n", "a:discrete b:integer", "", "a", 0 },
    { "a,b\n3,5\n4,6\n5,7\n3,6\n4,5\n5,7\n", "a:integer b:integer", "", "a", 0 },
    { "a,b\n0,5\n1,6\n3,7\n0,6\n1,5\n3,7\n", "a:integer b:integer", "", "a", 0 },
    { "a,b\n-1,5\n1,6\n-1,6\n1,7\n", "a:discrete b:integer", "", "a", 0 },
    { "a,b\nC85,1\nB9,2\n", "a:discrete b:integer", "", NULL, 0 },
    { "a,b\n1.5,5\n0.5,6\n1.5,7\n0.5,6\n", "a:real b:integer", "", "a", 0 },
    { "a,b\n1.0,5\n0.0,6\n1,7\n0.0,6\n", "a:real b:integer", "a:labels", "a", 0 },
    { "a,b\n1,5\n1,6\n", "a:discrete b:integer", "a:constant a:target", "a", 0 },
    { "a,b\n1,5\n2,6\n1,7\n", "a:discrete b:integer", "a:target", "a", 0 },
    { "a,b\nyes,5\nno,6\nYES,7\nyes,6\nno,5\nYES,7\n", "a:discrete b:integer", "a:labels", "a", 0 },
    { "a,b\nyes,5\nno,6\n\" yes\",7\nyes,6\nno,5\n\" yes\",7\n", "a:discrete b:integer",
      "a:blanks a:labels", "a", 0 },
    { "a,b\nÉté,5\nno,6\nété\u00a0,7\nÉté,6\nno,5\nété\u00a0,7\n", "a:discrete b:integer",
      "a:labels", "a", 0 },
    { "a,b\nx,5\ny,6\n,7\nx,7\ny,8\n", "a:discrete b:integer", "a:target", "a", 0 },
};

static void test_analyze__columns(void **state)
{
    for (size_t i = 0; i < COUNT(tables); i++) {
        et_analysis analysis;
        et_strbuf suspicious = ET_STRBUF_INIT;
        et_analyze_options options = { .target = tables[i].target, .header = tables[i].header };
        must_analyze(&analysis, write_text(*state, "table.csv", tables[i].text), &options);
        check_schema(&analysis, tables[i].schema);
        append_suspicious(&suspicious, &analysis);
        if (strcmp(et_strbuf_text(&suspicious), tables[i].suspicious) != 0)
            fail_msg("%s: \"%s\", not \"%s\"", tables[i].text, et_strbuf_text(&suspicious),
                     tables[i].suspicious);
        et_strbuf_release(&suspicious);
        et_analysis_release(&analysis);
    }
}

/* Keys: rows that are counted, texts that are all different; not amounts. */
static void test_analyze__keys(void **state)
{
    et_strbuf text = ET_STRBUF_INIT, suspicious = ET_STRBUF_INIT;
    et_strbuf_append(&text, "id,name,amount,hash,x\n");
    for (int i = 0; i < 200; i++)
        et_strbuf_printf(&text, "%d,user %d,%d,%lld,%d.5\n", i + 17, i, (i * 7919) % 100003,
                         (long long)i * 31233720368547759, i * i);
    et_analysis analysis;
    must_analyze(&analysis, write_text(*state, "keys.csv", text.data), NULL);
    append_suspicious(&suspicious, &analysis);
    assert_string_equal(et_strbuf_text(&suspicious), "id:key name:key hash:number");
    const et_column_metadata *name = et_metadata_find(analysis.metadata, "name");
    assert_true(name->cut && !name->entry_count);
    assert_int_equal(name->distinct, 200);
    et_analysis_release(&analysis);
    /* a target keeps its entries */
    must_analyze(&analysis, write_text(*state, "keys.csv", text.data),
                 &(et_analyze_options){ .target = "name" });
    assert_int_equal(et_metadata_find(analysis.metadata, "name")->entry_count, 200);
    assert_string_equal(et_value_get(analysis.report, "target")->string, "name");
    et_analysis_release(&analysis);
    must_analyze(&analysis, write_text(*state, "keys.csv", text.data),
                 &(et_analyze_options){ .target = "x",
                                        .more_targets = { (const char *const[]){ "name" }, 1 } });
    assert_int_equal(et_metadata_find(analysis.metadata, "name")->entry_count, 200);
    assert_string_equal(et_value_get(analysis.report, "target")->first->next->string, "name");
    et_analysis_release(&analysis);
    et_strbuf_release(&text);
    et_strbuf_release(&suspicious);
}

/* The report's text on a column; "": it has none. */
static const char *said_of(const et_analysis *analysis, const char *column, const char *kind)
{
    for (const et_value *item = et_value_get(analysis->report, "suspicious")->first; item;
         item = item->next)
        if (!strcmp(et_value_get(item, "column")->string, column) &&
            !strcmp(et_value_get(item, "kind")->string, kind))
            return et_value_get(item, "text")->string;
    return "";
}

static const char *use_of(const et_analysis *analysis, const char *column)
{
    for (const et_value *item = et_value_get(analysis->report, "columns")->first; item;
         item = item->next)
        if (!strcmp(et_value_get(item, "name")->string, column))
            return et_value_get(item, "use")->string;
    return "";
}

/* ---- codes ---- */

/* 400 rows of each. */
static const struct {
    const char *name, *values[4]; /* in turn, from row 4 on */
    const char *type, *kinds;
} codes[] = {
    { "account",
      { "888888888888888888", "1234567890123456789", "1234567890123456790", "1234567890123456791" },
      "discrete",
      "code" },
    { "round",
      { "1000000000000000000", "-9007199254740992", "5000000000000000000", "12" },
      "integer",
      "" },
    { "odd", { "9007199254740993", "-9007199254740993", "1", "2" }, "discrete", "code" },
    { "phone", { "+4930901820", "+4989636480", "+12125550123", "0" }, "discrete", "code" },
    { "change", { "+4930901820", "-4989636480", "+2125550123", "0" }, "integer", "number" },
    { "upper", { "3E5", "2E7", "105", "12E3" }, "discrete", "exponent" },
    { "hex", { "3e5", "2e7", "105", "12f3" }, "discrete", "code" },
    { "lower", { "3e5", "2e7", "105", "12e3" }, "real", "number" },
    { "printed", { "3e+05", "1e-3", "105", "2.5E7" }, "real", "" },
    { "zeros", { "007", "7", "8", "9" }, "discrete", "code" },
    { "near", { "1234567890123456", "1234567890123457", "5", "6" }, "integer", "number" },
    { "version", { "1.1", "1.2", "1.10", "2.0" }, "real", "number" },
    { "price", { "1.10", "1.20", "1", "2.0" }, "real", "" },
    { "tens", { "1.25e10", "1.25e1", "2", "2.0" }, "real", "" },
    { "far", { "12345678", "22345678", "5", "6" }, "integer", "" },
};

static void test_analyze__codes(void **state)
{
    et_strbuf text = ET_STRBUF_INIT, kinds = ET_STRBUF_INIT;
    for (size_t k = 0; k < COUNT(codes); k++)
        et_strbuf_printf(&text, "%s,", codes[k].name);
    et_strbuf_append(&text, "few,each\n");
    for (int i = 0; i < 400; i++) {
        for (size_t k = 0; k < COUNT(codes); k++)
            et_strbuf_printf(&text, "%s,", codes[k].values[i % 4]);
        et_strbuf_printf(&text, "%s%d,16999999999999%05d\n", i % 150 ? "" : "00", i % 9 + 10,
                         i * 37);
    }
    et_analysis analysis;
    must_analyze(&analysis, write_text(*state, "codes.csv", text.data), NULL);
    for (size_t k = 0; k < COUNT(codes); k++) {
        const et_schema_field *field = et_schema_find(analysis.schema, codes[k].name);
        assert_string_equal(et_schema_type_name(field->type), codes[k].type);
        et_strbuf_truncate(&kinds, 0);
        et_strbuf_append(&kinds, *said_of(&analysis, codes[k].name, "code") ? "code" : "");
        et_strbuf_append(&kinds, *said_of(&analysis, codes[k].name, "number") ? "number" : "");
        et_strbuf_append(&kinds, *said_of(&analysis, codes[k].name, "exponent") ? "exponent" : "");
        if (strcmp(et_strbuf_text(&kinds), codes[k].kinds) != 0)
            fail_msg("%s: \"%s\"", codes[k].name, et_strbuf_text(&kinds));
    }
    assert_int_equal(et_metadata_find(analysis.metadata, "account")->entry_count, 4);
    /* A few codes, and amounts that all differ, are numbers with all that belongs to numbers. */
    assert_int_equal(et_schema_find(analysis.schema, "few")->type, ET_SCHEMA_INTEGER);
    assert_non_null(
        strstr(said_of(&analysis, "few", "number"), "3 of 400 values begin with 0 or +"));
    const et_column_metadata *each = et_metadata_find(analysis.metadata, "each");
    assert_int_equal(et_schema_find(analysis.schema, "each")->type, ET_SCHEMA_INTEGER);
    assert_true(each->min == (double)1699999999999900000 &&
                each->max == (double)1699999999999914763);
    assert_non_null(
        strstr(said_of(&analysis, "each", "number"), "are integers too long for a number"));
    et_analysis_release(&analysis);
    et_strbuf_release(&text);
    et_strbuf_release(&kinds);
}

/* A value that is both a number and a text counts as one value, also if entries or numbers are no
 * longer kept one by one. */
static void test_analyze__many_codes(void **state)
{
    et_strbuf text = ET_STRBUF_INIT;
    et_strbuf_append(&text, "zip,late\n");
    for (int i = 0; i < 8000; i++)
        et_strbuf_printf(&text, "%05d,%lld\n", i % 2000,
                         i < 7950 ? (long long)i : 1234567890123456789 + i);
    et_analysis analysis;
    must_analyze(&analysis, write_text(*state, "many.csv", text.data),
                 &(et_analyze_options){ .entries = 300 });
    assert_int_equal(et_schema_find(analysis.schema, "zip")->type, ET_SCHEMA_DISCRETE);
    assert_true(fabs((double)et_metadata_find(analysis.metadata, "zip")->distinct / 2000 - 1) <
                0.05);
    const et_column_metadata *late = et_metadata_find(analysis.metadata, "late");
    assert_int_equal(et_schema_find(analysis.schema, "late")->type, ET_SCHEMA_INTEGER);
    assert_true(late->min == 0 && late->max == (double)1234567890123464788);
    assert_true(late->distinct > 7600 && late->count == 8000);
    et_analysis_release(&analysis);
    et_strbuf_release(&text);
}

/* ---- texts that are numbers or dates for a person ---- */

/* Checks the type, the notation and the unit of a column. */
static void check_format(const et_analysis *analysis, const char *column, et_schema_type type,
                         et_notation notation, const char *unit)
{
    const et_schema_field *f = et_schema_find(analysis->schema, column);
    if (f->type != type || f->notation != notation || strcmp(f->unit ? f->unit : "", unit) != 0)
        fail_msg("%s is %s, notation %d, unit %s", column, et_schema_type_name(f->type),
                 (int)f->notation, f->unit ? f->unit : "");
}

static void test_analyze__thousands(void **state)
{
    static const struct {
        const char *separator, *tail, *unit;
        et_notation notation;
        double fraction;
        const char *use;
    } cases[] = {
        { ",", "", "", ET_NOTATION_POINT, 0,
          "number, standardized, clipped (written like 1,234.50)" },
        { " ", "", "", ET_NOTATION_POINT, 0,
          "number, standardized, clipped (written like 1,234.50)" },
        { "'", ".50", "", ET_NOTATION_POINT, .5,
          "number, standardized, clipped (written like 1,234.50)" },
        { "_", "", "", ET_NOTATION_POINT, 0,
          "number, standardized, clipped (written like 1,234.50)" },
        { ".", ",5", "", ET_NOTATION_COMMA, .5,
          "number, standardized, clipped (written like 1.234,50)" },
        { "\u00a0", "", "", ET_NOTATION_POINT, 0,
          "number, standardized, clipped (written like 1,234.50)" },
        { "\u202f", ",25", "", ET_NOTATION_COMMA, .25,
          "number, standardized, clipped (written like 1.234,50)" },
        { "\u2019", "", "", ET_NOTATION_POINT, 0,
          "number, standardized, clipped (written like 1,234.50)" },
        { "\u00a0", "\u00a0\u20ac", "\u20ac", ET_NOTATION_POINT, 0,
          "number, standardized, clipped (written like 1,234.50 \u20ac)" },
        { " ", " kg", "kg", ET_NOTATION_POINT, 0,
          "number, standardized, clipped (written like 1,234.50 kg)" },
    };
    for (size_t k = 0; k < COUNT(cases); k++) {
        et_strbuf text = ET_STRBUF_INIT;
        const char *between = cases[k].separator;
        et_strbuf_append(&text, "amount;some\n");
        for (int i = 0; i < 100; i++) {
            et_strbuf_printf(&text, "%d%s%03d%s%03d%s;", i + 1, between, i * 7 % 1000, between,
                             i * 13 % 1000, cases[k].tail);
            if (i % 2)
                et_strbuf_printf(&text, "%d\n", i);
            else
                et_strbuf_printf(&text, "1%s%03d%s%03d\n", between, i, between, i);
        }
        et_analysis analysis;
        must_analyze(&analysis, write_text(*state, "amounts.csv", text.data), NULL);
        const et_column_metadata *amount = et_metadata_find(analysis.metadata, "amount");
        const et_column_metadata *some = et_metadata_find(analysis.metadata, "some");
        check_format(&analysis, "amount", cases[k].fraction ? ET_SCHEMA_REAL : ET_SCHEMA_INTEGER,
                     cases[k].notation, cases[k].unit);
        assert_string_equal(use_of(&analysis, "amount"), cases[k].use);
        assert_true(amount->min == 1000000 + cases[k].fraction);
        assert_true(amount->max == 100693287 + cases[k].fraction);
        check_format(&analysis, "some", ET_SCHEMA_INTEGER,
                     *between == '.' ? ET_NOTATION_COMMA : ET_NOTATION_POINT, "");
        assert_true(some->min == 1 && some->max == 1098098 && some->count == 100);
        assert_int_equal(et_value_get(analysis.report, "suspicious")->count, 0);
        et_analysis_release(&analysis);
        et_strbuf_release(&text);
    }
}

static void test_analyze__signs(void **state)
{
    static const struct {
        const char *plus, *minus, *end, *unit;
        et_notation notation;
    } cases[] = {
        { "0,", "-0,", "", "", ET_NOTATION_COMMA },
        { "$0.", "-$0.", "", "$", ET_NOTATION_POINT },
        { "0.", "\u22120.", "", "", ET_NOTATION_POINT },
        { "0.", "\u20130.", "", "", ET_NOTATION_POINT },
        { "0.", "-0.", " %", "%", ET_NOTATION_POINT },
        { "EUR 0,", "EUR -0,", "", "EUR", ET_NOTATION_COMMA },
    };
    for (size_t k = 0; k < COUNT(cases); k++) {
        et_strbuf text = ET_STRBUF_INIT;
        et_strbuf_append(&text, "change;loss;y\n");
        for (int i = 0; i < 100; i++)
            et_strbuf_printf(&text, "%s%03d%s;%s%d,%03d%s;%d\n",
                             i % 3 ? cases[k].plus : cases[k].minus, i * 37 % 1000, cases[k].end,
                             i % 3 ? "" : "(", i + 1, i, i % 3 ? "" : ")", i);
        et_analysis analysis;
        must_analyze(&analysis, write_text(*state, "signs.csv", text.data), NULL);
        const et_column_metadata *change = et_metadata_find(analysis.metadata, "change");
        check_format(&analysis, "change", ET_SCHEMA_REAL, cases[k].notation, cases[k].unit);
        assert_true(change->min == -.999 && change->max == .962);
        const bool comma = cases[k].notation == ET_NOTATION_COMMA; /* the same in both columns */
        check_format(&analysis, "loss", comma ? ET_SCHEMA_REAL : ET_SCHEMA_INTEGER,
                     cases[k].notation, "");
        assert_true(et_metadata_find(analysis.metadata, "loss")->min ==
                    (comma ? -100.099 : -100099));
        assert_true(et_metadata_find(analysis.metadata, "loss")->max == (comma ? 99.098 : 99098));
        et_analysis_release(&analysis);
        et_strbuf_release(&text);
    }
}

/* What decides between two notations, and where none is taken. few: one of so many rows. */
static void test_analyze__notations(void **state)
{
    static const struct {
        int each;
        const char *most, *few;
        et_schema_type type;
        et_notation notation;
        const char *kind, *said;
    } cases[] = {
        { 10, "%d.%03d", "1.000.%d,5", ET_SCHEMA_REAL, ET_NOTATION_PLAIN, "text",
          "4 of 40 values" },
        { 10, "%d.%03d", "1.0%02d,5", ET_SCHEMA_REAL, ET_NOTATION_COMMA, "", "" },
        { 10, "%d,%03d", "%d,5", ET_SCHEMA_REAL, ET_NOTATION_COMMA, "", "" },
        { 10, "%d,%03d", "%d.5", ET_SCHEMA_REAL, ET_NOTATION_POINT, "", "" },
        { 10, "%d,%03d", "%d", ET_SCHEMA_INTEGER, ET_NOTATION_POINT, "notation",
          "no value shows the decimal mark: \"1,001\" in " },
        { 10, "%d,%03d", "none %d", ET_SCHEMA_INTEGER, ET_NOTATION_POINT, "text",
          "4 of 40 values are not numbers" },
        { 5, "%d kg", "%d g", ET_SCHEMA_DISCRETE, ET_NOTATION_PLAIN, "unit",
          "numbers with several units (\"5 g\"), such as \"1 kg\"" },
        { 10, "%d.5", "%d %%", ET_SCHEMA_REAL, ET_NOTATION_PLAIN, "notation",
          "4 of 40 values are numbers in a notation, such as \"10 %\"" },
        { 10, "%d,1", "%d,000.5", ET_SCHEMA_REAL, ET_NOTATION_COMMA, "text",
          "4 of 40 values are not numbers" },
        { 10, "A%d", "A%d", ET_SCHEMA_DISCRETE, ET_NOTATION_PLAIN, "", "" },
        { 10, "$00%d", "$00%d", ET_SCHEMA_DISCRETE, ET_NOTATION_PLAIN, "notation",
          "numbers in a notation" },
    };
    for (size_t k = 0; k < COUNT(cases); k++) {
        et_strbuf text = ET_STRBUF_INIT;
        et_strbuf_append(&text, "x;y\n");
        for (int i = 1; i <= 40; i++) {
            char cell[64];
            snprintf(cell, sizeof cell, i % cases[k].each ? cases[k].most : cases[k].few, i, i);
            et_strbuf_printf(&text, "%s;%d\n", cell, i % 2);
        }
        et_analysis analysis;
        must_analyze(&analysis, write_text(*state, "notations.csv", text.data), NULL);
        check_format(&analysis, "x", cases[k].type, cases[k].notation, "");
        if (!*cases[k].kind)
            assert_int_equal(et_value_get(analysis.report, "suspicious")->count, k == 9);
        else if (!strstr(said_of(&analysis, "x", cases[k].kind), cases[k].said))
            fail_msg("case %zu: %s", k, said_of(&analysis, "x", cases[k].kind));
        et_analysis_release(&analysis);
        et_strbuf_release(&text);
    }
}

/* A column of which no value shows the decimal mark has the mark of the other columns. */
static void test_analyze__notation_of_others(void **state)
{
    static const struct {
        const char *other;
        double largest;
        const char *said;
    } cases[] = {
        { "%d,5 \u20ac", 40.125,
          "is read as 1.125, as other columns have a decimal comma; if it "
          "means 1125, write `notation: point`" },
        { "%d.5", 40125, "is read as 1125; if it means 1.125, write `notation: comma`" },
        { "%d", 40125, "is read as 1125; if it means 1.125, write `notation: comma`" },
    };
    for (size_t k = 0; k < COUNT(cases); k++) {
        et_strbuf text = ET_STRBUF_INIT;
        et_strbuf_append(&text, "x;y\n");
        for (int i = 1; i <= 40; i++) {
            char cell[64];
            snprintf(cell, sizeof cell, cases[k].other, i);
            et_strbuf_printf(&text, "%d,125;%s\n", i, cell);
        }
        et_analysis analysis;
        must_analyze(&analysis, write_text(*state, "others.csv", text.data), NULL);
        assert_true(et_metadata_find(analysis.metadata, "x")->max == cases[k].largest);
        assert_non_null(strstr(said_of(&analysis, "x", "notation"), cases[k].said));
        et_analysis_release(&analysis);
        et_strbuf_release(&text);
    }
}

/* A schema says how numbers are written, and is not asked again. */
static void test_analyze__notation_given(void **state)
{
    static const char text[] = "a;b\n1,5 kg;1.234\n2;5\n";
    static const et_schema_field fields[] = {
        { .name = "a", .type = ET_SCHEMA_REAL, .notation = ET_NOTATION_COMMA, .unit = "kg" },
        { .name = "b", .type = ET_SCHEMA_INTEGER, .notation = ET_NOTATION_COMMA },
    };
    et_schema *schema;
    assert_int_equal(et_schema_create(&schema, fields, 2, NULL), ET_OK);
    et_analysis analysis;
    must_analyze(&analysis, write_text(*state, "given.csv", text),
                 &(et_analyze_options){ .schema = schema });
    assert_true(et_metadata_find(analysis.metadata, "a")->min == 1.5);
    assert_true(et_metadata_find(analysis.metadata, "b")->max == 1234);
    et_analysis_release(&analysis);
    et_schema_free(schema);
}

/* Files of several threads, and other files, are read twice with equal results. */
static void test_analyze__notation_large(void **state)
{
    et_strbuf text = ET_STRBUF_INIT, other = ET_STRBUF_INIT;
    et_strbuf_append(&text, "x;y;z\n");
    et_strbuf_append(&other, "z;y;x\n");
    for (int i = 0; i < 200000; i++)
        et_strbuf_printf(&text, "%d.%03d,%d;%d;%d\n", i % 900 + 1, i % 1000, i % 10, i % 7, i % 5);
    for (int i = 0; i < 100; i++)
        et_strbuf_printf(&other, "%d;%d;901.000,5\n", i % 5, i % 7);
    const char *paths[] = { write_text(*state, "one.csv", text.data),
                            write_text(*state, "two.csv", other.data) };
    et_metadata *first = NULL;
    for (int threads = 1; threads <= 3; threads += 2) {
        et_analysis analysis;
        et_error error = ET_ERROR_INIT;
        if (et_analyze(&analysis, &(et_strings){ paths, 2 },
                       &(et_analyze_options){ .threads = threads }, &error))
            fail_msg("%s", error.text);
        const et_column_metadata *x = et_metadata_find(analysis.metadata, "x");
        check_format(&analysis, "x", ET_SCHEMA_REAL, ET_NOTATION_COMMA, "");
        assert_true(x->count == 200100 && x->max == 901000.5 && x->min == 1000);
        if (first) {
            const et_column_metadata *one = et_metadata_find(first, "x");
            assert_true(one->mean == x->mean && one->std == x->std);
            et_metadata_free(first);
        }
        first = analysis.metadata;
        analysis.metadata = NULL;
        et_analysis_release(&analysis);
    }
    et_metadata_free(first);
    et_strbuf_release(&text);
    et_strbuf_release(&other);
}

static void test_analyze__dates(void **state)
{
    et_strbuf text = ET_STRBUF_INIT;
    et_strbuf_append(&text, "when,but,german,y\n");
    for (int i = 0; i < 3000; i++)
        et_strbuf_printf(&text, "20%02d-%02d-%02dT%02d:%02d,%s%04d-%02d-01,%d.%d.20%02d,%d\n",
                         i / 300, i % 12 + 1, i % 28 + 1, i % 24, i % 59, i == 7 ? "about " : "", i,
                         i % 12 + 1, i % 28 + 1, i % 12 + 1, i / 100, i % 2);
    et_analysis analysis;
    must_analyze(&analysis, write_text(*state, "dates.csv", text.data),
                 &(et_analyze_options){ .target = "y", .entries = 500 });
    const et_column_metadata *when = et_metadata_find(analysis.metadata, "when");
    assert_int_equal(when->dates, 3000);
    assert_int_equal(when->entry_count, 0);
    assert_string_equal(use_of(&analysis, "when"), "date, its parts");
    assert_string_equal(said_of(&analysis, "when", "date"), "");
    assert_int_equal(et_metadata_find(analysis.metadata, "but")->dates, 2999);
    assert_non_null(strstr(said_of(&analysis, "but", "date"),
                           "2,999 of 3,000 values are dates, but not \"about 0007-08-01\" in"));
    assert_string_equal(use_of(&analysis, "german"), "date, its parts");
    assert_string_equal(said_of(&analysis, "german", "date"), "");
    et_analysis_release(&analysis);
    et_strbuf_release(&text);
}

static void test_analyze__metadata(void **state)
{
    static const char text[] = "n,t,half,none\n3,b,1,\n1,a,,\n4,b,,\n1,\"c \"\"d\"\"\",2,\n";
    et_analysis analysis;
    must_analyze(&analysis, write_text(*state, "table.csv", text),
                 &(et_analyze_options){ .quantiles = 3 });
    const et_column_metadata *n = et_metadata_find(analysis.metadata, "n");
    assert_int_equal(n->count, 4);
    assert_int_equal(n->missing, 0);
    assert_int_equal(n->distinct, 3);
    assert_true(n->has_range && n->min == 1 && n->max == 4);
    assert_true(n->has_moments && n->mean == 2.25 && fabs(n->std - 1.299038105676658) < 1e-15);
    assert_int_equal(n->quantile_count, 3);
    assert_true(n->quantiles[0] == 1 && n->quantiles[1] == 2 && n->quantiles[2] == 4);
    assert_int_equal(n->entry_count, 0);
    const et_column_metadata *t = et_metadata_find(analysis.metadata, "t");
    assert_int_equal(t->entry_count, 3);
    assert_string_equal(t->entries[0], "b");
    assert_string_equal(t->entries[1], "a");
    assert_string_equal(t->entries[2], "c \"d\"");
    assert_int_equal(t->counts[0], 2);
    assert_int_equal(t->counts[2], 1);
    assert_true(!t->has_range && !t->cut);
    const et_column_metadata *half = et_metadata_find(analysis.metadata, "half");
    assert_int_equal(half->count, 2);
    assert_int_equal(half->missing, 2);
    assert_int_equal(half->quantile_count, 2);
    const et_column_metadata *none = et_metadata_find(analysis.metadata, "none");
    assert_int_equal(none->missing, 4);
    assert_true(!none->has_range && !none->entry_count);
    et_analysis_release(&analysis);
}

/* ---- errors ---- */

static void test_analyze__errors(void **state)
{
    static const struct {
        const char *text, *message;
        et_analyze_options options;
    } rows[] = {
        { "", ": the file has no rows", { 0 } },
        { "\n\n", ": the file has no rows", { 0 } },
        { "#x\n", ": the file has no rows", { .csv.comment = '#' } },
        { "a,b\n", ": the file has a header and no rows", { .header = ET_HEADER_THERE } },
        { "a,b,a\n1,2,3\n", ":1: columns 1 and 3 are both called \"a\"", { 0 } },
        { "column_2,\n1,2\n", ":1: columns 1 and 2 are both called \"column_2\"", { 0 } },
        { "a,\"b\nc\"\n1,2\n",
          ":1: byte 2 of the name of column 2 is a control character (0x",
          { 0 } },
        { "age,b\n1,2\n", "there is no column \"agee\". Nearest: age", { .target = "agee" } },
        { "1,2\n", "no header: column_1, column_2", { .target = "age" } },
        { "a,b\n1,2\n3\n", ":3: 1 column, where 2 are expected", { 0 } },
        { "a,b\n1,2\n3,\"4\n", ":3: column 2: the quote that opens here", { 0 } },
        { "a,b\n1,2\n3,\"4\"x\n", ":3: column 2: \"x\" follows", { 0 } },
        { "a,b\n1,2\n3,\xff\n", ":3: column 2: the byte 0xFF is not UTF-8", { 0 } },
        { "a\rb\r", "lines end with CR: end them with LF (tr '\\r' '\\n')", { 0 } },
        { "a\n1\n", "100000001 entries", { .entries = 100000001 } },
        { "a\n1\n", "1 quantile: give 2", { .quantiles = 1 } },
        { "a\n1\n", "-1 threads", { .threads = -1 } },
        { "a\n1\n", "1001 classes", { .classes = 1001 } },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        et_analysis analysis;
        et_error error = ET_ERROR_INIT;
        const char *path = write_text(*state, "bad.csv", rows[i].text);
        assert_int_not_equal(analyze(&analysis, path, &rows[i].options, &error), ET_OK);
        assert_contains(error.text, rows[i].message);
        assert_null(analysis.schema);
    }
    et_analysis analysis;
    assert_int_equal(et_analyze(&analysis, &(et_strings){ NULL, 0 }, NULL, NULL), ET_ECONFIG);
    assert_int_equal(analyze(&analysis, "none.csv", NULL, NULL), ET_ENOTFOUND);
}

/* ---- several files ---- */

static void test_analyze__files(void **state)
{
    et_analysis analysis;
    et_error error = ET_ERROR_INIT;
    const char *paths[] = { write_text(*state, "1.csv", "a,b\n1,x\n2,y\n"),
                            write_gzip(*state, "2.csv.gz", "a,b\n3,x\n"),
                            write_text(*state, "3.csv", "4,z\n5,x"),
                            write_text(*state, "4.csv", "") };
    if (et_analyze(&analysis, &(et_strings){ paths, 4 }, NULL, &error))
        fail_msg("%s", error.text);
    check_schema(&analysis, "a:integer b:discrete");
    const et_column_metadata *a = et_metadata_find(analysis.metadata, "a");
    assert_true(a->count == 5 && a->min == 1 && a->max == 5 && a->mean == 3);
    et_analysis_release(&analysis);
    static const struct {
        const char *text, *message;
    } others[] = {
        { "a,c\n1,2\n",
          "1.csv; this file lacks b; this file also has c: give all files the same columns" },
        { "a,b,c\n1,x,3\n", "1.csv; this file also has c: " },
        { "b\nx\n", "1.csv; this file lacks a: " },
        { "B,A\nx,1\n", "1.csv; this file lacks a, b; this file also has B, A:" },
        { "c,d\n1,x\n2,y\n", "1.csv; this file lacks a, b; this file also has c, d:" },
        { "a,b,a\n1,x,1\n", "other.csv:1: columns 1 and 3 are both called \"a\": rename one" },
        { "1,2,3\n", "other.csv:1: 3 columns, where 2 are expected" },
    };
    for (size_t i = 0; i < COUNT(others); i++) {
        const char *two[] = { paths[0], write_text(*state, "other.csv", others[i].text) };
        assert_int_equal(et_analyze(&analysis, &(et_strings){ two, 2 }, NULL, &error), ET_EDATA);
        assert_contains(error.text, others[i].message);
    }
    const char *two[] = { paths[0], paths[2] };
    assert_int_equal(et_analyze(&analysis, &(et_strings){ two, 2 },
                                &(et_analyze_options){ .header = ET_HEADER_THERE }, &error),
                     ET_EDATA);
    assert_contains(error.text, "3.csv:1: the header differs from the header of");
    assert_contains(error.text, "1.csv; this file lacks a, b; this file also has 4, z");
}

/* A column's statistics are those of the values below its name, in whichever order the files have
 * the columns. */
static void test_analyze__files_in_other_orders(void **state)
{
    static const char schema_text[] = "fields: [{name: c, type: real}, {name: a, type: integer},\n"
                                      "         {name: p, type: real, length: 2}]\n";
    static const char *const others[] = {
        "\xef\xbb\xbf\"b\",c,p[1],a,p[0]\nx,1.5,5,3,4\ny,2.5,5,4,4\n",
        "b;c;p[1];a;p[0]\r\n\"x\";1.5;5;3;4\r\n\"y\";2.5;5;4;4\r\n",
        "p[0]\tp[1]\ta\tb\tc\n4\t5\t3\tx\t1.5\n4\t5\t4\ty\t2.5\n",
        "3,x,0.5,4,5\n3,x,1.5,4,5\n4,y,3.5,4,5\n", /* without a header: in the first file's order */
    };
    et_schema *schema;
    assert_ok(et_schema_parse(&schema, schema_text, strlen(schema_text), "schema.yaml", error));
    for (size_t i = 0; i < 4 * COUNT(others); i++) {
        const char *text = others[i / 4], *first = "a,b,c,p[0],p[1]\n1,x,0.5,4,5\n2,y,3.5,4,5\n";
        const char *paths[] = { write_text(*state, "1.csv", first),
                                i & 2 ? write_gzip(*state, "2.csv", text)
                                      : write_text(*state, "2.csv", text) };
        et_analysis analysis;
        const et_analyze_options options = { .schema = i & 1 ? schema : NULL };
        assert_ok(et_analyze(&analysis, &(et_strings){ paths, 2 }, &options, error));
        const bool more = i / 4 == 3;
        const et_column_metadata *a = et_metadata_find(analysis.metadata, "a");
        const et_column_metadata *c = et_metadata_find(analysis.metadata, "c");
        assert_true(a->count == (more ? 5 : 4) && a->min == 1 && a->max == 4);
        assert_true(c->mean == (more ? 9.5 / 5 : 2) && c->min == 0.5 && c->max == 3.5);
        const et_column_metadata *p = et_metadata_find(analysis.metadata, i & 1 ? "p" : "p[1]");
        assert_true(p->mean == (i & 1 ? 4.5 : 5) && p->max == 5);
        if (!(i & 1)) {
            const et_column_metadata *b = et_metadata_find(analysis.metadata, "b");
            assert_true(b->entry_count == 2 && b->counts[0] + b->counts[1] == (more ? 5 : 4));
        }
        et_analysis_release(&analysis);
    }
    et_schema_free(schema);
}

/* A marker of missing values that occurs in no file is reported. */
static void test_analyze__unmatched_markers(void **state)
{
    static const char *const markers[] = { "", "NA", "-998", "-999", "none", "x", NULL };
    et_analysis analysis;
    const char *paths[] = { write_text(*state, "1.csv", "a,b\n1,x\n-999.0,\"none\"\n"),
                            write_text(*state, "2.csv", "b,a\ny,4\n") };
    const et_analyze_options options = { .csv = { .missing = markers } };
    assert_ok(et_analyze(&analysis, &(et_strings){ paths, 2 }, &options, error));
    const et_value *list = et_value_get(analysis.report, "missing_unmatched");
    assert_int_equal(list->count, 2);
    assert_string_equal(list->first->string, "-998");
    assert_string_equal(list->last->string, "none");
    const et_column_metadata *a = et_metadata_find(analysis.metadata, "a");
    assert_true(a->missing == 1 && a->min == 1 && a->max == 4);
    et_analysis_release(&analysis);
}

/* Names that only one of the files has are not guessed. */
static void test_analyze__header_behind_none(void **state)
{
    et_analysis analysis;
    const char *paths[] = { write_text(*state, "1.csv", "1,x\n2,y\n"),
                            write_text(*state, "2.csv", "a,b\n3,x\n") };
    et_analyze_options options = { .header = ET_HEADER_FOUND };
    assert_fails(et_analyze(&analysis, &(et_strings){ paths, 2 }, &options, error), ET_EDATA,
                 "2.csv:1: the first row looks like a header, but");
    options.header = ET_HEADER_ABSENT;
    assert_ok(et_analyze(&analysis, &(et_strings){ paths, 2 }, &options, error));
    et_analysis_release(&analysis);
}

/* ---- a schema that is given ---- */

static void test_analyze__schema(void **state)
{
    static const et_schema_field fields[] = {
        { .name = "b", .type = ET_SCHEMA_DISCRETE, .missing = "7" },
        { .name = "v", .type = ET_SCHEMA_REAL, .length = 2 },
    };
    et_schema *schema;
    et_analysis analysis;
    et_error error = ET_ERROR_INIT;
    assert_int_equal(et_schema_create(&schema, fields, 2, NULL), ET_OK);
    const et_analyze_options options = { .schema = schema };
    const char *named = write_text(*state, "named.csv", "v[1],extra,b,v[0]\n4,x,1,3\n2,y,5,1\n");
    const char *bare = write_text(*state, "bare.csv", "1,3,4\n5,1,2\n");
    for (int way = 0; way < 2; way++) {
        must_analyze(&analysis, way ? bare : named, &options);
        check_schema(&analysis, "b:discrete v:real");
        assert_string_equal(et_schema_at(analysis.schema, 0)->missing, "7");
        const et_column_metadata *v = et_metadata_find(analysis.metadata, "v");
        assert_true(v->count == 4 && v->min == 1 && v->max == 4 && v->mean == 2.5);
        assert_int_equal(et_metadata_find(analysis.metadata, "b")->entry_count, 2);
        assert_int_equal(et_metadata_count(analysis.metadata), 2);
        et_analysis_release(&analysis);
    }
    static const struct {
        const char *text, *message;
    } bad[] = {
        { "b,v[0]\n1,2\n", ":1: the header does not match the schema: there is no column v[1]" },
        { "x,b\n1,2\n", "there is no column v[0], v[1]" },
        { "1,2\n", ":1: 2 columns, but the schema has 3" },
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        assert_int_equal(
            analyze(&analysis, write_text(*state, "bad.csv", bad[i].text), &options, &error),
            ET_EDATA);
        assert_contains(error.text, bad[i].message);
    }
    et_schema_free(schema);
}

/* ---- hostile ---- */

/* A good table with bytes changed: an analysis or an error, the same for any number of threads. */
static void test_analyze__mutated(void **state)
{
    static const char good[] =
        "id,age,name,\"a b\"\n1,2.5,\"x \"\"y\"\"\",0\n2,NA,z,1\n3,7e2,,0\n4,,w,1\n";
    unsigned seed = 9;
    for (int round = 0; round < 2000; round++) {
        char text[sizeof good];
        memcpy(text, good, sizeof good);
        for (int i = 0; i < 1 + round % 3; i++)
            text[roll(&seed, sizeof good - 1)] =
                roll(&seed, 2) ? ",\"\n\r1x."[roll(&seed, 7)] : (char)roll(&seed, 256);
        const char *path = write_bytes(*state, "mutated.csv", text, sizeof good - 1);
        et_analysis analysis;
        et_error error = ET_ERROR_INIT;
        int status = analyze(&analysis, path, &(et_analyze_options){ .threads = 1 }, &error);
        if (status)
            assert_contains(error.text, path);
        else
            et_analysis_release(&analysis);
    }
}

static void test_analyze__scarce(void **state)
{
    et_strbuf text = ET_STRBUF_INIT;
    et_strbuf_append(&text, "a,b,c\n");
    for (int i = 0; i < 3000; i++)
        et_strbuf_printf(&text, "%d,%d.5,word %d\n", i % 5, i, i);
    const char *path = write_text(*state, "scarce.csv", text.data);
    for (long n = 0;; n++) {
        et_analysis analysis;
        et_error error = ET_ERROR_INIT;
        scarce_begin(n);
        int status =
            analyze(&analysis, path,
                    &(et_analyze_options){ .threads = 1, .target = "a", .entries = 100 }, &error);
        if (!status)
            et_analysis_release(&analysis);
        bool failed = scarce_failed;
        scarce_end();
        if (!failed) {
            assert_int_equal(status, ET_OK);
            break;
        }
        if (status != ET_ENOMEM)
            fail_msg("%ld: %d %s", n, status, error.text);
    }
    et_strbuf_release(&text);
}

/* ---- compared with pandas ---- */

static void check_golden(const et_analysis *analysis, const struct golden_column *golden)
{
    const et_column_metadata *m = et_metadata_find(analysis->metadata, golden->column);
    assert_int_equal(m->count, golden->values);
    assert_int_equal(m->missing, golden->missing);
    assert_true(fabs((double)m->distinct / (double)golden->distinct - 1) < 0.05);
    if (golden->most) {
        if (!m->entry_count) /* a key */
            return;
        assert_int_equal(m->entry_count, golden->distinct);
        assert_string_equal(m->entries[0], golden->most);
        assert_int_equal(m->counts[0], golden->most_count);
        return;
    }
    const double *want = golden->numbers;
    double got[] = { m->min, m->max, m->mean, m->std };
    for (int i = 0; i < 4; i++)
        if (fabs(got[i] - want[i]) > 1e-12 * fabs(want[i]))
            fail_msg("%s: %.17g, not %.17g", golden->column, got[i], want[i]);
    for (int q = 1; q <= 3; q++) {
        double quantile = m->quantiles[64 * q], range = m->max - m->min;
        if (fabs(quantile - want[3 + q]) > 0.005 * range)
            fail_msg("%s: quartile %d is %g, not %g", golden->column, q, quantile, want[3 + q]);
    }
}

static void test_analyze__golden(void **state)
{
    (void)state;
    const char *before = "";
    et_analysis analysis = { .arena = ET_ARENA_INIT };
    for (size_t i = 0; i < COUNT(golden_columns); i++) {
        const struct golden_column *golden = &golden_columns[i];
        if (strcmp(golden->file, before) != 0) {
            char path[512];
            snprintf(path, sizeof path, ET_TEST_SHARED "/data/tabular/%s", golden->file);
            if (access(path, R_OK))
                test_skip("no ../shared/data/tabular");
            et_analysis_release(&analysis);
            must_analyze(&analysis, path, NULL);
            before = golden->file;
        }
        check_golden(&analysis, golden);
    }
    et_analysis_release(&analysis);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_analyze__columns),
        cmocka_unit_test(test_analyze__keys),
        cmocka_unit_test(test_analyze__metadata),
        cmocka_unit_test(test_analyze__errors),
        cmocka_unit_test(test_analyze__files),
        cmocka_unit_test(test_analyze__files_in_other_orders),
        cmocka_unit_test(test_analyze__header_behind_none),
        cmocka_unit_test(test_analyze__unmatched_markers),
        cmocka_unit_test(test_analyze__schema),
        cmocka_unit_test(test_analyze__mutated),
        cmocka_unit_test(test_analyze__scarce),
        cmocka_unit_test(test_analyze__golden),
        cmocka_unit_test(test_analyze__codes),
        cmocka_unit_test(test_analyze__many_codes),
        cmocka_unit_test(test_analyze__thousands),
        cmocka_unit_test(test_analyze__notations),
        cmocka_unit_test(test_analyze__notation_of_others),
        cmocka_unit_test(test_analyze__notation_given),
        cmocka_unit_test(test_analyze__notation_large),
        cmocka_unit_test(test_analyze__signs),
        cmocka_unit_test(test_analyze__dates),
    };
    return cmocka_run_group_tests(tests, fixture_open, fixture_close);
}
