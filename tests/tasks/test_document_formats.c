/* Documents that libraries read, XML and message catalogues, subtitles, and messages of ICU in any
 * format. The translator writes capitals, also in markup, so these must be repaired. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "skip.h"
#include "tasks/documents.h"
#include "tasks/translation/documents/document.h"
#include "tasks/translation/documents/document_private.h"

/* Skips a case of a format that this build does not read. */
#define NEEDS(format)                                                                              \
    do {                                                                                           \
        et_error missing;                                                                          \
        if (!translate(format, NULL, "msgid \"\"\n", 10, capitals, &missing) &&                    \
            missing.status == ET_ECONFIG)                                                          \
            test_skip(missing.text);                                                               \
    } while (0)

typedef struct refusal {
    const char *text, *words;
} refusal;

static void assert_refused(int format, const refusal *rows, size_t count)
{
    et_error error;
    for (size_t i = 0; i < count; i++) {
        const char *text = rows[i].text;
        char *out = translate(format, NULL, text, strlen(text), capitals, &error);
        if (out || error.status != ET_EDATA || !strstr(error.text, rows[i].words))
            fail_msg("%s: %s", text, out ? out : error.text);
    }
}

/* ---- XML ---- */

/* Words and the end of a section in brackets. */
static char *brackets(const char *line)
{
    (void)line;
    return copy("x ]]> y");
}

static void test_formats__cdata(void **state)
{
    static const row rows[] = {
        { ET_DOCUMENT_XML, "<a><![CDATA[a & b]]></a>", "<a><![CDATA[A & B]]></a>" },
        { ET_DOCUMENT_XML, "<a><![CDATA[ a <b id='c'>d</b> &nbsp;e < f <p>g</p> ]]></a>",
          "<a><![CDATA[ A <b id='c'>D</b> &nbsp;E < F <p>G</p> ]]></a>" },
        { ET_DOCUMENT_XML, "<a>one <![CDATA[two \"&]]> three</a>",
          "<a>ONE <![CDATA[TWO \"&]]> THREE</a>" },
        { ET_DOCUMENT_XML, "<a><![CDATA[]]>b<![CDATA[ 7 ]]></a>",
          "<a><![CDATA[]]>B<![CDATA[ 7 ]]></a>" },
        { ET_DOCUMENT_XML, "<a><![CDATA[b [c]]]></a>", "<a><![CDATA[B [C]]]></a>" },
        { ET_DOCUMENT_XML, "<a><![CDATA[b <code>c</code> <!-- d --> e]]> f</a>",
          "<a><![CDATA[B <code>c</code> <!-- d --> E]]> F</a>" },
        { ET_DOCUMENT_XML, "<a><![CDATA[b ]]]]><![CDATA[> c]]></a>",
          "<a><![CDATA[B ]]]]><![CDATA[> C]]></a>" },
        { ET_DOCUMENT_XML, "<a><b translate=\"no\"><![CDATA[c]]></b></a>",
          "<a><b translate=\"no\"><![CDATA[c]]></b></a>" },
        { ET_DOCUMENT_XML, "<a>b ]]&gt; c</a>", "<a>B ]]&gt; C</a>" },
    };
    static const row split[] = {
        { ET_DOCUMENT_XML, "<a><![CDATA[b [>] c]]></a>", "<a><![CDATA[x ]]]]><![CDATA[> y]]></a>" },
        { ET_DOCUMENT_XML, "<a>b [>] c</a>", "<a>x ]]&gt; y</a>" },
    };
    (void)state;
    NEEDS(ET_DOCUMENT_XML);
    assert_rows(rows, COUNT(rows), NULL, capitals);
    assert_rows(split, COUNT(split), NULL, brackets);
}

