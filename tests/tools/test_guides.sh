#!/bin/sh
# test_guides.sh SOURCE ETUDE: types what the guides say whose every step builds on the one before.
set -eu
<<<<<<< ours
. "$(dirname "$0")/pages.sh"

not_typed() {
    cat <<'END'
apt-get *  downloads packages
for p in \*.deb; do *  unpacks them
mkdir text  is there
PATH=*  names a build of the reader's
pair-pages *  pairs what those packages have: `make demo` does, and examples/demo has a test of its own
END
}

# The page's settings, with few updates and a small model on top.
files doc/first-translation.md
grep -q '^trainer:' help.yaml
sed -i 's/train_steps: .*/train_steps: 12/; s/num_layers: 3/num_layers: 1/' help.yaml
cat >>help.yaml <<'END'
task.model.embedding_width: 16
task.vocabulary.max_size: 60
END
type_page doc/first-translation.md 12
=======
source=$1 etude=$2
work=$(mktemp -d "$PWD/guides.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir bin
ln -s "$etude" bin/etude
PATH=$work/bin:$PATH
OMP_NUM_THREADS=1
export OMP_NUM_THREADS

# text FILE LINES FIRST: as many lines of made words.
text() {
    awk -v lines="$2" -v first="$3" 'BEGIN { for (i = first; i < first + lines; i++) { line = ""
        for (k = 0; k <= i % 6; k++)
            line = line sprintf("%c%c ", 97 + (i * 7 + k * 3) % 26, 97 + (i + k * 5) % 26)
        print line } }' >"$1"
}
mkdir text
for side in en de; do
    text text/train.$side 300 0
    text text/valid.$side 20 1000
    text text/test.$side 20 2000
done

# commands PAGE: its commands, each with the lines below it: "$ command" and "= line". "%": text, after
# which an indented line is no output of that command.
commands() {
    awk '
    /^    / {
        line = substr($0, 5)
        if (more) { command = command line; more = 0 }
        else if (line ~ /^\$ /) { command = line }
        else { print "= " line; next }
        if (command ~ /\\$/) { sub(/\\$/, "", command); more = 1; next }
        print command
        next
    }
    /./ { print "%" }
    ' "$source/doc/$1"
}

# files PAGE: writes the files that a page shows.
files() {
    awk '
    !/^    / && /./ { file = "" }
    /^    # [a-z-]+\.[a-z]+$/ && !file { file = $2; printf "" >file }
    file { print substr($0, 5) >file }
    ' "$source/doc/$1"
}

typed=0 failed=0
wrong() {
    echo "test_guides: $*" >&2
    failed=1
}

# type_command COMMAND: runs a short version of it; what it prints is in `out`.
type_command() {
    typed=$((typed + 1)) code=0
    short=$(printf '%s' "$1" | sed 's/--steps 3600/--steps 12/; s/--steps [0-9][0-9][0-9][0-9]*/--steps 24/')
    sh -c "$short" >out 2>&1 </dev/null || code=$?
    # A time limit is an interruption: 75.
    [ $code = 0 ] || { [ $code = 75 ] && printf '%s' "$1" | grep -q 'time-limit'; } || {
        wrong "$page: $1: exit code $code"
        tail -n 5 out >&2
    }
}

# check_line LINE: the last command printed it, or a line with the same first word.
check_line() {
    case $1 in '...') return 0 ;; esac
    case $command in
    *'data analyze'*)
        grep -qxF -e "$1" out || [ -z "$1" ] || wrong "$page: $command: does not print: $1"
        return 0
        ;;
    esac
    word=$(printf '%s' "$1" | sed -n 's/^\([a-zA-Z_][a-zA-Z_]*\)\([: ].*\|$\)/\1/p')
    case $word in '' | step | Klicken | Mit) return 0 ;; esac
    grep -q "^$word\b" out || wrong "$page: $command: prints no line that begins with $word"
}

# type_page PAGE LEAST: at least so many commands.
type_page() {
    page=$1 before=$typed skipped=1 command=
    commands "$page" >lines
    while IFS= read -r line; do
        case $line in
        '$ '*)
            command=${line#??} skipped=1
            case $command in
            *sbatch* | *apt* | *make*) continue ;;
            *etude* | awk* | head* | echo* | cp*) ;;
            *) continue ;;
            esac
            skipped=0
            type_command "$command"
            ;;
        %) skipped=1 ;;
        '= '*) [ $skipped = 1 ] || check_line "${line#??}" ;;
        esac
    done <lines
    [ $((typed - before)) -ge "$2" ] || wrong "$page has only $((typed - before)) commands"
}

# The page's settings, with a small model in their place.
files first-translation.md
grep -q '^task:' help.yaml
sed -i 's/num_layers: 3/num_layers: 1/; s/size: 6000/size: 60/' help.yaml
type_page first-translation.md 12
>>>>>>> theirs

files doc/first-table.md
type_page doc/first-table.md 12

files doc/features.md
type_page doc/features.md 5

end_pages
