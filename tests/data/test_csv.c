#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/scarce.h"
#include "calls.h"
#include "data/fixture.h"
#include "data/table/rows/csv.h"
#include "data/table/rows/csv_scan.h"
#include "skip.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* A row as text: "2<a|b|->" began in line 2; "-" is a missing value, "'" precedes a value that is
 * not missing. */
static void append_row(et_strbuf *out, const et_csv_row *row)
{
    et_strbuf_printf(out, "%lld<", (long long)row->line);
    for (int i = 0; i < row->count; i++) {
        et_strbuf_append(out, i ? "|" : "");
        et_strbuf_append_char(out, row->cell[i].text ? '\'' : '-');
        if (row->cell[i].text)
            et_strbuf_append_bytes(out, row->cell[i].text, row->cell[i].length);
    }
    et_strbuf_append_char(out, '>');
}

/* All rows; "!" for each bad row after which reading continues. Returns the first failure. */
static int read_rows(et_csv *csv, bool go_on, et_strbuf *out, et_error *error)
{
    et_csv_row row;
    int first = ET_OK;
    for (;;) {
        int status = et_csv_next(csv, &row, first ? NULL : error);
        first = first ? first : status;
        if (status && (!go_on || status != ET_EDATA))
            return first;
        if (status)
            et_strbuf_printf(out, "%lld!", (long long)row.line);
        else if (!row.count)
            return first;
        else
            append_row(out, &row);
    }
}

static int read_all(const char *path, const et_csv_options *options, bool go_on, et_strbuf *out,
                    et_error *error)
{
    et_csv *csv;
    int status = et_csv_open(&csv, path, options, error);
    if (status)
        return status;
    status = read_rows(csv, go_on, out, error);
    et_csv_close(csv);
    return status;
}

static void check_rows(const char *path, const et_csv_options *options, const char *expected)
{
    et_strbuf rows = ET_STRBUF_INIT;
    et_error error = ET_ERROR_INIT;
    if (read_all(path, options, false, &rows, &error))
        fail_msg("%s", error.text);
    assert_string_equal(et_strbuf_text(&rows), expected);
    et_strbuf_release(&rows);
}

static void check_error(const char *path, const et_csv_options *options, int status,
                        const char *expected)
{
    et_strbuf rows = ET_STRBUF_INIT;
    et_error error = ET_ERROR_INIT;
    assert_int_equal(read_all(path, options, false, &rows, &error), status);
    assert_contains(error.text, expected);
    et_strbuf_release(&rows);
}

static const struct {
    const char *text, *rows;
    et_csv_options options;
} good[] = {
    { "", "", { 0 } },
    { "\n\r\n  \n", "", { 0 } },
    { "a", "1<'a>", { 0 } },
    { "a\n", "1<'a>", { 0 } },
    { "a,b\n1,2\n", "1<'a|'b>2<'1|'2>", { 0 } },
    { "a,b\r\n1,2\r\n", "1<'a|'b>2<'1|'2>", { 0 } },
    { "a,b\r\n1,2\r", "1<'a|'b>2<'1|'2>", { 0 } },
    { "a,b\n\n \t\n1,2", "1<'a|'b>4<'1|'2>", { 0 } },
    { "\xef\xbb\xbf"
      "a,b\n",
      "1<'a|'b>",
      { 0 } },
    { "\xef\xbb\xbf\"a\",b\n", "1<'a|'b>", { 0 } },
    { " a , b\t\n 1,\"2 \" \n", "1<'a|'b>2<'1|'2 >", { 0 } },
    { ",\n", "1<-|->", { .columns = 2 } },
    /* quotes */
    { "\"a\",\"b,c\"\n", "1<'a|'b,c>", { 0 } },
    { "\"a\nb\",c\nd,e\n", "1<'a\nb|'c>3<'d|'e>", { 0 } },
    { "\"a\r\n\r\nb\",c\r\nd,e\r\n", "1<'a\r\n\r\nb|'c>4<'d|'e>", { 0 } },
    { "\"say \"\"hi\"\"\",\"\"\"\"\n", "1<'say \"hi\"|'\">", { 0 } },
    { "5\" pipe,a\"b\"c\n", "1<'5\" pipe|'a\"b\"c>", { 0 } },
    { "a,\" b\"\n", "1<'a|' b>", { 0 } },
    { "a  ,  \"b\"  \n", "1<'a|'b>", { 0 } },
    { "\"a\"\n\"b\"", "1<'a>2<'b>", { 0 } },
    /* missing values */
    { "a,?,NA,N/A,NaN,nan,null,\n", "1<'a|-|-|-|-|-|-|->", { 0 } },
    { "a,na,n/a,NULL,None,<NA>,#N/A,#N/A N/A, #NA \n", "1<'a|-|-|-|-|-|-|-|->", { 0 } },
    { "a,-NaN,-nan,1.#IND,-1.#IND,1.#QNAN,-1.#QNAN\n", "1<'a|-|-|-|-|-|->", { 0 } },
    { "a,1.5,-1,none,NONE,N,-nanx,1.#INF,<na>\n",
      "1<'a|'1.5|'-1|'none|'NONE|'N|'-nanx|'1.#INF|'<na>>",
      { 0 } },
    { "a,\"?\",\"NA\",\"\",NAN,nanx,n,nA\n", "1<'a|'?|'NA|-|'NAN|'nanx|'n|'nA>", { 0 } },
    { "a,\"None\",\"n/a\"\n", "1<'a|'None|'n/a>", { 0 } },
    /* delimiters */
    { "a;b;c\n1,5;2,5;3,5\n", "1<'a|'b|'c>2<'1,5|'2,5|'3,5>", { 0 } },
    { "a\tb c\n1\t\n", "1<'a|'b c>2<'1|->", { 0 } },
    { "a\t b \n", "1<'a|'b>", { .delimiter = '\t' } },
    { "a|b\n1|2\n", "1<'a|'b>2<'1|'2>", { 0 } },
    { "a,b|c\n1,2|3\n4,5|6\n", "1<'a|'b|c>2<'1|'2|3>3<'4|'5|6>", { 0 } },
    { "a|b|c,d\n1|2|3,4\n", "1<'a|'b|'c,d>2<'1|'2|'3,4>", { 0 } },
    { "\"a,b\";c\n\"d,e,f\";g\n", "1<'a,b|'c>2<'d,e,f|'g>", { 0 } },
    { "a;b\n", "1<'a;b>", { .delimiter = ',' } },
    { "aXbXc\n", "1<'a|'b|'c>", { .delimiter = 'X' } },
    { "a b\n", "1<'a b>", { 0 } },
    { "a b  c\n", "1<'a|'b|-|'c>", { .delimiter = ' ' } },
    /* comments */
    { "#x,y,z\na,b\n# \"\n1,2\n#", "2<'a|'b>4<'1|'2>", { .comment = '#' } },
    { "a,b\n1,#\n", "1<'a|'b>2<'1|'#>", { .comment = '#' } },
    { "#a,b\n", "1<'#a|'b>", { 0 } },
    { "gr\xc3\xbc\xc3\x9f,\xf0\x9f\x98\x80\n", "1<'gr\xc3\xbc\xc3\x9f|'\xf0\x9f\x98\x80>", { 0 } },
};

