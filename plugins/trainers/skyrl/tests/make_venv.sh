#!/usr/bin/env bash
# Builds the virtual environment in which the tests play the real SkyRL generator: make_venv.sh VENV_DIR
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
root="$(cd "$here/../../../.." && pwd)"
venv="${1:?usage: make_venv.sh VENV_DIR}"

"$root/.ci/torch-venv" "$venv"
pip() { "$venv/bin/python" -m pip --quiet --disable-pip-version-check "$@"; }
# SkyRL's own dependencies hold an inference engine for graphics cards; the generator needs only these.
pip install --no-deps -c "$here/constraints.txt" skyrl skyrl-gym
pip install -c "$here/constraints.txt" torch transformers tokenizers ray loguru jaxtyping func_timeout omegaconf tqdm pandas requests aiohttp datasets torchdata
pip install -e "$root/core[server,testing]" -e "$root/plugins/sandboxes/process" -e "$root/plugins/rewards/basic" \
  -e "$root/plugins/parsers/qwen" -e "$root/plugins/trainers/miles" -e "$root/plugins/trainers/skyrl"
