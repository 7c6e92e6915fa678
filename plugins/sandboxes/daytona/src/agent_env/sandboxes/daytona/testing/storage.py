"""The stand-in's object storage: as much of S3 as an upload of build contexts needs."""

from __future__ import annotations

import secrets
from typing import Final

from aiohttp import web

_ETAG: Final = '"standin"'


class Storage:
    """Objects in memory, by bucket and key."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self._parts: dict[str, dict[int, bytes]] = {}

    def add_routes(self, app: web.Application) -> None:
        """Its routes."""
        app.router.add_head("/s3/{key:.+}", self._head)
        app.router.add_put("/s3/{key:.+}", self._put)
        app.router.add_post("/s3/{key:.+}", self._post)

    def context(self, digest: str) -> bytes:
        """An uploaded build context.

        Raises:
            KeyError: it was not uploaded.
        """
        for key, data in self.objects.items():
            if key.endswith(f"/{digest}/context.tar"):
                return data
        raise KeyError(digest)

    async def _head(self, request: web.Request) -> web.Response:
        data = self.objects.get(request.match_info["key"])
        if data is None:
            return web.Response(status=404)
        headers = {"ETag": _ETAG, "Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT"}
        return web.Response(headers={**headers, "Content-Length": str(len(data))})

    async def _put(self, request: web.Request) -> web.Response:
        data = await request.read()
        upload = request.query.get("uploadId")
        if upload is not None:
            self._parts[upload][int(request.query["partNumber"])] = data
        else:
            self.objects[request.match_info["key"]] = data
        return web.Response(headers={"ETag": _ETAG})

    async def _post(self, request: web.Request) -> web.Response:
        key = request.match_info["key"]
        if "uploads" in request.query:
            upload = secrets.token_hex(8)
            self._parts[upload] = {}
            text = f"<Bucket>b</Bucket><Key>{key}</Key><UploadId>{upload}</UploadId>"
            return _xml("InitiateMultipartUploadResult", text)
        await request.read()
        parts = self._parts.pop(request.query["uploadId"])
        self.objects[key] = b"".join(parts[number] for number in sorted(parts))
        return _xml("CompleteMultipartUploadResult", f"<Key>{key}</Key><ETag>{_ETAG}</ETag>")


def _xml(name: str, inner: str) -> web.Response:
    return web.Response(text=f'<?xml version="1.0"?><{name}>{inner}</{name}>', content_type="application/xml")
