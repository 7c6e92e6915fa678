"""The part of the wire that workers speak: commands in sandboxes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from agent_env.sandboxes.modal.standin.unimplemented import filled
from grpclib import GRPCError, Status
from modal_proto import task_command_router_pb2 as pb
from modal_proto.task_command_router_grpc import TaskCommandRouterBase

if TYPE_CHECKING:
    from agent_env.sandboxes.modal.standin.boxes import Box, Boxes
    from agent_env.sandboxes.modal.standin.faults import Faults
    from agent_env.sandboxes.modal.standin.running import Running

_LONG_POLL_S = 30.0


class Router(filled(TaskCommandRouterBase)):  # type: ignore[misc]
    """Commands, for all sandboxes of a stand-in."""

    def __init__(self, boxes: Boxes, faults: Faults, tokens: set[str]) -> None:
        self._boxes = boxes
        self._faults = faults
        self._tokens = tokens

    def _box(self, stream: Any, task_id: str) -> Box:
        token = str(stream.metadata.get("authorization", "")).removeprefix("Bearer ")
        if token not in self._tokens or self._faults.take("stale_router_tokens"):
            self._tokens.discard(token)
            raise GRPCError(Status.UNAUTHENTICATED, "the token has expired")
        box = self._boxes.by_task(task_id)
        if box is None or not box.running:
            raise GRPCError(Status.NOT_FOUND, f"task {task_id} has ended")
        return box

    def _running(self, stream: Any, request: Any) -> Running:
        found = self._box(stream, request.task_id).execs.get(request.exec_id)
        if found is None:
            raise GRPCError(Status.NOT_FOUND, f"no exec {request.exec_id}")
        return found

    async def TaskExecStart(self, stream: Any) -> None:  # noqa: N802
        request: pb.TaskExecStartRequest = await stream.recv_message()
        box = self._box(stream, request.task_id)
        env: dict[str, str] = {}
        for source in request.secret_sources:
            env.update(source.env.contents)
        await box.exec(request.exec_id, request.command_args, request.workdir, env, request.timeout_secs)
        await stream.send_message(pb.TaskExecStartResponse())

    async def TaskExecStdioRead(self, stream: Any) -> None:  # noqa: N802
        request: pb.TaskExecStdioReadRequest = await stream.recv_message()
        output = self._running(stream, request).out[int(request.file_descriptor)]
        async for piece in output.read(request.offset):
            await stream.send_message(pb.TaskExecStdioReadResponse(data=piece))

    async def TaskExecStdinWrite(self, stream: Any) -> None:  # noqa: N802
        request: pb.TaskExecStdinWriteRequest = await stream.recv_message()
        await self._running(stream, request).write(request.offset, request.data, eof=request.eof)
        await stream.send_message(pb.TaskExecStdinWriteResponse())

    async def TaskExecStdinWriteStream(self, stream: Any) -> None:  # noqa: N802
        first: pb.TaskExecStdinWriteStreamRequest = await stream.recv_message()
        running, offset = self._running(stream, first.start), first.start.offset
        while (message := await stream.recv_message()) is not None:
            if message.WhichOneof("payload") == "end":
                await running.write(offset, b"", eof=True)
            else:
                await running.write(offset, message.data, eof=False)
                offset += len(message.data)
        await stream.send_message(pb.TaskExecStdinWriteStreamResponse())

    async def TaskExecStdinStatus(self, stream: Any) -> None:  # noqa: N802
        request: pb.TaskExecStdinStatusRequest = await stream.recv_message()
        running = self._running(stream, request)
        answer = pb.TaskExecStdinStatusResponse(num_bytes_written=running.written, closed=running.closed)
        await stream.send_message(answer)

    async def TaskExecPoll(self, stream: Any) -> None:  # noqa: N802
        request: pb.TaskExecPollRequest = await stream.recv_message()
        running = self._running(stream, request)
        answer = pb.TaskExecPollResponse() if running.code is None else pb.TaskExecPollResponse(code=running.code)
        await stream.send_message(answer)

    async def TaskExecWait(self, stream: Any) -> None:  # noqa: N802
        request: pb.TaskExecWaitRequest = await stream.recv_message()
        running = self._running(stream, request)
        try:
            await asyncio.wait_for(running.done.wait(), _LONG_POLL_S)
        except TimeoutError as error:
            raise GRPCError(Status.DEADLINE_EXCEEDED, "still running") from error
        await stream.send_message(pb.TaskExecWaitResponse(code=running.code or 0))
