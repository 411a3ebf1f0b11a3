/* Documents: what is translated, what stays, and what happens to translations that lose spans. The
 * translator here writes capitals, also in markup and placeholders, so these must be repaired. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <time.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/text/strbuf.h"
#include "base/text/unicode.h"
#include "data/text/sentences.h"
#include "skip.h"
#include "tasks/documents.h"

/* Capitals only where no markup and no placeholder is. */
static char *careful(const char *line)
{
    char *text = copy(line);
    int inside = 0;
    for (char *c = text; *c; c++) {
        inside += strchr("<{", *c) ? 1 : 0;
        if (!inside && c[0] != '%' && (c == text || c[-1] != '%'))
            *c = (char)toupper((unsigned char)*c);
        inside -= strchr(">}", *c) ? 1 : 0;
    }
    return text;
}

static char *nothing(const char *line)
{
    (void)line;
    return copy("");
}

static char *junk(const char *line)
{
    (void)line;
    return copy("<script> {x} https://example.org %s ```");
}

/* What the translator gets, in brackets; its tag >>fra<< as fra:. */
static char *shown(const char *line)
{
    et_strbuf out = ET_STRBUF_INIT;
    if (!strncmp(line, ">>", 2) && !strncmp(line + 5, "<< ", 3))
        et_strbuf_printf(&out, "[%.3s: %s]", line + 2, line + 8);
    else
        et_strbuf_printf(&out, "[%s]", line);
    return et_strbuf_detach(&out);
}

/* The same, but the number 7 is lost. */
static char *without_7(const char *line)
{
    char *text = shown(line), *seven = strchr(text, '7');
    if (seven)
        *seven = 'x';
    return text;
}

static void test_documents__lines(void **state)
{
    static const row rows[] = {
        { ET_DOCUMENT_LINES, "", "" },
        { ET_DOCUMENT_LINES, "a dog", "A DOG" },
        { ET_DOCUMENT_LINES, "  a  dog \r\n\r\n12 - 3\n\tcat {x}\n",
          "  A DOG \r\n\r\n12 - 3\n\tCAT {X}\n" },
        { ET_DOCUMENT_LINES,
          "\xef\xbb\xbf"
          "dog\n",
          "\xef\xbb\xbf"
          "DOG\n" },
        { ET_DOCUMENT_TEXT, "a dog {name} %s\n", "A DOG {name} %s\n" },
    };
    (void)state;
    assert_rows(rows, COUNT(rows), NULL, capitals);
}

/* What must not change. */
static void test_documents__spans(void **state)
{
    static const char *const spans[] = {
        "{name}",
        "{0}",
        "{}",
        "{0:.2f}",
        "{{ name }}",
        "{{ a ? 'b' : c * 2 }}",
        "{% url 'some:long-name' some.long.name some.other.long.name and.a.third.long.name as x %}",
        "${name}",
        "$[name]",
        "%s",
        "%1$d",
        "%-5.2f",
        "%ld",
        "%(name)s",
        "%@",
        "%name%",
        "%PRODUCTNAME",
        "http://example.org/a?b=c&d#e",
        "https://example.org/a_(b)",
        "%%",
        "%%s",
        "%{name}",
        "%<name>s",
        "%-5<name>s",
        "%0:s",
        "%<PRIu64>",
        "%dx%d",
        "%Y-%m-%d",
        "%j",
        "%1%",
        "%zu",
        "%,d",
        "%[1]d",
        "%1$,.2f",
        "%1$*2$d",
        "%|3$+d|",
        "${a + 1}",
        "<%= a %>",
        "{% if a %}",
        "%1",
        "%L1",
        "%n",
        "%#@files@",
        "#{a.b}",
        "$HOME",
        "$name",
        "@count",
        ":name",
        "{a[b]!r:>10}",
        "{n, number}",
        "{when, date, ::yMMMd}",
        "{{#if x}}",
        "www.example.org/x",
        "mailto:a@example.org",
        "some.one+x@mail.example.org",
        "x_y@example.org",
        "{/link}",
        "{größe}",
        "%(größe)s",
        "%<width>.2f",
        ":Name",
        "$t(key)",
        "$t(a.b, { \"count\": {{n}} })",
        "{$a.b|escape:\"html\"}",
        "{if $a > 1}",
    };
    static const char *const texts[] = { "50% of all", "a { b }", "$ 3", "%",  "{",
                                         "{{",         "100 %",   "a@b", "@",  "{a b}",
                                         "$",          "http://", "%1$", "%(", "50%of",
                                         ":)",         "a:b",     "$5",  "#",  "{n, x}" };
    et_error error;
    char text[256], expected[256];
    (void)state;
    for (size_t i = 0; i < COUNT(spans); i++) {
        snprintf(text, sizeof text, "see %s, or (%s).", spans[i], spans[i]);
        snprintf(expected, sizeof expected, "SEE %s, OR (%s).", spans[i], spans[i]);
        char *out = translate(ET_DOCUMENT_TEXT, NULL, text, strlen(text), capitals, &error);
        assert_string_equal(out, expected);
        et_free(out);
    }
    for (size_t i = 0; i < COUNT(texts); i++) {
        char *upper = capitals(texts[i]);
        snprintf(text, sizeof text, "see %s now", texts[i]);
        snprintf(expected, sizeof expected, "SEE %s NOW", upper);
        char *out = translate(ET_DOCUMENT_TEXT, NULL, text, strlen(text), capitals, &error);
        assert_string_equal(out, expected);
        et_free(upper);
        et_free(out);
    }
    /* Words follow directives without a blank. */
    const row words[] = {
        { ET_DOCUMENT_TEXT, "please %1$slog in%2$s to %(b)sread%(c)s, %sNow%s",
          "PLEASE %1$sLOG IN%2$s TO %(b)sREAD%(c)s, %sNOW%s" },
        { ET_DOCUMENT_TEXT, "%sMB of %1$dMB, :a/:b", "%sMB OF %1$dMB, :a/:b" },
    };
    assert_rows(words, COUNT(words), NULL, capitals);
}

static char *other_number(const char *line)
{
    char *text = copy(line);
    for (char *c = text; *c; c++)
        *c = *c == '7' ? '8' : *c;
    return text;
}

static void test_documents__numbers(void **state)
{
    static const row rows[] = {
        { ET_DOCUMENT_TEXT, "page 7 of 12\n", "page 7 of 12\n" },
        { ET_DOCUMENT_TEXT, "on 2024-07-01, at 17:30\n", "on 2024-07-01, at 17:30\n" },
        { ET_DOCUMENT_TEXT, "1,237.5 km, F7\n", "1,237.5 km, F8\n" },
    };
    (void)state;
    assert_rows(rows, COUNT(rows), NULL, other_number);
}