static void test_csv__rows(void **state)
{
    for (size_t i = 0; i < COUNT(good); i++) {
        const char *plain = write_text(*state, "plain.csv", good[i].text);
        const char *packed = write_gzip(*state, "packed.csv.gz", good[i].text);
        check_rows(plain, &good[i].options, good[i].rows);
        check_rows(packed, &good[i].options, good[i].rows);
    }
    static const char *const words[] = { "-", "n.a.", NULL };
    static const char *const none[] = { NULL };
    const char *path = write_text(*state, "m.csv", "-,?,,n.a.,n.a\n");
    check_rows(path, &(et_csv_options){ .missing = words }, "1<-|'?|'|-|'n.a>");
    check_rows(path, &(et_csv_options){ .missing = none }, "1<'-|'?|'|'n.a.|'n.a>");
    const char *many[64] = { NULL };
    for (size_t i = 0; i < 40; i++)
        many[i] = i < 39 ? "x" : "y";
    check_rows(write_text(*state, "l.csv", "y,\"y\"\n"), &(et_csv_options){ .missing = many },
               "1<-|'y>");
}

static const struct {
    const char *text;
    size_t length; /* 0: up to its NUL */
    int status;
    const char *message;
    et_csv_options options;
} bad[] = {
    { "a,b\n1\n", 0, ET_EDATA, ":2: 1 column, where 2 are in line 1, in \"1\"", { 0 } },
    { "a,b\n\n1,2,3\n", 0, ET_EDATA, ":3: 3 columns, where 2 are in line 1, in \"1,2,3\"", { 0 } },
    { "a,b\n", 0, ET_EDATA, ":1: 2 columns, where 3 are expected", { .columns = 3 } },
    { "# a\na,b\n", 0, ET_EDATA, ":2: 2 columns, where 1 is in line 1, in", { 0 } },
    { "\xfd\x37zXZ", 0, ET_EFORMAT, "is xz data: unpack it first (xzcat)", { 0 } },
    { "\x28\xb5\x2f\xfd,", 0, ET_EFORMAT, "is zstd data: unpack it first (zstdcat)", { 0 } },
    { "BZh91AY", 0, ET_EFORMAT, "is bzip2 data: unpack it first (bzcat)", { 0 } },
    { "a\tb\n1\n",
      0,
      ET_EDATA,
      ": correct the row, quote values that contain the delimiter (a tab), or name another "
      "delimiter",
      { .delimiter = '\t' } },
    { "a,b\n1,\"2\n3,4\n", 0, ET_EDATA, ":2: column 2: the quote that opens here", { 0 } },
    { "a,b\n\"x\ny\",\"2\n3,4", 0, ET_EDATA, ":3: column 2: the quote that opens here", { 0 } },
    { "\"", 0, ET_EDATA, ":1: column 1: the quote that opens here", { 0 } },
    { "a,\"b\"c,d\n",
      0,
      ET_EDATA,
      ":1: column 2: \"c\" follows the closing quote of a value: inside a value, double each quote "
      "(\"\")",
      { 0 } },
    { "a,\"b\n\"c,d\n",
      0,
      ET_EDATA,
      ":2: column 2: \"c\" follows the closing quote of a value: inside a value, double each quote "
      "(\"\")",
      { 0 } },
    { "a,b\rc,d\n", 0, ET_EDATA, ":1: column 2: a CR within a line", { 0 } },
    { "a,b\rc,\"d\"\n", 0, ET_EDATA, ":1: column 2: a CR within a line", { 0 } },
    { "a,b\rc,d\r", 0, ET_EDATA, "lines end with CR: end them with LF (tr '\\r' '\\n')", { 0 } },
    { "a,b\rc,d", 0, ET_EDATA, "lines end with CR: end them with LF (tr '\\r' '\\n')", { 0 } },
    { "a,b\rc,\0d\r", 9, ET_EDATA, ":1: column 3: a NUL byte", { 0 } },
    { "a,b\nc,d\0\n", 9, ET_EDATA, ":2: column 2: a NUL byte", { 0 } },
    { "a,b\n\"c\0\",d\n", 11, ET_EDATA, ":2: column 1: a NUL byte", { 0 } },
    { "a,b\nc,d\xff"
      "e\n",
      0,
      ET_EDATA,
      ":2: column 2: the byte 0xFF is not UTF-8",
      { 0 } },
    { "a,b\n\"c\n\xc3\",d\n", 0, ET_EDATA, ":3: column 1: the byte 0xC3 is not UTF-8", { 0 } },
    { "a,b\nc,\xed\xa0\x80\n", 0, ET_EDATA, ":2: column 2: the byte 0xED", { 0 } },
    { "\xff\xfe"
      "a\0\n\0",
      6,
      ET_EFORMAT,
      "is UTF-16",
      { 0 } },
    { "a", 0, ET_ECONFIG, "the delimiter is a quote", { .delimiter = '"' } },
    { "a", 0, ET_ECONFIG, "the delimiter is not a printable", { .delimiter = '\n' } },
    { "a", 0, ET_ECONFIG, "the character before comments is no", { .comment = '\r' } },
    { "a", 0, ET_ECONFIG, "is also the character", { .delimiter = '#', .comment = '#' } },
    { "a", 0, ET_ECONFIG, "-1 columns", { .columns = -1 } },
};

