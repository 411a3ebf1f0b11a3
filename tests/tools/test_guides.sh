#!/bin/sh
# test_guides.sh SOURCE ETUDE: runs the commands of guides in which every step needs the one before.
set -eu
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
grep -q '^task:' help.yaml
sed -i 's/num_layers: 3/num_layers: 1/; s/size: 6000/size: 60/' help.yaml
type_page doc/first-translation.md 12

files doc/first-table.md
type_page doc/first-table.md 12

files doc/features.md
type_page doc/features.md 5

end_pages
