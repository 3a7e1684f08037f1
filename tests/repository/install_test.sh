#!/usr/bin/env bash
# An installed Troupe is found by find_package, and what it installs is enough to build and run against.
set -euo pipefail
build=$1
consumer=$(cd "$(dirname "${BASH_SOURCE[0]}")/../consumer" && pwd -P)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
passed=0
finish() {
  echo "$1"
  echo "$passed passed, $2 failed"
  exit "$2"
}

cmake --install "$build" --prefix "$scratch/prefix" >"$scratch/log" 2>&1 || finish "$(cat "$scratch/log")" 1
passed=1

if grep -rlE '#include <(caf|dnnl|cblas|nlohmann|toml|zlib|xxhash|capnp|kj|wire)' \
  "$scratch/prefix/include/troupe/kernels" "$scratch/prefix/include/troupe/ps"; then
  finish 'These installed headers name a library that is not part of the interface.' 1
fi
passed=2

# A sanitized or measured library needs its runtime at the consumer's link.
flags=$(sed -n 's/^TROUPE_SANITIZE:STRING=\(..*\)/-fsanitize=\1/p; s/^TROUPE_COVERAGE:BOOL=ON/--coverage/p' \
  "$build/CMakeCache.txt")
{
  cmake -S "$consumer" -B "$scratch/consumer" -G Ninja -DCMAKE_PREFIX_PATH="$scratch/prefix" \
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS="$flags" &&
    cmake --build "$scratch/consumer" && ctest --test-dir "$scratch/consumer" --output-on-failure
} >"$scratch/log" 2>&1 || finish "$(cat "$scratch/log")" 1
passed=3
finish 'installed, found, built and run' 0