/* A marker that is a number matches that number in any spelling, except codes and quoted cells. */
static void test_csv__missing_numbers(void **state)
{
    static const char *const markers[] = { "-999", "0.5", "9e3", "007", NULL },
                             *zero[] = { "0", NULL };
    const char *path = write_text(*state, "n.csv",
                                  "-999,-999.0,-999.,-9.99e2,-9990e-1,\"-999\",-99,-999x,-0999\n"
                                  ".5,0.50,+.5,5e-1,00.5,\"0.5\",0.51,5,0.5.\n"
                                  "9000,9000.0,+9000,9E3,0.9e4,\"9000\",09000,90000,9\n"
                                  "007,7,07,7.0,0007,\"007\",0,00,-0\n");
    check_rows(path, &(et_csv_options){ .missing = markers },
               "1<-|-|-|-|-|'-999|'-99|'-999x|'-0999>2<-|-|-|-|'00.5|'0.5|'0.51|'5|'0.5.>"
               "3<-|-|-|-|-|'9000|'09000|'90000|'9>4<-|'7|'07|'7.0|'0007|'007|'0|'00|'-0>");
    const char *last = write_text(*state, "0.csv", "0,0.0,-0,+0,0e7,.0,00,0.1,\n");
    check_rows(last, &(et_csv_options){ .missing = zero }, "1<-|-|-|-|-|-|'00|'0.1|'>");
}

/* In a first row that may be a header, texts for missing values are kept until it is known to be a
 * row. */
static void test_csv__names(void **state)
{
    static const char text[] =
        "NA, \"NA\" ,,?,\"a \"\"?\"\"\", null,x\nNA,\"NA\",,?,\"?\",null,x\n";
    et_strbuf out = ET_STRBUF_INIT;
    for (int values = 0; values < 2; values++) {
        et_csv *csv;
        et_csv_row row;
        assert_ok(et_csv_open(&csv, write_text(*state, "n.csv", text),
                              &(et_csv_options){ .names = true }, error));
        assert_ok(et_csv_next(csv, &row, error));
        if (values)
            et_csv_take_missing(csv);
        append_row(&out, &row);
        assert_ok(et_csv_next(csv, &row, error));
        append_row(&out, &row);
        et_csv_close(csv);
    }
    assert_string_equal(et_strbuf_text(&out),
                        "1<'NA|'NA|-|'?|'a \"?\"|'null|'x>2<-|'NA|-|-|'?|-|'x>"
                        "1<-|'NA|-|-|'a \"?\"|-|'x>2<-|'NA|-|-|'?|-|'x>");
    et_strbuf_release(&out);
}

