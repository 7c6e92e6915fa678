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
lacking() { echo "error: $1: put the wheel of a CPU build of torch 2.13.0 where pip finds it" >&2; exit 69; }
pip install --no-deps "torch==2.13.0" || lacking "pip finds no torch"
build="$("$venv/bin/python" -c 'from importlib.metadata import version; print(version("torch"))')"
[ "${build#*+}" = cpu ] || lacking "pip found torch $build, which is no CPU build"
# The last five are what verl imports without declaring it outside of its extras.
pip install -c "$here/constraints.txt" torch verl cachetools uvicorn fastapi TransferQueue msgspec
pip install -e "$root/core[server,testing]" -e "$root/plugins/sandboxes/process" -e "$root/plugins/rewards/basic" \
  -e "$root/plugins/parsers/qwen"
pip install --no-deps -e "$root/plugins/trainers/verl"
