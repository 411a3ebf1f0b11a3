/* Forms in bodies of requests: as browsers, curl and RFC 7578 write them, and as nobody should. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/text/strbuf.h"
#include "base/values/value.h"
#include "command/web/form.h"

#define COUNT(x) (sizeof(x) / sizeof(x)[0])
#define NAME(n)  "Content-Disposition: form-data; name=\"" n "\"\r\n"

/* What a form has, "q=a|b=c"; or, where words is set, that the error has these words. */
static void check(const char *boundary, const char *body, size_t length, const char *fields,
                  const char *words)
{
    et_arena arena = ET_ARENA_INIT;
    et_strbuf all = ET_STRBUF_INIT;
    et_error error = ET_ERROR_INIT;
    et_value *form;
    char *text = et_alloc(length + 1, 1);
    memcpy(text, body, length);
    text[length] = 0;
    int status = et_form_read(&form, &arena, boundary, text, length, &error);
    et_free(text); /* nothing points into it */
    if (words) {
        assert_int_equal(status, ET_EDATA);
        if (!strstr(error.text, words))
            fail_msg("%s: %s, wanted %s", body, error.text, words);
    } else {
        if (status)
            fail_msg("%s: %s", body, error.text);
        for (const et_value *v = form->first; v; v = v->next)
            et_strbuf_printf(&all, "%s%s=%s", all.length ? "|" : "", v->key, v->string);
        assert_string_equal(et_strbuf_text(&all), fields);
    }
    et_strbuf_release(&all);
    et_arena_release(&arena);
}

static void test_form__pairs(void **state)
{
    static const struct {
        const char *body, *fields, *words;
    } rows[] = {
        { "q=a+dog&source=en", "q=a dog|source=en", NULL },
        { "", "", NULL },
        { "&&q=a&", "q=a", NULL },
        { "q", "q=", NULL },
        { "q=a=b", "q=a=b", NULL },
        { "q=%41%c3%A9%0D%0Ab\r\nc", "q=A\xc3\xa9\nb\nc", NULL },
        { "q=100%&b=%4&c=%zz", "q=100%|b=%4|c=%zz", NULL },
        { "%71=a", "q=a", NULL },
        { "q=a&q=b", NULL, "q twice" },
        { "q=%00", NULL, "q has a byte 0" },
        { "q%00=a", NULL, "a name has a byte 0" },
        { "q=%ff", NULL, "byte 1 of q is not UTF-8" },
        { "%ff=a", NULL, "a name is not UTF-8" },
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++)
        check(NULL, rows[i].body, strlen(rows[i].body), rows[i].fields, rows[i].words);
}