static bool is_known_name(const void *payload, const char *text, size_t length)
{
    (void)payload;
    return (length == 1 && (*text == 'a' || *text == 'b')) ||
           (length == 3 && !memcmp(text, "c d", 3));
}

/* If other files show what rows look like, a text with other delimiters in it does not change the
 * delimiter. */
static void test_csv__known_delimiter(void **state)
{
    static const et_csv_known commas = { ',', 2, 3, is_known_name, NULL },
                              tildes = { '~', 2, 2, NULL, NULL }, alone = { ';', 1, 1, NULL, NULL };
    static const struct {
        const et_csv_known *known;
        const char *text, *rows;
    } cases[] = {
        { NULL, "x;y;z,1\n", "1<'x|'y|'z,1>" },
        { &commas, "x;y;z,1\n", "1<'x;y;z|'1>" },
        { &commas, "x;y;z,1\nu;v;w,2\n", "1<'x;y;z|'1>2<'u;v;w|'2>" },
        { &commas, "x;y;z\n", "1<'x|'y|'z>" }, /* one column is not among the known numbers of
                                                * columns */
        { &commas, "1,2,3,4;5\n", "1<'1|'2|'3|'4;5>" },
        { &commas, "a;b;\"c d\"\n1,5;2;x\n", "1<'a|'b|'c d>2<'1,5|'2|'x>" },
        { &commas, "# a,b\n b ; a\r\n1,5;2,5\r\n", "2<'b|'a>3<'1,5|'2,5>" },
        { &commas, "a|b,z\n1|2,3\n", "1<'a|'b,z>2<'1|'2,3>" },
        { &tildes, "x;y;z~1\n", "1<'x;y;z|'1>" },
        { &tildes, "x;y;z\n", "1<'x|'y|'z>" },
        { &alone, "x,y\nz\n", "1<'x,y>2<'z>" },
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        check_rows(write_text(*state, "k.csv", cases[i].text),
                   &(et_csv_options){ .comment = '#', .known = cases[i].known }, cases[i].rows);
}

static void test_csv__bad(void **state)
{
    for (size_t i = 0; i < COUNT(bad); i++) {
        size_t length = bad[i].length ? bad[i].length : strlen(bad[i].text);
        const char *path = write_bytes(*state, "bad.csv", bad[i].text, length);
        check_error(path, &bad[i].options, bad[i].status, bad[i].message);
    }
    fixture *f = *state;
    check_error(f->directory, NULL, ET_EDENIED, "directory");
    check_error(fixture_path(f, "none.csv"), NULL, ET_ENOTFOUND, "none.csv");
    check_error("", NULL, ET_ENOTFOUND, "empty");
    check_error(write_text(f, "x.csv.gz", "a,b\n"), NULL, ET_EFORMAT, "is not gzip data");
}

/* After a bad row, reading continues. */
static void test_csv__goes_on(void **state)
{
    static const struct {
        const char *text, *rows;
    } rows[] = {
        { "a,b\n1\n2,3\n", "1<'a|'b>2!3<'2|'3>" },
        { "a,b\n1,\"2\"x\n3,4\n", "1<'a|'b>2!3<'3|'4>" },
        { "a,b\n1,\"2\n3,4\n5,6", "1<'a|'b>2!3<'3|'4>4<'5|'6>" },
        { "a,b\n1,\xff\n3,4\n", "1<'a|'b>2!3<'3|'4>" },
        { "a,b\n\"1\n1\",\xff\n3,4\n", "1<'a|'b>2!4<'3|'4>" },
        { "a,b\n1\r,2\n3,4\n", "1<'a|'b>2!3<'3|'4>" },
        { "a,b\n1,\"", "1<'a|'b>2!" },
        { "1,\"\n", "1!" },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        et_strbuf out = ET_STRBUF_INIT;
        et_error error = ET_ERROR_INIT;
        const char *path = write_text(*state, "some.csv", rows[i].text);
        assert_int_equal(read_all(path, &(et_csv_options){ .delimiter = ',' }, true, &out, &error),
                         ET_EDATA);
        assert_string_equal(et_strbuf_text(&out), rows[i].rows);
        et_strbuf_release(&out);
    }
}

/* ---- compared with a reader of single bytes ---- */

typedef struct reference {
    const char *text;
    size_t length, at;
    long line;
    int columns;
} reference;

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Moves past the next LF after `from`; lines are counted from at. */
static void move_behind_line(reference *r, size_t from)
{
    while (r->text[from] != '\n')
        from++;
    for (; r->at <= from; r->at++)
        r->line += r->text[r->at] == '\n';
}

static void append_cell(et_strbuf *out, int count, const et_strbuf *cell, bool quoted)
{
    const char *text = et_strbuf_text(cell);
    bool missing = !*text || (!quoted && (!strcmp(text, "?") || !strcmp(text, "NA")));
    et_strbuf_printf(out, "%s%s%s", count ? "|" : "", missing ? "-" : "'", missing ? "" : text);
}

/* One cell from *i, which goes to its end. False: bad, *i is where. */
static bool parse_cell(const reference *r, size_t *i, et_strbuf *cell, bool *quoted)
{
    const char *text = r->text;
    while (is_blank(text[*i]))
        ++*i;
    size_t open = *i;
    *quoted = text[*i] == '"';
    if (*quoted) {
        for (++*i; *i < r->length && (text[*i] != '"' || text[*i + 1] == '"'); ++*i) {
            *i += text[*i] == '"';
            et_strbuf_append_char(cell, text[*i]);
        }
        if (*i >= r->length) {
            *i = open;
            return false;
        }
        for (++*i; is_blank(text[*i]);)
            ++*i;
    } else {
        for (; !strchr(",\n\r", text[*i]); ++*i)
            et_strbuf_append_char(cell, text[*i]);
        while (cell->length && is_blank(cell->data[cell->length - 1]))
            et_strbuf_truncate(cell, cell->length - 1);
    }
    return text[*i] == ',' || text[*i] == '\n' || (text[*i] == '\r' && text[*i + 1] == '\n');
}

static void parse_row(reference *r, et_strbuf *out)
{
    et_strbuf row = ET_STRBUF_INIT, cell = ET_STRBUF_INIT;
    long line = r->line;
    int count = 0;
    size_t i = r->at;
    bool quoted, sound;
    while ((sound = parse_cell(r, &i, &cell, &quoted))) {
        append_cell(&row, count++, &cell, quoted);
        et_strbuf_reset(&cell);
        if (r->text[i] != ',')
            break;
        i++;
    }
    move_behind_line(r, i);
    if (sound && (!r->columns || count == r->columns)) {
        r->columns = count;
        et_strbuf_printf(out, "%ld<%s>", line, et_strbuf_text(&row));
    } else
        et_strbuf_printf(out, "%ld!", line);
    et_strbuf_release(&row);
    et_strbuf_release(&cell);
}

/* text ends in an LF followed by a NUL. comment 0: no comments. */
static void parse_reference(const char *text, char comment, et_strbuf *out)
{
    reference r = { text, strlen(text), 0, 1, 0 };
    while (r.at < r.length) {
        size_t blanks = r.at + strspn(text + r.at, " \t");
        blanks += text[blanks] == '\r';
        if ((comment && text[r.at] == comment) || text[blanks] == '\n')
            move_behind_line(&r, r.at);
        else
            parse_row(&r, out);
    }
}

/* A descriptor whose reads give text in pieces: one for each packet of a socket. */
static int pieces_of(const char *text, size_t length, unsigned *seed)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    for (size_t at = 0, count; at < length; at += count) {
        count = 1 + roll(seed, 9);
        count = count < length - at ? count : length - at;
        assert_int_equal(send(ends[0], text + at, count, 0), count);
    }
    close(ends[0]);
    return ends[1];
}

