#!/bin/sh
# debian-root with stand-ins for apt-get and dpkg-deb: where it unpacks, links that would lead out
# of the root, a second call, a failure. And tools/aarch64 on a machine without its tools.
set -eu
tools=$(cd "$(dirname "$0")/../../tools" && pwd)
work=$(mktemp -d "$PWD/debian_root.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin" "$work/few"
cd "$work"

cat >bin/apt-get <<'X'
#!/bin/sh
echo "$*" >>calls
case "$*" in
indextargets*)
    [ ! -e strange ] || exit 0
    . /etc/os-release
    echo "http://other.example/ Other ${VERSION_CODENAME:-none}"
    echo "http://archive.example/ Debian ${VERSION_CODENAME:-none}"
    ;;
*" install "*)
    [ ! -e broken ] || exit 100
    for word; do
        case $word in Dir::Cache=*) touch "${word#*=}/archives/libone.deb" ;; esac
    done
    ;;
esac
X
cat >bin/dpkg-deb <<'X'
#!/bin/sh
[ "$1" = -x ] || exit 1
mkdir -p "$3/usr/lib" "$3/lib"
echo it >"$3/lib/libone.so.1"
ln -s /lib/libone.so.1 "$3/usr/lib/libone.so"
ln -s libone.so.1 "$3/lib/libone.so.0"
X
chmod +x bin/*
run() {
    PATH=$work/bin:$PATH "$tools/debian-root" "$@" >said 2>&1
}
fail() {
    echo "test_debian_root: $*" >&2
    cat said calls >&2
    exit 1
}
: >calls

# What knows no release of Debian has none to take packages from.
if ! (. /etc/os-release && [ "${VERSION_CODENAME:-}" ]); then
    echo "SKIPPED: all cases: this system has no VERSION_CODENAME"
    exit 77
fi
run root arm64 libone-dev libtwo-dev || fail "exit $?"
[ "$(cat root/usr/lib/libone.so)" = it ] || fail "a link leads out of the root"
[ "$(readlink root/lib/libone.so.0)" = libone.so.1 ] || fail "a link that was right has changed"
[ ! -e root.apt ] || fail "what apt was given is left"
grep -q 'Architecture=arm64 .*install .*libone-dev libtwo-dev' calls || fail "not asked for"
! grep 'install' calls | grep -qv -e --download-only || fail "something is installed here"

: >calls
run root arm64 libone-dev libtwo-dev || fail "again: exit $?"
! grep -q install calls || fail "unpacked again"
touch broken
! run root arm64 libone-dev || fail "a failure of apt-get is a success"
[ ! -e root/packages ] || fail "a root that is not whole passes for one"
rm broken
run root arm64 libone-dev || fail "after a failure: exit $?"
touch strange
! run root arm64 libother-dev || fail "no archive is a success"
grep -q 'knows no archive' said || fail "no word of the archive"
! run root || fail "no packages is a success"

# Of what aarch64 needs there is nothing but a shell.
for tool in sh dirname; do
    ln -s "$(command -v $tool)" few/$tool
done
PATH=$work/few "$tools/aarch64" >said 2>&1 || fail "aarch64 without tools: exit $?"
grep -q '^SKIPPED: aarch64: no ' said || fail "aarch64 without tools says nothing"
