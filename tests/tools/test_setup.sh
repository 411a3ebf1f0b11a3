#!/bin/sh
# setup with stand-ins for dpkg, apt-get and sudo: what it asks them for, and when.
set -eu
setup=$(cd "$(dirname "$0")/../../tools" && pwd)/setup
work=$(mktemp -d "$PWD/setup.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
cd "$work"

# The packages that are there stand in the file have; apt-get notes its calls and adds to it. dpkg
# says of packages that another one names, too, that they are not-installed.
cat >bin/dpkg-query <<'X'
#!/bin/sh
format=${2#-f=}
shift 2
for package; do
    status=not-installed
    ! grep -qx "$package" have || status=installed
    echo "$format" |
        sed "s/[$]{db:Status-Status}/$status/; s/[$]{Package}/$package/; s/[\\]n//"
done
X
cat >bin/apt-get <<'X'
#!/bin/sh
echo "$*" >>calls
case "$*" in
*" update"*) touch lists; exit 0 ;;
esac
[ -e lists ] || exit 100
[ ! -e broken ] || exit 100
for word; do ! grep -qxs -e "$word" gone || exit 100; done
for word; do
    case $word in -*) ;; *) echo "$word" >>have ;; esac
done
X
cat >bin/id <<'X'
#!/bin/sh
cat uid
X
chmod +x bin/*
for tool in sh env sort tr sed sleep cat grep touch; do
    ln -s "$(command -v $tool)" bin/$tool
done
run() {
    PATH=$work/bin "$setup" "$@" >said 2>&1
}
fail() {
    echo "test_setup: $*" >&2
    cat said >&2
    exit 1
}
: >have
echo 0 >uid
touch lists

run || fail "as root, all missing"
grep -q 'install.* libdnnl-dev' calls || fail "libdnnl-dev not asked for"
! grep -q ' update' calls || fail "lists fetched without need"
for other in clang-tidy libcmocka-dev libxml2-dev valgrind; do
    ! grep -q "$other" calls || fail "the build group asks for $other"
done

rm calls
run || fail "all there"
[ ! -e calls ] || fail "apt-get called though all is there"
grep -q 'all packages are installed' said || fail "does not say that all is there"

run demo || fail "demo"
[ "$(grep -o 'recommends.*' calls)" = 'recommends libxml2-dev python3-venv' ] || fail "demo asks for other packages"

run test || fail "test"
grep -q 'libcmocka-dev' calls || fail "libcmocka-dev not asked for"
! grep -q 'libdnnl-dev' calls || fail "asks again for what is there"
! grep -q 'clang-tidy' calls || fail "test group asks for the develop group"

rm calls
run bundle || fail "bundle"
[ ! -e calls ] || fail "bundle asks for more than patchelf, which the test group has"

run develop || fail "develop"
grep -q 'clang-tidy' calls || fail "clang-tidy not asked for"
! grep -q 'libdnnl-dev' calls || fail "asks again for what is there"

grep -vx 'zlib1g-dev' have >kept && cp kept have
rm calls lists
run || fail "without package lists"
[ "$(grep -c '' calls)" = 3 ] || fail "wanted install, update, install"
[ "$(sed -n 3p calls | grep -o 'recommends.*')" = "recommends zlib1g-dev" ] ||
    fail "wanted zlib1g-dev alone"

# What is optional may not be had; what is not is installed without it.
grep -vx 'zlib1g-dev\|libzmq3-dev' have >fewer && cp fewer have
echo libzmq3-dev >gone
rm calls
run || fail "without an optional package"
grep -q 'left out, as they could not be had: libzmq3-dev' said || fail "what is left out is not named"
[ "$(tail -1 calls | grep -o 'recommends.*')" = "recommends zlib1g-dev" ] || fail "the rest is not installed"
rm gone

cp kept have
touch broken
if run; then fail "a failing apt-get passes"; fi
grep -q 'could not install: zlib1g-dev' said || fail "the package is not named"
rm broken

echo 1000 >uid
if run; then fail "neither root nor sudo passes"; fi
grep -q 'as root run: apt-get install zlib1g-dev' said || fail "no cure named"
printf '#!/bin/sh\necho sudo >>calls\nexec "$@"\n' >bin/sudo
chmod +x bin/sudo
rm calls
run || fail "with sudo"
[ "$(head -1 calls)" = sudo ] || fail "sudo not used"

if run nonsense; then fail "an unknown group passes"; fi
rm bin/apt-get
run || fail "elsewhere than Debian"
grep -q 'no Debian' said || fail "does not say that this is no Debian"
cd "$(dirname "$setup")/.."
make -n build 2>/dev/null | grep -qx 'tools/setup build' || fail "make build asks for more"
make -n demo 2>/dev/null | grep -qx 'tools/setup demo' || fail "make demo does not ask for its"
! make -n demo 2>/dev/null | grep -q 'tools/setup.* test' || fail "make demo asks for what tests need"
make -n bundle 2>/dev/null | grep -qx 'tools/setup bundle' || fail "make bundle asks for more"
make -n test 2>/dev/null | grep -qx 'tools/setup build test' || fail "make test does not ask for its"
# The list of targets is whole and fits a terminal.
make help >"$work/help"
for target in $(sed -n 's/^\([a-z0-9-]*\):.*/\1/p' Makefile); do
    grep -q "^  make $target " "$work/help" || fail "make help does not list $target"
done
[ -z "$(awk 'length > 80' "$work/help")" ] || fail "make help is wider than 80 columns"
# The Debian package is built with the libraries that building needs, and its -dev depends on those that
# a program that links the archive needs: all but those that are loaded (base/files/library.h).
control=$(dirname "$setup")/../packaging/debian/control
for package in $(sed -n "/^build=/,/'$/p" "$setup" | tr " '=" '\n\n\n' | grep -- '-dev$'); do
    case $package in libexpat1-dev | libgettextpo-dev | libgumbo-dev | libmd4c-dev | libicu-dev | libmicrohttpd-dev | libzip-dev | libzmq3-dev) places=1 ;; *) places=2 ;; esac
    [ "$(grep -c "\b$package\b" "$control")" -ge "$places" ] ||
        fail "$package is not in Build-Depends and libetude-dev's Depends of packaging/debian/control"
done

echo "setup installs what is missing and nothing else"
