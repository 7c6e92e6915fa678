#!/bin/sh
# A Python that can import Miles on a machine without a GPU: `make_venv.sh FOLDER`, then
# MILES_SRC=<checkout of Miles> MILES_PYTHON=FOLDER/bin/python pytest tests/interop/miles
# SGLang is installed without what it depends on: most of it needs a GPU, and the session server uses none of it.
set -eu
python3 -m venv "$1"
"$1/bin/pip" install -q "torch==2.13.0" "transformers==5.12.1" aiohttp cloudpickle einops fastapi h11 httpx interegular \
  ipython msgspec numpy omegaconf openai openai-harmony orjson packaging partial-json-parser pillow pluggy \
  prometheus-client psutil pybase64 pydantic pylatexenc python-multipart pyyaml pyzmq ray regex requests safetensors \
  setproctitle tqdm triton uvicorn websockets
"$1/bin/pip" install -q --no-deps "sglang==0.5.16"
