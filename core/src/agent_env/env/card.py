"""The AgentEnv card of an env: what it says about itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent_env.env.access import ACTIONS, REQUEST_SCHEMA

if TYPE_CHECKING:
    from agent_env.env.spec import EnvSpec, ExtensionHandler, ToolHandler

CARD_PATH = "/.well-known/agent-env.json"
RPC_PATH = "/agentenv"
MCP_PATH = "/mcp"
PROTOCOL_VERSION = "1.0"
DATA_OBJECTS = "urn:agentenv:data-objects/v1"
HIDDEN_META = "agentenv.io/hiddenByDefault"


def make_card(spec: EnvSpec, name: str) -> dict[str, Any]:
    """The card of an env that is served under ``name``."""
    return {
        "name": name,
        "protocolVersion": PROTOCOL_VERSION,
        "url": RPC_PATH,
        "preferredTransport": "JSONRPC",
        "additionalInterfaces": [{"url": MCP_PATH, "transport": "mcp"}],
        "capabilities": {
            "extensions": _extensions(spec),
            "tools": [
                {"name": tool_name(tool, name), "description": about(tool), "inputSchema": tool.signature.schema}
                for tool in spec.tools
            ],
            "operations": list(spec.data),
        },
        "children_environments": None,
    }


def tool_name(tool: ToolHandler, env_name: str) -> str:
    """The name a tool is served under."""
    return tool.name.replace("{environment_name}", env_name)


def about(tool: ToolHandler) -> str:
    """A tool's description."""
    return tool.signature.description if tool.mark.description is None else tool.mark.description


def listed_tool(tool: ToolHandler, env_name: str) -> dict[str, Any]:
    """A tool as MCP lists it."""
    entry: dict[str, Any] = {
        "name": tool_name(tool, env_name),
        "description": about(tool),
        "inputSchema": tool.signature.schema,
    }
    if tool.mark.annotations is not None:
        entry["annotations"] = dict(tool.mark.annotations)
    meta = dict(tool.mark.meta or {})
    if tool.mark.hidden_by_default:
        meta[HIDDEN_META] = True
    if meta:
        entry["_meta"] = meta
    return entry


def _extensions(spec: EnvSpec) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for handler in spec.extensions:
        mark = handler.mark
        entry = found.setdefault(
            mark.uri, {"uri": mark.uri, "description": None, "required": None, "params": {"methods": {}}}
        )
        text = mark.description or handler.signature.description or None
        if entry["description"] is None:
            entry["description"] = text
        if mark.required is not None:
            entry["required"] = mark.required
        entry["params"].update(mark.params or {})
        entry["params"]["methods"][handler.operation] = _method(handler)
        if mark.op is None:
            entry["params"]["endpoint"] = handler.path
    if any(data.takes_grant for data in spec.data.values()):
        found.setdefault(DATA_OBJECTS, {"uri": DATA_OBJECTS, "description": None, "required": None, "params": None})
    if spec.tool_access:
        for action, (uri, path, text) in ACTIONS.items():
            method = {"method": "POST", "request": REQUEST_SCHEMA}
            params = {"endpoint": path, "methods": {action: method}}
            found[uri] = {"uri": uri, "description": text, "required": False, "params": params}
    return list(found.values())


def _method(handler: ExtensionHandler) -> dict[str, Any]:
    method: dict[str, Any] = {"method": handler.mark.method, "request": handler.signature.schema}
    if handler.mark.op is not None:
        method["endpoint"] = handler.path
    return method
