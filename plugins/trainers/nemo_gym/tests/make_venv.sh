#!/usr/bin/env bash
# Builds the environment in which the real NeMo Gym is tested: make_venv.sh VENV_DIR. About 950 MB; no torch.
# NeMo Gym needs Python >= 3.12: `PYTHON` names one, or it is looked for. Of mlflow there is the
# small distribution, which has all that NeMo Gym imports.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
root="$(cd "$here/../../../.." && pwd)"
venv="${1:?usage: make_venv.sh VENV_DIR}"

fits() { "$1" -c 'import sys; raise SystemExit(sys.version_info < (3, 12))' 2>/dev/null; }
python=""
for one in ${PYTHON:+"$PYTHON"} python3.12 python3.13 python3 "$HOME"/.pyenv/versions/3.1[2-9]*/bin/python; do
  if command -v "$one" >/dev/null && fits "$one"; then python="$one"; break; fi
done
[ -n "$python" ] || { echo "error: NeMo Gym needs Python 3.12 or later; name one with PYTHON=" >&2; exit 69; }

"$python" -m venv "$venv"
pip() { "$venv/bin/python" -m pip --quiet --disable-pip-version-check "$@"; }
pip install --upgrade "pip>=24"
pip install -c "$here/constraints.txt" --no-deps nemo-gym
pip install -c "$here/constraints.txt" aiohttp anthropic datasets devtools fastapi GitPython gprof2dot httpx hydra-core \
  itsdangerous mcp omegaconf openai orjson pandas psutil pydantic pydot python-multipart "ray[default]" rich tenacity \
  mlflow-skinny tqdm uvicorn uvloop wandb yappi
pip install -e "$root/core[server]" -e "$root/plugins/sandboxes/process" -e "$root/plugins/trainers/nemo_gym[server]"
if "$venv/bin/python" -c "import torch" 2>/dev/null; then
  echo "torch came along, which the tests do not expect" >&2
  exit 1
fi
