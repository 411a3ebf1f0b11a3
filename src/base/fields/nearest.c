/* The nearest name. The distance of a mistyped name from an existing one, in half edits, is the
 * smallest of four:
 *
 *   letters  two per edit between the words, ignoring case and - _ . (optimal string alignment: a
 *            swap of neighbours is one edit); far above a third of the word's letters
 *   parts    words cut at - _ . : each part of the shorter name matches its own part of the longer,
 *            so num_heads finds num_attention_heads; two per edit, one per remaining part;
 *            acc stands for accuracy, attn for attention
 *   initials lr for learning_rate
 *   begin    max-st for max-steps: the first letters, at least three
 *
 * The nearest wins, the first of equals. */
#include "base/fields/fields.h"

#include <stdio.h>
#include <string.h>

#define LENGTH_MAX  64 /* of a name; only the start of a longer one is compared */
#define PARTS_MAX   16
#define FAR         1000
#define INITIALS    4 /* cost of a match by initials */
#define ABBREVIATED 3 /* of a part without some of its letters */
#define BEGUN       1 /* of a part of which the first letters are given */
#define BEGIN_LEAST 3 /* letters */

/* A word without its separators, or one of the parts between them. Not terminated but by
 * being zeroed. */
struct part {
    char text[LENGTH_MAX + 1]; /* lower case */
    size_t length;
};

/* A name in the two forms that it is compared in. */
struct split {
    struct part whole; /* without separators */
    struct part parts[PARTS_MAX];
    size_t count; /* of parts; 0: the name has separators only */
};

/* Characters beyond LENGTH_MAX are ignored: names that differ only there count as equal. */
static void append(struct part *part, char c)
{
    if (part->length == LENGTH_MAX)
        return;
    part->text[part->length++] = c;
}

