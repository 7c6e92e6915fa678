"""The part of the control plane that builds images."""

from __future__ import annotations

import asyncio
import hashlib
import time
from typing import TYPE_CHECKING, Any

from agent_env.sandboxes.modal.standin.builds import ContextFile
from agent_env.sandboxes.modal.standin.unimplemented import filled
from grpclib import GRPCError, Status
from modal_proto import api_pb2
from modal_proto.api_grpc import ModalClientBase

if TYPE_CHECKING:
    from agent_env.sandboxes.modal.standin.builds import BuiltImage
    from agent_env.sandboxes.modal.standin.state import State

_BUILDER_VERSION = "2026.10"


class ImageCalls(filled(ModalClientBase)):  # type: ignore[misc]
    """Calls that make images."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._blobs: dict[str, bytes] = {}
        self._mounts: dict[str, list[api_pb2.MountFile]] = {}
        self._builds: dict[str, asyncio.Task[BuiltImage]] = {}

    def _check(self, stream: Any) -> None:
        raise NotImplementedError

    async def EnvironmentGetOrCreate(self, stream: Any) -> None:  # noqa: N802
        await stream.recv_message()
        self._check(stream)
        answer = api_pb2.EnvironmentGetOrCreateResponse(environment_id="en-standin")
        answer.metadata.name = "main"
        answer.metadata.settings.image_builder_version = _BUILDER_VERSION
        await stream.send_message(answer)

    async def MountBatchedCheckExistence(self, stream: Any) -> None:  # noqa: N802
        request: api_pb2.MountBatchedCheckExistenceRequest = await stream.recv_message()
        self._check(stream)
        missing = [digest for digest in request.sha256_hex_hashes if digest not in self._blobs]
        await stream.send_message(api_pb2.MountBatchedCheckExistenceResponse(missing_sha256_hex_hashes=missing))

    async def MountPutFile(self, stream: Any) -> None:  # noqa: N802
        request: api_pb2.MountPutFileRequest = await stream.recv_message()
        self._check(stream)
        if request.WhichOneof("data_oneof") == "data" or not request.data_blob_id:
            if hashlib.sha256(request.data).hexdigest() != request.sha256_hex:
                raise GRPCError(Status.INVALID_ARGUMENT, "the content has another digest")
            self._blobs[request.sha256_hex] = request.data
        await stream.send_message(api_pb2.MountPutFileResponse(exists=request.sha256_hex in self._blobs))

    async def MountGetOrCreate(self, stream: Any) -> None:  # noqa: N802
        request: api_pb2.MountGetOrCreateRequest = await stream.recv_message()
        self._check(stream)
        made_of = "".join(sorted(f"{file.filename} {file.sha256_hex} {file.mode}\n" for file in request.files))
        mount_id = f"mo-{hashlib.sha256(made_of.encode()).hexdigest()[:22]}"
        self._mounts[mount_id] = list(request.files)
        answer = api_pb2.MountGetOrCreateResponse(mount_id=mount_id)
        answer.handle_metadata.content_checksum_sha256_hex = hashlib.sha256(made_of.encode()).hexdigest()
        await stream.send_message(answer)

    async def ImageGetOrCreate(self, stream: Any) -> None:  # noqa: N802
        request: api_pb2.ImageGetOrCreateRequest = await stream.recv_message()
        self._check(stream)
        image = request.image
        bases = {base.docker_tag: base.image_id for base in image.base_images}
        builder = self._state.builder
        image_id = builder.id_of(image.dockerfile_commands, bases, image.context_mount_id)
        answer = api_pb2.ImageGetOrCreateResponse(image_id=image_id)
        known = builder.images.get(image_id)
        if known is not None and not known.failed:
            answer.result.status = api_pb2.GenericResult.GENERIC_STATUS_SUCCESS
        else:
            task = self._builds.get(image_id)
            if task is None or task.done():
                files = [
                    ContextFile(file.filename, self._blobs[file.sha256_hex], file.mode)
                    for file in self._mounts.get(image.context_mount_id, ())
                ]
                work = self._build(image_id, list(image.dockerfile_commands), bases, files)
                self._builds[image_id] = self._state.own(work)
        await stream.send_message(answer)

    async def _build(
        self, image_id: str, commands: list[str], bases: dict[str, str], files: list[ContextFile]
    ) -> BuiltImage:
        await asyncio.sleep(self._state.faults.slow_build_s)
        return await asyncio.to_thread(self._state.builder.build, image_id, commands, bases, files)

    async def ImageJoinStreaming(self, stream: Any) -> None:  # noqa: N802
        request: api_pb2.ImageJoinStreamingRequest = await stream.recv_message()
        self._check(stream)
        built = await asyncio.shield(self._builds[request.image_id])
        statuses = api_pb2.GenericResult
        status = statuses.GENERIC_STATUS_FAILURE if built.failed else statuses.GENERIC_STATUS_SUCCESS
        result = api_pb2.GenericResult(status=status, exception=built.failed)
        await stream.send_message(api_pb2.ImageJoinStreamingResponse(result=result, eof=True))

    async def ImageFromId(self, stream: Any) -> None:  # noqa: N802
        request: api_pb2.ImageFromIdRequest = await stream.recv_message()
        self._check(stream)
        if request.image_id not in self._state.builder.images:
            raise GRPCError(Status.NOT_FOUND, f"no image {request.image_id}")
        await stream.send_message(api_pb2.ImageFromIdResponse(image_id=request.image_id))

    async def ImageBuildChainGet(self, stream: Any) -> None:  # noqa: N802
        request: api_pb2.ImageBuildChainGetRequest = await stream.recv_message()
        self._check(stream)
        step = api_pb2.ImageBuildStep(
            image_id=request.image_id, builder_app_id="ap-builder", builder_task_id=request.image_id
        )
        now = int(time.time())
        step.started_at.FromSeconds(now - 3600)
        step.finished_at.FromSeconds(now + 60)
        await stream.send_message(api_pb2.ImageBuildChainGetResponse(build_steps=[step]))

    def _build_log(self, image_id: str) -> str:
        built = self._state.builder.images.get(image_id)
        return built.log if built is not None else ""