/* Scans the rows of a block with a separate scanner, in separate memory, so that a read beyond it
 * is found.
 */
static void scan_block(et_csv_scanner *scanner, const et_csv_block *block, et_strbuf *out)
{
    size_t length = (size_t)(block->end - block->begin);
    char *copy = malloc(length), *end = copy + length;
    memcpy(copy, block->begin, length);
    int64_t line = block->line;
    for (char *at = copy; at < end; at = scanner->next) {
        et_csv_found found = et_csv_scan(scanner, at, end, block->contents);
        assert_int_not_equal(found, ET_CSV_MORE);
        if (found == ET_CSV_ROW) {
            scanner->columns = scanner->count;
            append_row(out, &(et_csv_row){ line, scanner->count, scanner->cell });
        } else if (found == ET_CSV_BAD)
            et_strbuf_printf(out, "%lld!", (long long)line);
        line += scanner->lines;
    }
    free(copy);
}

static void read_blocks(et_csv *csv, et_strbuf *out, unsigned *seed)
{
    et_csv_scanner scanner;
    et_csv_block block;
    et_csv_form(csv, &scanner);
    for (;;) {
        int status = et_csv_next_block(csv, 1 + roll(seed, 100), &block, NULL);
        if (status) {
            assert_int_equal(status, ET_EDATA);
            et_strbuf_printf(out, "%lld!", (long long)block.line);
        } else if (block.begin == block.end)
            break;
        else
            scan_block(&scanner, &block, out);
    }
    et_csv_scanner_release(&scanner);
}