static void test_documents__html(void **state)
{
    static const row rows[] = {
        { ET_DOCUMENT_HTML, "<!doctype html>\n<p class=\"a>b\">Click <b>ok</b> now.</p>\n",
          "<!doctype html>\n<p class=\"a>b\">CLICK <b>OK</b> NOW.</p>\n" },
        { ET_DOCUMENT_HTML, "<p>a &amp; b &lt; c&nbsp;d &#8212; e &unknown; f</p>",
          "<p>A &amp; B &lt; C&nbsp;D &#8212; E &unknown; F</p>" },
        { ET_DOCUMENT_HTML,
          "<p title=\"a &amp b&copyc&copy=d\">&copy c &ampd &copy=e &not. f&nbsp</p>",
          "<p title=\"A &amp B&amp;COPYC&amp;COPY=D\">&copy C &ampD &copy=E &not. F&nbsp</p>" },
        { ET_DOCUMENT_HTML, "<p><b><i>all</i></b></p>", "<p><b><i>ALL</i></b></p>" },
        { ET_DOCUMENT_HTML, "<script>if (a < b) a = '<p>x</p>';</script><p>x</p>",
          "<script>if (a < b) a = '<p>x</p>';</script><p>X</p>" },
        { ET_DOCUMENT_HTML, "run <code>ls <b>x</b></code> now",
          "RUN <code>ls <b>x</b></code> NOW" },
        { ET_DOCUMENT_HTML, "<div translate=\"no\">a <div>b</div> c</div>d",
          "<div translate=\"no\">a <div>b</div> c</div>D" },
        { ET_DOCUMENT_HTML, "one<br>two<hr/>three", "ONE<br>TWO<hr/>THREE" },
        { ET_DOCUMENT_HTML, "a < b and c <d", "A &lt; B AND C <d" },
        { ET_DOCUMENT_HTML, "a <!-- b --> c<!--d", "A <!-- b --> C<!--d" },
        { ET_DOCUMENT_HTML, "<p id='a'>  one\n  two  </p>", "<p id='a'>  ONE TWO  </p>" },
        { ET_DOCUMENT_HTML, "caf&eacute; <img src=a.png alt=7> b",
          "CAF&eacute; <img src=a.png alt=7> B" },
        { ET_DOCUMENT_HTML, "<b", "<b" },
        { ET_DOCUMENT_HTML, "<p>a&#33; b&#32;c&#46;</p><p>d! <b>e</b> f.</p><p>&#33;g&#33; h",
          "<p>A&#33; B C&#46;</p><p>D! <b>E</b> F.</p><p>&#33;G&#33; H" },
        { ET_DOCUMENT_HTML, "<p>a&#8217;s</p><p>b\u2019s</p><p>c&#8217;",
          "<p>A&#8217;S</p><p>B\u2019S</p><p>C&#8217;" },
        { ET_DOCUMENT_HTML, "<textarea><p>a</textarea>b", "<textarea><p>a</textarea>B" },
    };
    (void)state;
    assert_rows(rows, COUNT(rows), NULL, capitals);
}

/* Values that people read are translated, in whatever quotes; all others stay. */
static void test_documents__attributes(void **state)
{
    static const row rows[] = {
        { ET_DOCUMENT_HTML, "<p class=\"a b\" Title = \"a dog\" data-x='c'>",
          "<p class=\"a b\" Title = \"A DOG\" data-x='c'>" },
        { ET_DOCUMENT_HTML, "see <img src=a.png alt='a dog'> <b title=\"the end\">now</b>, ok",
          "SEE <img src=a.png alt='A DOG'> <b title=\"THE END\">NOW</b>, OK" },
        { ET_DOCUMENT_HTML, "<img alt='a dog'> <b>now</b>", "<img alt='A DOG'> <b>NOW</b>" },
        { ET_DOCUMENT_HTML, "<img alt=dog><img alt=dog/>", "<img alt=\"DOG\"><img alt=\"DOG/\">" },
        { ET_DOCUMENT_HTML, "<img alt=7 title=&nbsp; id=dog>", "<img alt=7 title=&nbsp; id=dog>" },
        { ET_DOCUMENT_HTML, "<img alt=\"7 &#34;&gt;\" title=''>",
          "<img alt=\"7 &#34;&gt;\" title=''>" },
        { ET_DOCUMENT_HTML, "<p title=\"a 'b' &quot;c&#34; &amp; d &lt; e&nbsp;f\">\"",
          "<p title=\"A 'B' &quot;C&quot; &amp; D &lt; E&nbsp;F\">\"" },
        { ET_DOCUMENT_HTML, "<p title='a &#39;b&apos; \"c\"'>'x'",
          "<p title='A &#39;B&#39; \"C\"'>'X'" },
        { ET_DOCUMENT_HTML, "<p\n title=\"  a\n  dog \"\n>", "<p\n title=\"  A DOG \"\n>" },
        { ET_DOCUMENT_HTML, "<p title='a > b {c}, %s &copy; x &#10; y'>",
          "<p title='A > B {c}, %s &copy; X &#10; Y'>" },
        { ET_DOCUMENT_HTML, "<p title='see http://a.b/?c=%27&amp;d&#39;s'>",
          "<p title='SEE http://a.b/?c=%27&amp;d&#39;s'>" },
        { ET_DOCUMENT_HTML, "<input placeholder=name aria-label='a b' value=c>",
          "<input placeholder=\"NAME\" aria-label='A B' value=c>" },
        { ET_DOCUMENT_HTML, "<input value='go' type=SUBMIT><input type=text value='a'>",
          "<input value='GO' type=SUBMIT><input type=text value='a'>" },
        { ET_DOCUMENT_HTML, "<meta content='a dog' name=\"Description\"><meta name=a content=b>",
          "<meta content='A DOG' name=\"Description\"><meta name=a content=b>" },
        { ET_DOCUMENT_HTML, "<option label='a' value='b'>c<track label=d><p label=e>",
          "<option label='A' value='b'>C<track label=\"D\"><p label=e>" },
        { ET_DOCUMENT_HTML, "<link title=a><style title=b>c</style>",
          "<link title=a><style title=b>c</style>" },
        { ET_DOCUMENT_HTML, "<textarea placeholder=\"a\"><p title='b'>c</textarea>",
          "<textarea placeholder=\"A\"><p title='b'>c</textarea>" },
        { ET_DOCUMENT_HTML, "<code><img alt=x></code> and <img alt=x> so",
          "<code><img alt=x></code> AND <img alt=\"X\"> SO" },
        { ET_DOCUMENT_HTML, "<p translate=NO title=a>b</p><p class='x notranslate' title=a>b</p>",
          "<p translate=NO title=a>b</p><p class='x notranslate' title=a>b</p>" },
        { ET_DOCUMENT_HTML,
          "<p translate=no>a <b translate=''>b</b> <i translate>c</i> <u>d</u></p>",
          "<p translate=no>a <b translate=''>B</b> <i translate>C</i> <u>d</u></p>" },
        { ET_DOCUMENT_HTML, "<p translate='yes' title='translate=\"no\"'>b",
          "<p translate='yes' title='TRANSLATE=\"NO\"'>B" },
        { ET_DOCUMENT_HTML, "<p title=${a}><p title='{b} &#39;'><p title=www.a.b/?c&d>&quot;",
          "<p title=${a}><p title='{b} &#39;'><p title=www.a.b/?c&d>&quot;" },
        { ET_DOCUMENT_HTML, "<img translate=no alt=a>", "<img translate=no alt=a>" },
        { ET_DOCUMENT_HTML, "<p id=it's data-x=[>a</p>", "<p id=it's data-x=[>A</p>" },
        { ET_DOCUMENT_HTML, "<p title=\"a>b</p>", "<p title=\"a>b</p>" },
        { ET_DOCUMENT_HTML, "<p title=a", "<p title=a" },
        { ET_DOCUMENT_HTML, "<p title= >a<p =title=b title>c", "<p title= >A<p =title=b title>C" },
        { ET_DOCUMENT_HTML, "<script>a </scripts> <b title=c></SCRIPT>d",
          "<script>a </scripts> <b title=c></SCRIPT>D" },
    };
    (void)state;
    assert_rows(rows, COUNT(rows), NULL, capitals);
    assert_rows(rows, 3, NULL, careful);
    assert_int_equal(counts.repaired, 0);
}

/* A translation that is of no use leaves the value; one that is has its quotes written anew. */
static char *quotes(const char *line)
{
    (void)line;
    return copy("\"x\" 'y' & z");
}

static void test_documents__values_checked(void **state)
{
    static const row kept = { ET_DOCUMENT_HTML, "a <img alt='a {b} c' title=d> e",
                              "a <img alt='a {b} c' title=\"d\"> e" };
    static const row quoted = {
        ET_DOCUMENT_HTML, "<p title='a'><p title=\"a\"><p title=a>",
        "<p title='\"x\" &#39;y&#39; &amp; z'><p title=\"&quot;x&quot; 'y' &amp; z\">"
        "<p title=\"&quot;x&quot; 'y' &amp; z\">"
    };
    (void)state;
    assert_rows(&kept, 1, NULL, junk);
    assert_rows(&kept, 1, NULL, nothing);
    assert_rows(&quoted, 1, NULL, quotes);
}

