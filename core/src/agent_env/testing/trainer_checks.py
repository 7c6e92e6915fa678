"""The checks of a trainer adapter: its rows."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from agent_env.errors import AgentEnvError
from agent_env.plugin.trainer import RowSettings, TrainerAdapter
from agent_env.testing.checks import Checks
from agent_env.testing.small import serve_in_process, small_bundle

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from agent_env.registry import Registry

SETTINGS: Final = RowSettings(tool_timeout=5, reset_timeout=10, model_timeout=10)
IMPATIENT: Final = RowSettings(tool_timeout=1, reset_timeout=1, model_timeout=1)
SPLITS: Final = {"all": 2, "eval": 1, "train": 2}
HEAVY: Final = ("fastapi", "starlette", "uvicorn", "torch", "ray", "pytest")
TOKEN_VAR: Final = "AGENTENV_CHECK_TOKEN"  # noqa: S105 - the name of a variable
_MOST_REQUESTS: Final = 60


@dataclass(frozen=True, slots=True)
class TrainerCase:
    """What is checked.

    Attributes:
        name: the adapter's name.
        heavy: packages that importing the adapter must not load, beside the server's and ``name`` itself.
        sessions: session kinds to rehearse with; `None` = the adapter's default.
        registry: where the adapter is found; `None` = what is installed.
    """

    name: str
    heavy: Sequence[str] = ()
    sessions: Sequence[str | None] = (None,)
    registry: Registry | None = None

    def plugins(self) -> Registry:
        """The registry."""
        from agent_env.registry import default_registry

        return self.registry or default_registry()

    def adapter(self) -> TrainerAdapter:
        """A new adapter, as the command line makes it."""
        made: object = self.plugins().load("trainer", self.name)()
        assert isinstance(made, TrainerAdapter), f"the factory made a {type(made).__name__}"
        return made


@contextmanager
def folder_with_bundle() -> Generator[tuple[Path, Path]]:
    """A small bundle, and a folder for rows that does not exist yet."""
    with tempfile.TemporaryDirectory(prefix="agentenv-check-") as folder:
        yield small_bundle(Path(folder) / "small"), Path(folder) / "rows"


class RowChecks(Checks):
    """What the contract says of `TrainerAdapter.write_rows`."""

    case: TrainerCase

    def test_it_is_found_by_its_name(self) -> None:
        """The registry finds it, its summary is one line, and the adapter has the name."""
        summary = self.case.plugins().info("trainer", self.case.name).summary
        assert summary.strip(), "the summary is empty"
        assert "\n" not in summary, f"the summary has several lines: {summary!r}"
        name = self.case.adapter().name
        assert name == self.case.name, f"the adapter calls itself {name!r}, the plugin {self.case.name!r}"

    def test_its_import_is_light(self) -> None:
        """Importing the adapter loads neither the trainer nor the server's packages."""
        module = self.case.plugins().info("trainer", self.case.name).factory.partition(":")[0]
        own = module.partition(".")[0]
        unwanted = {*HEAVY, *self.case.heavy, self.case.name.replace("-", "_")} - {own}
        code = f"import json, sys, {module}\nprint(json.dumps(sorted(sys.modules)))"
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False, env=environment
        )
        assert done.returncode == 0, f"import {module} fails: {done.stderr.strip()[-500:]}"
        loaded = unwanted & set(json.loads(done.stdout.splitlines()[-1]))
        assert not loaded, f"import {module} loads {', '.join(sorted(loaded))}"

    def test_rows_are_written_for_every_split(self) -> None:
        """One file for each split, in the order of their names, with the prompts of its tasks; no other file."""
        with folder_with_bundle() as (bundle, out):
            progress: list[tuple[str, int, int]] = []

            def heard(split: str, done: int, total: int) -> None:
                progress.append((split, done, total))

            files = list(asyncio.run(self._write(bundle, out, heard)))
            assert len(files) == len(SPLITS), f"{len(files)} files for the splits {', '.join(SPLITS)}: {files}"
            for (split, count), path in zip(sorted(SPLITS.items()), files, strict=True):
                assert path.parent == out, f"{path} is not in the folder {out}"
                assert split in path.stem, f"{path.name} does not say its split {split!r}"
                _check_rows(path, count)
            _check_only(out, files)
            _check_progress(progress)

    def test_rows_are_replaced_whole(self) -> None:
        """Writing again gives the same files, whatever stood there."""
        with folder_with_bundle() as (bundle, out):
            sizes = {path: path.stat().st_size for path in asyncio.run(self._write(bundle, out))}
            for path in sizes:
                path.write_bytes(b"old\n" * 10_000)
            again = list(asyncio.run(self._write(bundle, out)))
            assert again == list(sizes), f"the second time it wrote {again}"
            for number, path in enumerate(again):
                assert b"old\n" not in path.read_bytes(), f"{path.name} was not replaced"
                _check_rows(path, list(SPLITS.values())[number])
            _check_only(out, again)

    def test_the_token_stays_out_of_rows(self) -> None:
        """Rows name the variable that holds the token, never the token."""
        token = secrets.token_hex(16)
        with folder_with_bundle() as (bundle, out), _variable(TOKEN_VAR, token):
            files = asyncio.run(self._write(bundle, out, token=token, token_var=TOKEN_VAR))
            for path in files:
                data = path.read_bytes()
                assert token.encode() not in data, f"{path.name} holds the token"
                assert TOKEN_VAR.encode() in data, f"{path.name} does not name the token's variable"

    def test_a_token_that_is_missing_or_wrong_is_an_error(self) -> None:
        """Without the variable, or with a wrong token, it raises an `AgentEnvError` and writes nothing."""
        token = secrets.token_hex(16)
        with folder_with_bundle() as (bundle, out):
            for value in (None, secrets.token_hex(16)):
                with _variable(TOKEN_VAR, value):
                    error = asyncio.run(self._refused(bundle, out, token=token, token_var=TOKEN_VAR))
                assert token not in error, "the error holds the token"
                assert value is None or value not in error, "the error holds the token"

    def test_a_server_that_cannot_be_reached_is_an_error(self) -> None:
        """It raises an `AgentEnvError`, and writes nothing."""
        with tempfile.TemporaryDirectory(prefix="agentenv-check-") as folder, socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))  # bound and not listening: refused at once
            url = f"http://127.0.0.1:{closed.getsockname()[1]}"
            out = Path(folder) / "rows"
            _raises(lambda: asyncio.run(_bounded(self.case.adapter().write_rows(url, out, IMPATIENT))))
            _check_only(out, [])

    def test_a_folder_that_cannot_be_written_is_an_error(self) -> None:
        """A file in the folder's place is an `AgentEnvError`, and stays as it is."""
        with folder_with_bundle() as (bundle, out):
            out.write_bytes(b"a file")
            _raises(lambda: asyncio.run(self._write(bundle, out)))
            assert out.read_bytes() == b"a file"

    def test_a_server_that_breaks_leaves_no_file(self) -> None:
        """Whichever request the server breaks at, rows appear whole or not at all, and old ones stay."""
        with folder_with_bundle() as (bundle, out):
            old = {path: path.read_bytes() for path in asyncio.run(self._write(bundle, out))}
            old = {path: data.replace(b"Which", b"WHICH") for path, data in old.items()}
            for path, data in old.items():
                path.write_bytes(data)
            for last in range(_MOST_REQUESTS):
                try:
                    asyncio.run(self._write(bundle, out, settings=IMPATIENT, wrap=_breaking(last)))
                except AgentEnvError:
                    _check_only(out, list(old))
                    for path, data in old.items():
                        assert path.read_bytes() == data, f"{path.name} was changed though the server broke"
                else:
                    assert last > 0, "it wrote rows from a server that answered nothing"
                    return
            raise AssertionError(f"it makes more than {_MOST_REQUESTS} requests for three small splits")

    # -- inside -------------------------------------------------------------------------------------------------------

    async def _write(
        self,
        bundle: Path,
        out: Path,
        progress: Callable[[str, int, int], None] | None = None,
        *,
        token: str | None = None,
        token_var: str | None = None,
        settings: RowSettings = SETTINGS,
        wrap: Callable[[Any], Any] | None = None,
    ) -> Sequence[Path]:
        if token_var is not None:
            settings = RowSettings(
                tool_timeout=5, reset_timeout=10, model_timeout=10, max_turns=settings.max_turns, token_var=token_var
            )
        async with serve_in_process(bundle, registry=self.case.registry, token=token, wrap=wrap) as served:
            written: Sequence[Path] = await _bounded(
                self.case.adapter().write_rows(served.url, out, settings, progress=progress)
            )
            await served.quiet()
            return written

    async def _refused(self, bundle: Path, out: Path, **options: Any) -> str:
        try:
            await self._write(bundle, out, **options)
        except AgentEnvError as error:
            message = str(error).strip()
        else:
            raise AssertionError("it wrote rows")
        assert message, "the AgentEnvError has no message"
        _check_only(out, [])
        return message


