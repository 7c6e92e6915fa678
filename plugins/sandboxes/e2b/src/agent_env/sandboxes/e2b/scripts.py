"""Shell scripts that run in a sandbox. The service runs commands with ``bash -l -c``."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from agent_env.sandboxes.e2b.dockerfile import INSIDE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SERVER = "/tmp/agentenv-server"
"""Folder inside with the server's output and exit code."""
MARK = "AGENTENV_EXEC"
END = "\x1e"
"""Stands around the end marks in a command's output."""

_PRELUDE = f"if [ -r {INSIDE}/env.sh ]; then . {INSIDE}/env.sh; fi"


def _exports(env: Mapping[str, str]) -> list[str]:
    return [f"export {name}={shlex.quote(value)}" for name, value in env.items()]


def command(argv: Sequence[str], *, cwd: str, env: Mapping[str, str], nonce: str, stdin: str | None) -> str:
    """Run ``argv`` and write an end mark behind each of its outputs.

    The marks tell that it has ended, and how, even when a child that it left behind keeps its outputs open.

    Args:
        argv: the command.
        cwd: where, absolute or ``""``.
        env: further variables.
        nonce: marks its processes, in their environment, and its end.
        stdin: path of a file to read from, removed as soon as it is open; `None` = nothing to read.
    """
    lines = [_PRELUDE, *_exports(env), f"export {MARK}={nonce}"]
    if stdin is None:
        lines.append("exec 4</dev/null")
    else:
        lines.append(f"exec 4<{shlex.quote(stdin)}; rm -f {shlex.quote(stdin)}")
    run = f"env {shlex.join(argv)}"
    if cwd:
        place = shlex.quote(cwd)
        run = f"if cd {place} 2>&3; then {run} <&4 2>&3 3>&- 4>&-; else (exit 126); fi"
    else:
        run = f"{run} <&4 2>&3 3>&- 4>&-"
    # The shell's own words about signals ("Killed") are not the command's.
    lines += [
        f"{{ {run}; }} 3>&2 2>/dev/null",
        "c=$?",
        f"printf '\\036%s\\036' {nonce} >&2",
        f"printf '\\036%s:%s\\036' {nonce} \"$c\"",
        "exit $c",
    ]
    return "\n".join(lines)


def kill(nonce: str) -> str:
    """End all processes that carry the mark, also those that are born meanwhile."""
    return "\n".join(
        [
            "for round in 1 2 3 4 5 6; do",
            "  again=",
            "  for file in /proc/[0-9]*/environ; do",
            f'    if grep -aq {MARK}={nonce} "$file" 2>/dev/null; then',
            "      pid=${file#/proc/}; pid=${pid%/environ}",
            '      [ "$pid" = $$ ] || kill -9 "$pid" 2>/dev/null && again=1',
            "    fi",
            "  done",
            '  [ -n "$again" ] || exit 0',
            "done",
            "exit 0",
        ]
    )


def server(argv: Sequence[str], *, cwd: str) -> str:
    """Start the server and return; it belongs to nobody's connection."""
    place = f"cd {shlex.quote(cwd)} || exit 126" if cwd else ":"
    supervise = (
        'd=$1; shift; env "$@" >>"$d/log" 2>&1 </dev/null; c=$?; '
        'printf %s "$c" >"$d/exit.new"; mv "$d/exit.new" "$d/exit"'
    )
    return "\n".join(
        [
            _PRELUDE,
            f"d={SERVER}; mkdir -p $d && : >$d/log && rm -f $d/exit || exit 125",
            place,
            "s=; command -v setsid >/dev/null 2>&1 && s=setsid",
            f"$s bash -c {shlex.quote(supervise)} agentenv $d {shlex.join(argv)} >/dev/null 2>&1 </dev/null &",
        ]
    )


def server_state(tail: int) -> str:
    """The server's exit code, when it has ended, on one line; then the end of its output."""
    return f"d={SERVER}; cat $d/exit 2>/dev/null; echo; tail -c {tail} $d/log 2>/dev/null; exit 0"


def unpack(archive: str, target: str, *, folder: bool) -> str:
    """Unpack an archive that was written to ``archive``."""
    where = shlex.quote(target if folder else target.rpartition("/")[0] or "/")
    file = shlex.quote(archive)
    return f"mkdir -p {where} && tar -x -p -f {file} -C {where}; c=$?; rm -f {file}; exit $c"


def pack(source: str, archive: str) -> str:
    """Pack a file or a folder's content; says which it was."""
    path, file = shlex.quote(source), shlex.quote(archive)
    return "\n".join(
        [
            f"if [ -d {path} ]; then echo folder; tar -c -f {file} -C {path} .; exit $?; fi",
            f"if [ ! -e {path} ]; then echo missing; exit 0; fi",
            f'echo file; tar -c -h -f {file} -C "$(dirname {path})" "$(basename {path})"',
        ]
    )