static void check_same(fixture *f, const char *text, size_t length, char comment,
                       const char *expected, unsigned *seed)
{
    static const char *const words[] = { "", "?", "NA", NULL };
    static const char *const ways[] = { "file", "stream", "blocks", "text" };
    const et_csv_options options = { .delimiter = ',', .comment = comment, .missing = words };
    char *copy = malloc(length + 1);
    assert_non_null(copy);
    for (int way = 0; way < 4; way++) {
        et_strbuf rows = ET_STRBUF_INIT;
        et_csv *csv;
        bool stream = way == 1 || (way == 2 && roll(seed, 2));
        int descriptor = stream ? pieces_of(text, length, seed) : -1;
        memcpy(copy, text, length);
        int status = way == 3 ? et_csv_open_text(&csv, copy, length, "text", &options, NULL)
                     : stream ? et_csv_open_stream(&csv, descriptor, "pieces", &options, NULL)
                              : et_csv_open(&csv, write_bytes(f, "random.csv", text, length),
                                            &options, NULL);
        assert_int_equal(status, ET_OK);
        if (way == 2)
            read_blocks(csv, &rows, seed);
        else
            read_rows(csv, true, &rows, NULL);
        et_csv_close(csv);
        if (stream)
            close(descriptor);
        if (strcmp(et_strbuf_text(&rows), expected) != 0)
            fail_msg("%.*s\n%s:\n%s\nnot\n%s", (int)length, text, ways[way], et_strbuf_text(&rows),
                     expected);
        et_strbuf_release(&rows);
    }
    free(copy);
}

/* Random text of at most room - 2 bytes: single characters, odd ones among usual ones; or whole
 * cells, mostly as they should be. */
static size_t make_text(char *text, size_t room, int round, unsigned *seed)
{
    static const char rares[2][24] = { "aaaa,,,\"\"\n\n\r# \t?NA", "aaaa,,,,\"\"\n\n\"\"abcde" };
    static const char usual[] = "abcdefgh1234,,,\n";
    static const char *const cells[] = {
        ",",     ",", ",",  "\n",          "\r\n",       "abc", "\"x,y\"", "\"z\"", "\"\"",
        "12345", ",", "\n", "\"p\nq, r\"", "\"d\"\"e\"", " ",   "?",       "\"",    "#"
    };
    const char *rare = rares[round / 8 % 2];
    size_t length = roll(seed, round % 2 ? 24 : 400), count = 0;
    unsigned oddness = round % 2 ? 1 : 1 + roll(seed, 40);
    if (round % 16 < 8) {
        for (; count < length; count++)
            text[count] = roll(seed, oddness) ? usual[roll(seed, sizeof usual - 1)]
                                              : rare[roll(seed, (unsigned)strlen(rare))];
        return count;
    }
    unsigned kinds = oddness > 20 ? 14 : COUNT(cells);
    while (count < length && count + 16 < room) {
        const char *cell = cells[roll(seed, kinds)];
        memcpy(text + count, cell, strlen(cell));
        count += strlen(cell);
        if (oddness > 10 && *cell != ',' && *cell != '\n' && *cell != '\r')
            text[count++] = ',';
    }
    return count;
}

static void test_csv__as_reference(void **state)
{
    unsigned seed = 11;
    for (int round = 0; round < 8000; round++) {
        char text[512], comment = round % 4 < 2 ? '#' : 0;
        size_t length = make_text(text, sizeof text, round, &seed);
        /* A missing LF at the end is added. */
        bool ended = length && text[length - 1] == '\n';
        memcpy(text + length, ended || !length ? "" : "\n", ended || !length ? 1 : 2);
        et_strbuf expected = ET_STRBUF_INIT;
        parse_reference(text, comment, &expected);
        check_same(*state, text, length, comment, et_strbuf_text(&expected), &seed);
        et_strbuf_release(&expected);
    }
}

/* Any bytes at all: rows or errors that name the file. */
static void test_csv__mutated(void **state)
{
    unsigned seed = 3;
    for (int round = 0; round < 2000; round++) {
        char text[300];
        size_t length = roll(&seed, sizeof text);
        for (size_t i = 0; i < length; i++)
            text[i] = roll(&seed, 3) ? "1,\"\n"[roll(&seed, 4)] : (char)roll(&seed, 256);
        const char *path = write_bytes(*state, "any.csv", text, length);
        et_strbuf rows = ET_STRBUF_INIT;
        et_error error = ET_ERROR_INIT;
        int status = read_all(path, NULL, true, &rows, &error);
        if (status)
            assert_contains(error.text, path);
        et_strbuf_release(&rows);
    }
}

/* ---- sizes ---- */