static void test_formats__xml(void **state)
{
    static const row rows[] = {
        { ET_DOCUMENT_XML,
          "<?xml version=\"1.0\"?>\n<!DOCTYPE a [ <!ENTITY b \"c>d\"> ]>\n<a>\n <b>one</b>\n "
          "<b>two &b; "
          "<i>three</i></b><c/>\n</a>\n",
          "<?xml version=\"1.0\"?>\n<!DOCTYPE a [ <!ENTITY b \"c>d\"> ]>\n<a>\n <b>ONE</b>\n "
          "<b>TWO &b; "
          "<i>THREE</i></b><c/>\n</a>\n" },
        { ET_DOCUMENT_XML, "<a title=\"b\" alt='c'>d</a>", "<a title=\"b\" alt='c'>D</a>" },
        { ET_DOCUMENT_XML, "<a><b translate=\"no\">x</b>y</a>",
          "<a><b translate=\"no\">x</b>Y</a>" },
        { ET_DOCUMENT_XML, "<a><b>x</b><b>y</b></a>", "<a><b>X</b><b>Y</b></a>" },
        { ET_DOCUMENT_XML, "<a>see http://a.b/?c=d&amp;e now</a>",
          "<a>SEE http://a.b/?c=d&amp;e NOW</a>" },
        { ET_DOCUMENT_XML, "<?p q?><!-- r --><n:a xmlns:n='u'>s <!--t--> u<?v w?></n:a><!-- x -->",
          "<?p q?><!-- r --><n:a xmlns:n='u'>S <!--t--> U<?v w?></n:a><!-- x -->" },
        { ET_DOCUMENT_XML, "<feed><content><p>a</p><pre>b  c\nd</pre></content></feed>",
          "<feed><content><p>A</p><pre>b  c\nd</pre></content></feed>" },
        /* A list within a text, and one that is none. */
        { ET_DOCUMENT_XML, "<p>one <l><i>two.</i> <i>three</i></l> four</p>",
          "<p>ONE <l><i>TWO.</i> <i>THREE</i></l> FOUR</p>" },
        { ET_DOCUMENT_XML, "<p>one <l><i>two</i></l> four</p>",
          "<p>ONE <l><i>TWO</i></l> FOUR</p>" },
        /* Tags and references that are quoted. */
        { ET_DOCUMENT_XML, "<a>see &lt;a href=\"b>c\"&gt;d&lt;/a> &#60;br/> e &amp;nbsp; f</a>",
          "<a>SEE &lt;a href=\"b>c\"&gt;D&lt;/a> &#60;br/> E &amp;nbsp; F</a>" },
        { ET_DOCUMENT_XML, "<a>b &lt; c &lt;3 &amp; d &lt;e f</a>",
          "<a>B &lt; C &lt;3 &amp; D &lt;E F</a>" },
        { ET_DOCUMENT_XML, "<a>&lt;p&gt;b.&lt;/p&gt;&lt;code>c&lt;/code> d</a>",
          "<a>&lt;p&gt;B.&lt;/p&gt;&lt;code>c&lt;/code> D</a>" },
        { ET_DOCUMENT_XML,
          "<a xml:space=\"preserve\">b  c\n <d>e  f</d><g xml:space='default'>h  i</g></a>",
          "<a xml:space=\"preserve\">B  C\n <d>E  F</d><g xml:space='default'>H I</g></a>" },
        { ET_DOCUMENT_XML,
          "<a><b translate=\"no\">c <d>e <f translate=\"yes\">g</f></d> h<![CDATA[i]]></b>"
          "<k>l <m translate=\"no\">n <o translate=\"yes\">p</o></m> q</k></a>",
          "<a><b translate=\"no\">c <d>e <f translate=\"yes\">G</f></d> h<![CDATA[i]]></b>"
          "<k>L <m translate=\"no\">n <o translate=\"yes\">P</o></m> Q</k></a>" },
        /* Vocabularies that many files have. */
        { ET_DOCUMENT_XML,
          "<root><resheader name=\"a\"><value>text/b</value></resheader><data name=\"c\" "
          "xml:space=\"preserve\"><value>d</value></data></root>",
          "<root><resheader name=\"a\"><value>text/b</value></resheader><data name=\"c\" "
          "xml:space=\"preserve\"><value>D</value></data></root>" },
        { ET_DOCUMENT_XML, "<plist><dict><key>a</key><string>b</string></dict></plist>",
          "<plist><dict><key>a</key><string>B</string></dict></plist>" },
        { ET_DOCUMENT_XML,
          "<root><data name=\"a\"><value>b</value><comment>c</comment></data>"
          "<data name=\"d\" mimetype=\"e\"><value>Qk0=</value></data>"
          "<data name=\"f\" type=\"System.Drawing.Size, g\"><value>h</value></data>"
          "<data name=\"i\" type=\"System.String\"><value>j</value></data>"
          "<data name=\"&gt;&gt;k\"><value>l</value></data><comment>m</comment></root>",
          "<root><data name=\"a\"><value>B</value><comment>c</comment></data>"
          "<data name=\"d\" mimetype=\"e\"><value>Qk0=</value></data>"
          "<data name=\"f\" type=\"System.Drawing.Size, g\"><value>h</value></data>"
          "<data name=\"i\" type=\"System.String\"><value>J</value></data>"
          "<data name=\"&gt;&gt;k\"><value>l</value></data><comment>M</comment></root>" },
        { ET_DOCUMENT_XML,
          "<plist><dict><key>NSStringFormatSpecTypeKey</key>\n<string>a</string><key>NSString"
          "FormatValueTypeKey</key><string>ld</string><key>one</key><string>%ld b</string></dict>"
          "</plist>",
          "<plist><dict><key>NSStringFormatSpecTypeKey</key>\n<string>a</string><key>NSString"
          "FormatValueTypeKey</key><string>ld</string><key>one</key><string>%ld B</string></dict>"
          "</plist>" },
        { ET_DOCUMENT_XML, "<rss><link>a</link><title>b</title><pubDate>Mon</pubDate></rss>",
          "<rss><link>a</link><title>B</title><pubDate>Mon</pubDate></rss>" },
        { ET_DOCUMENT_XML,
          "<rss><sy:updatePeriod>hourly</sy:updatePeriod><itunes:explicit>no</itunes:explicit>"
          "<dc:creator>a</dc:creator><author><name>b</name></author><title>c</title></rss>",
          "<rss><sy:updatePeriod>hourly</sy:updatePeriod><itunes:explicit>no</itunes:explicit>"
          "<dc:creator>a</dc:creator><author><name>b</name></author><title>C</title></rss>" },
        { ET_DOCUMENT_XML, "<topic><p>a <xmlelement>b</xmlelement> or <tag>c</tag></p></topic>",
          "<topic><p>A <xmlelement>b</xmlelement> OR <tag>c</tag></p></topic>" },
        { ET_DOCUMENT_XML,
          "<article><para>a <command>b</command></para><programlisting>c"
          "</programlisting><literallayout>d\n  e</literallayout></article>",
          "<article><para>A <command>b</command></para><programlisting>c"
          "</programlisting><literallayout>D\n  E</literallayout></article>" },
        { ET_DOCUMENT_XML, "<svg><style>a</style><text>b <tspan>c</tspan></text></svg>",
          "<svg><style>a</style><text>B <tspan>C</tspan></text></svg>" },
    };
    static const refusal bad[] = {
        { "<a>\n<b></a>", "a.txt:2:6: mismatched tag; <b> of line 2 is open" },
        { "<a>\n</a></b>", "a.txt:2:" },
        { "<a>\n<b>", "<b> of line 2 is open" },
        { "<a>\n<b", "a.txt:2:1: unclosed token" },
        { "<a><!-- b", "a.txt:1:4: unclosed token" },
        { "<a>\n<![CDATA[b</a>", "unclosed CDATA section; <a> of line 1" },
        { "<a>&b;</a>", "undefined entity; write the character" },
        { "", "no element found" },
        { "<?xml version='1.0' encoding='latin1'?><a/>", "iconv -f latin1" },
        { "<xliff/>", "xliff2po" },
        { "<tmx/>", "two text files" },
        { "<TS version='2.1'/>", "ts2po" },
        { "<!DOCTYPE a [<!ENTITY b 'cccccccccc'><!ENTITY c '&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;'>"
          "<!ENTITY d '&c;&c;&c;&c;&c;&c;&c;&c;&c;&c;'><!ENTITY e '&d;&d;&d;&d;&d;&d;&d;&d;&d;'>"
          "<!ENTITY f '&e;&e;&e;&e;&e;&e;&e;&e;&e;&e;'><!ENTITY g '&f;&f;&f;&f;&f;&f;&f;&f;&f;'>"
          "<!ENTITY h '&g;&g;&g;&g;&g;&g;&g;&g;&g;&g;'><!ENTITY i '&h;&h;&h;&h;&h;&h;&h;&h;&h;'>"
          "]><a b='&i;'/>",
          "amplification" },
    };
    (void)state;
    NEEDS(ET_DOCUMENT_XML);
    assert_rows(rows, COUNT(rows), NULL, capitals);
    assert_refused(ET_DOCUMENT_XML, bad, COUNT(bad));
}

