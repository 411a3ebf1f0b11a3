# shellcheck shell=sh
# Sourced by tests that run the commands of pages, in a short version: small texts and small models
# with few updates replace real ones. A block of a page whose first line is `# NAME.SUFFIX` is
# written to this file. A command must succeed, and print lines that begin like the lines below it;
# `data analyze` must print exactly those lines. not_typed lists the commands that are not run, with
# the reasons. A command that is neither run nor listed is a failure, and so is a line of the list
# that no page has. $1 of the test is the source, $2 the command.
source=$1 etude=$2
script=$(basename "$0" .sh)
work=$(mktemp -d "$PWD/${script#test_}.XXXXXX")
server= # process that answers
trap 'kill $server 2>/dev/null || :; rm -rf "$work"' EXIT
cd "$work" || exit 1
mkdir bin
ln -s "$etude" bin/etude
PATH=$work/bin:$PATH
OMP_NUM_THREADS=1
export OMP_NUM_THREADS LC_ALL=C.UTF-8

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
# which an indented line is no output of that command. On a page without prompts a command is a line
# that begins with a program. So is what stands in backticks and names no placeholder.
commands() {
    prompts=$(grep -c '^    \$ ' "$source/$1" || :)
    awk -v prompts="$prompts" '
    function begins(line) {
        if (prompts)
            return line ~ /^\$ /
        while (line ~ /^[A-Z_]+=/)
            sub(/^[A-Z_]+=(\047[^\047]*(\047 *|$)|[^ ]* )/, "", line)
        return line == "" || line ~ /^(etude|make|cmake|cc|curl|mpirun|tensorboard|ssh|tail|until|tar|apt|apt-get|cd|mkdir|man|zstd|sbatch|srun|python3?|pip|ninja|ctest|cp|echo|cat)( |$)/ ||
            line ~ /^(\.|build|tools|etude-[0-9.a-z_-]*)\/[a-z_\/.0-9-]+( |$)/
    }
    /^    / {
        line = substr($0, 5)
        if (more) command = command line
        else if (begins(line)) command = (prompts ? "" : "$ ") line
        else { print "= " line; next }
        quotes = command
        more = command ~ /\\$/ || gsub(/\047/, "", quotes) % 2
        sub(/\\$/, "", command)
        if (!more) print command
        next
    }
    /./ {
        for (rest = $0; match(rest, /`etude [^`]*`/); rest = substr(rest, RSTART + RLENGTH)) {
            span = substr(rest, RSTART + 1, RLENGTH - 2)
            if (span !~ /\.\.\.|[A-Z][A-Z]|[[|]/ && split(span, words, " ") > 2) print "$ " span
        }
        print "%"
    }
    ' "$source/$1"
}

# files PAGE: writes the files that a page shows.
files() {
    awk '
    !/^    / && /./ { file = "" }
    /^    # [a-z-]+\.[a-z]+$/ && !file { file = $2; printf "" >file }
    file { print substr($0, 5) >file }
    ' "$source/$1"
}

typed=0 failed=0
: >needed
wrong() {
    echo "$script: $*" >&2
    failed=1
}

# reason COMMAND: why it is not typed; nothing: it is. Two blanks are between a pattern and a reason.
reason() {
    not_typed | while IFS= read -r line; do
        # shellcheck disable=SC2254 # patterns
        case $1 in ${line%%  *})
            echo "${line%%  *}" >>"$work/needed"
            echo "${line#*  }"
            break
            ;;
        esac
    done
}

# serve COMMAND: it answers at $port until the next one, or the end of the page.
serve() {
    [ -z "$server" ] || kill "$server"
    : >served
    sh -c "exec $(printf '%s' "$1" | sed 's/ *#.*//; s/--port [0-9]*//') --port 0" >served 2>&1 </dev/null &
    server=$! looks=0
    until port=$(sed -n 's|.*http://[^ ]*:\([0-9][0-9]*\).*|\1|p' served | head -n 1) && [ -n "$port" ]; do
        looks=$((looks + 1))
        kill -0 $server 2>/dev/null && [ $looks -lt 600 ] || {
            wrong "$page: $1: gives no address: $(cat served)"
            server="" port=0
            return
        }
        sleep 0.1
    done
}

# shortened COMMAND: with few updates.
shortened() {
    printf '%s' "$1" | sed '
        s/--steps 3600/--steps 12/; s/--\(max-\)\{0,1\}steps [0-9][0-9][0-9][0-9]*/--\1steps 24/; s/--epochs [0-9]*/--epochs 1/
        s/runtime.data_shards=/task.train_data.global_batch_size=4096,&/
        /--steps\|--epochs\|--dry-run/! s/\(etude train\|-- train\) /\1 --steps 12 /
        s/\(localhost\|127\.0\.0\.1\):8080/127.0.0.1:'"${port-0}"'/; s/^curl /curl -s -S -f -m 60 /' | sed "${own:-}"
}

# type_command COMMAND: runs a short version of it; what it prints is in `out`.
type_command() {
    typed=$((typed + 1)) code=0
    short=$(shortened "$1")
    case $1 in
    *etude\ serve\ * | *etude\ watch\ *)
        serve "$short"
        return
        ;;
    esac
    case $1 in curl*/predict) serve 'etude serve runs/table' && short=$(shortened "$1") ;; esac
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

# type_page PAGE LEAST [SED]: at least so many commands; SED puts something in place of what a reader
# does.
type_page() {
    page=$1 before=$typed skipped=1 command="" own=${3-}
    commands "$page" >lines
    while IFS= read -r line; do
        case $line in
        '$ '*)
            command=${line#??} skipped=1
            [ -z "$(reason "$command")" ] || continue
            skipped=0
            type_command "$command"
            ;;
        %) skipped=1 ;;
        '= '*) [ $skipped = 1 ] || check_line "${line#??}" ;;
        esac
    done <lines
    [ -z "$server" ] || kill "$server"
    server=
    [ $((typed - before)) -ge "$2" ] || wrong "$page has only $((typed - before)) commands"
}

# end_pages: how many were typed; the test's last command.
end_pages() {
    not_typed | sed 's/  .*//' | sort -u >listed
    sort -u needed | comm -23 listed - | sed 's/$/: no such command on these pages/' >unneeded
    [ ! -s unneeded ] || wrong "$(cat unneeded)"
    echo "$typed commands; $(wc -l <needed) are not typed"
    [ $failed = 0 ]
}
