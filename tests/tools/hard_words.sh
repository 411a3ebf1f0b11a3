# shellcheck shell=sh
# Sourced by tests: hard_words.sh has words that make a sentence hard to read, and their limit: 1.5
# in 1,000 words of all files together.

hard="(is|are) (said|told|taken)|stands|goes by|of one's own|beside|behind|it is as if|there is none"

# hard_words FILE...: a line for each file that has more than its share, where all together have too
# many; else nothing.
hard_words() {
    for file in "$@"; do
        found=$(tr -s ' \n' ' ' <"$file" | grep -oiwE "$hard" | wc -l)
        echo "$found $(wc -w <"$file") $file"
    done | awk -v hard="$hard" '
        { found += $1; words += $2 }
        $1 * 1000 > $2 * 1.5 {
            line[++lines] = sprintf("%s: %d of %d words make it hard to read (more than 1.5 in 1,000): %s", $3, $1, $2, hard)
        }
        END {
            for (i = 1; i <= lines && found * 1000 > words * 1.5; i++)
                print line[i]
        }'
}