/* Android's resources: escapes are read and written. */
static void test_formats__resources(void **state)
{
    static const char before[] =
        "<resources><string name=\"a\" translatable=\"false\">b</string>\n"
        "<string>Don\\'t \\\"stop\\\"\\nnow, \\u00A9 caf\\u00E9 <b>%1$s</b></string>\n"
        "<string>\"a  b's\" \\@c <xliff:g id=\"d\">%1$s e</xliff:g></string>\n"
        "<string>@string/f</string><color>red</color><dimen>1dp</dimen>\n"
        "<string><![CDATA[g\\'s <i>h</i> \\n]]></string>\n"
        "<plurals><item quantity=\"one\">%d i</item></plurals></resources>";
    static const char after[] =
        "<resources><string name=\"a\" translatable=\"false\">b</string>\n"
        "<string>DON\\'T \\\"STOP\\\"\\nNOW, \\u00A9 CAF\\u00E9 <b>%1$s</b></string>\n"
        "<string>\"A  B\\'S\" \\@C <xliff:g id=\"d\">%1$s e</xliff:g></string>\n"
        "<string>@string/f</string><color>red</color><dimen>1dp</dimen>\n"
        "<string><![CDATA[G\\'S <i>H</i> \\n]]></string>\n"
        "<plurals><item quantity=\"one\">%d I</item></plurals></resources>";
    const row rows[] = {
        { ET_DOCUMENT_XML, before, after },
        /* The escape stays an escape in a file that has references, too. */
        { ET_DOCUMENT_XML,
          "<resources><string>&quot;a  b&quot; it&apos;s \\u0041b "
          "\\&quot;e\\&apos;</string><string>it\\'s "
          "\\\"c\\\" \\\\ \\\u00e9 d</string></resources>",
          "<resources><string>&quot;A  B&quot; IT\\'S AB \\\"E\\'</string><string>IT\\'S "
          "\\\"C\\\" \\\\ \\\u00e9 D</string></resources>" },
        { ET_DOCUMENT_XML, "<resources><string>a\\&#x6e;b\\&#xe9;</string></resources>",
          "<resources><string>A\\&#x6e;B\\&#xe9;</string></resources>" },
    };
    (void)state;
    NEEDS(ET_DOCUMENT_XML);
    assert_rows(rows, COUNT(rows), NULL, capitals);
}

/* ---- gettext ---- */

