"""Shell scripts that run in a sandbox.

Daytona's own command call has one output, no input and a short life. So a command's script is uploaded with its
input, started in a session of its own, and asked how it is doing; its output is kept in files. The scripts need
``sh`` and the small tools that every image has (``setsid``, ``mkfifo``, ``cat``, ``tail``, ``wc``, ``grep``).
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FOLDER = "/tmp/.agentenv"
SERVER = f"{FOLDER}/server"
MARK = "AGENTENV_EXEC"
INLINE = 128 * 1024
"""Bytes of output up to which it comes with the answer; more is downloaded."""

_NAP = """nap() {{ sleep "$1" 2>/dev/null || sleep 1; }}"""

# `head -c` would hold back what it has read; `cat` does not, and the limit of its file ends it.
_KEEP = """keep() {{ ( trap '' XFSZ; ulimit -f {blocks}; cat >"$1" ) 2>/dev/null; }}"""

_COMMAND = """\
d={folder}
{nap}
{keep}
case $1 in
start)
  if mkdir "$d/started" 2>/dev/null; then
    {mark}={id} setsid sh "$0" main </dev/null >/dev/null 2>&1 &
  fi
  exec sh "$0" wait "$2"
  ;;
main)
  echo $$ >"$d/pid"
  mkfifo "$d/o" "$d/e"
  {{ keep "$d/out"; cat >/dev/null; : >"$d/od"; }} <"$d/o" &
  {{ keep "$d/err"; cat >/dev/null; : >"$d/ed"; }} <"$d/e" &
  ( cd {cwd} || exit 126; exec {argv} ) <{stdin} >"$d/o" 2>"$d/e"
  c=$?
  n=0
  while [ $n -lt 20 ]; do
    [ -e "$d/od" ] && [ -e "$d/ed" ] && break
    nap 0.02
    n=$((n+1))
  done
  echo $c >"$d/code.new"
  mv "$d/code.new" "$d/code"
  ;;
wait)
  n=0
  while [ ! -e "$d/code" ]; do
    [ -d "$d" ] || {{ echo "{nonce} lost"; exit 0; }}
    [ $n -ge "$2" ] && {{ echo "{nonce} running"; exit 0; }}
    n=$((n+1))
    if [ $n -lt 25 ]; then nap 0.02; else nap 0.1; fi
  done
  a=$(wc -c <"$d/out") b=$(wc -c <"$d/err")
  echo "{nonce} ended $(cat "$d/code")" $a $b
  if [ $a -le {inline} ] && [ $b -le {inline} ]; then
    cat "$d/out"; echo; echo "{nonce}"; cat "$d/err"; echo; echo "{nonce}"
  fi
  ;;
kill)
  [ -e "$d/pid" ] && kill -9 -"$(cat "$d/pid")" 2>/dev/null
  for p in /proc/[0-9]*; do
    if grep -q "{mark}={id}" "$p/environ" 2>/dev/null; then kill -9 "${{p#/proc/}}" 2>/dev/null; fi
  done
  rm -rf "$d"
  ;;
end)
  rm -rf "$d"
  ;;
esac
"""

_SERVER = """\
d={folder}
{nap}
case $1 in
start)
  if mkdir "$d/started" 2>/dev/null; then
    setsid sh "$0" main </dev/null >/dev/null 2>&1 &
  fi
  exec sh "$0" wait "$2"
  ;;
main)
  mkdir -p {cwd} 2>/dev/null
  ( cd {cwd} || exit 126; exec {argv} ) </dev/null >"$d/log" 2>&1
  echo $? >"$d/exit.new"
  mv "$d/exit.new" "$d/exit"
  ;;
wait)
  n=0
  while :; do
    if [ -e "$d/exit" ]; then echo "{nonce} exited $(cat "$d/exit")"; tail -c 4096 "$d/log"; exit 0; fi
    if [ ! -r /proc/net/tcp ]; then echo "{nonce} blind"; exit 0; fi
    if grep -q ':{port:04X} 0*:0000 0A ' /proc/net/tcp /proc/net/tcp6 2>/dev/null; then
      echo "{nonce} listening"; exit 0
    fi
    [ $n -ge "$2" ] && {{ echo "{nonce} waiting"; tail -c 4096 "$d/log" 2>/dev/null; exit 0; }}
    n=$((n+1))
    if [ $n -lt 25 ]; then nap 0.02; else nap 0.1; fi
  done
  ;;
state)
  if [ -e "$d/exit" ]; then echo "{nonce} exited $(cat "$d/exit")"; else echo "{nonce} running"; fi
  ;;
esac
"""


def rounds(seconds: float) -> int:
    """How often a script looks before it answers that there is nothing new after about ``seconds``."""
    return max(1, int(seconds / 0.02)) if seconds < 0.5 else 25 + int((seconds - 0.5) / 0.1)


def command(
    exec_id: str,
    argv: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str],
    stdin: bool,
    max_output: int,
) -> str:
    """The script of one command; ``exec_id`` is also what marks its answers.

    Args:
        exec_id: letters and digits, never used before.
        argv: what to run.
        cwd: where; ``""`` = where the sandbox's commands start.
        env: further variables.
        stdin: whether its input was uploaded.
        max_output: most bytes of either output.
    """
    folder = f"{FOLDER}/{exec_id}"
    pairs = [f"{name}={value}" for name, value in env.items()]
    words = ["env", *pairs, *argv] if pairs else list(argv)
    return _COMMAND.format(
        folder=folder,
        nap=_NAP.format(),
        mark=MARK,
        id=exec_id,
        nonce=exec_id,
        keep=_KEEP.format(blocks=max_output // 512 + 1),
        inline=INLINE,
        cwd=shlex.quote(cwd or "."),
        argv=shlex.join(words),
        stdin=f'"{folder}/in"' if stdin else "/dev/null",
    )


def server(nonce: str, argv: Sequence[str], *, cwd: str, port: int) -> str:
    """The script that starts a sandbox's server and says how it is doing."""
    return _SERVER.format(
        folder=SERVER,
        nap=_NAP.format(),
        nonce=nonce,
        cwd=shlex.quote(cwd or "."),
        argv=shlex.join(argv),
        port=port,
    )