/* A value of a megabyte, and as many attributes as fit in one. */
static void test_documents__large_values(void **state)
{
    static const char *const parts[] = { "a dog ",  "title=a ",    "&quot;",
                                         "title='", "\" title=\"", "<a " };
    static const char *const tags[] = { "<p title=\"", "<meta name=description content=\"",
                                        "x <img ", "<script>" };
    et_error error;
    (void)state;
    for (size_t i = 0; i < COUNT(parts) * COUNT(tags); i++) {
        et_strbuf text = ET_STRBUF_INIT;
        et_strbuf_append(&text, tags[i % COUNT(tags)]);
        while (text.length < (size_t)1 << 20)
            et_strbuf_append(&text, parts[i / COUNT(tags)]);
        et_strbuf_append(&text, "\">b");
        char *out = translate(ET_DOCUMENT_HTML, NULL, text.data, text.length, capitals, &error);
        assert_non_null(out);
        et_free(out);
        et_strbuf_release(&text);
    }
}

/* Text with & as an entity, also in URLs. */
static void test_documents__urls(void **state)
{
    static const row rows[] = {
        { ET_DOCUMENT_HTML, "<p>see http://a.b/?c=d&amp;e now</p>",
          "<p>SEE http://a.b/?c=d&amp;e NOW</p>" },
        { ET_DOCUMENT_HTML, "<p>http://a.b/?c=d&amp;e</p>", "<p>http://a.b/?c=d&amp;e</p>" },
    };
    (void)state;
    assert_rows(rows, COUNT(rows), NULL, capitals);
}

static void test_documents__md(void **state)
{
    static const row rows[] = {
        { ET_DOCUMENT_MD, "---\ntitle: a\n---\n# a title #\n\ntext\nof two lines\n",
          "---\ntitle: a\n---\n# A TITLE #\n\nTEXT OF TWO LINES\n" },
        { ET_DOCUMENT_MD,
          "a `code b` and *em* **strong** [link](http://a.b/c \"d\") ![img](a.png)\n",
          "A `code b` AND *EM* **STRONG** [LINK](http://a.b/c \"d\") ![IMG](a.png)\n" },
        { ET_DOCUMENT_MD, "```c\nint a;\n```\ntext\n~~~\nb\n\n",
          "```c\nint a;\n```\nTEXT\n~~~\nb\n\n" },
        { ET_DOCUMENT_MD, "- one\n  two\n- [ ] three\n\n      code\n\n1. four\n",
          "- ONE TWO\n- [ ] THREE\n\n      code\n\n1. FOUR\n" },
        { ET_DOCUMENT_MD, "> quote\n> more\n\n    code\n", "> QUOTE MORE\n\n    code\n" },
        { ET_DOCUMENT_MD, "| a | b |\n|---|:-:|\n| c `d` | e \\| f |\n\ng | h\n",
          "| A | B |\n|---|:-:|\n| C `d` | E \\| F |\n\nG | H\n" },
        { ET_DOCUMENT_MD, "one  \ntwo\\\nthree\n", "ONE  \nTWO\\\nTHREE\n" },
        { ET_DOCUMENT_MD, "title\n=====\n\n* * *\n[a]: http://b.c\n",
          "TITLE\n=====\n\n* * *\n[a]: http://b.c\n" },
        { ET_DOCUMENT_MD, "<div>\na\n</div>\n\na <b>b</b> &copy; c&nbsp;d <http://e.f>\n",
          "<div>\nA\n</div>\n\nA <b>B</b> &copy; C&nbsp;D <http://e.f>\n" },
        { ET_DOCUMENT_MD, "2 * 3, a_b, x [y] z, \\*no\\*, [^1]\n",
          "2 * 3, A_B, X [Y] Z, \\*NO\\*, [^1]\n" },
        { ET_DOCUMENT_MD, "[two [in] one](a_(b)) [c][d]\n\n[d]: e\n",
          "[TWO [IN] ONE](a_(b)) [C][d]\n\n[d]: e\n" },
        { ET_DOCUMENT_MD, "`a ``b\n", "`A ``B\n" },
        { ET_DOCUMENT_MD, "[a](b<c) [d](e (f \"g)) h\n\n[i]('j) [k](<l)>) m\n",
          "[A](b<c) [D](e (f \"g)) H\n\n[I]('j) [K](<l)>) M\n" },
        { ET_DOCUMENT_MD,
          "a|b\n--|:-\nc|d\ne|f\n\ng | h\n- | -\ni | j\n\n> k | l\n> -: | -:\n> m | "
          "n\n\n~\n:\no\np\n",
          "A|B\n--|:-\nC|D\nE|F\n\nG | H\n- | -\nI | J\n\n> K | L\n> -: | -:\n> M | N\n\n~\n:\nO "
          "P\n" },
        { ET_DOCUMENT_MD, "a\r\nb\r\n\r\nc", "A B\r\n\r\nC" },
        /* Blocks that end a paragraph, or a list. */
        { ET_DOCUMENT_MD, "a\n> b\nc\n> > d\n> e\n\nf\n> g\n", "A\n> B C\n> > D E\n\nF\n> G\n" },
        { ET_DOCUMENT_MD, "1. a\n> b\n\n    code\n", "1. A\n> B\n\n    code\n" },
        { ET_DOCUMENT_MD, "- a\n```\nb\n```\n\n    code\n", "- A\n```\nb\n```\n\n    code\n" },
        { ET_DOCUMENT_MD, "- a\n\n* * *\n\n    code\n", "- A\n\n* * *\n\n    code\n" },
        { ET_DOCUMENT_MD, "a [^1]\n[^1]: b\n    c\n[^two]:d\n[^]: e\n",
          "A [^1]\n[^1]: B C\n[^two]:D [^]: E\n" },
        { ET_DOCUMENT_MD, "a\n<div>\nb\n\nc\n", "A\n<div>\nB\n\nC\n" },
        { ET_DOCUMENT_MD, "<!-- a\n\nb --> c\nd\n<!--e-->\nf\n",
          "<!-- a\n\nb --> C\nD\n<!--e-->\nF\n" },
        { ET_DOCUMENT_MD, "<Script x>\n\na\n</SCRIPT>\nb\n<?p\n\n?>\nc\n<xfix>d</xfix>\n",
          "<Script x>\n\na\n</SCRIPT>\nB\n<?p\n\n?>\nC <xfix>D</xfix>\n" },
        { ET_DOCUMENT_MD, "+++\na = 1\n---\n+++\nb\n", "+++\na = 1\n---\n+++\nB\n" },
        { ET_DOCUMENT_MD, "$$\na\n\nb\n$$\nc\n$$$\nd\n", "$$\na\n\nb\n$$\nC $$$ D\n" },
        { ET_DOCUMENT_MD, "```\na\n``` b\nc\n```  \nd\n```e``` f\n",
          "```\na\n``` b\nc\n```  \nD ```e``` F\n" },
    };
    (void)state;
    assert_rows(rows, COUNT(rows), NULL, capitals);
}

