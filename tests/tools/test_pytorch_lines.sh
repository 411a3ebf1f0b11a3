#!/bin/sh
# test_pytorch_lines.sh SOURCE CC: each line of C in the tables "PyTorch, line by line" of
# doc/coming-from.md compiles: those of the network in a function that builds one, the others in one
# that trains.
set -eu
source=$1 cc=$2
work=$(mktemp -d "$PWD/pytorch_lines.XXXXXX")
trap 'rm -rf "$work"' EXIT

# lines HEAD: the C of a table, a block for each row.
lines() {
    awk -v head="| PyTorch: $1 |" '
        index($0, head) == 1 { inside = 1; next }
        inside && /^\|---/ { next }
        inside && !/^\|/ { exit }
        inside {
            code = $0
            sub(/^\|.*\| `/, "", code)
            sub(/` \|$/, "", code)
            print "    {\n        " code "\n    }"
        }' "$source/doc/coming-from.md"
}
{
    cat <<'C'
#include <etude/etude.h>

static void build(et_scope *s, void *payload)
{
    et_node *x = et_batch_input(s, "x"), *y = x, *w = x, *ids = et_batch_input(s, "y");
    et_node *image = x, *logits = x, *labels = ids;
    (void)payload, (void)y, (void)w, (void)image, (void)logits, (void)labels;
C
    lines 'the network'
    cat <<'C'
}
int train(float (*X)[20], int *Y, et_model *model);
int train(float (*X)[20], int *Y, et_model *model)
{
    et_error error = ET_ERROR_INIT;
    et_device *device = NULL;
    et_params *params = NULL;
    et_samples *samples = NULL, *others = NULL;
    et_source *source = NULL;
    et_batch *batch = NULL;
    et_pass *pass = NULL, *eval = NULL;
    et_optimizer *optimizer = NULL;
    int status = ET_OK;
C
    lines training
    printf '    return status;\n}\n'
} >"$work/lines.c"
count=$(grep -c '^    {$' "$work/lines.c")
[ "$count" -ge 40 ] || { echo "only $count lines" >&2; exit 1; }
"$cc" -std=c17 -D_GNU_SOURCE -fsyntax-only -Wall -Wextra -Wno-unused -Werror -I"$source/include" "$work/lines.c"
# The test can fail.
sed 's/et_dense(et_in/et_dence(et_in/' "$work/lines.c" >"$work/wrong.c"
! "$cc" -std=c17 -D_GNU_SOURCE -fsyntax-only -Werror -I"$source/include" "$work/wrong.c" 2>/dev/null
echo "$count lines of PyTorch"
