#include "base/terminal.h"

#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>

int et_terminal_width(int fd)
{
    struct winsize size;
    return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 80;
}

/* Of valid UTF-8. */
static int characters(const char *text, size_t bytes)
{
    int count = 0;
    for (size_t i = 0; i < bytes; i++)
        count += ((unsigned char)text[i] & 0xc0) != 0x80;
    return count;
}

void et_terminal_wrap(FILE *to, const char *text, int column, int indent, int width)
{
    bool begun = false;
    for (const char *word = text; *word;) {
        const size_t bytes = strcspn(word, " ");
        const int length = characters(word, bytes);
        if (begun && column + 1 + length > width) {
            fprintf(to, "\n%*s", indent, "");
            column = indent;
            begun = false;
        }
        fprintf(to, "%s%.*s", begun ? " " : "", (int)bytes, word);
        column += begun + length;
        begun = true;
        word += bytes;
        word += strspn(word, " ");
    }
}
