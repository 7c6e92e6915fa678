#!/usr/bin/env bash
# Builds the virtual environment in which the tests play the real TRL: make_venv.sh VENV_DIR
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
root="$(cd "$here/../../../.." && pwd)"
venv="${1:?usage: make_venv.sh VENV_DIR}"

"$root/.ci/torch-venv" "$venv"
pip() { "$venv/bin/python" -m pip --quiet --disable-pip-version-check "$@"; }
pip install -c "$here/constraints.txt" torch trl transformers accelerate datasets tokenizers jmespath
# matplotlib draws the learning curve of the documentation.
pip install -c "$here/constraints.txt" matplotlib
# The contract of the async trainer's sessions.
pip install -c "$here/constraints.txt" openenv
pip install -e "$root/core[server,testing]" -e "$root/plugins/sandboxes/process" -e "$root/plugins/rewards/basic" \
  -e "$root/plugins/trainers/trl"