static void test_formats__po(void **state)
{
    static const char before[] = "# a\n"
                                 "msgid \"\"\n"
                                 "msgstr \"\"\n"
                                 "\"Content-Type: text/plain; charset=UTF-8\\n\"\n"
                                 "\n"
                                 "#: a.c:1\n"
                                 "#, c-format\n"
                                 "msgctxt \"menu\"\n"
                                 "msgid \"open \\\"%s\\\"\\tnow\"\n"
                                 "msgstr \"\"\n"
                                 "\n"
                                 "msgid \"done\"\n"
                                 "msgstr \"fertig\"\n"
                                 "\n"
                                 "msgid \"\"\n"
                                 "\"first\\n\"\n"
                                 "\"second \"\n"
                                 "\"line\\n\"\n"
                                 "msgstr \"\"\n"
                                 "\n"
                                 "msgid \"%d file\"\n"
                                 "msgid_plural \"%d files\"\n"
                                 "msgstr[0] \"\"\n"
                                 "msgstr[1] \"\"\n"
                                 "#~ msgid \"old\"\n"
                                 "#~ msgstr \"\"\n";
    static const char after[] = "# a\n"
                                "msgid \"\"\n"
                                "msgstr \"\"\n"
                                "\"Content-Type: text/plain; charset=UTF-8\\n\"\n"
                                "\n"
                                "#: a.c:1\n"
                                "#, c-format\n"
                                "msgctxt \"menu\"\n"
                                "msgid \"open \\\"%s\\\"\\tnow\"\n"
                                "msgstr \"OPEN \\\"%s\\\"\\tNOW\"\n"
                                "\n"
                                "msgid \"done\"\n"
                                "msgstr \"fertig\"\n"
                                "\n"
                                "msgid \"\"\n"
                                "\"first\\n\"\n"
                                "\"second \"\n"
                                "\"line\\n\"\n"
                                "msgstr \"FIRST\\n\"\n"
                                "\"SECOND LINE\\n\"\n"
                                "\n"
                                "msgid \"%d file\"\n"
                                "msgid_plural \"%d files\"\n"
                                "msgstr[0] \"%d FILE\"\n"
                                "msgstr[1] \"%d FILES\"\n"
                                "#~ msgid \"old\"\n"
                                "#~ msgstr \"\"\n";
    static const row rows[] = {
        { ET_DOCUMENT_PO, before, after },
        { ET_DOCUMENT_PO, "msgid \"\\x41 a\"\r\nmsgstr \"\"\r\n",
          "msgid \"\\x41 a\"\r\nmsgstr \"A A\"\r\n" },
        { ET_DOCUMENT_PO, "msgid \"  a\\\\ \"\nmsgstr \"\"",
          "msgid \"  a\\\\ \"\nmsgstr \"  A\\\\ \"" },
    };
    static const row others[] = {
        /* Strings on one line, other entries, control characters. */
        { ET_DOCUMENT_PO, "msgid \"a \" \"b\" msgstr \"\" \"\"\n#~ msgid \"c\"\n#~ msgstr \"\"\n",
          "msgid \"a \" \"b\" msgstr \"A B\"\n#~ msgid \"c\"\n#~ msgstr \"\"\n" },
        { ET_DOCUMENT_PO, "#, fuzzy\n#| msgid \"c\"\nmsgctxt \"d\"\nmsgid \"g\"\nmsgstr \"\"\n",
          "#, fuzzy\n#| msgid \"c\"\nmsgctxt \"d\"\nmsgid \"g\"\nmsgstr \"G\"\n" },
        { ET_DOCUMENT_PO, "msgid \"\\n a\\n\"\nmsgstr \"\"\n",
          "msgid \"\\n a\\n\"\nmsgstr \"\\n\"\n\" A\\n\"\n" },
        { ET_DOCUMENT_PO, "msgid \"\\033[1ma\\033[0m\\a\"\nmsgstr \"\"\n",
          "msgid \"\\033[1ma\\033[0m\\a\"\nmsgstr \"\\033[1mA\\033[0m\\007\"\n" },
        /* Markup, columns and directives. */
        { ET_DOCUMENT_PO,
          "msgid \"<b>100%</b> a 5%<i>b</i> %-5<c>s %<d>s %1<i>e</i>\"\nmsgstr \"\"\n",
          "msgid \"<b>100%</b> a 5%<i>b</i> %-5<c>s %<d>s %1<i>e</i>\"\n"
          "msgstr \"<b>100%</b> A 5%<i>B</i> %-5<c>s %<d>s %1<i>E</i>\"\n" },
        { ET_DOCUMENT_PO,
          "msgid \"see <a href=\\\"%1$s\\\" class=\\\"b\\\">here</a> &raquo; now\"\nmsgstr \"\"\n",
          "msgid \"see <a href=\\\"%1$s\\\" class=\\\"b\\\">here</a> &raquo; now\"\n"
          "msgstr \"SEE <a href=\\\"%1$s\\\" class=\\\"b\\\">HERE</a> &raquo; NOW\"\n" },
        { ET_DOCUMENT_PO,
          "#, c-format\nmsgid \"Name:\\t%s\\n  -h       show help\\n\"\nmsgstr \"\"\n",
          "#, c-format\nmsgid \"Name:\\t%s\\n  -h       show help\\n\"\n"
          "msgstr \"NAME:\\t%s\\n\"\n\"  -H       SHOW HELP\\n\"\n" },
        { ET_DOCUMENT_PO, "#, ruby-format\nmsgid \"%{a} b %<c>s\"\nmsgstr \"\"\n",
          "#, ruby-format\nmsgid \"%{a} b %<c>s\"\nmsgstr \"%{a} B %<c>s\"\n" },
        { ET_DOCUMENT_PO, "#, c-format\nmsgid \"%<PRIu64> b, 5%%\"\nmsgstr \"\"\n",
          "#, c-format\nmsgid \"%<PRIu64> b, 5%%\"\nmsgstr \"%<PRIu64> B, 5%%\"\n" },
        { ET_DOCUMENT_PO, "msgid \"\"\nmsgstr \"Content-Type: text/plain; charset=CHARSET\\n\"\n",
          "msgid \"\"\nmsgstr \"Content-Type: text/plain; charset=UTF-8\\n\"\n" },
        { ET_DOCUMENT_PO, "\xef\xbb\xbfmsgid \"a\"\nmsgstr \"\"\n",
          "\xef\xbb\xbfmsgid \"a\"\nmsgstr \"A\"\n" },
        /* Marks of keys. */
        { ET_DOCUMENT_PO, "msgid \"&File\"\nmsgstr \"\"\n\nmsgid \"Save _As %s...\"\nmsgstr \"\"\n",
          "msgid \"&File\"\nmsgstr \"&FILE\"\n\nmsgid \"Save _As %s...\"\nmsgstr \"SAVE _AS "
          "%s...\"\n" },
        { ET_DOCUMENT_PO, "msgid \"E&xit\"\nmsgstr \"\"\n\nmsgid \"R&D, &amp; a_b\"\nmsgstr \"\"\n",
          "msgid \"E&xit\"\nmsgstr \"E&XIT\"\n\nmsgid \"R&D, &amp; a_b\"\nmsgstr \"R&D, &amp; "
          "A_B\"\n" },
        { ET_DOCUMENT_PO, "msgid \"no a in the structure Bad_name\"\nmsgstr \"\"\n",
          "msgid \"no a in the structure Bad_name\"\nmsgstr \"NO A IN THE STRUCTURE BAD_NAME\"\n" },
        /* Words in angle brackets, and attributes without values. */
        { ET_DOCUMENT_PO, "msgid \"a <file name> <input b> <c>\"\nmsgstr \"\"\n",
          "msgid \"a <file name> <input b> <c>\"\nmsgstr \"A <FILE NAME> <input b> <c>\"\n" },
        { ET_DOCUMENT_PO, "msgctxt \"a\"\nmsgid \"\"\nmsgstr \"\"\n",
          "msgctxt \"a\"\nmsgid \"\"\nmsgstr \"\"\n" },
        { ET_DOCUMENT_PO, "# a\n", "# a\n" },
        { ET_DOCUMENT_PO, "", "" },
    };
    static const refusal bad[] = {
        { "msgid \"a\"\nmsgstr \"\n", "end-of-line within string" },
        { "msgid a\n", "a.txt:1:" },
        { "hello\n", "a.txt:1: keyword \"hello\" unknown" },
        { "\"a\"\n", "a.txt:1:" },
        { "msgid \"a\\\"\n", "a.txt:" },
        { "msgid\n", "a.txt:" },
        { "msgid \"a\"\n", "missing 'msgstr'" },
        { "msgstr[ \"\"\n", "a.txt:1:" },
        { "msgid \"a\"\nmsgstr \"\"\nmsgid \"a\"\nmsgstr \"\"\n", "a.txt:3: duplicate" },
        { "domain \"a\"\nmsgid \"b\"\nmsgstr \"\"\n", "one domain" },
        { "msgid \"\"\nmsgstr \"Content-Type: text/plain; charset=ISO-8859-1\\n\"\n", "msgconv" },
    };
    (void)state;
    NEEDS(ET_DOCUMENT_PO);
    assert_rows(rows, COUNT(rows), NULL, capitals);
    assert_rows(others, COUNT(others), NULL, capitals);
    assert_refused(ET_DOCUMENT_PO, bad, COUNT(bad));
}

