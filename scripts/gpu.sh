#!/usr/bin/env bash
# The checks and the figures of a GPU in one call of 10 minutes, on a machine with torch and without
# a registry: scripts/gpu.sh OUT [WHEELS] (docs/gpu.md says which wheels). OUT gets checks.txt,
# speed.md and speed.json; PYTHON is the interpreter, and GPU_ARGS go to benchmarks/gpu.py.
set -uo pipefail
cd "$(dirname "$0")/.."

out=$(realpath -m "${1:?a folder for the results}") python=${PYTHON:-python3}
mkdir -p "$out"
if [ $# -gt 1 ]; then
  "$python" -m pip install --quiet --no-index --no-deps --target "$out/.site" "$2"/*.whl || exit 1
  export PYTHONPATH=$out/.site
fi
timeout 290 make gpu-check PYTHON="$python" >"$out/checks.txt" 2>&1
checks=$?
PYTHONPATH=src:${PYTHONPATH:-} timeout 290 "$python" benchmarks/gpu.py ${GPU_ARGS:-} \
  --json "$out/speed.json" >"$out/speed.md" 2>"$out/speed.log"
speed=$?
tail -n 3 "$out/checks.txt"
cat "$out/speed.md"
echo "checks: $checks, figures: $speed"
exit $((checks || speed))