/* Markup of other programs than CommonMark. */
static void test_documents__md_beyond(void **state)
{
    static const row rows[] = {
        { ET_DOCUMENT_MD, ":::warning Watch out\nInside of it.\n:::\n",
          ":::warning WATCH OUT\nINSIDE OF IT.\n:::\n" },
        { ET_DOCUMENT_MD, "::: {.note}\na\n:::\n\n:::tip[Do it]{#b}\nc\n\n- d\n:::\ne\n",
          "::: {.note}\nA\n:::\n\n:::tip[DO IT]{#b}\nC\n\n- D\n:::\nE\n" },
        { ET_DOCUMENT_MD,
          "!!! note \"A title\"\n    one\n    two\n\n        code\n\n??? tip\n\n    "
          "three\n\nfour\n",
          "!!! note \"A TITLE\"\n    ONE TWO\n\n        code\n\n??? tip\n\n    THREE\n\nFOUR\n" },
        { ET_DOCUMENT_MD, "=== \"A tab\"\n\n    ```\n    code\n    ```\n\nb\n",
          "=== \"A TAB\"\n\n    ```\n    code\n    ```\n\nB\n" },
        { ET_DOCUMENT_MD, "> [!NOTE]\n> one\n> two\n\n> [!tip]- A title\n> three\n",
          "> [!NOTE]\n> ONE TWO\n\n> [!tip]- A TITLE\n> THREE\n" },
        { ET_DOCUMENT_MD, "One\nTwo\n: its definition\n:   other\n\n    more\n",
          "ONE\nTWO\n: ITS DEFINITION\n:   OTHER\n\n    MORE\n" },
        { ET_DOCUMENT_MD, "a[^1] b[^two]\n\n[^1]: c\n[^two]: d e\n\n    f\n\n[^3]:\n    g\n",
          "A[^1] B[^two]\n\n[^1]: C\n[^two]: D E\n\n    F\n\n[^3]:\n    G\n" },
        { ET_DOCUMENT_MD,
          "{{< figure title=\"a *b*\" >}}\n\na {{% c %}} d {{ e }}\n{% if f %}\ng\n{% endif %}\n",
          "{{< figure title=\"a *b*\" >}}\n\nA {{% c %}} D {{ e }}\n{% if f %}\nG\n{% endif %}\n" },
        { ET_DOCUMENT_MD, "{% highlight c %}\nint a;\n\nb\n{% endhighlight %}\nc\n",
          "{% highlight c %}\nint a;\n\nb\n{% endhighlight %}\nC\n" },
        { ET_DOCUMENT_MD,
          "# a {#b .c}\n\nd [e]({{< ref \"f g\" >}}) h\n{: .i}\n\n[[j k]] :tada: 1:2\n",
          "# A {#b .c}\n\nD [E]({{< ref \"f g\" >}}) H\n{: .i}\n\n[[j k]] :tada: 1:2\n" },
        { ET_DOCUMENT_MD, "a {{ b\r\n \r\nc }} ($d\r\n\r\ne$)\n",
          "A {{ B\r\n \r\nC }} ($d\r\n\r\nE$)\n" },
        { ET_DOCUMENT_MD, "![a b][c] d\n\n[c]: e.png {width=5%}\n[f]: g {.h}\n[i]: j {k}\n",
          "![A B][c] D\n\n[c]: e.png {width=5%}\n[f]: g {.h}\n[I]: J {k}\n" },
        { ET_DOCUMENT_MD, "<br>[^1]:   \na | {% raw %}&nbsp; :::(a) {% endraw %}\n",
          "<br>[^1]:   \nA | {% raw %}&nbsp; :::(a) {% endraw %}\n" },
        { ET_DOCUMENT_MD, "*[AB]: a b\n*[C d]: c d\n\nAB\n~ e\n~ f\n",
          "*[AB]: A B\n*[C d]: C D\n\nAB\n~ E\n~ F\n" },
        { ET_DOCUMENT_MD,
          "[^1]: ```sh\n    make a\n    ```\n\n[^b]: ~~~~\n    c\n    ~~~~\n    d\n\ne\n",
          "[^1]: ```sh\n    make a\n    ```\n\n[^b]: ~~~~\n    c\n    ~~~~\n    D\n\nE\n" },
        { ET_DOCUMENT_MD, "a. one\n   two\nb. three\n\n(@) four\n(@) five\n\nsix\n(a) seven\n",
          "A. ONE TWO\nB. THREE\n\n(@) FOUR\n(@) FIVE\n\nSIX (A) SEVEN\n" },
        { ET_DOCUMENT_MD, "*[AB]: a\nb\n\n*[C]: d", "*[AB]: A\nB\n\n*[C]: D" },
        { ET_DOCUMENT_MD, "i. a\nii. b\niii. c\nvi d\n\n(@one-two) e\n(@three_four) f\n",
          "I. A\nII. B\nIII. C VI D\n\n(@one-two) E\n(@three_four) F\n" },
        { ET_DOCUMENT_MD, "+++ {\"tags\": [\"a b\"]}\n\nc\n\n+++\nd\n+++ {e} f\n",
          "+++ {\"tags\": [\"a b\"]}\n\nC\n\n+++\nD\n+++ {e} F\n" },
        { ET_DOCUMENT_MD, "::: mermaid\na --> b\n\nc\n:::\nd\n\n::: math\ne\n```\nf\n```\n",
          "::: mermaid\na --> b\n\nc\n:::\nD\n\n::: math\nE\n```\nf\n```\n" },
        { ET_DOCUMENT_MD, "::: math\na\n\n::: code\nb\n:::\n\n:::tip\nc\n:::",
          "::: math\nA\n\n::: code\nb\n:::\n\n:::tip\nC\n:::" },
        { ET_DOCUMENT_MD, "[^1]: ```a b``` is c.\n", "[^1]: ```a b``` IS C.\n" },
        { ET_DOCUMENT_MD, "a $b_1$ is $c*d*e$, $5 or $6 for f\n\n$$\ng\n$$ h\n",
          "A $b_1$ IS $c*d*e$, $5 OR $6 FOR F\n\n$$\ng\n$$ H\n" },
        { ET_DOCUMENT_MD, "`{{` a `}}` b `$` c `$`\n", "`{{` A `}}` B `$` C `$`\n" },
        { ET_DOCUMENT_MD,
          "import A from 'a'\nexport const b = 'c'\n\nimport of goods\n\n<Tab a={\"b c\"}>\n\nd\n",
          "import A from 'a'\nexport const b = 'c'\n\nIMPORT OF GOODS\n\n<Tab a={\"b "
          "c\"}>\n\nD\n" },
        { ET_DOCUMENT_MD,
          "- ```sh\n  make a\n  ```\n- b\n\nc\n\n1. ~~~\n   d\n   ~~~\n\n> ```\n> e\n> ```\nf\n",
          "- ```sh\n  make a\n  ```\n- B\n\nC\n\n1. ~~~\n   d\n   ~~~\n\n> ```\n> e\n> ```\nF\n" },
        { ET_DOCUMENT_MD,
          "See [Etude Guide][], [terms] and ![the\npicture].\n\n[terms]: a\n[etude guide]: b\n"
          "[The picture]: c\n\n[WARNING] Read the [note]: it is short.\n",
          "SEE [ETUDE GUIDE][Etude Guide], [TERMS][terms] AND ![THE PICTURE][the picture].\n\n"
          "[terms]: a\n[etude guide]: b\n[The picture]: c\n\n"
          "[WARNING] READ THE [NOTE]: IT IS SHORT.\n" },
        { ET_DOCUMENT_MD,
          "- :::info A title\n  one\n  :::\n\n1. > - :::tip\n   >   two\n   >   :::\n",
          "- :::info A TITLE\n  ONE\n  :::\n\n1. > - :::tip\n   >   TWO\n   >   :::\n" },
        { ET_DOCUMENT_MD, "::include{file=a.md}\n\n::video[A title]{#b}\n\n--8<-- \"c.md\"\n",
          "::include{file=a.md}\n\n::video[A TITLE]{#b}\n\n--8<-- \"c.md\"\n" },
        { ET_DOCUMENT_MD, "\\newpage\n\n\\vspace{1em}\na\n\n\\begin{b}\nc\n\\end{b}\n\nd \\e f\n",
          "\\newpage\n\n\\vspace{1em}\nA\n\n\\begin{b}\nc\n\\end{b}\n\nD \\E F\n" },
        { ET_DOCUMENT_MD, "a \\(b + c\\) d \\\\(e\\\\) f\n\n\\\\[\ng\n\\\\]\n\n\\(h i\n",
          "A \\(b + c\\) D \\\\(e\\\\) F\n\n\\\\[\ng\n\\\\]\n\n\\(H I\n" },
        { ET_DOCUMENT_MD, "\\[\na = b\n\\]\n\nc \\[ \\frac{d}{e} \\] f \\[not math\\]\n",
          "\\[\na = b\n\\]\n\nC \\[ \\frac{d}{e} \\] F \\[NOT MATH\\]\n" },
        { ET_DOCUMENT_MD, "see @fig-a-b, \\@ref(tab:c) and [-@d:e, p. 3]. Mail <f-@g.org>, @h.\n",
          "SEE @fig-a-b, \\@ref(tab:c) AND [-@d:e, P. 3]. MAIL <f-@g.org>, @h.\n" },
        { ET_DOCUMENT_MD,
          "[@Doe99; @Fig-a] ![b](c.png){d=\"e `f` g\"} ![h](i){ .j k=l } {m.n(o => <p/>)}\n",
          "[@Doe99; @Fig-a] ![B](c.png){d=\"e `f` g\"} ![H](i){ .j k=l } {m.n(o => <p/>)}\n" },
        { ET_DOCUMENT_MD, "<A b={`c ${d}`}>\ne\n</A>\n\n{{< f g=\"`h`\" >}} i {j(k\n\nl}\n",
          "<A b={`c ${d}`}>\nE\n</A>\n\n{{< f g=\"`h`\" >}} I {J(K\n\nL}\n" },
        { ET_DOCUMENT_MD,
          "<Steps>\n1. a `b`\n2. [c](/d)\n</Steps>\n\n<TabsUI>\n  <Tab x={{ y: 1 }}>\n    ```sh\n  "
          "  "
          "e\n    ```\n    f\n  </Tab><Tab>\n\n    - g\n      h\n  </Tab>\n</TabsUI>\n\n<Aside>i "
          "`j`</Aside>\n<Aside>k</Aside>\n",
          "<Steps>\n1. A `b`\n2. [C](/d)\n</Steps>\n\n<TabsUI>\n  <Tab x={{ y: 1 }}>\n    ```sh\n  "
          "  "
          "e\n    ```\n    F\n  </Tab><Tab>\n\n    - G H\n  </Tab>\n</TabsUI>\n\n<Aside>I "
          "`j`</Aside> <Aside>K</Aside>\n" },
        { ET_DOCUMENT_MD,
          "<div>\n<Tab>\n![a](../b.png) `e`\n```js\nf\n```\ng\n</Tab>\n</div>\n\n```\n<p>\n"
          "```\n<H>\n1. i\n</H>\n\n<pre>\n```\n```\nj\n</pre>\n",
          "<div>\n<Tab>\n![A](../b.png) `e`\n```js\nf\n```\nG\n</Tab>\n</div>\n\n```\n<p>\n"
          "```\n<H>\n1. I\n</H>\n\n<pre>\n```\n```\nj\n</pre>\n" },
        /* A fence there ends where its lines end, whatever is in it. */
        { ET_DOCUMENT_MD,
          "<div>\n```sh\na\n\n<p>\n```\nb\n</div>\n\n<Tab>\n    ~~~js\nc\n\n```\n    ~~~~\n</Tab>\n"
          "\nd\n\n```\n<Tab>\n    ```\n```\ne\n",
          "<div>\n```sh\na\n\n<p>\n```\nB\n</div>\n\n<Tab>\n    ~~~js\nc\n\n```\n    ~~~~\n</Tab>\n"
          "\nD\n\n```\n<Tab>\n    ```\n```\nE\n" },
        { ET_DOCUMENT_MD, "<p>\n**a** `b => C<D> | e` f\n</p>\n\n<td>`</td><td>g `</td>\n",
          "<p>\n**A** `b => C<D> | e` F\n</p>\n\n<td>`</td><td>G `</td>\n" },
        { ET_DOCUMENT_MD,
          "a\n\n+---+--:+\n| b | c |\n+===+===+\n| d | e |\n+---+---+\n\n+-\nf\n\n+ - g\n",
          "A\n\n+---+--:+\n| b | c |\n+===+===+\n| d | e |\n+---+---+\n\n+-\nF\n\n+ - G\n" },
        { ET_DOCUMENT_MD,
          "[a b] c\n\n[a b]:https://d.e/f%20g\n:::image source=\"h.png\" alt=\"i\":::\n",
          "[A B][a b] C\n\n[a b]:https://d.e/f%20g\n:::image source=\"h.png\" alt=\"i\":::\n" },
        { ET_DOCUMENT_MD,
          "a <a b={`c ${d}`}>e</a> <i f={{ g: 'h' }}>j</i>\n\n<p title={t('k')} alt={`l "
          "${m}`}>n</p>\n",
          "A <a b={`c ${d}`}>E</a> <i f={{ g: 'h' }}>J</i>\n\n<p title={t('k')} alt={`l "
          "${m}`}>N</p>\n" },
        { ET_DOCUMENT_MD, "a <!--\nb `c` --> d ++ctrl+e++ ++f++ c++ g++h+i++\n",
          "A <!--\nb `c` --> D ++ctrl+e++ ++F++ C++ G++H+I++\n" },
        { ET_DOCUMENT_MD,
          "```js\na\n\nimport b from 'c';\n```\nd\n\n~~~\n\nexport { e };\n~~~\nf\n",
          "```js\na\n\nimport b from 'c';\n```\nD\n\n~~~\n\nexport { e };\n~~~\nF\n" },
        { ET_DOCUMENT_MD, "===! \"a\"\n    b\n===  \"c\"\n\n    d\n\n% e\nf\n%d g\n% h\n",
          "===! \"A\"\n    B\n===  \"C\"\n\n    D\n\n% E\nF %d G\n% H\n" },
        { ET_DOCUMENT_MD,
          "{{< code a=b />}}\n\nc\n\n{{< code >}}\n\nd\n\n{{< code >}}\n\ne\n\n{{< /code >}}\n",
          "{{< code a=b />}}\n\nC\n\n{{< code >}}\n\nD\n\n{{< code >}}\n\ne\n\n{{< /code >}}\n" },
        { ET_DOCUMENT_MD, "{{< code >}}\n\na\n\n{{< /code >}",
          "{{< code >}}\n\nA\n\n{{< /CODE >}" },
        { ET_DOCUMENT_MD,
          "{{< code />}}\n\nc\n\n{{% code %}}\nd\n{{% /code %}}\n\n{{< code a/ >}}\n\ne\n\n"
          "{{< /code >}}\n\n<<< f\n\n<<< @/a.js\n",
          "{{< code />}}\n\nC\n\n{{% code %}}\nd\n{{% /code %}}\n\n{{< code a/ >}}\n\ne\n\n"
          "{{< /code >}}\n\n<<< F\n\n<<< @/a.js\n" },
        { ET_DOCUMENT_MD, "---\n\na: b\n---\nc\n", "---\n\na: b\n---\nC\n" },
        { ET_DOCUMENT_MD, "a {b, select, c<i>d</i>\n", "A {b, select, c<i>d</i>\n" },
        { ET_DOCUMENT_MD, "<p>\na <%= b %> c {{< d >}} e < f\n</p>\n",
          "<p>\nA <%= b %> C {{< d >}} E &lt; F\n</p>\n" },
        /* Markup does not end in code, and a rule is no front matter. */
        { ET_DOCUMENT_MD, "a $$ b\n\n```\n$$\n```\n\nc {{ d\n```\n}}\n```\ne $$ f\n\ng $$ h\n",
          "A $$ B\n\n```\n$$\n```\n\nC {{ D\n```\n}}\n```\nE $$ F\n\nG $$ H\n" },
        { ET_DOCUMENT_MD,
          "a {{< code >}} b\n\n    {{< /code >}}\n\n{% raw %}\n```\nc\n```\n{% endraw %}\n- $$\n  "
          "d\n\n"
          "  e\n  $$\n",
          "A {{< code >}} B\n\n    {{< /code >}}\n\n{% raw %}\n```\nc\n```\n{% endraw %}\n- $$\n  "
          "d\n\n"
          "  e\n  $$\n" },
        { ET_DOCUMENT_MD, "---\n\na\n\n---\n\nimport b from 'c' into d.\n",
          "---\n\nA\n\n---\n\nIMPORT B FROM 'C' INTO D.\n" },
        { ET_DOCUMENT_MD, "(a-b)=\n# c\n\n<<< @/d.js\n\n(e f)=\n",
          "(a-b)=\n# C\n\n<<< @/d.js\n\n(E F)=\n" },
        { ET_DOCUMENT_MD, "{\n  \"title\": \"a\"\n}\n\nb\n{\nc\n}\n",
          "{\n  \"title\": \"a\"\n}\n\nB { C }\n" },
        { ET_DOCUMENT_MD, "- > [!NOTE]\n  > a\n- !!! note \"b\"\n      c\n- [^d]: e\n\n      f\n",
          "- > [!NOTE]\n  > A\n- !!! note \"B\"\n      C\n- [^d]: E\n\n      F\n" },
        { ET_DOCUMENT_MD, "\xef\xbb\xbf```\na\n```\n#\tb c\n",
          "\xef\xbb\xbf```\na\n```\n#\tB C\n" },
        { ET_DOCUMENT_MD, "a \\(about\\) b \\(\\sin x_{max} = y\\) c\n",
          "A \\(ABOUT\\) B \\(\\sin x_{max} = y\\) C\n" },
        { ET_DOCUMENT_MD,
          ":::{figure} a.png\n:alt: b c\n:width: 9px\n\nd\n:::\n\n:tada: e\n:a: f\n",
          ":::{figure} a.png\n:alt: b c\n:width: 9px\n\nD\n:::\n\n:tada: E :a: F\n" },
        { ET_DOCUMENT_MD, "<% a %> b <%= c %> d\n\n%% e f %%\n\n100%% g %%h%% i\n",
          "<% a %> B <%= c %> D\n\n%% e f %%\n\n100%% G %%h%% I\n" },
        { ET_DOCUMENT_MD, "{{< tabs >}}{{< tab \"a\" >}}b c{{< /tab >}}{{< /tabs >}}\n",
          "{{< tabs >}}{{< tab \"a\" >}}B C{{< /tab >}}{{< /tabs >}}\n" },
        { ET_DOCUMENT_MD, "a <code>b</code> <kbd>c</kbd> &amp;lt; &#42;d&#42;\n",
          "A <code>b</code> <kbd>c</kbd> &amp;LT; &#42;D&#42;\n" },
        { ET_DOCUMENT_MD,
          "<p align=\"center\">\n  <img alt=\"a dog\"> two\n</p>\n\n> <p>three</p>\n\n> <!-- four "
          "-->\n",
          "<p align=\"center\">\n  <img alt=\"A DOG\"> TWO\n</p>\n\n> <p>three</p>\n\n> <!-- four "
          "-->\n" },
    };
    /* Code in a block of HTML is part of its sentence. */
    static const row whole = { ET_DOCUMENT_MD, "<div>\na ``b ` c`` d\n</div>\n",
                               "<div>\n[a ``b ` c`` d]\n</div>\n" };
    (void)state;
    assert_rows(&whole, 1, NULL, shown);
    assert_rows(rows, COUNT(rows), NULL, capitals);
    assert_int_equal(counts.kept, 1);
    assert_int_equal(counts.kept_lines[0], 5);
}

