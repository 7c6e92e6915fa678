#!/usr/bin/env bash
# Builds the environment in which the real verifiers is tested: make_venv.sh VENV_DIR. No torch is needed; about 360 MB.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(cd "$here/../../../.." && pwd)"
venv="${1:?make_venv.sh VENV_DIR}"

"${PYTHON:-python3}" -m venv "$venv"
python="$venv/bin/python"
"$python" -m pip install --quiet --disable-pip-version-check \
  "verifiers==0.4.0" "renderers==0.1.12" "mcp==2.0.0" \
  -e "$root/core" -e "$root/plugins/trainers/verifiers"
if "$python" -c "import torch" 2>/dev/null; then
  echo "torch came along, which the tests do not expect" >&2
  exit 1
fi
