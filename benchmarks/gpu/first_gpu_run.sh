#!/usr/bin/env bash
# Everything that a machine with a GPU can say of this project and no other can, by one command in a checkout:
#
#     benchmarks/gpu/first_gpu_run.sh [FOLDER [STEP...]]   # FOLDER (default gpu_run): logs
#
# Steps (default all): install tests memcheck racecheck synccheck initcheck throughput packets search_walk counts batches.
# Needs nvcc on the path and Python 3.10. It goes on where a step fails, and says at its end which did. Without the step
# install, the Python on the path must have topoflow[test], as on a machine where pip reaches no index.
# LIMIT=SECONDS ends each step after that time, which counts as a failure.
set -uo pipefail
cd "$(dirname "$0")/../.."
out=$(mkdir -p "${1:-gpu_run}" && cd "${1:-gpu_run}" && pwd)
shift $(($# > 0))
steps=" ${*:-install tests memcheck racecheck synccheck initcheck throughput packets search_walk counts batches} "
failed=()

asked() { [[ $steps == *" $1 "* ]]; }

step() { # NAME COMMAND...: its output goes to FOLDER/NAME.log
  local name=$1
  shift
  printf '=== %s (%s)\n' "$name" "$(date +%T)"
  timeout "${LIMIT:-0}" "$@" > "$out/$name.log" 2>&1 || failed+=("$name")
  tail -n 3 "$out/$name.log"
}

nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm --format=csv > "$out/gpu.csv" || exit 1
git rev-parse HEAD > "$out/commit" 2> /dev/null || echo unknown > "$out/commit"
if asked install; then
  python3 -m venv "$out/env" && . "$out/env/bin/activate"
  step install pip install --quiet '.[test]'
fi
python3 -c 'from topoflow import _C; import torch; assert _C.has_cuda and torch.cuda.is_available()' || exit 1

asked tests && step tests python3 -m pytest -m "slow or not slow" -k "cuda or gpu" tests/engine tests/search
sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
for tool in memcheck racecheck synccheck initcheck; do
  # A few small tests: a sanitizer takes 10 to 1,000 times as long.
  asked $tool && step "$tool" "$sanitizer" --tool "$tool" --error-exitcode 1 --target-processes all \
    python3 -m pytest -n 0 tests/engine/test_fluid_limits.py tests/engine/test_bound.py tests/engine/test_sweep.py \
    tests/engine/test_packet_laws.py tests/search/test_tempering.py -k cuda
done
asked throughput && step throughput python3 benchmarks/throughput.py cases=gpu
asked packets && step packets python3 benchmarks/packet.py cases=ring,leaf_spine device=cuda worlds=4224
if asked search_walk; then
  for ladders in 1 128 1024 4096; do
    step "search_walk_$ladders" python3 benchmarks/search/search_walk.py device=cuda ladders=$ladders steps=32
  done
fi
asked counts && step counts python3 benchmarks/gpu/gpu_counts.py
asked batches && step batches python3 benchmarks/gpu/gpu_batches.py

if [ "${#failed[@]}" -gt 0 ]; then
  echo "failed: ${failed[*]}; see $out"
  exit 1
fi
echo "all passed; see $out"
