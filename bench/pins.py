"""Rewrites the pins in the root pyproject.toml with the newest versions that resolve together: ``make pins``."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"^constraint-dependencies = \[\n.*?^\]\n", re.MULTILINE | re.DOTALL)
EXPORT = "export -q --all-packages --all-groups --no-hashes --no-emit-workspace --no-header --no-annotate"


def main(uv: str) -> None:
    file = ROOT / "pyproject.toml"
    text = file.read_text()
    file.write_text(BLOCK.sub("constraint-dependencies = []\n", text))
    try:
        subprocess.run([uv, "lock", "--upgrade", "--quiet"], check=True, cwd=ROOT)
        out = subprocess.run([uv, *EXPORT.split()], check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True).stdout
    except BaseException as error:
        file.write_text(text)
        if isinstance(error, subprocess.CalledProcessError):
            sys.exit("error: no versions resolve together, as uv says above; pyproject.toml is as it was")
        raise
    pins = [line for line in out.splitlines() if "==" in line and not line.startswith("-")]
    quoted = "".join(f"  '{pin}',\n" if '"' in pin else f'  "{pin}",\n' for pin in pins)
    file.write_text(BLOCK.sub(lambda _: f"constraint-dependencies = [\n{quoted}]\n", text))


if __name__ == "__main__":
    main(sys.argv[1])
