#!/usr/bin/env bash
# Builds the environment in which the real verifiers is tested: make_venv.sh VENV_DIR. No torch is needed; about 360 MB.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
root="$(cd "$here/../../../.." && pwd)"
venv="${1:?usage: make_venv.sh VENV_DIR}"
python="${PYTHON:-python3.11}"

"$python" -m venv "$venv"
pip() { "$venv/bin/python" -m pip --quiet --disable-pip-version-check "$@"; }
pip install --upgrade "pip>=24"
pip install -c "$here/constraints.txt" verifiers renderers mcp
pip install -e "$root/core" -e "$root/plugins/trainers/verifiers"
if "$venv/bin/python" -c "import torch" 2>/dev/null; then
  echo "torch came along, which the tests do not expect" >&2
  exit 1
fi
