# Sourced by tests: parallel text in a language of numbers: digits of squares, as words.

# count_pairs FROM TO: a line for each number from FROM to before TO, in files `source` and `target`.
count_pairs() {
    awk -v from="$1" -v to="$2" 'BEGIN {
        split("nul en to tre fire fem seks syv otte ni", one, " ")
        split("zero one two three four five six seven eight nine", two, " ")
        for (n = from; n < to; n++) {
            digits = n * n
            left = right = ""
            for (k = 1; k <= length(digits); k++) {
                left = left one[substr(digits, k, 1) + 1] " "
                right = right two[substr(digits, k, 1) + 1] " "
            }
            print left > "source"
            print right > "target"
        }
    }'
}
