# Sourced by .ci/run and unlocked.sh.

# the first Python of a version on PATH or of pyenv that runs and can make an environment:
# a file on PATH may be pyenv's, which refuses versions that are not chosen
interpreter() {
  local python
  for python in $(type -aP "python$1") "$(pyenv prefix "$1" 2>/dev/null)/bin/python$1"; do
    if "$python" -c 'import ensurepip, venv' 2>/dev/null; then
      echo "$python"
      return
    fi
  done
  return 1
}
