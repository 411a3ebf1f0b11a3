#!/bin/sh
# public_readers.sh BUILD_DIR SAMPLES: the public readers of safetensors and TensorBoard read our
# files, and our reader reads a file of the public writer. 77 if they cannot be installed.
set -u
here=$(cd "$(dirname "$0")" && pwd)
python=$("$here/../tools/venv" "$1" numpy safetensors tensorboard) || exit $?
directory=$(mktemp -d ./public-XXXXXX) || exit 2
trap 'rm -rf "$directory"' EXIT
"$2" write "$directory" || exit 1
"$python" "$here/public_readers.py" "$directory" || exit 1
"$2" read "$directory/foreign.safetensors"
