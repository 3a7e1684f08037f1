#!/usr/bin/env bash
# Runs the tests and benchmarks of a GPU bundle (tools/gpu_bundle) and prints one table, which is also kept in
# results-HOST-DATE.txt beside this script. Needs an NVIDIA driver for CUDA 13 (580 or newer). Exit code 1 where a test
# failed.
set -u
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd -P)
results=$here/results-$(hostname)-$(date -u +%Y%m%dT%H%M%SZ).txt
failed=0

start() {
  local program=$1
  shift
  "$here/lib/ld-linux-x86-64.so.2" --library-path "$here/lib" "$here/bin/$program" "$@"
}

section() { printf '\n== %s\n' "$*"; }

# One training run on synthetic data; prints its last lines.
train() {
  echo "$1:"
  start troupe train "$here/config.toml" --set parallel.device="$1" 2>&1 | tail -n 3
}

measure() {
  printf 'Troupe on %s, %s\n' "$(hostname)" "$(date -u '+%Y-%m-%d %H:%M UTC')"
  nvidia-smi --query-gpu=index,name,memory.total,driver_version --format=csv,noheader 2>&1
  for tests in test_kernels test_actors; do
    section "tests that need a GPU ($tests)"
    start "$tests" --run_test=@gpu --log_level=test_suite --report_level=no --color_output=no 2>&1 |
      grep -v '^Entering\|^Leaving\|; testing time' | tail -n 60
    if ((PIPESTATUS[0] != 0)); then return 1; fi
  done
  for precision in f32 tf32; do
    section "matrix products ($precision)"
    start troupe bench gemm --device cuda --matmul "$precision" 2>&1
  done
  section 'ops'
  start troupe bench ops --device cuda 2>&1
  section 'copies'
  start troupe bench h2d --device cuda 2>&1
  section 'all-reduce'
  start troupe bench all-reduce --device cuda 2>&1
  section 'training, CPU and then GPU'
  train cpu
  train cuda
}

cd "$here" || exit 1
measure | tee "$results"
if ((PIPESTATUS[0] != 0)); then failed=1; fi
echo "kept in $results"
exit "$failed"