/* Rows around the buffer's size, and the longest. */
static void test_csv__long_rows(void **state)
{
    static const size_t lengths[] = { 1 << 16,       (1 << 18) - 1, 1 << 18, (1 << 18) + 1,
                                      (1 << 20) + 7, 5 << 20,       17,      1 << 18 };
    et_strbuf text = ET_STRBUF_INIT;
    for (size_t i = 0; i < COUNT(lengths); i++) {
        for (size_t k = 0; k < lengths[i]; k++)
            et_strbuf_append_char(&text, "abcdefg"[k % 7]);
        et_strbuf_append(&text, i % 2 ? ",x\n" : ",\"x\ny\"\r\n");
    }
    const char *path = write_text(*state, "long.csv", et_strbuf_text(&text));
    et_csv *csv;
    et_csv_row row;
    int64_t line = 1;
    assert_int_equal(et_csv_open(&csv, path, NULL, NULL), ET_OK);
    for (size_t i = 0; i < COUNT(lengths); i++) {
        assert_int_equal(et_csv_next(csv, &row, NULL), ET_OK);
        assert_int_equal(row.count, 2);
        assert_int_equal(row.line, line);
        assert_int_equal(row.cell[0].length, lengths[i]);
        for (size_t k = 0; k < lengths[i]; k++)
            if (row.cell[0].text[k] != "abcdefg"[k % 7])
                fail_msg("byte %zu of row %zu", k, i);
        assert_int_equal(row.cell[1].length, i % 2 ? 1 : 3);
        line += i % 2 ? 1 : 2;
    }
    assert_int_equal(et_csv_next(csv, &row, NULL), ET_OK);
    assert_int_equal(row.count, 0);
    assert_int_equal(et_csv_delimiter(csv), ',');
    et_csv_close(csv);
    et_strbuf_release(&text);
}

/* A sparse file: a line of a gigabyte of NULs, without an end and with one. Memory stays far below
 * its length. */
static void test_csv__endless(void **state)
{
    const char *path = fixture_path(*state, "endless.csv");
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "a,b\n1,2\n3,", 10), 10);
    if (ftruncate(fd, (off_t)1 << 30))
        test_skip("no sparse file of 1 GB here");
    close(fd);
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    check_error(path, NULL, ET_EDATA,
                "endless.csv:3: a row of more than 16777216 bytes: write one row per line");
    getrusage(RUSAGE_SELF, &after);
    assert_true(after.ru_maxrss - before.ru_maxrss < 96 * 1024);
    et_strbuf text = ET_STRBUF_INIT, rows = ET_STRBUF_INIT;
    et_strbuf_append(&text, "a,b\n");
    for (size_t i = 0; i < ET_CSV_ROW_MAX * 3; i++)
        et_strbuf_append_char(&text, 'x');
    et_strbuf_append(&text, ",y\n1,2\n");
    path = write_text(*state, "long.csv", et_strbuf_text(&text));
    assert_int_equal(read_all(path, NULL, true, &rows, NULL), ET_EDATA);
    assert_string_equal(et_strbuf_text(&rows), "1<'a|'b>2!3<'1|'2>");
    memset(text.data, 'x', text.length);
    for (size_t i = 0; i < text.length; i += 1000)
        text.data[i] = '\r';
    check_error(write_text(*state, "mac.csv", et_strbuf_text(&text)), NULL, ET_EDATA,
                "lines end with CR: end them with LF (tr '\\r' '\\n')");
    text.data[0] = 'a';
    text.data[1] = '"';
    text.data[5] = ',';
    text.data[6] = '"';
    check_error(write_text(*state, "open.csv", et_strbuf_text(&text)), NULL, ET_EDATA,
                "open.csv:1: column 2: the quote that opens here");
    et_strbuf_release(&text);
    et_strbuf_release(&rows);
}

static void test_csv__many_columns(void **state)
{
    et_strbuf text = ET_STRBUF_INIT;
    for (int i = 1; i < 100000; i++)
        et_strbuf_append(&text, "1,");
    et_strbuf_append(&text, "1\n");
    et_csv *csv;
    et_csv_row row;
    assert_int_equal(
        et_csv_open(&csv, write_text(*state, "wide.csv", et_strbuf_text(&text)), NULL, NULL),
        ET_OK);
    assert_int_equal(et_csv_next(csv, &row, NULL), ET_OK);
    assert_int_equal(row.count, 100000);
    et_csv_close(csv);
    et_strbuf_truncate(&text, text.length - 1);
    et_strbuf_append(&text, ",1\n");
    check_error(
        write_text(*state, "wider.csv", et_strbuf_text(&text)), NULL, ET_EDATA,
        "wider.csv:1: more than 100000 columns: remove columns that the model does not need");
    et_strbuf_release(&text);
}

/* ---- what others do meanwhile ---- */

