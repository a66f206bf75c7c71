#!/usr/bin/env bash
# nooch with the packages that its users get, not those of requirements.lock:
#
#   scripts/unlocked.sh newest|lowest core|tests|EXTRA [PYTHON VERSION]...
#
# newest is what pip installs today, lowest are the lower bounds of pyproject.toml. They are in
# .venv-SET-VERSION, for each Python that this machine has, or those named. core, and an EXTRA
# alone, run the main commands on small files; tests runs the fast tests. The newest core is not
# installed but run by its name, with pipx and uvx, from an empty home and a folder of wheels in
# place of the index; WHEEL=FILE is nooch's. Exit code 75: what failed is not nooch's to fix (an
# index, a network, code of another package).
set -uo pipefail
cd "$(dirname "$0")/.."
. scripts/pythons.sh
set=$1 what=$2
shift 2
TESTED='[gist,train,onnx,pixels,ray,slurm,remote,excel,pandas,lightning,hf]'
# the locked torch: pip finds its CPU build, and the newest would be gigabytes
torch=$(grep '^torch==' requirements.lock)
export PIP_QUIET=2 PIP_DISABLE_PIP_VERSION_CHECK=1 UV_LINK_MODE=copy

install() { # THE ENVIRONMENT'S PYTHON
  local nooch=(".[$what]") lowest=(--resolution lowest-direct)
  case $what in
    # no bound has to be compiled
    core) nooch=(.) lowest+=(--only-binary :all: --no-binary nooch) ;;
    tests) nooch=(".$TESTED" "$torch") && "$1" -m pip install "$torch" || return ;;
  esac
  "$1" -m pip install uv || return
  case "$set $what" in
    "newest core") "$1" -m pip install pipx &&
      "$1" -m pip wheel --wheel-dir "${1%/bin/*}/wheels" "${WHEEL:-.}" ;;
    newest*) "$1" -m pip install "${nooch[@]}" ;;
    lowest*) "$1" -m uv pip install --quiet --python "$1" "${lowest[@]}" "${nooch[@]}" ;;
  esac || return
  [ "$what" != tests ] || "$1" -m uv pip install --quiet --python "$1" --group dev
}

by_name() { # ENVIRONMENT
  local home=$PWD/$1
  export HOME=$home/home PATH=$home/bin:$PATH UV_NO_INDEX=1 UV_FIND_LINKS=$home/wheels
  pipx run --backend uv --python "$home/bin/python" --spec nooch nooch --version &&
    python scripts/main_commands.py newest core uvx --python "$home/bin/python" nooch
}

try() { # INTERPRETER, ENVIRONMENT
  rm -rf "$2"
  "$1" -m venv "$2" && install "$2/bin/python" || return 75
  case "$set $what" in
    "newest core") (by_name "$2") ;;
    *tests) "$2/bin/python" -m pytest -n "${WORKERS:-auto}" --dist worksteal -W default \
      -m "not slow" --hypothesis-profile=fast ;;
    *) "$2/bin/python" scripts/main_commands.py "$set" "$what" ;;
  esac
}

worst=0
for version in ${@:-3.11 3.12 3.13}; do
  if ! python=$(interpreter "$version"); then
    echo "Python $version: not tested, since this machine lacks it"
    continue
  fi
  try "$python" ".venv-$set-$version" && code=0 || code=$?
  case $code in
    0) echo "Python $version, $set $what: passes" ;;
    75) echo "warning: Python $version, $set $what: fails outside of nooch" ;;
    *) echo "Python $version, $set $what: fails" && code=1 ;;
  esac
  [ $code -eq 0 ] || [ $worst -eq 1 ] || worst=$code
done
exit $worst
