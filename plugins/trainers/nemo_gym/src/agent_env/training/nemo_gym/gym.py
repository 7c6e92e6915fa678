"""The resources server as NeMo Gym starts it: the ``app.py`` of a folder in ``resources_servers`` imports it.

Only this module imports ``nemo_gym``; the class is made when it is first asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, cast

from agent_env.errors import UsageError
from agent_env.training.nemo_gym.settings import ServerSettings

if TYPE_CHECKING:
    from fastapi import FastAPI

    BundleResourcesServer: Any


def __getattr__(name: str) -> Any:
    if name != "BundleResourcesServer":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    made = globals()[name] = _make()
    return made


def _make() -> Any:
    base: Any = importlib.import_module("nemo_gym.base_resources_server")
    config_type = type(
        "BundleResourcesServerConfig",
        (base.BaseResourcesServerConfig,),
        {
            "__module__": __name__,
            "__annotations__": {
                "bundle_url": str,
                "token_var": str | None,
                "on_infra_failure": str,
                "idle_timeout": float,
                "most_failures": int,
            },
            "token_var": None,
            "on_infra_failure": "mask",
            "idle_timeout": 3600.0,
            "most_failures": 128,
        },
    )
    members = {
        "__module__": __name__,
        "__doc__": "A resources server over the bundle served at ``bundle_url``.",
        "__annotations__": {"config": config_type},
        "setup_webserver": _setup_webserver,
        "aggregate_metrics": _aggregate_metrics(base),
        "verify": _verify,
    }
    return type("BundleResourcesServer", (base.SimpleResourcesServer,), members)


def _setup_webserver(self: Any) -> FastAPI:
    """The application; NeMo Gym adds its own middleware to it."""
    from agent_env.training.nemo_gym.app import build_app

    config = self.config
    if (getattr(config, "num_workers", None) or 1) > 1:
        raise UsageError("the resources server holds its sessions in one process: leave out num_workers")
    settings = ServerSettings(
        config.bundle_url, config.token_var, config.on_infra_failure, config.idle_timeout, config.most_failures
    )

    def add(app: FastAPI) -> None:
        app.post("/aggregate_metrics")(self.aggregate_metrics)

    return build_app(settings, add=add)


def _aggregate_metrics(base: Any) -> Any:
    async def aggregate_metrics(self: Any, body: Any) -> Any:
        """Metrics of the scored rollouts; a masked one has no reward to count."""
        scored = [one for one in cast("list[dict[str, Any]]", body.verify_responses) if not _masked(one)]
        return await base.SimpleResourcesServer.aggregate_metrics(
            self, body.model_copy(update={"verify_responses": scored})
        )

    aggregate_metrics.__annotations__ = {"body": base.AggregateMetricsRequest, "return": base.AggregateMetrics}
    return aggregate_metrics


async def _verify(self: Any, body: Any) -> Any:
    """`build_app` answers ``/verify``; the base class wants a method of the name."""
    raise NotImplementedError


def _masked(response: dict[str, Any]) -> bool:
    config: object = response.get("instance_config")
    return isinstance(config, dict) and bool(cast("dict[str, Any]", config).get("mask_sample"))