/* A translator that writes a directive more, and one that exchanges two. */
static char *percent(const char *line)
{
    (void)line;
    return copy("a % d %s");
}

static char *exchanged(const char *line)
{
    return copy(strstr(line, "%s") && strstr(line, "%d") ? "%d B %s" : "C");
}

/* The library refuses what would stop a program; directives without a number keep their order. */
static void test_formats__po_checked(void **state)
{
    static const row rows[] = {
        { ET_DOCUMENT_PO,
          "#, c-format\nmsgid \"for '%' or\"\nmsgstr \"\"\n\nmsgid \"b\"\nmsgstr \"\"\n",
          "#, c-format\nmsgid \"for '%' or\"\nmsgstr \"\"\n\nmsgid \"b\"\nmsgstr \"B\"\n" },
    };
    static const row kept[] = {
        { ET_DOCUMENT_PO, "#, c-format\nmsgid \"see %s\"\nmsgstr \"\"\n",
          "#, c-format\nmsgid \"see %s\"\nmsgstr \"see %s\"\n" },
    };
    static const row order[] = {
        { ET_DOCUMENT_PO, "#, c-format\nmsgid \"%s of %d\"\nmsgstr \"\"\n",
          "#, c-format\nmsgid \"%s of %d\"\nmsgstr \"%s C %d\"\n" },
    };
    (void)state;
    NEEDS(ET_DOCUMENT_PO);
    assert_rows(rows, COUNT(rows), NULL, capitals);
    assert_int_equal(counts.refused, 1);
    assert_int_equal(counts.refused_line, 2);
    assert_rows(kept, COUNT(kept), NULL, percent);
    assert_rows(order, COUNT(order), NULL, exchanged);
    assert_int_equal(counts.refused, 0);
}

static char *umlaut(const char *line)
{
    (void)line;
    return copy("\xc3\x9c"
                "ber %s uns");
}

static char *japanese(const char *line)
{
    (void)line;
    return copy("\xe3\x83\x95\xe3\x82\xa1...");
}

/* The key of a translation: the letter of the source, else the first one, else one in brackets. */
static void test_formats__keys(void **state)
{
    static const row rows[] = {
        { ET_DOCUMENT_PO, "msgid \"&Us %s\"\nmsgstr \"\"\n",
          "msgid \"&Us %s\"\nmsgstr \"\xc3\x9c"
          "ber %s &uns\"\n" },
        { ET_DOCUMENT_PO, "msgid \"_Quit %s\"\nmsgstr \"\"\n",
          "msgid \"_Quit %s\"\nmsgstr \"\xc3\x9c"
          "ber %s _uns\"\n" },
        { ET_DOCUMENT_PO, "msgid \"&Bye %s\"\nmsgstr \"\"\n",
          "msgid \"&Bye %s\"\nmsgstr \"\xc3\x9c&ber %s uns\"\n" },
    };
    static const row bracketed = { ET_DOCUMENT_PO, "msgid \"&file...\"\nmsgstr \"\"\n",
                                   "msgid \"&file...\"\nmsgstr \"\xe3\x83\x95\xe3\x82\xa1"
                                   "(&F)...\"\n" };
    (void)state;
    NEEDS(ET_DOCUMENT_PO);
    assert_rows(rows, COUNT(rows), NULL, umlaut);
    assert_rows(&bracketed, 1, NULL, japanese);
}