/* "Num-Heads" gives whole "numheads" and parts "num", "heads". Only ASCII has a case here. */
static void split_name(struct split *split, const char *name)
{
    memset(split, 0, sizeof *split);
    bool inside = false;
    for (; *name; name++) {
        if (strchr("-_. ", *name)) {
            inside = false;
            continue;
        }
        if (!inside && split->count < PARTS_MAX)
            split->count++;
        inside = true;
        char c = *name >= 'A' && *name <= 'Z' ? (char)(*name + 'a' - 'A') : *name;
        append(&split->whole, c);
        append(&split->parts[split->count - 1], c);
    }
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* Insertions, deletions, replacements and swaps of neighbours (Damerau 1964, in the
 * restricted form: no letter is edited twice). now[j] is the distance of a's first i letters
 * from b's first j:
 *   least of  last[j - 1] + (a differs),  last[j] + 1,  now[j - 1] + 1,  before[j - 2] + 1 (a swap)
 * Three rows of the table are kept: two letters ago, the last letter, and this letter. At most 64 x
 * 64 steps. */
static int edits(const struct part *a, const struct part *b)
{
    int rows[3][LENGTH_MAX + 1];
    for (size_t j = 0; j <= b->length; j++)
        rows[0][j] = (int)j;
    for (size_t i = 1; i <= a->length; i++) {
        int *now = rows[i % 3];
        const int *last = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        now[0] = (int)i;
        for (size_t j = 1; j <= b->length; j++) {
            int replaced = last[j - 1] + (a->text[i - 1] != b->text[j - 1]);
            now[j] = least(replaced, least(last[j], now[j - 1]) + 1);
            if (i > 1 && j > 1 && a->text[i - 1] == b->text[j - 2] &&
                a->text[i - 2] == b->text[j - 1])
                now[j] = least(now[j], before[j - 2] + 1);
        }
    }
    return rows[a->length % 3][b->length];
}

/* warmup_step, warmup_steps: one edit, cost 2. lr, learning_rate: FAR. */
static int letters_cost(const struct part *word, const struct part *name)
{
    int distance = edits(word, name);
    return distance * 3 > (int)word->length ? FAR : 2 * distance;
}

/* attn for attention: letters of the longer, in order, from its first on. Three letters fit too
 * many words: src is source, and not service. */
static bool abbreviates(const struct part *brief, const struct part *full)
{
    if (brief->length <= BEGIN_LEAST || brief->text[0] != full->text[0])
        return false;
    size_t i = 0;
    for (size_t j = 0; j < full->length && i < brief->length; j++)
        i += brief->text[i] == full->text[j];
    return i == brief->length;
}

/* acc for accuracy */
static bool begins(const struct part *brief, const struct part *full)
{
    return brief->length >= BEGIN_LEAST && brief->length < full->length &&
           !memcmp(brief->text, full->text, brief->length);
}

/* An abbreviation costs 3, between one edit and two. */
static int part_cost(const struct part *word, const struct part *name)
{
    int cost = letters_cost(word, name);
    if (begins(word, name))
        cost = least(cost, BEGUN);
    return abbreviates(word, name) ? least(cost, ABBREVIATED) : cost;
}

/* Matches each part of `few` with the nearest free part of `many`; FAR if a part has no near one.
 * covered: the number of letters of `many` that matched. Greedy and in order, which is good enough
 * for a hint about names with few parts. */
static int match_parts(const struct split *few, const struct split *many, size_t *covered)
{
    bool taken[PARTS_MAX] = { false };
    int total = 0;
    *covered = 0;
    for (size_t i = 0; i < few->count; i++) {
        int best = FAR;
        size_t index = 0;
        for (size_t j = 0; j < many->count; j++) {
            int cost = taken[j] ? FAR : part_cost(&few->parts[i], &many->parts[j]);
            if (cost < best) {
                best = cost;
                index = j;
            }
        }
        if (best == FAR)
            return FAR;
        taken[index] = true;
        *covered += many->parts[index].length;
        total += best;
    }
    return total + (int)(many->count - few->count);
}

/* A name with more parts than the word is near. A name with fewer parts is near only if it covers
 * half of the word's letters; one part alone, two thirds: --weight is not --weight-decay. */
static int parts_cost(const struct split *word, const struct split *name)
{
    size_t covered;
    if (word->count <= name->count)
        return match_parts(word, name, &covered);
    int cost = match_parts(name, word, &covered);
    return (name->count > 1 ? 2 * covered : 3 * covered / 2) >= word->whole.length ? cost : FAR;
}

/* A word without separators, as long as the name has parts: lr, learning_rate. */
static int initials_cost(const struct split *word, const struct split *name)
{
    if (word->count != 1 || name->count < 2 || word->whole.length != name->count)
        return FAR;
    for (size_t i = 0; i < name->count; i++)
        if (word->whole.text[i] != name->parts[i].text[0])
            return FAR;
    return INITIALS;
}

/* The least of the four views for each name, and the least of all names; equals keep the
 * first. */
bool et_is_one_of(const char *word, const char *const *names)
{
    while (*names && strcmp(*names, word) != 0)
        names++;
    return *names;
}

const char *et_nearest(const char *word, const char *const *names)
{
    struct split wanted, name;
    split_name(&wanted, word);
    const char *nearest = NULL;
    if (wanted.count == 0)
        return NULL;
    for (int best = FAR; *names; names++) {
        split_name(&name, *names);
        if (name.count == 0)
            continue;
        int cost = letters_cost(&wanted.whole, &name.whole);
        cost = least(cost, parts_cost(&wanted, &name));
        cost = least(cost, initials_cost(&wanted, &name));
        if (begins(&wanted.whole, &name.whole))
            cost = least(cost, BEGUN);
        if (cost < best) {
            best = cost;
            nearest = *names;
        }
    }
    return nearest;
}

et_hint et_nearest_hint(const char *word, const char *const *names, const char *mark)
{
    et_hint hint = { "" };
    const char *nearest = et_nearest(word, names);
    if (nearest)
        snprintf(hint.text, sizeof hint.text, ". Nearest: %s%s", mark, nearest);
    return hint;
}

bool et_same_name(const char *word, size_t length, const char *name)
{
    if (!name || strlen(name) != length)
        return false;
    for (size_t i = 0; i < length; i++)
        if ((word[i] == '_' ? '-' : word[i]) != (name[i] == '_' ? '-' : name[i]))
            return false;
    return true;
}
