#!/bin/sh
# test_options.sh SOURCE LIBRARY: structs of the public headers before 1.0, when the middle number
# of the version may change any of them.
#
#   1. No struct has reserved members; a new member is inserted where it belongs.
#   2. The library's SONAME has both numbers of a version below 1.0, and only the first from then on,
#      so a program does not start with a library that has other structs.
#   3. The structs that doc/api.md lets programs initialise without member names have the members
#      that it gives, in its order; the heads of headers, pages and examples initialise no other
#      struct so.
#   4. The checks find faults of each kind.
set -eu
source=$1 library=$2
work=$(mktemp -d "$PWD/options.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "test_options: $*" >&2
    if [ -s log ]; then
        head -20 log >&2
    fi
    exit 1
}

# no_room FOLDER: no member of its headers has a name that says that it is not used.
no_room() {
    ! grep -nE '[ *](reserved|unused|spare|padding)[a-z0-9_]*(\[[^]]*\])?;|ET_RESERVED' "$1"/*.h >log
}

# soname VERSION: what the library of a version is to be called.
soname() {
    case $1 in
    0.*) echo "libetude.so.${1%.*}" ;;
    *) echo "libetude.so.${1%%.*}" ;;
    esac
}

no_room "$source/include/etude" || fail "room for later is kept"
version=$(sed -n 's/^#define ET_VERSION "\(.*\)"/\1/p' "$source/include/etude/version.h")
has=$(objdump -p "$library" | awk '$1 == "SONAME" { print $2 }')
[ "$has" = "$(soname "$version")" ] || fail "version $version has the SONAME $has, not $(soname "$version")"

# members HEADERS STRUCT: "a, b, c".
members() {
    cat "$1"/*.h | awk -v name="$2" '
        $0 ~ "^(typedef )?struct " name " [{]" { inside = 1; next }
        inside && /^}/ { exit }
        inside { text = text " " $0 }
        END {
            while (match(text, /[/][*]([^*]|[*][^\/])*[*][/]/))
                text = substr(text, 1, RSTART - 1) substr(text, RSTART + RLENGTH)
            n = split(text, part, ";")
            for (i = 1; i < n; i++) {
                if (match(part[i], /[(][*][a-z_]+[)]/)) {
                    list = list ", " substr(part[i], RSTART + 2, RLENGTH - 3)
                    continue
                }
                k = split(part[i], word, ",")
                for (j = 1; j <= k; j++) {
                    sub(/ *(\[[^]]*\])? *$/, "", word[j])
                    sub(/.*[ *]/, "", word[j])
                    list = list ", " word[j]
                }
            }
            print substr(list, 3)
        }'
}
# as_promised HEADERS: what doc/api.md says of members is so.
as_promised() {
    sed -n 's/^| `\(et_[a-z_]*\)` | \(.*\) |$/\1 \2/p' "$source/doc/api.md" | while read -r name list; do
        [ "$(members "$1" "$name")" = "$list" ] || echo "$name has the members $(members "$1" "$name")"
    done >log
    [ ! -s log ]
}
# unnamed FILE...: structs that are written with a value without a name, first or in a list.
unnamed() {
    cat "$@" | grep -oE '\bet_[a-z_]+ [a-z_]+(\[[^]]*\])? = \{ *(\{ *)?[^ .0{}]' | sed 's/ .*//' | sort -u
}

as_promised "$source/include/etude" || fail "doc/api.md promises other members"
sed -n 's/^| `\(et_[a-z_]*\)` | .*/\1/p' "$source/doc/api.md" | sort -u >promised
[ "$(wc -l <promised)" -gt 10 ] || fail "doc/api.md has no table of structs"
unnamed "$source"/include/etude/*.h "$source"/examples/*.c "$source"/doc/*.md "$source/README.md" >written
comm -13 promised written >log
[ ! -s log ] || fail "written without names, and not in doc/api.md"
printf 'et_fit fit = { 20 };\n' >unnamed.c
[ "$(unnamed unnamed.c)" = et_fit ] || fail "a struct without names is not seen"

[ "$(soname 0.2.7)" = libetude.so.0.2 ] && [ "$(soname 1.4.0)" = libetude.so.1 ] || fail "soname"
for member in 'uint64_t reserved[8];' 'ET_RESERVED(8);' 'void *spare;'; do
    rm -rf headers
    cp -R "$source/include/etude" headers
    sed -i "/^typedef struct et_pass_options/a\\    $member" headers/pass.h
    grep -qF "$member" headers/pass.h || fail "pass.h has no options"
    ! no_room headers || fail "$member is not seen"
done
rm -rf headers
cp -R "$source/include/etude" headers
sed -i 's/^    et_shape item;$/    et_shape item, stride;/' headers/data.h
! as_promised headers || fail "a member more is not seen"
echo "$has has version $version"