/* Forms of a plural: msgid is the text of the number 1 alone. */
static void test_formats__plurals(void **state)
{
    static const struct {
        const char *forms, *texts[4]; /* %d one or many, and the same without %d */
    } rows[] = {
        { "nplurals=1; plural=0;", { "%d MANY" } },
        { "nplurals=2; plural=(n != 1);", { "ONE", "%d MANY" } },
        { "nplurals=2; plural=n>1;", { "ONE", "%d MANY" } },
        { "nplurals=3; plural=n%10==1 && n%100!=11 ? 0 : n%10>=2 && n%10<=4 ? 1 : 2;",
          { "%d MANY", "%d MANY", "%d MANY" } },
        { "nplurals=3; plural=n==1 ? 1 : n==0 ? 0 : 2;", { "%d MANY", "ONE", "%d MANY" } },
    };
    et_error error;
    (void)state;
    NEEDS(ET_DOCUMENT_PO);
    for (size_t i = 0; i < COUNT(rows); i++) {
        char text[1024], *out, expected[64];
        int length = snprintf(text, sizeof text,
                              "msgid \"\"\nmsgstr \"Content-Type: text/plain; charset=UTF-8\\n"
                              "Plural-Forms: %s\\n\"\n\n#, c-format\nmsgid \"one\"\n"
                              "msgid_plural \"%%d many\"\n",
                              rows[i].forms);
        for (int n = 0; n < 4 && rows[i].texts[n]; n++)
            length += snprintf(text + length, sizeof text - (size_t)length, "msgstr[%d] \"\"\n", n);
        out = translate(ET_DOCUMENT_PO, NULL, text, strlen(text), capitals, &error);
        assert_non_null(out);
        for (int n = 0; n < 4 && rows[i].texts[n]; n++) {
            snprintf(expected, sizeof expected, "msgstr[%d] \"%s\"\n", n, rows[i].texts[n]);
            if (!strstr(out, expected))
                fail_msg("%s: no %s in %s", rows[i].forms, expected, out);
        }
        et_free(out);
    }
}

static void test_formats__plural_forms(void **state)
{
    static const struct {
        const char *text;
        bool good;
        et_plural_forms forms;
    } rows[] = {
        { "nplurals=2; plural=n != 1;", true, { 2, 0, false } },
        { "nplurals=1; plural=0", true, { 1, 0, true } },
        { " nplurals=2; plural=((n > 1));\n", true, { 2, 0, false } },
        { "nplurals=2; plural=n == 1 || n == 11 ? 0 : 1", true, { 2, 0, true } },
        { "nplurals=2; plural=!(n - 1 * 1) ? 1 : 0", true, { 2, 1, false } },
        { "nplurals=3; plural=n<2?n<1?2:0:1", true, { 3, 0, false } },
        { "nplurals=2; plural=n / 0", false, { 2, 0, false } },
        { "nplurals=2; plural=n", false, { 2, 0, false } },
        { "nplurals=2; plural=(n", false, { 2, 0, false } },
        { "nplurals=2; plural=n ? 1", false, { 2, 0, false } },
        { "nplurals=INTEGER; plural=EXPRESSION;", false, { 2, 0, false } },
        { "nplurals=0; plural=0", false, { 2, 0, false } },
        { "", false, { 2, 0, false } },
    };
    char deep[2000] = "nplurals=1; plural=";
    et_plural_forms forms;
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        const bool good = et_plural_forms_read(rows[i].text, &forms);
        if (good != rows[i].good || forms.count != rows[i].forms.count ||
            forms.one != rows[i].forms.one || forms.many != rows[i].forms.many)
            fail_msg("%s: %d, %d forms, %d, %d", rows[i].text, good, forms.count, forms.one,
                     forms.many);
    }
    memset(deep + strlen(deep), '(', 900);
    assert_false(et_plural_forms_read(deep, &forms));
}

/* ---- subtitles ---- */

