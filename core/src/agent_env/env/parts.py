"""Reading what ``data/add`` was given: the same data may come inline, as bytes, as a file or from an https address."""

from __future__ import annotations

import binascii
import json
from base64 import b64decode
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

_TIMEOUT = 60.0


def part_bytes(part: Mapping[str, Any], *, timeout: float = _TIMEOUT) -> bytes:
    """The content of one part, whatever its form; blocks while it reads a file or an address.

    Text is UTF-8, a data part its JSON.

    Args:
        part: a part as ``data/add`` got it.
        timeout: seconds without progress after which an address is given up.

    Raises:
        ValueError: the part cannot be read; OSError: its file or address cannot.
    """
    match part.get("kind"):
        case "text":
            return str(part.get("text", "")).encode()
        case "data":
            return json.dumps(part.get("data")).encode()
        case "file" if isinstance(part.get("file"), dict):
            return _file_bytes(cast("dict[str, Any]", part["file"]), timeout)
        case other:
            raise ValueError(f"a part of kind {other!r} cannot be read; expected text, data or file")


def part_json(part: Mapping[str, Any], *, timeout: float = _TIMEOUT) -> Any:
    """The JSON value of one part.

    Raises:
        ValueError: the part cannot be read or is no JSON; OSError: its file or address cannot be read.
    """
    return part.get("data") if part.get("kind") == "data" else json.loads(part_bytes(part, timeout=timeout))


def _file_bytes(file: Mapping[str, Any], timeout: float) -> bytes:
    inline, uri = file.get("bytes"), file.get("uri")
    if isinstance(inline, str):
        try:
            return b64decode(inline, validate=True)
        except binascii.Error as error:
            raise ValueError(f"the bytes of {file.get('name') or 'a file part'} are no base64: {error}") from error
    address = urlsplit(str(uri))
    if address.scheme == "file" and address.netloc in ("", "localhost"):
        return Path(unquote(address.path)).read_bytes()
    if address.scheme == "https":
        from urllib.request import urlopen

        with urlopen(str(uri), timeout=timeout) as reply:  # noqa: S310 - the scheme was checked
            return cast("bytes", reply.read())
    # The query of a signed address is a secret.
    raise ValueError(f"the address {address.scheme}://{address.netloc}{address.path} is neither file:// nor https://")
