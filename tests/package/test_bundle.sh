#!/bin/sh
# test_bundle.sh SOURCE BUILD: the archive of tools/make-bundle, unpacked in a root that has only
# glibc, trains a vocabulary, a translation model and a table, predicts, and serves.
set -eu
source=$1 build=$2
command -v patchelf >/dev/null || {
    echo "SKIPPED: bundle: no patchelf (tools/setup bundle)"
    exit 77
}
work=$(mktemp -d "$PWD/bundle.XXXXXX")
server=
trap '[ -z "$server" ] || { kill "$server" && wait "$server"; } 2>/dev/null; rm -rf "$work"' EXIT
fail() {
    echo "test_bundle: $*" >&2
    exit 1
}
archive=$("$source/tools/make-bundle" "$build" "$work" | tail -n 1)
root=$work/root
mkdir -p "$root/tmp" "$root/data"
tar -xzf "$archive" -C "$root"
mv "$root"/etude-* "$root/etude"
for file in README LICENSE licenses share/man/man1/etude.1 share/doc/etude/README.md; do
    [ -e "$root/etude/$file" ] || fail "the archive has no $file"
done

# Every library but glibc's lies in the bundle.
outside=$(ldd "$root/etude/bin/etude" | awk -v root="$root" '
    $2 == "=>" && index($3, root) != 1 && $1 !~ /^(libc|libm|libdl|librt|libpthread|libresolv)\.so/')
[ -z "$outside" ] || fail "libraries from outside of the archive: $outside"
mkdir "$root/proc"
# The loader finds $ORIGIN by /proc/self/exe, so the root has /proc, in mounts of its own.
cat >"$work/bare" <<X
#!/bin/sh
exec unshare --mount sh -c 'mount --rbind /proc "\$0/proc" && exec chroot "\$0" /etude/bin/etude "\$@"' \
    "$root" "\$@"
X
chmod +x "$work/bare"
unshare --mount mount --rbind /proc "$root/proc" 2>/dev/null || {
    echo "SKIPPED: bundle: a bare root needs root (chroot, mount)"
    exit 77
}
loader=$(ldd "$root/etude/bin/etude" | awk '$1 ~ /ld-linux/ { print $1 }')
mkdir -p "$root$(dirname "$loader")" "$root/lib"
cp "$loader" "$root$loader"
for name in libc.so.6 libm.so.6 libdl.so.2 librt.so.1 libpthread.so.0 libresolv.so.2; do
    path=$(ldconfig -p | awk -v name="$name" '$1 == name && /x86-64|AArch64/ { print $NF; exit }')
    [ -z "$path" ] || cp "$path" "$root/lib"
done
awk -v en="$root/data/en" -v de="$root/data/de" -v csv="$root/data/rows" 'BEGIN {
    srand(1)
    for (i = 0; i < 300; i++) {
        a = int(rand() * 9)
        b = int(rand() * 9)
        print "word" a " follows word" b >en
        print "wort" a " folgt wort" b >de
        print a "," b "," (a > b ? "yes" : "no") >csv
    }
}'
{ echo a,b,y; cat "$root/data/rows"; } >"$root/data/table.csv"

"$work/bare" --version >/dev/null || fail "etude --version"
"$work/bare" train /data/run --experiment translation/tiny --data /data/en /data/de --steps 2 --threads 1 \
    --set trainer.validation_interval=0 -q || fail "a translation model"
head -n 1 "$root/data/en" | "$work/bare" translate /data/run --threads 1 >/dev/null || fail "translate"
"$work/bare" train /data/table --experiment tabular/mlp_small --data /data/table.csv --target y --steps 20 \
    --threads 1 -q || fail "a table"
[ "$(head -n 4 "$root/data/table.csv" | "$work/bare" predict /data/table | wc -l)" = 3 ] || fail "predict"
"$work/bare" keys /data/keys >/dev/null || fail "keys, which need libzmq"
"$work/bare" serve /data/table --port 0 --threads 1 >"$work/said" 2>&1 &
server=$!
tries=0
until grep -q 'http://' "$work/said"; do
    tries=$((tries + 1))
    [ $tries -lt 100 ] && kill -0 "$server" || fail "serve: $(cat "$work/said")"
    sleep 0.1
done
address=$(grep -o 'http://[0-9.:]*' "$work/said" | head -n 1)
curl -sf "$address/health" >/dev/null || fail "serve does not answer at $address"
echo "the bundle runs in a bare root"
