#!/bin/sh
# test_documents.sh SOURCE [ETUDE]: what documents for users name exists: pages that they link to,
# headers, public names and, with the command, its commands and their options. Hard words
# (hard_words.sh) are at most 1.5 in 1,000 words of all pages.
set -eu
source=$1 etude=${2-}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d "$PWD/documents.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$source"
pages="README.md ARCHITECTURE.md CONTRIBUTING.md SECURITY.md doc/*.md doc/reference/*.md configs/README.md examples/README.md"
: >"$work/wrong"
wrong() {
    echo "$*" >>"$work/wrong"
}

# shellcheck disable=SC2086 # words
for page in $pages; do
    grep -o '](\([^)#]*\)[^)]*)' "$page" | sed 's/^](//; s/[#)].*//' | sort -u |
        while read -r link; do
            case $link in '' | http*) continue ;; esac
            [ -e "$(dirname "$page")/$link" ] || wrong "$page: links to $link, which is not there"
        done
    # Headings as GitHub's anchors: lower case, hyphens for blanks, without other signs.
    grep -o '](\([^):]*\.md\)\{0,1\}#[^)]*)' "$page" | sed 's/^](//; s/)$//' | sort -u |
        while IFS='#' read -r file anchor; do
        file=${file:+$(dirname "$page")/$file}
        sed -n 's/^##* //p' "${file:-$page}" | tr 'A-Z ' 'a-z-' | tr -cd 'a-z0-9_\n-' |
            grep -qx -e "$anchor" || wrong "$page: links to #$anchor, which is no heading of ${file:-$page}"
    done
    grep -o '<etude/[a-z_0-9]*\.h>' "$page" | sort -u | tr -d '<>' | while read -r header; do
        [ -f "include/$header" ] || wrong "$page: no header $header"
    done
    # An address that nobody has.
    grep -n '^    .*git clone [A-Z]\|^    .*\<URL\>' "$page" | while read -r line; do
        wrong "$page:$line: a placeholder in a command"
    done
    [ "$page" != doc/STYLE.md ] || continue # names by a rule, not names
    # Names in backticks, and in blocks of code.
    { grep -o '`et_[a-z_0-9]*`' "$page" | tr -d '`'; grep '^    ' "$page" | grep -ow 'et_[a-z_0-9]*'; } |
        sort -u | while read -r name; do
        grep -rqw "$name" include src || wrong "$page: no $name"
    done
done

# Hard words in all pages together, except in pages that the program prints.
# shellcheck source=tests/tools/hard_words.sh
. "$here/hard_words.sh"
set --
for page in README.md CHANGES.md doc/*.md doc/reference/*.md; do
    case $page in doc/reference/settings.md | doc/reference/api.md) continue ;; esac
    set -- "$@" "$page"
done
hard_words "$@" >>"$work/wrong"

# Options in lines of commands: "    etude translate runs/a --beam-size 4 <x" and `etude average --last 5`.
if [ -n "$etude" ]; then
    "$etude" help | sed -n 's/^    \([a-z][a-z0-9_-]*\) .*/\1/p' >"$work/commands"
    while read -r command; do
        "$etude" help --man "$command" | tr -d '\\' 
    done <"$work/commands" >"$work/help"
    # shellcheck disable=SC2086
    for page in $pages; do
        # A command goes on behind a backslash; it ends at what a shell or the text ends it with.
        sed -e ':a' -e '/\\$/N; s/\\\n//; ta' "$page" | grep -o '\(^    \|`\|[$] \)\(build/\)\{0,1\}etude [^`|<>&;#]*' |
            sed 's/^[ `$]*//; s/^build.//' | while read -r _ command rest; do
            case $command in complete | help | version | tfx | --* | COMMAND) continue ;; esac
            grep -qx -e "$command" "$work/commands" || {
                wrong "$page: no command $command"
                continue
            }
            for word in $rest; do
                case $word in --) break ;; --*) ;; *) continue ;; esac
                option=$(printf '%s' "${word#--}" | sed 's/=.*//; s/_/-/g; s/[^a-z0-9-].*//')
                [ -z "$option" ] || [ "$option" = man ] || [ "$option" = help ] ||
                    grep -q -e "--${option}fR" "$work/help" || wrong "$page: $command has no --$option"
            done
        done
    done
fi
[ ! -s "$work/wrong" ] || {
    sort -u "$work/wrong" >&2
    exit 1
}
echo "documents name what is there"