static const char *said;

static char *says(const char *line)
{
    (void)line;
    return copy(said);
}

/* What begins a translation does not become a block, and what is in it no markup. */
static void test_documents__md_begins(void **state)
{
    static const struct {
        const char *said;
        row expected;
    } rows[] = {
        { "1. one", { ET_DOCUMENT_MD, "a\n", "1\\. one\n" } },
        { "# one", { ET_DOCUMENT_MD, "a\n", "\\# one\n" } },
        { "- one", { ET_DOCUMENT_MD, "- a\n", "- \\- one\n" } },
        { "> one", { ET_DOCUMENT_MD, "a\n", "\\> one\n" } },
        { "#1 one-two", { ET_DOCUMENT_MD, "a\n", "#1 one-two\n" } },
        { "one | two", { ET_DOCUMENT_MD, "|a|2|\n|---|---|\n", "|one \\| two|2|\n|---|---|\n" } },
        { "one *two*", { ET_DOCUMENT_MD, "a\n", "one \\*two\\*\n" } },
        { "one_two 2 * 3", { ET_DOCUMENT_MD, "a\n", "one_two 2 * 3\n" } },
        { "<b>", { ET_DOCUMENT_HTML, "<p>a</p>", "<p>a</p>" } },
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        said = rows[i].said;
        assert_rows(&rows[i].expected, 1, NULL, says);
    }
}