/* A row is there as soon as its line is: nothing more is waited for. */
static void test_csv__stream(void **state)
{
    (void)state;
    static const char *const lines[] = { "a\n", "\"x\ny\"\n", "b\r\n", "c" };
    static const char *const rows[] = { "1<'a>", "2<'x\ny>", "4<'b>", "5<'c>" };
    int ends[2];
    et_csv *csv;
    et_csv_row row;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(et_csv_open_stream(&csv, ends[0], "input", NULL, NULL), ET_OK);
    assert_int_equal(et_csv_delimiter(csv), 0);
    for (size_t i = 0; i < COUNT(lines); i++) {
        et_strbuf out = ET_STRBUF_INIT;
        assert_true(et_csv_waits(csv));
        assert_int_equal(write(ends[1], lines[i], strlen(lines[i])), strlen(lines[i]));
        assert_false(et_csv_waits(csv));
        if (i == 3)
            close(ends[1]);
        assert_int_equal(et_csv_next(csv, &row, NULL), ET_OK);
        append_row(&out, &row);
        assert_string_equal(et_strbuf_text(&out), rows[i]);
        et_strbuf_release(&out);
    }
    assert_int_equal(row.line, 5);
    assert_int_equal(et_csv_next(csv, &row, NULL), ET_OK);
    assert_int_equal(row.count, 0);
    et_csv_close(csv);
    assert_int_equal(fcntl(ends[0], F_GETFD) >= 0, 1); /* stays the caller's */
    close(ends[0]);
    unsigned seed = 1;
    int gzip = pieces_of("\x1f\x8b\x08\x00", 4, &seed);
    et_error error = ET_ERROR_INIT;
    assert_int_equal(et_csv_open_stream(&csv, gzip, "input", NULL, NULL), ET_OK);
    assert_int_equal(et_csv_next(csv, &row, &error), ET_EFORMAT);
    assert_contains(error.text, "input is gzip data: unpack it first");
    et_csv_close(csv);
    close(gzip);
}

/* It grows, is cut, or is written over with as many bytes. */
static void test_csv__changes(void **state)
{
    for (int way = 0; way < 3; way++) {
        et_strbuf text = ET_STRBUF_INIT;
        for (int i = 0; i < 100000; i++)
            et_strbuf_append(&text, "1,2,3,4,5,6\n");
        const char *path = write_text(*state, "changing.csv", et_strbuf_text(&text));
        et_csv *csv;
        et_csv_row row;
        et_error error = ET_ERROR_INIT;
        int status = et_csv_open(&csv, path, NULL, &error);
        assert_int_equal(status, ET_OK);
        assert_int_equal(et_csv_next(csv, &row, &error), ET_OK);
        int fd = open(path, O_WRONLY);
        usleep(20000); /* more than a file system's clock ticks */
        if (way == 0)
            assert_int_equal(pwrite(fd, "9,9,9,9,9,9\n", 12, (off_t)text.length), 12);
        else if (way == 1)
            assert_int_equal(ftruncate(fd, (off_t)text.length / 2), 0);
        else
            assert_int_equal(pwrite(fd, "9", 1, 0), 1);
        close(fd);
        while (!(status = et_csv_next(csv, &row, &error)) && row.count)
            ;
        assert_int_equal(status, ET_EFORMAT);
        assert_contains(error.text, "changing.csv changed while Etude read it (");
        et_csv_close(csv);
        et_strbuf_release(&text);
    }
}

static void test_csv__scarce(void **state)
{
    et_strbuf text = ET_STRBUF_INIT;
    for (int i = 0; i < 100; i++)
        et_strbuf_append(&text, "1,");
    for (int i = 0; i < 400000; i++)
        et_strbuf_append(&text, "x");
    et_strbuf_append(&text, "\n");
    const char *path = write_gzip(*state, "scarce.csv.gz", et_strbuf_text(&text));
    for (long n = 0;; n++) {
        et_csv *csv;
        et_csv_row row;
        et_error error = ET_ERROR_INIT;
        scarce_begin(n);
        int status = et_csv_open(&csv, path, NULL, &error);
        if (!status) {
            status = et_csv_next(csv, &row, &error);
            et_csv_close(csv);
        }
        bool failed = scarce_failed;
        scarce_end();
        if (!failed) {
            assert_int_equal(status, ET_OK);
            assert_int_equal(row.count, 101);
            break;
        }
        assert_int_equal(status, ET_ENOMEM);
    }
    et_strbuf_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_csv__rows),
        cmocka_unit_test(test_csv__bad),
        cmocka_unit_test(test_csv__missing_numbers),
        cmocka_unit_test(test_csv__names),
        cmocka_unit_test(test_csv__known_delimiter),
        cmocka_unit_test(test_csv__goes_on),
        cmocka_unit_test(test_csv__as_reference),
        cmocka_unit_test(test_csv__mutated),
        cmocka_unit_test(test_csv__long_rows),
        cmocka_unit_test(test_csv__endless),
        cmocka_unit_test(test_csv__many_columns),
        cmocka_unit_test(test_csv__stream),
        cmocka_unit_test(test_csv__changes),
        cmocka_unit_test(test_csv__scarce),
    };
    return cmocka_run_group_tests(tests, fixture_open, fixture_close);
}