static void test_formats__srt(void **state)
{
    static const row rows[] = {
        { ET_DOCUMENT_SRT,
          "1\r\n00:00:01,000 --> 00:00:02,500\r\n<i>one two</i> three\r\nfour five six\r\n\r\n2\r\n"
          "00:00:03,000 --> 00:00:04,000\r\n- yes.\r\n- no.\r\n",
          "1\r\n00:00:01,000 --> 00:00:02,500\r\n<i>ONE TWO</i> THREE\r\nFOUR FIVE SIX\r\n\r\n2\r\n"
          "00:00:03,000 --> 00:00:04,000\r\n- YES.\r\n- NO.\r\n" },
        { ET_DOCUMENT_SRT, "WEBVTT - a title\n\n00:01.000 --> 00:02.000\n{\\an8}a <c>b\nb",
          "WEBVTT - a title\n\n00:01.000 --> 00:02.000\n{\\an8}A <c>B\nB" },
        { ET_DOCUMENT_SRT, "1\n00:00:01,000 --> 00:00:02,000\n{b}a{/b} b\\Nc\n",
          "1\n00:00:01,000 --> 00:00:02,000\n{b}A{/b} B\\NC\n" },
        { ET_DOCUMENT_SRT, "", "" },
        { ET_DOCUMENT_SRT, "00:01 --> 00:02\n>> a b c\n>> d &amp; R&D &lt;e&gt; &nbsp;f\n",
          "00:01 --> 00:02\n>> A B C\n>> D &amp; R&D &lt;E&gt; &nbsp;F\n" },
        /* Without empty lines. */
        { ET_DOCUMENT_SRT,
          "1\n00:00:01,000 --> 00:00:02,000\none\n2\n00:00:03,000-->00:00:04,000 X1:1\n1984\nb\n"
          "00:00:05,000 --> 00:00:06,000\nc",
          "1\n00:00:01,000 --> 00:00:02,000\nONE\n2\n00:00:03,000-->00:00:04,000 X1:1\n1984\nB\n"
          "00:00:05,000 --> 00:00:06,000\nC" },
        { ET_DOCUMENT_SRT,
          "1\n\n00:00:01,000 --> 00:00:02,000\none\n2\n\n00:00:03,000 --> "
          "00:00:04,000\ntwo\n3\nb\n",
          "1\n\n00:00:01,000 --> 00:00:02,000\nONE\n2\n\n00:00:03,000 --> "
          "00:00:04,000\nTWO\n3\nB\n" },
        /* Times with a sign and with a damaged arrow; a text with an arrow. */
        { ET_DOCUMENT_SRT,
          "1\n-00:00:01,000 --> -00:00:00,500\na\n2\n00:00:03,000 -> 00:00:04,000\nb\n3\n"
          "00:00:05,000 - -> 00:00:06,000\n12:30 -> 14:00 c\n",
          "1\n-00:00:01,000 --> -00:00:00,500\nA\n2\n00:00:03,000 -> 00:00:04,000\nB\n3\n"
          "00:00:05,000 - -> 00:00:06,000\n12:30 -> 14:00 C\n" },
        /* With too many, and tags before a dash. */
        { ET_DOCUMENT_SRT,
          "1\n00:00:01,000 --> 00:00:02,000\n\na\n\nb\n\n2\n00:00:03,000 --> 00:00:04,000\n"
          "<i>- c</i>\n{\\an8}- d <3 e --> f\n",
          "1\n00:00:01,000 --> 00:00:02,000\n\nA\n\nB\n\n2\n00:00:03,000 --> 00:00:04,000\n"
          "<i>- C</i>\n{\\an8}- D <3 E --> F\n" },
        { ET_DOCUMENT_SRT,
          "WEBVTT\nKind: a\n\nSTYLE\n::cue { b }\n\nNOTE c\nd\n\nid one\n00:01.000 --> 00:02.000 "
          "align:start\n<v Bob Lee>e &amp; f</v> <00:01.500>g\n\nNOTE h\n",
          "WEBVTT\nKind: a\n\nSTYLE\n::cue { b }\n\nNOTE c\nd\n\nid one\n00:01.000 --> 00:02.000 "
          "align:start\n<v Bob Lee>E &amp; F</v> <00:01.500>G\n\nNOTE h\n" },
        /* A line end is not put into a message, nor into a tag next to one. */
        { ET_DOCUMENT_SRT, "1\n00:01 --> 00:02\na{n,plural,one{# b}}{\\fs 2}c\nd\n",
          "1\n00:01 --> 00:02\nA{n,plural,one{# B}}{\\fs 2}C\nD\n" },
    };
    static const refusal bad[] = { { "a\n", "a.txt: no subtitles" } };
    (void)state;
    assert_rows(rows, COUNT(rows), NULL, capitals);
    assert_refused(ET_DOCUMENT_SRT, bad, COUNT(bad));
}

/* ---- messages ---- */

static char *without_number(const char *line)
{
    char *text = capitals(line), *number = strchr(text, '#');
    if (number)
        *number = 'X';
    return text;
}

/* "of " of English is "d'" of French. */
static char *elided(const char *line)
{
    char *text = copy(line);
    for (char *of; (of = strstr(text, "of ")) != NULL;) {
        memcpy(of, "d'", 2);
        memmove(of + 2, of + 3, strlen(of + 3) + 1);
    }
    return text;
}

