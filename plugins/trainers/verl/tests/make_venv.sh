#!/usr/bin/env bash
# Builds the virtual environment in which the tests play the real agent loop of verl: make_venv.sh VENV_DIR
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
root="$(cd "$here/../../../.." && pwd)"
venv="${1:?usage: make_venv.sh VENV_DIR}"

"$root/.ci/torch-venv" "$venv"
pip() { "$venv/bin/python" -m pip --quiet --disable-pip-version-check "$@"; }
# The last five are what verl imports without declaring it outside of its extras.
pip install -c "$here/constraints.txt" torch verl cachetools uvicorn fastapi TransferQueue msgspec
pip install -e "$root/core[server,testing]" -e "$root/plugins/sandboxes/process" -e "$root/plugins/rewards/basic" \
  -e "$root/plugins/parsers/qwen"
pip install --no-deps -e "$root/plugins/trainers/verl"
