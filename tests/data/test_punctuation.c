/* Moses' punctuation. Expected lines are sacremoses' (MosesPunctNormalizer). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/text/strbuf.h"
#include "data/text/punctuation.h"

static const struct {
    const char *language, *text, *expected;
} rows[] = {
    { "en", "\xe2\x80\x9eJa\xe2\x80\x9c, sagte er .", "\"Ja,\" sagte er ." },
    { "en", "a (b ) c : d ; e", "a (b) c: d; e" },
    { "en", "5 % von 10 %", "5% von 10%" },
    { "en", "He said \"yes\",.. and", "He said \"yes,..\" and" },
    { "en", "er sagte \"ja\". Dann", "er sagte \"ja.\" Dann" },
    { "en", "er sagte ..\"<b>", "er sagte ..\"<b>" },
    { "en", "a.\"", "a.\"" },
    { "en", "a.\"  ", "a.\"" },
    { "en",
      "1\xc2\xa0"
      "234\xc2\xa0"
      "567 cm",
      "1.234.567 cm" },
    { "en", "\xc2\xab oui \xc2\xbb et \xc2\xab\xc2\xa0non\xc2\xa0\xc2\xbb",
      "\" oui \" et \"non\"" },
    { "en", "it\xe2\x80\x99s \xe2\x80\x98so\xe2\x80\x99 \xe2\x80\x94 no\xe2\x80\x93one\xe2\x80\xa6",
      "it's 'so' - no-one..." },
    { "en",
      "n\xc2\xba\xc2\xa0"
      "7, 20\xc2\xa0\xc2\xba"
      "C 5\xc2\xa0"
      "cm \?\xc2\xa0!",
      "n\xc2\xba 7, 20 \xc2\xba"
      "C 5 cm \?!" },
    { "en", "  \x09 x \x0d", "x" },
    { "en", "a''b ``c\xc2\xb4\xc2\xb4", "a \" b \" c\"" },
    { "en", "\xd9\xa3 % \xd9\xa3\xc2\xa0\xd9\xa4", "\xd9\xa3% \xd9\xa3.\xd9\xa4" },
    { "en", "a) . (b) , c )", "a). (b), c)" },
    { "en", "\",\",\"", ",\",\"\"" },
    { "en", "", "" },
    { "en", "(", "(" },
    { "en", "``", "\"" },
    { "en",
      "\xc2\xa0!\xe2\x80\x94"
      "1 \xc2\xba"
      "C,\xe2\x80\x9d,\"1\xc2\xbb)0.\xe2\x80\x98\xc2\xb4 >.cm\xe2\x80\x98"
      "1'':",
      "! - 1 \xc2\xba"
      "C,,\"\"1\") 0.\" >.cm'1 \" :" },
    { "en",
      "<,\"1'',\"\xe2\x80\x94"
      "1<0cm;`\xc2\xb4!\xc2\xba"
      "C:''-cm%,,\"''(",
      "<,\"1 \" ,\" - 1<0cm;\"!\xc2\xba"
      "C: \" -cm%,,\" \" (" },
    { "en",
      "\xe2\x80\x9d,cm ''1\xc3\xa4)\xc2\xab\xc2\xba"
      "C\xe2\x80\x98\xc2\xa0\xe2\x80\x9a,\"\xe2\x80\x9a\xe2\x80\x9d->%>.''-n\xc2\xba",
      ",\"cm \" 1\xc3\xa4) \"\xc2\xba"
      "C'\xc2\xa0',\"'\"->%>. \" -n\xc2\xba" },
    { "en",
      "\xc2\xab\xe2\x80\x9e\xe2\x80\x99`.\" :\xc2\xbb\xc2\xb4\?\xe2\x80\x9e!\xc2\xab\xc2\xb4"
      "0 cm''\xc2\xa0\xe2\x80\x9e\xe2\x80\x9c.\"\xc2\xab,\"",
      "\"\".\"\":\"'\?\"!\"'0 cm \" \xc2\xa0\".\"\",\"\"" },
    { "en",
      "\xe2\x80\x9a .'\xe2\x80\xa6 1-''\xe2\x80\x99`\xe2\x80\x93\xe2\x80\x9c"
      "b\xe2\x80\x9a\xe2\x80\x9c\?\xc3\xa4:\xc2\xab"
      "1)`;",
      "' .'... 1- \" \"-\"b'\"\?\xc3\xa4:\"1) ';" },
    { "en",
      ">\xe2\x80\x94\xe2\x80\x94\xc2\xab.\?\xe2\x80\x99\xe2\x80\x94"
      "cm';\xe2\x80\x98"
      "cm'\xc2\xb4\xe2\x80\x9c\xe2\x80\x93<!.%!<<",
      "> - - .\"\?' - cm';'cm\"\"-<!.%!<<" },
    { "de", "\xe2\x80\x9eJa\xe2\x80\x9c, sagte er .", "\"Ja\", sagte er ." },
    { "de", "a (b ) c : d ; e", "a (b) c: d; e" },
    { "de", "5 % von 10 %", "5% von 10%" },
    { "de", "He said \"yes\",.. and", "He said \"yes\",.. and" },
    { "de", "er sagte \"ja\". Dann", "er sagte \"ja\". Dann" },
    { "de", "er sagte ..\"<b>", "er sagte ..\"<b>" },
    { "de", "a.\"", "a.\"" },
    { "de", "a.\"  ", "a\"." },
    { "de",
      "1\xc2\xa0"
      "234\xc2\xa0"
      "567 cm",
      "1,234,567 cm" },
    { "de", "\xc2\xab oui \xc2\xbb et \xc2\xab\xc2\xa0non\xc2\xa0\xc2\xbb",
      "\" oui \" et \"non\"" },
    { "de", "it\xe2\x80\x99s \xe2\x80\x98so\xe2\x80\x99 \xe2\x80\x94 no\xe2\x80\x93one\xe2\x80\xa6",
      "it's 'so' - no-one..." },
    { "de",
      "n\xc2\xba\xc2\xa0"
      "7, 20\xc2\xa0\xc2\xba"
      "C 5\xc2\xa0"
      "cm \?\xc2\xa0!",
      "n\xc2\xba 7, 20 \xc2\xba"
      "C 5 cm \?!" },
    { "de", "  \x09 x \x0d", "x" },
    { "de", "a''b ``c\xc2\xb4\xc2\xb4", "a \" b \" c\"" },
    { "de", "\xd9\xa3 % \xd9\xa3\xc2\xa0\xd9\xa4", "\xd9\xa3% \xd9\xa3,\xd9\xa4" },
    { "de", "a) . (b) , c )", "a). (b), c)" },
    { "de", "\",\",\"", "\"\",\"," },
    { "de", "", "" },
    { "de", "(", "(" },
    { "de", "``", "\"" },
    { "de",
      "a\xc2\xab,\"%\"`a!\xc2\xb4\xc2\xba"
      "C\xe2\x80\x9d\xc3\xa4''\xc2\xa0;\xc2\xbb\xc3\xa4"
      "1\xe2\x80\x9a"
      "cm\xe2\x80\x94\xe2\x80\x94\xe2\x80\x94\xe2\x80\x94",
      "a\"\",%\"'a!'\xc2\xba"
      "C\"\xc3\xa4 \" ;\"\xc3\xa4"
      "1'cm - - - -" },
    { "de",
      ",\xe2\x80\xa6\xe2\x80\x94"
      "1( )\xe2\x80\x99\?:\xe2\x80\x9e.\"1,a''!\xc2\xba"
      "C,\xe2\x80\x9d\xc3\xa4"
      "b )",
      ",... - 1 () '\?:\"\".1,a \" !\xc2\xba"
      "C\",\xc3\xa4"
      "b)" },
    { "de",
      "\xc3\xa4\xe2\x80\x93!\"\xe2\x80\x9c.\"\xe2\x80\x9d\xe2\x80\xa6::"
      "\xc2\xab\xe2\x80\x9a\xe2\x80\xa6\xe2\x80\xa6-.!,\xe2\x80\x9e\"\xe2\x80\xa6\?n\xc2\xba"
      "b",
      "\xc3\xa4-!\"\"\".\"...::\"'......-.!\",\"...\?n\xc2\xba"
      "b" },
    { "de",
      ")n\xc2\xba\xe2\x80\x9d!\xc2\xba"
      "Cbn\xc2\xba-.\"n\xc2\xba\xe2\x80\x9d\?\xe2\x80\x9c<\xc2\xba"
      "C\xc2\xba"
      "C\xc2\xbb\xe2\x80\x9e<\xc3\xa4(>\xe2\x80\x94",
      ") n\xc2\xba\"!\xc2\xba"
      "Cbn\xc2\xba-\".n\xc2\xba\"\?\"<\xc2\xba"
      "C\xc2\xba"
      "C\"\"<\xc3\xa4 (> -" },
    { "de",
      "<(n\xc2\xba\xc2\xab\xe2\x80\x9c"
      "bb'\xe2\x80\xa6\"(.\"\xe2\x80\x9c\xe2\x80\x99\xe2\x80\x9c\xe2\x80\x9d.<,<\xe2\x80\xa6("
      "\xe2\x80\x9e)",
      "< (n\xc2\xba\"\"bb'\"... (\".\"'\"\".<,<... (\")" },
    { "de",
      "\xe2\x80\xa6\xc3\xa4\xc3\xa4"
      "a\xe2\x80\xa6\xe2\x80\x9c.:\xe2\x80\x93(\xe2\x80\xa6%\xe2\x80\x98\xe2\x80\x9e."
      "\xe2\x80\x94\xe2\x80\x9a\xe2\x80\x94.\?\?;b!",
      "...\xc3\xa4\xc3\xa4"
      "a\"....:- (...%'\". - ' - .\?\?;b!" },
    { "fr", "5 % von 10 %", "5% von 10%" },
    { "fr",
      "1\xc2\xa0"
      "234\xc2\xa0"
      "567 cm",
      "1,234,567 cm" },
    { "fr", "\xd9\xa3 % \xd9\xa3\xc2\xa0\xd9\xa4", "\xd9\xa3% \xd9\xa3,\xd9\xa4" },
    { "fr",
      ",\"\xe2\x80\x9a!\xc3\xa4.\"\xe2\x80\xa6\xe2\x80\x9c!cmcm;ba,n\xc2\xba;\xe2\x80\x98()b\")`"
      "\xc2\xbb",
      "\",'!\xc3\xa4\"..\"..!cmcm;ba,n\xc2\xba;' () b\") '\"" },
    { "fr",
      ">,\"\xc2\xa0\"\xc2\xba"
      "C\xc2\xb4;1\xe2\x80\x9c\xe2\x80\x9a,\"n\xc2\xba\xc2\xb4\xc2\xbb;\xc2\xba"
      "C!n\xc2\xba\xc2\xbb"
      "b\xe2\x80\x99%.\"a",
      ">\",\xc2\xa0\"\xc2\xba"
      "C';1\"'\",n\xc2\xba'\";\xc2\xba"
      "C!n\xc2\xba\"b'%\".a" },
    { "fr",
      "!%!\xe2\x80\xa6\xc3\xa4:cm1\xc2\xa0n\xc2\xban\xc2\xba"
      "cm\xe2\x80\xa6,cm1>('0,\xc2\xbb\xe2\x80\x99"
      "cm",
      "!%!...\xc3\xa4:cm1\xc2\xa0n\xc2\xban\xc2\xba"
      "cm...,cm1> ('0\",'cm" },
    { "fr",
      "b \xe2\x80\x99\xc2\xa0\xc3\xa4\xc2\xbb.\"\xc2\xbb('\xe2\x80\x99\xc2\xbb\xc2\xba"
      "C\xe2\x80\xa6\xc2\xbb>n\xc2\xba\"cm(\xe2\x80\x99;\xc2\xb4:",
      "b '\xc2\xa0\xc3\xa4\"\".\" (\"\"\xc2\xba"
      "C\"...>n\xc2\xba\"cm (';':" },
    { "fr",
      "\xe2\x80\x94\xe2\x80\x99\xc2\xa0 >\xe2\x80\x98 "
      ")-:!\xe2\x80\x9d!\";\xe2\x80\x9a<,\xe2\x80\x94\xc2\xab\?<\?\xe2\x80\x98",
      "- '\xc2\xa0 >') -:!\"!\";'<, - \"\?<\?'" },
    { "fr",
      "\xc2\xbb\xe2\x80\x94\xe2\x80\x9e\xc2\xb4(\xe2\x80\x9c\xc2\xa0.\xe2\x80\x9d"
      "b\xe2\x80\x9e"
      "cm\xe2\x80\x9a\xe2\x80\x99"
      "b\xe2\x80\x93\xe2\x80\x9en\xc2\xba\xc3\xa4`\xc2\xbb :<",
      "\" - \"' (\"\xc2\xa0\".b\"cm\"b-\"n\xc2\xba\xc3\xa4'\":<" },
    { "es", "He said \"yes\",.. and", "He said \"yes\",.. and" },
    { "es", "\xc2\xab oui \xc2\xbb et \xc2\xab\xc2\xa0non\xc2\xa0\xc2\xbb",
      "\" oui \" et \"non\"" },
    { "es", "a) . (b) , c )", "a). (b), c)" },
    { "es",
      ",.\"'0%';\xe2\x80\x98\"\xe2\x80\x94!\xc2\xba"
      "C\xc2\xbb''\xc2\xab\xc2\xa0.'1%\xe2\x80\x98 '",
      ",\".'0%';'\" - !\xc2\xba"
      "C\" \" \".'1%' '" },
    { "es",
      "b.\"..\"< \":\xe2\x80\x9a"
      "a\xe2\x80\x9e"
      "cm\xc2\xb4'\xc3\xa4;0n\xc2\xba>:\?\"1",
      "b\"...\"< \":'a\"cm\"\xc3\xa4;0n\xc2\xba>:\?\"1" },
    { "es",
      "%(--n\xc2\xba)`\xe2\x80\x99\xc2\xbb%'\xe2\x80\x9c"
      "b\"0ab\xc2\xbb"
      "cm(\xc2\xbb\xe2\x80\xa6>\xe2\x80\x99",
      "% (--n\xc2\xba) \"\"%'\"b\"0ab\"cm (\"...>'" },
    { "es",
      ",\xe2\x80\x98\xc2\xab\xc2\xba"
      "C\xe2\x80\x94\xc2\xbb-)<\xe2\x80\x9e(;\xe2\x80\x94\xe2\x80\x9c"
      "1;a \"\xe2\x80\x98\?1.\xe2\x80\x93",
      ",'\"\xc2\xba"
      "C - \"-) <\" (; - \"1;a \"'\?1.-" },
    { "es",
      "\xc2\xbb`.\">`0\xe2\x80\x9a%\?'\xe2\x80\x99"
      "a\"\xe2\x80\x9d\xe2\x80\x9e"
      "cm\xc2\xa0>0-)\xe2\x80\x9c%a",
      "\"'\".>'0'%\?\"a\"\"\"cm\xc2\xa0>0-) \"%a" },
    { "es",
      "\xe2\x80\x9e\xe2\x80\x93.\xe2\x80\xa6'\xc2\xbb(>\xc2\xbb"
      "a.\".!\xe2\x80\x94,\"0\xe2\x80\x94"
      "b--<.,\"",
      "\"-....'\" (>\"a\"..! - \",0 - b--<\".," },
    { "cs", "er sagte \"ja\". Dann", "er sagte \"ja\". Dann" },
    { "cs", "it\xe2\x80\x99s \xe2\x80\x98so\xe2\x80\x99 \xe2\x80\x94 no\xe2\x80\x93one\xe2\x80\xa6",
      "it's 'so' - no-one..." },
    { "cs", "\",\",\"", "\",\",\"" },
    { "cs",
      "n\xc2\xba!.\"\xe2\x80\x93\xc2\xa0\xc2\xab!`\xc3\xa4!0\xc2\xbb\xe2\x80\x98\xc2\xbb;"
      "n\xc2\xba\xc2\xbb''b,\"<.b0",
      "n\xc2\xba!.\"-\xc2\xa0\"!'\xc3\xa4!0\"'\";n\xc2\xba\" \" b,\"<.b0" },
    { "cs",
      ";\xe2\x80\x9d,\xe2\x80\x93\xe2\x80\x99"
      "cm1b\xc2\xba"
      "C>\xc2\xab\"a\xe2\x80\x9a \xc2\xbb\xc2\xba"
      "C.n\xc2\xba \xe2\x80\xa6\" \"",
      ";\",-'cm1b\xc2\xba"
      "C>\"\"a' \"\xc2\xba"
      "C.n\xc2\xba ...\" \"" },
    { "cs",
      ">)<\xe2\x80\x9a\xc2\xab\xe2\x80\x93 \xe2\x80\xa6`0\xc3\xa4( "
      ".\"!\xe2\x80\x9e\"-\xc3\xa4'';a\xe2\x80\xa6"
      "1",
      ">) <'\"- ...'0\xc3\xa4 (.\"!\"\"-\xc3\xa4 \" ;a...1" },
    { "cs",
      "\xc2\xab',)\xc2\xab`n\xc2\xba`\xe2\x80\x9a\xe2\x80\x9a\xe2\x80\x9a:cm(-.\xe2\x80\xa6"
      "b`\xe2\x80\x9a \xc2\xbb\xe2\x80\x99'",
      "\"',) \"'n\xc2\xba\"\":cm (-....b\" \"\"" },
    { "cs",
      "\xe2\x80\x93)) "
      ",\".!n\xc2\xba\"\xe2\x80\x9d;.\"\xc2\xbb':\xe2\x80\x9d<\xc2\xab\xc2\xab\xe2\x80\x94"
      "b\?a\xc2\xab",
      "-)),\".!n\xc2\xba\"\";.\"\"':\"<\"\" - b\?a\"" },
    { "cs",
      "\xe2\x80\x99\xe2\x80\x94-!\xc2\xb4\xe2\x80\x9c\xe2\x80\x93\xc2\xa0:\xe2\x80\x9e"
      "a\xc2\xa0\xe2\x80\x9e\xe2\x80\x94:(a`\"\xe2\x80\x9d \xe2\x80\x94\xe2\x80\x93,\"",
      "' - -!'\"-:\"a\xc2\xa0\" - : (a'\"\" - -,\"" },
    { "it", "er sagte ..\"<b>", "er sagte ..\"<b>" },
    { "it",
      "n\xc2\xba\xc2\xa0"
      "7, 20\xc2\xa0\xc2\xba"
      "C 5\xc2\xa0"
      "cm \?\xc2\xa0!",
      "n\xc2\xba 7, 20 \xc2\xba"
      "C 5 cm \?!" },
    { "it", "", "" },
    { "it",
      " \xe2\x80\x9d\xe2\x80\x98'1',1`!>'\xe2\x80\x98\xc2\xbb\xc2\xa0(\xe2\x80\x9d\xe2\x80\x98"
      "b\xe2\x80\x94"
      "cmcm).",
      "\"\"1',1'!>\"\"\xc2\xa0 (\"'b - cmcm)." },
    { "it",
      "1\xc2\xb4\xe2\x80\x99\xc3\xa4;`\xc2\xab"
      "1cm;\?\xe2\x80\xa6\xc2\xb4\xe2\x80\x9e`-\"\"\xe2\x80\x94>-\xe2\x80\xa6"
      "cm\xe2\x80\x94",
      "1\"\xc3\xa4;'\"1cm;\?...'\"'-\"\" - >-...cm -" },
    { "it",
      ":\?\? )\xc2\xbb\xc2\xab"
      "cm<\xe2\x80\x99\xe2\x80\x9e\xe2\x80\x99\xe2\x80\x98;cm(>.%\xe2\x80\x9e"
      "cm.\xc2\xa0>",
      ":\?\?) \"\"cm<'\"\";cm (>.%\"cm.\xc2\xa0>" },
    { "it",
      "\xe2\x80\x9d\"''(b\xc2\xb4\xe2\x80\x93\xc2\xb4n\xc2\xba)\xe2\x80\x93'\xe2\x80\x9e"
      "1\xc2\xab'''\xe2\x80\x9d;\xc2\xbbn\xc2\xba).'",
      "\"\" \" (b'-'n\xc2\xba) -'\"1\" \" '\";\"n\xc2\xba).'" },
    { "it",
      ">\xe2\x80\x93\xe2\x80\x94\xe2\x80\x99\xe2\x80\x98-b;0\xe2\x80\x98\xe2\x80\xa6,\"\xc2\xab"
      "a \xe2\x80\x94n\xc2\xba\xe2\x80\x9a\xe2\x80\x99>,<!!",
      ">- - \"-b;0'...,\"\"a - n\xc2\xba\">,<!!" },
    { "it",
      "n\xc2\xba,\xe2\x80\x9a.cm0a;<''0-;\"n\xc2\xba\xe2\x80\x98:, -n\xc2\xba,\"(\xe2\x80\x93",
      "n\xc2\xba,'.cm0a;< \" 0-;\"n\xc2\xba':, -n\xc2\xba,\" (-" },
    { "ru", "a.\"", "a.\"" },
    { "ru", "  \x09 x \x0d", "x" },
    { "ru", "(", "(" },
    { "ru",
      "\"<.\"aa\xc2\xba"
      "C-\xe2\x80\x9a'\xc2\xa0>\xe2\x80\xa6n\xc2\xba>cm>b\xc2\xb4-1b(\xc2\xab\xc2\xb4",
      "\"<.\"aa\xc2\xba"
      "C-\"\xc2\xa0>...n\xc2\xba>cm>b'-1b (\"'" },
    { "ru",
      ".\"<\xe2\x80\x98\xe2\x80\x9d<\xc2\xab"
      "0\xe2\x80\x9e\xc2\xb4\xe2\x80\x9d\xe2\x80\x94(a`\xc2\xbb )\xc2\xab(-(<\xe2\x80\x9a",
      ".\"<'\"<\"0\"'\" - (a'\") \" (- (<'" },
    { "ru",
      "<\"`,\xc3\xa4\xc2\xab\xc3\xa4%<\xc2\xab\xc2\xb4"
      "1.\"!\xe2\x80\x94"
      "1)b.\"!\xc2\xb4"
      "11%",
      "<\"',\xc3\xa4\"\xc3\xa4%<\"'1.\"! - 1) b.\"!'11%" },
    { "ru",
      "\xe2\x80\x94\xe2\x80\x99\xc2\xa0:.\?\xe2\x80\x9e(%n\xc2\xba\xe2\x80\x9a"
      "0-\xe2\x80\x93\xe2\x80\x9d\xe2\x80\x9e\xe2\x80\x99\?,a.'.\xe2\x80\x9c",
      "- ':.\?\" (%n\xc2\xba'0--\"\"'\?,a.'.\"" },
    { "ru",
      "\xc2\xb4:cm)\xe2\x80\x93\xe2\x80\x9c-\xe2\x80\x98.1\xe2\x80\xa6(\xe2\x80\x9d\xc2\xba"
      "C\xe2\x80\x99(\xc2\xa0\xe2\x80\x9d\xe2\x80\xa6"
      "b\xc2\xb4>\xe2\x80\x94"
      "0",
      "':cm) -\"-'.1... (\"\xc2\xba"
      "C' (\xc2\xa0\"...b'> - 0" },
    { "ru",
      "\xe2\x80\x93"
      "0\xe2\x80\x9a 1\"( .\"\xe2\x80\x9e\xe2\x80\x9d'\xe2\x80\x9e\xc3\xa4"
      "0\"\xc2\xa0'-a.\" b<",
      "-0' 1\" (.\"\"\"'\"\xc3\xa4"
      "0\"\xc2\xa0'-a.\" b<" },
    { "zh", "a.\"  ", "a.\"" },
    { "zh", "a''b ``c\xc2\xb4\xc2\xb4", "a \" b \" c\"" },
    { "zh", "``", "\"" },
    { "zh",
      ",\xe2\x80\xa6\xe2\x80\x9a\xe2\x80\x93\"\xe2\x80\x98\xc2\xab;\xc2\xab%a-!.\">"
      "\xc2\xa0\xc2\xa0\xe2\x80\x9a\xe2\x80\x9d.\".\xc2\xbb(\xe2\x80\x94",
      ",...'-\"'\";\"%a-!.\">\xc2\xa0\xc2\xa0'\".\".\" ( -" },
    { "zh",
      "\?>\xc2\xb4 0\xe2\x80\xa6"
      "cm\xc2\xba"
      "C\xc2\xa0\?\xe2\x80\x98, \"\xc3\xa4.),\xc2\xb4\xc2\xab\xe2\x80\x99%<;",
      "\?>' 0...cm\xc2\xba"
      "C\?', \"\xc3\xa4.),'\"'%<;" },
    { "zh",
      "\xc2\xb4\xe2\x80\x9a\xc3\xa4>\xc2\xba"
      "C:``''''\xe2\x80\x9d\"\"(\xe2\x80\x99>%>>!`,\"(",
      "\"\xc3\xa4>\xc2\xba"
      "C: \" \" \" \"\"\" ('>%>>!',\" (" },
    { "zh",
      "\xc2\xa0 \xe2\x80\x94\">\xc2\xbbn\xc2\xba<,\xe2\x80\x9a"
      "0,a\xe2\x80\xa6<\xe2\x80\x99\xe2\x80\x9d"
      "0`<:1(.\"",
      "- \">\"n\xc2\xba<,'0,a...<'\"0'<:1 (.\"" },
    { "zh",
      ",\"( "
      "\xe2\x80\x9d\xc2\xbb%\xe2\x80\x99.\"\"a,.\"\xc3\xa4\xe2\x80\x9c)0\xe2\x80\x9d\xe2\x80\x9e!0)"
      "\"0.\"",
      ",\" (\"\"%'.\"\"a,.\"\xc3\xa4\") 0\"\"!0) \"0.\"" },
    { "zh",
      ")a\xc2\xa0\xc2\xb4\xe2\x80\x9d%\xc3\xa4- )0\xc2\xab"
      "cm\xe2\x80\xa6 \xc2\xb4,\xe2\x80\x94"
      "cm!\xc2\xba"
      "C.\?\xe2\x80\x94",
      ") a\xc2\xa0'\"%\xc3\xa4-) 0\"cm... ', - cm!\xc2\xba"
      "C.\? -" },
};

static void test_punctuation__lines(void **state)
{
    et_strbuf out = ET_STRBUF_INIT;
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        et_punctuation_normalize(et_punctuation_of(rows[i].language), rows[i].text,
                                 strlen(rows[i].text), &out);
        if (strcmp(et_strbuf_text(&out), rows[i].expected) != 0)
            fail_msg("%s: %s: %s, not %s", rows[i].language, rows[i].text, et_strbuf_text(&out),
                     rows[i].expected);
    }
    et_strbuf_release(&out);
}

static void test_punctuation__languages(void **state)
{
    (void)state;
    assert_null(et_punctuation_of(NULL));
    assert_null(et_punctuation_of(""));
    assert_ptr_equal(et_punctuation_of("zh"), et_punctuation_of("it"));
    assert_ptr_not_equal(et_punctuation_of("en"), et_punctuation_of("de"));
    assert_int_equal(et_punctuation_number(NULL), 0);
    assert_int_not_equal(et_punctuation_number(et_punctuation_of("en")),
                         et_punctuation_number(et_punctuation_of("it")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_punctuation__lines),
        cmocka_unit_test(test_punctuation__languages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
