#!/usr/bin/env bash
# Builds the virtual environment in which the tests play the real agent loop of verl: make_venv.sh VENV_DIR
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
root="$(cd "$here/../../../.." && pwd)"
venv="${1:?usage: make_venv.sh VENV_DIR}"
python="${PYTHON:-python3.11}"

"$python" -m venv "$venv"
pip() { "$venv/bin/python" -m pip --quiet --disable-pip-version-check "$@"; }
pip install --upgrade "pip>=24"

# A build of torch for graphics cards brings gigabytes of libraries that nothing here uses: take none.
pip install --no-deps "torch==2.13.0"
"$venv/bin/python" - <<'PY'
from importlib.metadata import version
local = version("torch").partition("+")[2]
if local != "cpu":
    raise SystemExit(f"pip found torch {version('torch')}, which is no CPU build: put the wheel of a CPU build where pip finds it")
PY
# The last five are what verl imports without declaring it outside of its extras.
pip install -c "$here/constraints.txt" torch verl cachetools uvicorn fastapi TransferQueue msgspec
pip install -e "$root/core[server,testing]" -e "$root/plugins/sandboxes/process" -e "$root/plugins/rewards/basic" \
  -e "$root/plugins/parsers/qwen"
pip install --no-deps -e "$root/plugins/trainers/verl"