static void test_formats__messages(void **state)
{
    static const row elisions[] = {
        { ET_DOCUMENT_TEXT, "{n, plural, one {a of {b} of c} other {d of # of ''{e}}} of {f}",
          "{n, plural, one {a d''{b} d'c} other {d d''# d''''{e}}} d''{f}" },
        { ET_DOCUMENT_TEXT, "a of {b}", "a d'{b}" },
    };
    static const row rows[] = {
        { ET_DOCUMENT_TEXT, "{count, plural, one {# file} other {# files}} left for {name}\n",
          "{count, plural, one {# FILE} other {# FILES}} LEFT FOR {name}\n" },
        { ET_DOCUMENT_TEXT, "see {n,plural,offset:1 =0{none}one {a {b}} other{# of '{c}'}} now",
          "SEE {n,plural,offset:1 =0{NONE}one {A {b}} other{# OF '{c}'}} NOW" },
        { ET_DOCUMENT_TEXT, "{n, plural, other {a}} b '{c}' d '#e'",
          "{n, plural, other {A}} B '{c}' D '#E'" },
        { ET_DOCUMENT_TEXT,
          "{g, select, male {he has {n, plural, one {# cat} other {# cats}}} other {they don't}}",
          "{g, select, male {HE HAS {n, plural, one {# CAT} other {# CATS}}} other {THEY DON'T}}" },
        { ET_DOCUMENT_TEXT, "{n, selectordinal, one {#st} other {#th}} of {n, number, integer}",
          "{n, selectordinal, one {#ST} other {#TH}} OF {n, number, integer}" },
        { ET_DOCUMENT_TEXT, "see {0,choice,0#no files|1#one|1<{0,number,integer} of {a, b} c} now",
          "SEE {0,choice,0#NO FILES|1#ONE|1<{0,number,integer} OF {A, B} C} NOW" },
        { ET_DOCUMENT_TEXT, "{n, PLURAL, one {b}} {m, duration}",
          "{n, PLURAL, one {B}} {m, duration}" },
        { ET_DOCUMENT_LINES, "{n, plural, one {b} other {c}}", "{N, PLURAL, ONE {B} OTHER {C}}" },
        { ET_DOCUMENT_HTML, "<p>a {n, plural, one {<b>#</b> c} other {d &amp; e}} f</p>",
          "<p>A {n, plural, one {<b>#</b> C} other {D &amp; E}} F</p>" },
        { ET_DOCUMENT_HTML, "<p>{n, plural, other {a&#8217;s}} b&#8217;</p><p>c\u2019",
          "<p>{n, plural, other {A&#8217;S}} B&#8217;</p><p>C\u2019" },
        { ET_DOCUMENT_MD, "# a {n, plural, one {# b} other {# c}}\n",
          "# A {n, plural, one {# B} other {# C}}\n" },
        { ET_DOCUMENT_PO,
          "msgid \"{n, plural,\\n  one {# b}\\n  other {# c\\nd}\\n} e\\n  f\"\nmsgstr \"\"\n",
          "msgid \"{n, plural,\\n  one {# b}\\n  other {# c\\nd}\\n} e\\n  f\"\n"
          "msgstr \"{n, plural,\\n  one {# B}\\n  other {# C D}\\n} E\\n\"\n\"  F\"\n" },
    };
    /* # is the number of the plural around the message. */
    static const row inner[] = {
        { ET_DOCUMENT_TEXT, "{n, plural, other {{g, select, a {his # b} other {c #}}}} # d",
          "{n, plural, other {{g, select, a {HIS # B} other {C #}}}} X D" },
        { ET_DOCUMENT_TEXT, "{g, select, a {b # {n, plural, other {# c}}} other {d #}}",
          "{g, select, a {B X {n, plural, other {# C}}} other {D X}}" },
    };
    /* What ICU refuses. */
    static const row broken[] = {
        { ET_DOCUMENT_TEXT, "a {n, choice, 0#b|1#{c", "A {n, choice, 0#b|1#{c" },
        { ET_DOCUMENT_TEXT, "a {n, plural, one {b c}", "A {n, plural, one {b c}" },
        { ET_DOCUMENT_TEXT, "a {n, plural, one # b other # c} d",
          "A {n, plural, one # b other # c} D" },
        { ET_DOCUMENT_TEXT, "a {n, select, } d", "A {n, select, } D" },
    };
    (void)state;
    NEEDS(ET_DOCUMENT_HTML);
    NEEDS(ET_DOCUMENT_MD);
    NEEDS(ET_DOCUMENT_PO);
    assert_rows(rows, COUNT(rows), NULL, capitals);
    assert_rows(inner, COUNT(inner), NULL, without_number);
    assert_rows(elisions, COUNT(elisions), NULL, elided);
    for (size_t i = 0; i < COUNT(broken); i++) {
        assert_rows(&broken[i], 1, NULL, capitals);
        assert_int_equal(counts.kept, 1);
    }
}

/* ---- endings ---- */

static void test_formats__endings(void **state)
{
    static const struct {
        const char *path;
        int format;
        const char *cure; /* NULL: it is read */
    } rows[] = {
        { "a.html", ET_DOCUMENT_HTML, NULL },
        { "x/a.HTM", ET_DOCUMENT_HTML, NULL },
        { "a.strings.xml", ET_DOCUMENT_XML, NULL },
        { "a.xhtml", ET_DOCUMENT_XML, NULL },
        { "de.po", ET_DOCUMENT_PO, NULL },
        { "a.pot", ET_DOCUMENT_PO, NULL },
        { "a.srt.gz", ET_DOCUMENT_SRT, NULL },
        { "a.vtt", ET_DOCUMENT_SRT, NULL },
        { "README.md", ET_DOCUMENT_MD, NULL },
        { "a.markdown", ET_DOCUMENT_MD, NULL },
        { "a.mdx", ET_DOCUMENT_MD, NULL },
        { "a.Rmd", ET_DOCUMENT_MD, NULL },
        { "a.txt", ET_DOCUMENT_LINES, NULL },
        { "test.en", ET_DOCUMENT_LINES, NULL },
        { "html", ET_DOCUMENT_LINES, NULL },
        { ".html", ET_DOCUMENT_LINES, NULL },
        { "a.html/b", ET_DOCUMENT_LINES, NULL },
        { "a.", ET_DOCUMENT_LINES, NULL },
        { "a.xliff", 0, "xliff2po" },
        { "a.XLF", 0, "xliff2po" },
        { "a.tmx", 0, "two text files" },
        { "a.docx", 0, "pandoc" },
        { "a.ini", 0, "ini2po" },
        { "a.ftl", 0, "catalogue" },
        { "a.json", 0, "json2po" },
        { "a.pdf", 0, "pdftotext" },
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        et_error error = ET_ERROR_INIT;
        int format, status = et_document_format_of(rows[i].path, &format, &error);
        if (status != (rows[i].cure ? ET_EUSAGE : ET_OK) ||
            (rows[i].cure ? !strstr(error.text, rows[i].cure) : format != rows[i].format))
            fail_msg("%s: %d %s", rows[i].path, format, status ? error.text : "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formats__cdata),      cmocka_unit_test(test_formats__xml),
        cmocka_unit_test(test_formats__resources),  cmocka_unit_test(test_formats__po),
        cmocka_unit_test(test_formats__po_checked), cmocka_unit_test(test_formats__plurals),
        cmocka_unit_test(test_formats__keys),       cmocka_unit_test(test_formats__plural_forms),
        cmocka_unit_test(test_formats__srt),        cmocka_unit_test(test_formats__messages),
        cmocka_unit_test(test_formats__endings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