/* Pages that are not well-formed, as browsers read them. */
static void take(void *payload, et_log_level level, const char *text)
{
    if (level == ET_LOG_WARNING)
        et_strbuf_printf(payload, "%s\n", text);
}

/* The character set of a page is not changed, but its user is warned. */
static void test_documents__html_charset(void **state)
{
    static const row rows[] = {
        { ET_DOCUMENT_HTML, "<meta charset=utf-8><meta name=a content='charset=b'><p>x</p>",
          "<meta charset=utf-8><meta name=a content='charset=b'><p>X</p>" },
        { ET_DOCUMENT_HTML, "<meta charset=\"Latin1\">\n<p>x</p>",
          "<meta charset=\"Latin1\">\n<p>X</p>" },
        { ET_DOCUMENT_HTML, "\n<meta content='text/html; Charset=big5;a' http-equiv=Content-Type>",
          "\n<meta content='text/html; Charset=big5;a' http-equiv=Content-Type>" },
        { ET_DOCUMENT_HTML, "<meta charset><meta http-equiv content>",
          "<meta charset><meta http-equiv content>" },
    };
    et_strbuf warnings = ET_STRBUF_INIT;
    (void)state;
    et_log_set(take, &warnings);
    assert_rows(rows, COUNT(rows), NULL, capitals);
    et_log_set(NULL, NULL);
    assert_string_equal(et_strbuf_text(&warnings),
                        "a.txt:1: the page names the character set Latin1, but the translation is "
                        "UTF-8; write charset=utf-8\n"
                        "a.txt:2: the page names the character set big5, but the translation is "
                        "UTF-8; write charset=utf-8\n");
    et_strbuf_release(&warnings);
}

