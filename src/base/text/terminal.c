#include "base/text/terminal.h"

#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/text/unicode.h"

int et_terminal_width(int fd)
{
    struct winsize size;
    return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 80;
}

void et_terminal_wrap(FILE *to, const char *text, int column, int indent, int width)
{
    bool begun = false;
    for (const char *word = text; *word;) {
        const size_t bytes = strcspn(word, " \n");
        const int length = (int)et_utf8_columns(word, bytes);
        if (begun && column + 1 + length > width) {
            fprintf(to, "\n%*s", indent, "");
            column = indent;
            begun = false;
        }
        fprintf(to, "%s%.*s", begun ? " " : "", (int)bytes, word);
        column += begun + length;
        begun = true;
        word += bytes;
        word += strspn(word, " \n");
    }
}

/* Position of the text after a line's first wide gap: "data 3,000 rows" has 13. */
static int hanging(const char *line, size_t bytes, int width)
{
    for (size_t i = 0; i + 1 < bytes; i++) {
        if (line[i] != ' ' || line[i + 1] != ' ')
            continue;
        const int column = (int)et_utf8_columns(line, i + strspn(line + i, " "));
        return column <= width / 2 ? column : 4;
    }
    return 4;
}

static void fold_line(et_strbuf *out, const char *line, size_t bytes, int width)
{
    const int indent = hanging(line, bytes, width);
    int column = 0;
    for (size_t at = 0; at < bytes;) {
        const size_t gap = strspn(line + at, " "), end = at + gap + strcspn(line + at + gap, " \n");
        const int length = (int)et_utf8_columns(line + at + gap, end - at - gap);
        /* Breaking after the label would gain nothing: its line would hold only the label. */
        if (column + (int)gap > indent && column + (int)gap + length > width) {
            et_strbuf_printf(out, "\n%*s%.*s", indent, "", (int)(end - at - gap), line + at + gap);
            column = indent + length;
        } else {
            et_strbuf_append_bytes(out, line + at, end - at);
            column += (int)gap + length;
        }
        at = end;
    }
}

void et_terminal_fold(et_strbuf *out, const char *text, int width)
{
    for (const char *line = text;;) {
        const size_t bytes = strcspn(line, "\n");
        fold_line(out, line, bytes, width);
        if (!line[bytes])
            return;
        et_strbuf_append_char(out, '\n');
        line += bytes + 1;
    }
}
