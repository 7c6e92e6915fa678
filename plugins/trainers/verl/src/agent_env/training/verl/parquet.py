"""Row files of JSON lines made into Parquet, streamed; pyarrow is imported when this is first used."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

from agent_env.errors import AgentEnvError
from agent_env.rollout.rows.files import RowFiles
from agent_env.training.verl.third_party import third_party

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_BATCH = 1000


def write_parquet(sources: Sequence[Path], out: Path) -> list[Path]:
    """Write ``<stem>.parquet`` into ``out`` for each file of rows; all appear whole or none does. Blocks.

    Raises:
        AgentEnvError: the folder cannot be made, or the disk is full.
    """
    with RowFiles(out, suffix=".parquet") as files:
        for source in sources:
            files.start(source.stem)
            _convert(source, files)
    return [out / f"{source.stem}.parquet" for source in sources]


def read_parquet(path: Path) -> list[dict[str, Any]]:
    """The rows of a file."""
    rows: list[dict[str, Any]] = third_party("pyarrow.parquet").read_table(path).to_pylist()
    return rows


def _schema() -> Any:
    pa = third_party("pyarrow")
    text, count = pa.string(), pa.int64()
    return pa.schema(
        [
            ("data_source", text),
            ("agent_name", text),
            ("prompt", pa.list_(pa.struct([("role", text), ("content", text)]))),
            ("reward_model", pa.struct([("style", text), ("ground_truth", text)])),
            ("extra_info", pa.struct([("index", count), ("split", text), ("task_id", text)])),
            ("agentenv", text),
            ("agentenv_tools", text),
        ]
    )


def _convert(source: Path, files: RowFiles) -> None:
    pa, parquet = third_party("pyarrow"), third_party("pyarrow.parquet")
    schema = _schema()
    sink = pa.PythonFile(_Sink(files), mode="w")
    # Tools are the same text in thousands of rows: dictionaries hold them once.
    with source.open(encoding="utf-8") as lines, parquet.ParquetWriter(sink, schema, compression="none") as writer:
        while batch := [json.loads(line) for line in itertools.islice(lines, _BATCH)]:
            writer.write_table(pa.Table.from_pylist(batch, schema=schema))


class _Sink:
    """A file for pyarrow; what goes wrong keeps its words."""

    closed = False

    def __init__(self, files: RowFiles) -> None:
        self._files = files
        self._written = 0

    def write(self, data: Any) -> int:
        content = bytes(data)
        self._files.write(content)
        self._written += len(content)
        return len(content)

    def tell(self) -> int:
        return self._written

    def flush(self) -> None:
        """Nothing is kept back."""

    def close(self) -> None:
        self.closed = True

    def seek(self, *_: Any) -> int:
        raise AgentEnvError("rows are written in one go")

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False