static void test_documents__html_pages(void **state)
{
    static const row rows[] = {
        { ET_DOCUMENT_HTML, "<!DOCTYPE html SYSTEM \"a>b<p>c</p>",
          "<!DOCTYPE html SYSTEM \"a>B<p>C</p>" },
        { ET_DOCUMENT_HTML, "<p>a<!x [b> c ]>d", "<p>A<!x [b> C ]>D" },
        { ET_DOCUMENT_HTML, "<!--[if IE]><p>a</p><![endif]--><![if !IE]>b<![endif]>",
          "<!--[if IE]><p>a</p><![endif]--><![if !IE]>B<![endif]>" },
        { ET_DOCUMENT_HTML, "<table>a<tr>b<td>c</table>d", "<table>A<tr>B<td>C</table>D" },
        { ET_DOCUMENT_HTML,
          "<title><?= $a->b ?> c</title><?php if ($a > 1): ?>d<?php endif ?> "
          "<img alt=\"<?php e($f->g) ?> h\">i <?php echo 1 > 2",
          "<title><?= $a->b ?> C</title><?php if ($a > 1): ?>D<?php endif ?> "
          "<img alt=\"<?php e($f->g) ?> H\">I <?php echo 1 > 2" },
        { ET_DOCUMENT_HTML, "<p>a</b>b <b><i>c</b>d</i></p></div>e</body>f</html>g",
          "<p>A</b>B <b><i>C</b>D</i></p></div>E</body>F</html>G" },
        { ET_DOCUMENT_HTML, "<title>a <b>b &amp; c</title><p>d",
          "<title>A &lt;B>B &amp; C</title><p>D" },
        { ET_DOCUMENT_HTML, "<template><p>a</template><svg><title>b</title></svg>c",
          "<template><p>a</template><svg><title>b</title></svg>C" },
        { ET_DOCUMENT_HTML, "<ul><li>a<li>b</ul><dl><dt>c<dd>d</dl>",
          "<ul><li>A<li>B</ul><dl><dt>C<dd>D</dl>" },
        { ET_DOCUMENT_HTML, "<script><!--<script>a</script>b--></script>c<iframe>d</iframe>",
          "<script><!--<script>a</script>b--></script>C<iframe>d</iframe>" },
        { ET_DOCUMENT_HTML, "<p>a <code>b</p><p>c</code> d", "<p>A <code>b</p><p>c</code> D" },
        { ET_DOCUMENT_HTML,
          "<div translate=no>a <p>b <b translate=yes title=\"c\">d</b> e</p></div><p>f "
          "<i translate=no>g <u translate=yes>h</u></i> i",
          "<div translate=no>a <p>b <b translate=yes title=\"C\">D</b> e</p></div><p>F "
          "<i translate=no>g <u translate=yes>H</u></i> I" },
    };
    et_error error;
    et_strbuf deep = ET_STRBUF_INIT;
    (void)state;
    assert_rows(rows, COUNT(rows), NULL, capitals);
    for (int i = 0; i < 600; i++)
        et_strbuf_append(&deep, "<div>\n");
    assert_null(translate(ET_DOCUMENT_HTML, NULL, deep.data, deep.length, capitals, &error));
    assert_non_null(strstr(error.text, "a.txt:513: elements are nested more than 512 deep"));
    et_strbuf_release(&deep);
}

/* A translation that keeps the spans is taken as a whole. */
static void test_documents__whole(void **state)
{
    static const row rows[] = {
        { ET_DOCUMENT_HTML, "<p>Click <b>ok</b> in {name}, 7 times.</p>",
          "<p>CLICK <b>OK</b> IN {name}, 7 TIMES.</p>" },
        { ET_DOCUMENT_TEXT, "Open %s", "OPEN %s" },
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        assert_rows(&rows[i], 1, NULL, careful);
        assert_int_equal(rounds, 1);
        assert_int_equal(counts.repaired, 0);
    }
}

/* Words between two tags are not lost: <b></b> is refused. */
static char *without_ok(const char *line)
{
    char *text = copy(line), *ok = strstr(text, "ok");
    if (ok)
        memmove(ok, ok + 2, strlen(ok + 2) + 1);
    return text;
}

/* As models do. */
static char *sentence(const char *line)
{
    et_strbuf out = ET_STRBUF_INIT;
    char *text = capitals(line);
    et_strbuf_printf(&out, "%s%s", text, strchr(line, '{') ? "" : strchr(line, 'x') ? " ?" : ".");
    et_free(text);
    return et_strbuf_detach(&out);
}

/* A segment's language tag is in front of each line that the translator gets, and not in the
 * document. */
static void test_documents__language_tags(void **state)
{
    static const row usual[] = {
        { ET_DOCUMENT_LINES, "a dog\n", "[a dog]\n" },
        { ET_DOCUMENT_LINES, " >>fra<<  a dog\nb\n", " [fra: a dog]\n[b]\n" },
        { ET_DOCUMENT_LINES, ">>fra<<a", "[fra: a]" },
        { ET_DOCUMENT_LINES, ">>fra<<\n>>fra<< 12\n", "\n12\n" },
        { ET_DOCUMENT_LINES, ">>xyz<< a\n>> b c << d\na >>fra<< b",
          "[xyz: a]\n[>> b c << d]\n"
          "[a >>fra<< b]" },
        { ET_DOCUMENT_HTML, "<p>&gt;&gt;deu&lt;&lt; a <b>c</b></p><p>d</p>",
          "<p>[deu: a <b>c]</b></p><p>[d]</p>" },
    };
    static const row sentences[] = {
        { ET_DOCUMENT_LINES, ">>fra<< One is here. Two is, too.\nThree. Four.\n",
          "[fra: One is here.] [fra: Two is, too.]\n[Three.] [Four.]\n" },
    };
    static const row parts[] = {
        { ET_DOCUMENT_TEXT, ">>fra<< a 7 b", "[fra: a] 7 [fra: b]" },
    };
    static const row every[] = {
        { ET_DOCUMENT_LINES, "a dog\n\n>>fra<< b\n12", "[deu: a dog]\n\n[fra: b]\n12" },
        { ET_DOCUMENT_TEXT, "a dog\n", "[deu: a dog]\n" },
    };
    et_sentences *s;
    et_error error;
    (void)state;
    assert_rows(usual, COUNT(usual), NULL, shown);
    assert_rows(parts, COUNT(parts), NULL, without_7);
    usual_tag = ">>deu<<";
    assert_rows(every, COUNT(every), NULL, shown);
    usual_tag = NULL;
    if (et_sentences_open(&s, "en", &error))
        print_message("SKIPPED: sentences with a tag: %s\n", error.text);
    else
        assert_rows(sentences, COUNT(sentences), s, shown);
    et_sentences_close(s);
}

/* Parts of a sentence are no sentences. */
static void test_documents__parts(void **state)
{
    static const row rows[] = {
        { ET_DOCUMENT_TEXT, "Open {name}. Then {this} file, and end!\n",
          "OPEN {name}. THEN {this} FILE, AND END!\n" },
        { ET_DOCUMENT_TEXT, "x {name}\n", "X {name}\n" },
        { ET_DOCUMENT_HTML, "<p>Click <b>{a} it</b>, or.</p><p>No</p>",
          "<p>CLICK <b>{a} IT</b>, OR.</p><p>NO.</p>" },
    };
    (void)state;
    assert_rows(rows, COUNT(rows), NULL, sentence);
}

/* Translations that are of no use leave the source's text. */
static void test_documents__kept(void **state)
{
    static const row rows[] = {
        { ET_DOCUMENT_HTML, "<p>Click <b>it</b> in {name}.</p>\n",
          "<p>Click <b>it</b> in {name}.</p>\n" },
        { ET_DOCUMENT_TEXT, "Open %s, please\nNow\n", "Open %s, please\nNow\n" },
    };
    static const row lost = { ET_DOCUMENT_HTML, "<p>Click <b>ok</b>.</p>",
                              "<p>Click <b>ok</b>.</p>" };
    (void)state;
    assert_rows(rows, COUNT(rows), NULL, nothing);
    assert_int_equal(counts.kept, 3);
    assert_int_equal(counts.repaired, 2);
    assert_int_equal(counts.line, 1);
    assert_rows(rows, COUNT(rows), NULL, junk);
    assert_rows(&lost, 1, NULL, without_ok);
}

