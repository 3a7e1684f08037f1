#!/usr/bin/env bash
# Runs the tests and benchmarks of a GPU bundle (tools/gpu_bundle) and prints one table, which is also kept in
# results-HOST-DATE.txt beside this script; the last part of it says which targets were met. Needs an NVIDIA driver for
# CUDA 13 (580 or newer). Everything is run, whatever fails before it, and no part may take longer than ten minutes.
# Exit code 1 where a test failed or a part did not end well.
set -u
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd -P)
results=$here/results-$(uname -n)-$(date -u +%Y%m%dT%H%M%SZ).txt
failed=0

start() {
  local program=$1
  shift
  timeout --kill-after=10 600 "$here/lib/ld-linux-x86-64.so.2" --library-path "$here/lib" "$here/bin/$program" "$@"
}

section() { printf '\n== %s\n' "$*"; }

# Says so, and goes on.
note_failure() {
  failed=1
  echo "FAILED: $1 (exit code $2)"
}

run() {
  start "$@" 2>&1 || note_failure "$*" $?
}

tests() {
  local output code
  output=$(start "$1" --run_test=@gpu --log_level=test_suite --report_level=no --color_output=no 2>&1)
  code=$?
  grep -v '^Entering\|^Leaving\|; testing time' <<<"$output" | tail -n 60
  if ((code != 0)); then note_failure "$1" "$code"; fi
}

# One training run on synthetic data; prints its last lines.
train() {
  local output code
  echo "$1:"
  output=$(start troupe train "$here/config.toml" --set parallel.device="$1" 2>&1)
  code=$?
  tail -n 3 <<<"$output"
  if ((code != 0)); then note_failure "train $1" "$code"; fi
}

# Troupe's steps beside those of eager PyTorch, which is the machine's own where it has one with CUDA.
steps() {
  local model speed
  for model in mlp cnn gpt; do
    if speed=$(timeout 600 python3 "$here/torch_step.py" "$model" 2>&1); then
      echo "PyTorch, $model: $speed samples/s"
      run troupe bench step --device cuda --model "$model" --against "$speed"
    else
      echo "PyTorch, $model: not measured: $(tail -n 1 <<<"$speed")"
      run troupe bench step --device cuda --model "$model"
    fi
    run troupe bench step --device cuda --model "$model" --graphs
  done
}

measure() {
  local alone program
  printf 'Troupe on %s, %s\n' "$(uname -n)" "$(date -u '+%Y-%m-%d %H:%M UTC')"
  nvidia-smi --query-gpu=index,name,memory.total,driver_version --format=csv,noheader 2>&1
  for program in test_kernels test_actors; do
    section "tests that need a GPU ($program)"
    tests "$program"
  done
  section 'matrix products (cuBLAS alone first)'
  if alone=$(start cublas_alone 2>&1); then
    echo "cuBLAS alone, bf16, 4096: $alone operations/s"
    run troupe bench gemm --device cuda --alone "$alone"
  else
    note_failure "cublas_alone: $alone" 1
    run troupe bench gemm --device cuda
  fi
  section 'matrix products (tf32)'
  run troupe bench gemm --device cuda --matmul tf32
  section 'ops'
  run troupe bench ops --device cuda
  section 'copies'
  run troupe bench h2d --device cuda
  section 'all-reduce'
  run troupe bench all-reduce --device cuda
  section 'steps'
  steps
  section 'training, CPU and then GPU'
  train cpu
  train cuda
  return "$failed"
}

cd "$here" || exit 1
measure | tee "$results"
failed=${PIPESTATUS[0]}
{
  printf '\n== targets\n'
  grep -E 'target at (least|most) .*: (met|missed)$|^PyTorch.*not measured' "$results" || echo 'none was measured'
  grep '^FAILED' "$results"
} | tee -a "$results"
echo "kept in $results"
exit "$((failed != 0))"