async def _bounded(work: Any) -> Any:
    async with asyncio.timeout(60):
        return await work


def _raises(work: Callable[[], object]) -> None:
    try:
        work()
    except AgentEnvError as error:
        message = str(error).strip()
    else:
        raise AssertionError("it raised no AgentEnvError")
    assert message, "the AgentEnvError has no message"


def _check_rows(path: Path, count: int) -> None:
    data = path.read_bytes()
    assert data, f"{path.name} is empty"
    if path.suffix == ".jsonl":
        rows = [json.loads(line) for line in data.splitlines()]
        assert len(rows) == count, f"{path.name} has {len(rows)} rows for {count} tasks"
        for number, row in enumerate(rows):
            assert f"room find-{number}" in json.dumps(row), f"row {number} of {path.name} lacks its task's prompt"


def _check_only(out: Path, files: Sequence[Path]) -> None:
    there = {path for path in out.rglob("*") if path.is_file()} if out.is_dir() else set[Path]()
    extra = there - set(files)
    assert not extra, f"it left {', '.join(sorted(path.name for path in extra))} behind"


def _check_progress(events: Sequence[tuple[str, int, int]]) -> None:
    last: dict[str, int] = {}
    for split, done, total in events:
        assert total == SPLITS.get(split), f"progress says {total} rows in all for split {split!r}"
        assert last.get(split, 0) <= done <= total, f"progress of {split!r} goes from {last.get(split)} to {done}"
        last[split] = done
    assert last == SPLITS, f"progress ended at {last}, not at {SPLITS}"


@contextmanager
def _variable(name: str, value: str | None) -> Generator[None]:
    before = os.environ.pop(name, None)
    try:
        if value is not None:
            os.environ[name] = value
        yield
    finally:
        os.environ.pop(name, None)
        if before is not None:
            os.environ[name] = before


def _breaking(last: int) -> Callable[[Any], Any]:
    """A server that answers ``last`` requests and then only 500, on HTTP and on the handshake of a WebSocket."""
    seen = 0

    def wrap(app: Any) -> Any:
        async def broken(scope: Any, receive: Any, send: Any) -> None:
            nonlocal seen
            if scope["type"] == "lifespan":
                await app(scope, receive, send)
                return
            seen += 1
            if seen <= last:
                await app(scope, receive, send)
            elif scope["type"] == "websocket":
                await receive()
                await send({"type": "websocket.close", "code": 1011})
            else:
                await send({"type": "http.response.start", "status": 500, "headers": []})
                await send({"type": "http.response.body", "body": b"broken on purpose"})

        return broken

    return wrap
