"""The part of the wire that the control plane speaks: Apps, sandboxes, logs. Images are in `images`."""

from __future__ import annotations

import asyncio
import secrets
import time
from typing import TYPE_CHECKING, Any

from agent_env.sandboxes.modal.standin.boxes import Box, Order
from agent_env.sandboxes.modal.standin.faults import BY_APP
from agent_env.sandboxes.modal.standin.fronts import Front
from agent_env.sandboxes.modal.standin.images import ImageCalls
from agent_env.sandboxes.modal.standin.tokens import jwt
from grpclib import GRPCError, Status
from modal_proto import api_pb2

if TYPE_CHECKING:
    from agent_env.sandboxes.modal.standin.state import State

TOKEN_ID = "ak-standin"  # noqa: S105
TOKEN_SECRET = "as-standin"  # noqa: S105


class Control(ImageCalls):
    """Calls of the control plane."""

    def __init__(self, state: State) -> None:
        super().__init__(state)
        self._apps: dict[str, str] = {}

    # -- who calls ----------------------------------------------------------------------------------------------------

    def _check(self, stream: Any) -> None:
        metadata = stream.metadata
        self._state.requests.append(type(stream).__name__)
        if (metadata.get("x-modal-token-id"), metadata.get("x-modal-token-secret")) != (TOKEN_ID, TOKEN_SECRET):
            raise GRPCError(Status.UNAUTHENTICATED, "Token validation failed")

    async def AuthTokenGet(self, stream: Any) -> None:  # noqa: N802
        await stream.recv_message()
        self._check(stream)
        await stream.send_message(api_pb2.AuthTokenGetResponse(token=jwt()))

    async def AppGetOrCreate(self, stream: Any) -> None:  # noqa: N802
        request: api_pb2.AppGetOrCreateRequest = await stream.recv_message()
        self._check(stream)
        if request.app_name == "fault-auth":
            error = BY_APP[request.app_name]()
            raise error
        app_id = self._apps.setdefault(request.app_name, f"ap-{secrets.token_hex(11)}")
        await stream.send_message(api_pb2.AppGetOrCreateResponse(app_id=app_id))

    # -- sandboxes ----------------------------------------------------------------------------------------------------

    async def SandboxCreateV2(self, stream: Any) -> None:  # noqa: N802
        request: api_pb2.SandboxCreateV2Request = await stream.recv_message()
        self._check(stream)
        faults = self._state.faults
        self._state.creates += 1
        self._state.asked_at.append(time.monotonic())
        app_name = next((name for name, app_id in self._apps.items() if app_id == request.app_id), "")
        if faults.refusals:
            raise faults.refusals.pop(0)
        if app_name in BY_APP:
            error = BY_APP[app_name]()
            raise error
        await asyncio.sleep(faults.slow_create_s)
        if self._state.boxes.by_name(request.app_id, request.definition.name) is not None:
            raise GRPCError(Status.ALREADY_EXISTS, f"a sandbox named {request.definition.name} exists")
        # What is committed is committed, whether or not somebody still waits for the answer.
        box = await asyncio.shield(self._state.own(self._commit(request)))
        if faults.take("lost_replies") or app_name == "fault-lost-reply":
            raise GRPCError(Status.UNAVAILABLE, "the connection broke")
        await asyncio.sleep(faults.slow_reply_s)
        access = api_pb2.CommandRouterAccess(url=self._state.url, jwt=self._state.router_token())
        answer = api_pb2.SandboxCreateV2Response(
            sandbox_id=box.id, task_id=box.task_id, command_router_access=access, tunnels=self._tunnels(box)
        )
        answer.metadata.app_id = box.order.app_id
        await stream.send_message(answer)

    async def _commit(self, request: api_pb2.SandboxCreateV2Request) -> Box:
        asked = request.definition
        env: dict[str, str] = {}
        for source in request.secret_sources:
            env.update(source.env.contents)
        declared = [spec.port for spec in asked.open_ports.ports]
        # The real service leads a token to any port; this one has to know the port when the sandbox starts.
        port = declared[0] if declared else int(env.get("MCP_PORT", "0"))
        kinds = api_pb2.NetworkAccess
        order = Order(
            name=asked.name,
            app_id=request.app_id,
            tags={tag.tag_name: tag.tag_value for tag in request.tags},
            argv=list(asked.entrypoint_args),
            env=env,
            port=port,
            open_network=asked.network_access.network_access_type == kinds.NetworkAccessType.OPEN,
            life_s=asked.timeout_secs,
            idle_s=asked.idle_timeout_secs,
        )
        image = self._state.builder.images[asked.image_id]
        box_id = f"sb-{secrets.token_hex(13)}"
        box = Box(box_id, order, image, self._state.folder / box_id[3:11])
        await box.start()
        if port:
            tls = self._state.tls if declared else None
            front = Front(box, self._state.faults, None if declared else set(), tls)
            await front.start()
            self._state.fronts[box.id] = front
        self._state.boxes.by_id[box.id] = box
        self._state.orders.append(request)
        return box

    def _tunnels(self, box: Box) -> list[api_pb2.TunnelData]:
        front = self._state.fronts.get(box.id)
        if front is None or front.tokens is not None:
            return []
        return [api_pb2.TunnelData(host="localhost", port=front.port, container_port=box.order.port)]

    def _box(self, sandbox_id: str) -> Box:
        box = self._state.boxes.by_id.get(sandbox_id)
        if box is None:
            raise GRPCError(Status.NOT_FOUND, f"no sandbox {sandbox_id}")
        return box

    async def SandboxGetFromNameV2(self, stream: Any) -> None:  # noqa: N802
        request: api_pb2.SandboxGetFromNameRequest = await stream.recv_message()
        self._check(stream)
        box = self._state.boxes.by_name(self._apps.get(request.app_name, ""), request.sandbox_name)
        if box is None:
            raise GRPCError(Status.NOT_FOUND, f"no sandbox named {request.sandbox_name}")
        await stream.send_message(api_pb2.SandboxGetFromNameResponse(sandbox_id=box.id))

    async def SandboxGetFromName(self, stream: Any) -> None:  # noqa: N802
        request: api_pb2.SandboxGetFromNameRequest = await stream.recv_message()
        raise GRPCError(Status.NOT_FOUND, f"no sandbox named {request.sandbox_name}")

    async def SandboxWaitV2(self, stream: Any) -> None:  # noqa: N802
        request: api_pb2.SandboxWaitRequest = await stream.recv_message()
        self._check(stream)
        box = self._box(request.sandbox_id)
        until = time.monotonic() + request.timeout
        while box.running and time.monotonic() < until:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        answer = api_pb2.SandboxWaitResponse(result=None if box.running else box.result())
        answer.metadata.app_id = box.order.app_id
        await stream.send_message(answer)

    async def SandboxWait(self, stream: Any) -> None:  # noqa: N802
        request: api_pb2.SandboxWaitRequest = await stream.recv_message()
        raise GRPCError(Status.NOT_FOUND, f"no sandbox {request.sandbox_id}")

    async def SandboxTerminateV2(self, stream: Any) -> None:  # noqa: N802
        request: api_pb2.SandboxTerminateRequest = await stream.recv_message()
        self._check(stream)
        if self._state.faults.take("failing_terminates"):
            raise GRPCError(Status.UNAVAILABLE, "not now")
        box = self._box(request.sandbox_id)
        box.end(api_pb2.GenericResult.GENERIC_STATUS_TERMINATED)
        front = self._state.fronts.pop(box.id, None)
        if front is not None:
            await front.close()
        await stream.send_message(api_pb2.SandboxTerminateResponse())

    async def SandboxListV2(self, stream: Any) -> None:  # noqa: N802
        request: api_pb2.SandboxListRequest = await stream.recv_message()
        self._check(stream)
        wanted = {tag.tag_name: tag.tag_value for tag in request.tags}
        found = [
            api_pb2.SandboxInfo(id=box.id, app_id=box.order.app_id, created_at=box.created_at)
            for box in sorted(self._state.boxes.running(), key=lambda box: -box.created_at)
            if box.order.app_id == request.app_id
            and wanted.items() <= box.order.tags.items()
            and (not request.before_timestamp or box.created_at < request.before_timestamp)
        ]
        await stream.send_message(api_pb2.SandboxListResponse(sandboxes=found[:2]))  # a small page, to be paged

    async def SandboxTagsGetV2(self, stream: Any) -> None:  # noqa: N802
        request: api_pb2.SandboxTagsGetRequest = await stream.recv_message()
        self._check(stream)
        tags = self._box(request.sandbox_id).order.tags.items()
        pairs = [api_pb2.SandboxTag(tag_name=name, tag_value=value) for name, value in tags]
        await stream.send_message(api_pb2.SandboxTagsGetResponse(tags=pairs))

    async def SandboxGetTunnelsV2(self, stream: Any) -> None:  # noqa: N802
        request: api_pb2.SandboxGetTunnelsRequest = await stream.recv_message()
        self._check(stream)
        await stream.send_message(
            api_pb2.SandboxGetTunnelsResponse(tunnels=self._tunnels(self._box(request.sandbox_id)))
        )

    async def SandboxCreateConnectTokenV2(self, stream: Any) -> None:  # noqa: N802
        request: api_pb2.SandboxCreateConnectTokenRequest = await stream.recv_message()
        self._check(stream)
        box = self._box(request.sandbox_id)
        front = self._state.fronts.get(box.id)
        if front is None or front.tokens is None or not box.running:
            raise GRPCError(Status.FAILED_PRECONDITION, f"sandbox {box.id} takes no connections")
        token = secrets.token_urlsafe(24)
        front.tokens.add(token)
        url = f"http://127.0.0.1:{front.port}"
        await stream.send_message(api_pb2.SandboxCreateConnectTokenResponse(url=url, token=token))

    async def SandboxGetTaskIdV2(self, stream: Any) -> None:  # noqa: N802
        request: api_pb2.SandboxGetTaskIdRequest = await stream.recv_message()
        self._check(stream)
        box = self._box(request.sandbox_id)
        await stream.send_message(api_pb2.SandboxGetTaskIdResponse(task_id=box.task_id))

    async def SandboxGetCommandRouterAccess(self, stream: Any) -> None:  # noqa: N802
        request: api_pb2.SandboxGetCommandRouterAccessRequest = await stream.recv_message()
        self._check(stream)
        if not self._box(request.sandbox_id).running:
            raise GRPCError(Status.FAILED_PRECONDITION, f"sandbox {request.sandbox_id} has ended")
        answer = api_pb2.SandboxGetCommandRouterAccessResponse(url=self._state.url, jwt=self._state.router_token())
        await stream.send_message(answer)

    # -- logs ---------------------------------------------------------------------------------------------------------

    async def AppFetchLogs(self, stream: Any) -> None:  # noqa: N802
        request: api_pb2.AppFetchLogsRequest = await stream.recv_message()
        self._check(stream)
        batch = api_pb2.TaskLogsBatch(task_id=request.task_id)
        box = self._state.boxes.by_task(request.task_id)
        if box is not None:
            for line in box.log[-request.limit :]:
                kinds = (api_pb2.FILE_DESCRIPTOR_STDOUT, api_pb2.FILE_DESCRIPTOR_STDERR)
                text = line.data.decode("utf-8", errors="replace")
                batch.items.add(data=text, timestamp=line.at, file_descriptor=kinds[line.source])
        else:
            batch.items.add(data=self._build_log(request.task_id), timestamp=time.time())
        await stream.send_message(api_pb2.AppFetchLogsResponse(batches=[batch]))
