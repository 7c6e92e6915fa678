"""Runs rows through the real NeMo Gym: its simple agent, our class over its `SimpleResourcesServer`, a stand-in model.

Reads one order from standard input and prints one line of JSON. Everything speaks HTTP; Ray and the head server, which
only start processes and tell addresses, are left out.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

import uvicorn
from agent_env.testing.policies import load_policy
from agent_env.training.nemo_gym.gym import BundleResourcesServer
from agent_env.training.nemo_gym.rows import AGENT
from fastapi import FastAPI, Request, Response

base: Any = importlib.import_module("nemo_gym.base_resources_server")
types: Any = importlib.import_module("nemo_gym.config_types")
openai: Any = importlib.import_module("nemo_gym.openai_utils")
servers: Any = importlib.import_module("nemo_gym.server_utils")
simple: Any = importlib.import_module("responses_api_agents.simple_agent.app")
OmegaConf: Any = importlib.import_module("omegaconf").OmegaConf

RESOURCES = "agentenv_resources_server"
MODEL = "policy_model"


def messages_of(params: dict[str, Any]) -> list[dict[str, Any]]:
    """The conversation in the form of chat completions, which policies read."""
    messages: list[dict[str, Any]] = []
    before = ""
    for item in params["input"]:
        kind = item.get("type", "message")
        if kind == "function_call":
            call = {"id": item["call_id"], "type": "function"}
            call["function"] = {"name": item["name"], "arguments": item["arguments"]}
            if before == "function_call" or (before == "message" and messages[-1]["role"] == "assistant"):
                messages[-1].setdefault("tool_calls", []).append(call)
            else:
                messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
        elif kind == "function_call_output":
            messages.append({"role": "tool", "tool_call_id": item["call_id"], "content": item["output"]})
        else:
            content = item["content"]
            text = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
            messages.append({"role": item["role"], "content": text})
        before = kind
    return messages


def model_app(policy: Any) -> FastAPI:
    """``/v1/responses`` played by a policy."""
    from agent_env.testing.standin.replies import engine_message

    app = FastAPI()
    count = 0

    async def responses(request: Request) -> Response:
        nonlocal count
        count += 1
        params = openai.NeMoGymResponseCreateParamsNonStreaming.model_validate(await request.json())
        sent: dict[str, Any] = params.model_dump()
        tools = [{"type": "function", "function": tool} for tool in sent["tools"]]
        message = engine_message(policy(messages_of(sent), tools))
        output: list[dict[str, Any]] = []
        if message["content"] or not message["tool_calls"]:
            text: dict[str, Any] = {"type": "output_text", "text": message["content"], "annotations": []}
            output.append({"type": "message", "id": f"msg_{count}", "role": "assistant", "content": [text]})
        calls = message["tool_calls"] or ()
        output += [{"type": "function_call", "call_id": call["id"], **call["function"]} for call in calls]
        about: dict[str, Any] = {
            "id": f"resp_{count}",
            "created_at": 0.0,
            "model": "policy",
            "object": "response",
            "tools": [],
        }
        made = openai.NeMoGymResponse(**about, output=output, parallel_tool_calls=True, tool_choice="auto")
        return Response(made.model_dump_json(), media_type="application/json")

    app.add_api_route("/v1/responses", responses, methods=["POST"])
    return app


async def main() -> None:
    order: dict[str, Any] = json.loads(sys.stdin.read())
    sockets = {name: socket.create_server(("127.0.0.1", 0)) for name in (RESOURCES, MODEL, AGENT)}
    where = {
        name: {"entrypoint": "app.py", "host": "127.0.0.1", "port": one.getsockname()[1], "name": name}
        for name, one in sockets.items()
    }
    running = {
        RESOURCES: {"resources_servers": {"agentenv": where[RESOURCES]}},
        MODEL: {"responses_api_models": {"policy": where[MODEL]}},
        AGENT: {"responses_api_agents": {"simple_agent": where[AGENT]}},
    }
    head: Any = types.BaseServerConfig(host="127.0.0.1", port=1)
    client = servers.ServerClient(head_server_config=head, global_config_dict=OmegaConf.create(running))
    config = {**where[RESOURCES], "domain": "agent", **order["config"]}
    resources = BundleResourcesServer(
        config=BundleResourcesServer.model_fields["config"].annotation(**config), server_client=client
    )
    refs = {
        "resources_server": {"type": "resources_servers", "name": RESOURCES},
        "model_server": {"type": "responses_api_models", "name": MODEL},
    }
    agent = simple.SimpleAgent(
        config=simple.SimpleAgentConfig(**where[AGENT], **refs, max_steps=order.get("max_steps", 4)),
        server_client=client,
    )
    apps: dict[str, FastAPI] = {
        RESOURCES: resources.setup_webserver(),
        MODEL: model_app(load_policy(Path(order["bundle"]), order["policy"])),
        AGENT: agent.setup_webserver(),
    }
    for server, name in ((resources, RESOURCES), (agent, AGENT)):
        server.setup_liveness(apps[name])
        server.setup_exception_middleware(apps[name])
    started = [uvicorn.Server(uvicorn.Config(app, log_level="warning")) for app in apps.values()]
    serving = [
        asyncio.create_task(server.serve(sockets=[one])) for server, one in zip(started, sockets.values(), strict=True)
    ]
    while not all(server.started for server in started):  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.05)

    async def run(row: dict[str, Any]) -> dict[str, Any]:
        response = await client.post(server_name=row["agent_ref"]["name"], url_path="/run", json=row)
        answer = await servers.get_response_json(response)
        if response.status == 200:
            base.BaseVerifyResponse.model_validate(answer)
        return {"status": response.status, "answer": answer}

    done = await asyncio.gather(*(run(row) for row in order["rows"]))
    verified = [
        {**one["answer"], "_ng_task_index": place, "_ng_rollout_index": 0}
        for place, one in enumerate(done)
        if one["status"] == 200
    ]
    metrics: Any = None
    if verified:
        body = {"verify_responses": verified}
        response = await client.post(server_name=AGENT, url_path="/aggregate_metrics", json=body)
        metrics = types.AggregateMetrics.model_validate(await servers.get_response_json(response)).model_dump()
    for server in started:
        server.should_exit = True
    await asyncio.gather(*serving)
    sys.stdout.write(json.dumps({"runs": done, "metrics": metrics}) + "\n")
    sys.stdout.flush()
    os._exit(0)  # the client of NeMo Gym stays open until its process ends


if __name__ == "__main__":
    asyncio.run(main())
