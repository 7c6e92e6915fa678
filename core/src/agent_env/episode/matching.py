"""Regular expressions of a bundle over a model's text, without letting one of them stop the server.

Python's matcher holds the interpreter while it backtracks, so that a thread would not help. What can be seen to be
quick is matched here; the rest in a child process with a deadline.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import sys

from agent_env.errors import CodeError

_QUICK_STEPS = 20_000_000
_QUANTIFIER = re.compile(r"(?<!\\)(?:\\\\)*[*+?{]")
_REPEATED_GROUP = re.compile(r"\)[*+{]")
_CHILD = """
import json, re, sys
pattern, flags, text = json.load(sys.stdin)
print(int(re.search(pattern, text, flags) is not None))
"""


async def found(pattern: re.Pattern[str], text: str, timeout: float) -> bool:
    """Whether the pattern is found in the text.

    Raises:
        CodeError: it took longer than ``timeout`` seconds.
    """
    if _is_quick(pattern.pattern, len(text)):
        return pattern.search(text) is not None
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        "-S",
        "-c",
        _CHILD,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(timeout):
            answer, _ = await child.communicate(json.dumps([pattern.pattern, int(pattern.flags), text]).encode())
    except TimeoutError:
        raise CodeError(f"the pattern {pattern.pattern!r} was not done after {timeout:g} s") from None
    finally:
        if child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            await child.wait()
    if child.returncode != 0:
        raise CodeError(f"matching {pattern.pattern!r} ended with exit code {child.returncode}")
    return answer.decode().strip() == "1"


def _is_quick(pattern: str, length: int) -> bool:
    """Whether the worst case, one power of the length for each quantifier, is small. Repeated groups may be worse."""
    quantifiers = len(_QUANTIFIER.findall(pattern))
    if quantifiers == 0:
        return True
    if _REPEATED_GROUP.search(pattern):
        return False
    return bool((length + 1) ** (quantifiers + 1) <= _QUICK_STEPS)