static void test_form__parts(void **state)
{
    static const struct {
        const char *boundary, *body, *fields, *words;
    } rows[] = {
        /* a boundary of one letter, which is the shortest */
        { "x", "--x\r\n" NAME("q") "\r\na\r\n--x\r\n" NAME("b") "\r\nc\r\n--x--\r\n", "q=a|b=c",
          NULL },
        { "-", "---\r\n" NAME("q") "\r\na\r\n-----\r\n", "q=a", NULL },
        { "x", "--x\r\n" NAME("q") "\r\na\r\n--x--", "q=a", NULL },
        { "x", "before\r\n--x \t\r\n" NAME("q") "\r\na\r\n--x--\r\nafter\r\n--x\r\n", "q=a", NULL },
        /* lines that only begin like a delimiter */
        { "x", "--x\r\n" NAME("q") "\r\n--xy\r\n--x-\r\n --x\r\n\n--x\r\n--x--\r\n",
          "q=--xy\n--x-\n --x\n\n--x", NULL },
        { "ab c", "--ab c\r\n" NAME("q") "\r\n\r\n\r\n--ab c--\r\n", "q=\n", NULL },
        { "x", "--x\r\n" NAME("q") "\r\n\r\n--x--\r\n", "q=", NULL },
        { "x", "--x\r\n" NAME("q") "\r\n--x\r\n" NAME("b") "\r\na\r\n--x--", "q=|b=a", NULL },
        { "x", "--x--\r\n", "", NULL },
        { "x",
          "--x\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-disposition:form-data;NAME=q; "
          "filename=\"a;b\"\r\nContent-Transfer-Encoding: 8bit\r\n\r\na\r\n--x--",
          "q=a", NULL },
        { "x", "--x\r\n" NAME("q\\\"r") "\r\na\r\n--x--", "q\"r=a", NULL },
        { "x", "", NULL, "no line is --x" },
        { "x", "a=b", NULL, "no line is --x" },
        { "x", "--x", NULL, "no line is --x" },
        { "x", "--x\n" NAME("q") "\na\n--x--\n", NULL, "lines end in CR LF" },
        { "x", "--x\r\n" NAME("q") "\r\na", NULL, "the line --x-- is missing" },
        { "x", "--x\r\n" NAME("q") "\r\na\r\n--x", NULL, "the line --x-- is missing" },
        { "x", "--x\r\n" NAME("q"), NULL, "no end of its headers" },
        { "x", "--x\r\n\r\na\r\n--x--", NULL, "part 1 has no name" },
        { "x", "--x\r\nContent-Disposition: form-data\r\n\r\na\r\n--x--", NULL, "needs one name" },
        { "x", "--x\r\n" NAME("q") NAME("b") "\r\na\r\n--x--", NULL, "needs one name" },
        { "x", "--x\r\nContent-Disposition: form-data; name=q; name=b\r\n\r\na\r\n--x--", NULL,
          "needs one name" },
        { "x", "--x\r\n" NAME("q") "Content-Transfer-Encoding: base64\r\n\r\nYQ==\r\n--x--", NULL,
          "send the value as it is" },
        { "x", "--x\r\n" NAME("q") "\r\na\r\n--x\r\n" NAME("q") "\r\nb\r\n--x--", NULL, "q twice" },
        { "x", "--x\r\n" NAME("q") "\r\n\xff\r\n--x--", NULL, "not UTF-8" },
    };
    static const char zero[] = "--x\r\n" NAME("q") "\r\na\0b\r\n--x--";
    static const char zero_header[] = "--x\r\n" NAME("q") "A: \0\r\n\r\nb\r\n--x--";
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++)
        check(rows[i].boundary, rows[i].body, strlen(rows[i].body), rows[i].fields, rows[i].words);
    check("x", zero, sizeof zero - 1, NULL, "q has a byte 0");
    check("x", zero_header, sizeof zero_header - 1, NULL, "a header of part 1 has a byte 0");
}

/* Many fields, long names and headers, and a megabyte of what looks like delimiters. */
static void test_form__large(void **state)
{
    et_strbuf text = ET_STRBUF_INIT;
    char longest[ET_FORM_NAME_MAX + 2];
    (void)state;
    memset(longest, 'a', sizeof longest);
    longest[ET_FORM_NAME_MAX + 1] = 0;
    for (int i = 0; i <= ET_FORM_FIELDS_MAX; i++)
        et_strbuf_printf(&text, "&a%d=b", i);
    check(NULL, et_strbuf_text(&text), text.length, NULL, "more than 64 fields");
    check(NULL, longest, ET_FORM_NAME_MAX + 1, NULL, "more than 63 bytes");
    et_strbuf_reset(&text);
    et_strbuf_printf(&text, "--x\r\nContent-Disposition: form-data; name=%s\r\n\r\n\r\n--x--",
                     longest);
    check("x", et_strbuf_text(&text), text.length, NULL, "at most 63 bytes");
    et_strbuf_reset(&text);
    et_strbuf_append(&text, "--x\r\nA: ");
    for (int i = 0; i < 5000; i++)
        et_strbuf_append_char(&text, 'a');
    et_strbuf_append(&text, "\r\n\r\n--x--");
    check("x", et_strbuf_text(&text), text.length, NULL, "no end of its headers");
    et_strbuf_reset(&text);
    et_strbuf_append(&text, "--x\r\n" NAME("q") "\r\n");
    for (int i = 0; i < 200000; i++)
        et_strbuf_append(&text, "\r\n--xy");
    check("x", et_strbuf_text(&text), text.length, NULL, "the line --x-- is missing");
    et_strbuf_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_form__pairs),
        cmocka_unit_test(test_form__parts),
        cmocka_unit_test(test_form__large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