/* Texts without letters, byte by byte, even if the document writes the same character otherwise. */
static void test_documents__no_letters(void **state)
{
    static const row rows[] = {
        { ET_DOCUMENT_HTML,
          "<p>&quot;a&nbsp;b&quot; &gt;</p><p>1 < 2 & \"3\" > \xc2\xa0&#160;4&#34;</p>\n",
          "<p>&quot;A&nbsp;B&quot; &gt;</p><p>1 < 2 & \"3\" > \xc2\xa0&#160;4&#34;</p>\n" },
        { ET_DOCUMENT_HTML, "<p>&#160;a&nbsp;<b>&#160;&nbsp;</b></p>",
          "<p>&#160;A&nbsp;<b>&#160;&nbsp;</b></p>" },
        { ET_DOCUMENT_MD, "> 1\n>  2\n\n3\n  4\n", "> 1\n>  2\n\n3\n  4\n" },
    };
    (void)state;
    assert_rows(rows, COUNT(rows), NULL, capitals);
}

static void test_documents__sentences(void **state)
{
    static const row rows[] = {
        { ET_DOCUMENT_LINES, "One dog.  It runs.\nTwo.\n", "ONE DOG.  IT RUNS.\nTWO.\n" },
        { ET_DOCUMENT_HTML, "<p><b>One.</b> Two <i>dogs</i>. See www.example.org/?A b.</p>",
          "<p><b>ONE.</b> TWO <i>DOGS</i>. SEE www.example.org/?A B.</p>" },
        { ET_DOCUMENT_MD, "> One dog.\n> It runs.\n\nTwo is.\nIt is.\n",
          "> ONE DOG.\n> IT RUNS.\n\nTWO IS.\nIT IS.\n" },
    };
    et_sentences *s;
    et_error error = ET_ERROR_INIT;
    (void)state;
    if (et_sentences_open(&s, "en", &error))
        test_skip("built without ICU");
    assert_rows(rows, 1, s, capitals);
    assert_int_equal(counts.segments, 3);
    assert_rows(rows + 1, 1, s, capitals);
    assert_int_equal(counts.segments, 3);
    assert_rows(rows + 2, 1, s, capitals);
    assert_int_equal(counts.segments, 4);
    et_sentences_close(s);
}

static void test_documents__refused(void **state)
{
    et_error error;
    (void)state;
    assert_null(translate(ET_DOCUMENT_LINES, NULL, "a\nb\0c", 5, capitals, &error));
    assert_non_null(strstr(error.text, "a.txt:2: the text has a byte NUL"));
    assert_null(translate(ET_DOCUMENT_HTML, NULL, "a\n\xff", 3, capitals, &error));
    assert_non_null(strstr(error.text, "a.txt:2: byte 0xFF is not UTF-8"));
}

/* Damaged texts of every format: they are refused, or nothing between < and > is in capitals. */
static void test_documents__damaged(void **state)
{
    static const char *const samples[] = {
        "a dog {name} %1$d https://example.org/x a@b.org 7\n",
        "<!doctype html><p class='a'>click <b>ok</b> &amp; <code>x</code> <!-- c --></p>",
        "<img alt='a \"dog\"' title=b> &amp; <input type=submit value=\"go\"><p title=\"c\">d",
        "<?xml version='1.0'?><a><b>one <i>two</i></b><![CDATA[x]]></a>",
        ("msgid \"a %s\\n\"\n\"b\"\nmsgstr \"\"\n\n"
         "msgid \"c\"\nmsgid_plural \"d\"\nmsgstr[0] \"\"\n"),
        "1\n00:00:01,000 --> 00:00:02,500\n<i>one two</i> three\nfour\n\n",
        "# a\n\n- [b](c) *d* `e`\n> f\n\n|a|\n|---|\n|b|\n\n```\ncode\n```\n",
    };
    static const char bytes[] = "<>&;\"'{}%[]/!-?= a\n`*_|#\\()";
    et_error error;
    uint32_t random = 1;
    (void)state;
    for (int format = ET_DOCUMENT_LINES; et_document_formats[format]; format++)
        for (int i = 0; i < 3000; i++) {
            char text[128];
            snprintf(text, sizeof text, "%s", samples[i % (int)COUNT(samples)]);
            size_t length = strlen(text);
            for (int n = 0; n < 1 + i % 4; n++) {
                random = random * 1664525 + 1013904223;
                text[(random >> 8) % length] = bytes[(random >> 20) % (sizeof bytes - 1)];
            }
            char *out = translate(format, NULL, text, length, i % 2 ? capitals : junk, &error);
            assert_true(out || error.status == ET_EDATA || error.status == ET_ECONFIG);
            et_free(out);
        }
}

/* Time is linear: a megabyte of what begins something without an end. */
static void test_documents__long(void **state)
{
    static const char *const parts[] = { "<",
                                         "<b>",
                                         "&",
                                         "{",
                                         "a@",
                                         "a.",
                                         "%(",
                                         "<!--",
                                         "1.",
                                         "(",
                                         "&amp;",
                                         "http://",
                                         "</b>",
                                         "<p>",
                                         "*",
                                         "[",
                                         "`",
                                         "\\",
                                         "\"",
                                         "{a,choice,0#b|1#",
                                         "{a,plural,b{}c{",
                                         "{{< a >}}",
                                         "\\\\(",
                                         " %%",
                                         "<%",
                                         "- " };
    et_error error;
    (void)state;
    for (int format = ET_DOCUMENT_LINES; et_document_formats[format]; format++)
        for (size_t i = 0; i < COUNT(parts); i++) {
            et_strbuf text = ET_STRBUF_INIT;
            while (text.length < (size_t)1 << 17)
                et_strbuf_append(&text, parts[i]);
            char *out = translate(format, NULL, text.data, text.length, capitals, &error);
            assert_true(out || error.status == ET_EDATA || error.status == ET_ECONFIG);
            et_free(out);
            et_strbuf_release(&text);
        }
}

/* A subtitle of many lines, whose translation gets as many. */
static void test_documents__many_lines(void **state)
{
    static const struct {
        int format;
        const char *begin, *line;
    } rows[] = { { ET_DOCUMENT_SRT, "1\n00:00:01,000 --> 00:00:02,500\n", "one two three\n" },
                 { ET_DOCUMENT_HTML, "<p>", "one <img alt=\"two three\">\n" } };
    et_error error;
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        et_strbuf text = ET_STRBUF_INIT;
        et_strbuf_append(&text, rows[i].begin);
        while (text.length < (size_t)1 << 19)
            et_strbuf_append(&text, rows[i].line);
        const clock_t begin = clock();
        char *out = translate(rows[i].format, NULL, text.data, text.length, capitals, &error);
        assert_true((double)(clock() - begin) / CLOCKS_PER_SEC < 10);
        assert_non_null(out);
        assert_int_equal(strlen(out), text.length);
        et_free(out);
        et_strbuf_release(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_documents__many_lines),
        cmocka_unit_test(test_documents__lines),
        cmocka_unit_test(test_documents__spans),
        cmocka_unit_test(test_documents__numbers),
        cmocka_unit_test(test_documents__html),
        cmocka_unit_test(test_documents__md),
        cmocka_unit_test(test_documents__md_beyond),
        cmocka_unit_test(test_documents__md_begins),
        cmocka_unit_test(test_documents__html_pages),
        cmocka_unit_test(test_documents__whole),
        cmocka_unit_test(test_documents__parts),
        cmocka_unit_test(test_documents__kept),
        cmocka_unit_test(test_documents__language_tags),
        cmocka_unit_test(test_documents__sentences),
        cmocka_unit_test(test_documents__no_letters),
        cmocka_unit_test(test_documents__html_charset),
        cmocka_unit_test(test_documents__refused),
        cmocka_unit_test(test_documents__damaged),
        cmocka_unit_test(test_documents__attributes),
        cmocka_unit_test(test_documents__values_checked),
        cmocka_unit_test(test_documents__large_values),
        cmocka_unit_test(test_documents__urls),
        cmocka_unit_test(test_documents__long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
