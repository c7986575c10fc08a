#!/bin/sh
# build.sh FOLDER [cmake -D options]: configures and builds the clone into FOLDER.
# One build of a folder at a time: `make run` beside `make test` waits instead of colliding.
set -eu
cd "$(dirname "$0")/../.."
folder=$1
shift
mkdir -p "$folder"

exec 9>"$folder/.build-lock"
flock 9

# A clone that was moved or copied brings a cache that speaks of its old place.
fresh=
cache="$folder/CMakeCache.txt"
if [ -f "$cache" ] && ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$(pwd -P)" "$cache"; then
    fresh=--fresh
fi
launcher=
if command -v ccache >/dev/null; then
    launcher=-DCMAKE_C_COMPILER_LAUNCHER=ccache
fi

# The log speaks only if it failed; ninja prints its own errors.
if ! cmake $fresh -S . -B "$folder" -G Ninja $launcher "$@" >"$folder/configure.log" 2>&1; then
    cat "$folder/configure.log" >&2
    exit 1
fi
exec cmake --build "$folder" # descriptor 9, and with it the lock, lives as long as the build
