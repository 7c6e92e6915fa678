"""What a SkyRL entrypoint calls inside its Ray worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent_env.training.skyrl.imports import third_party
from agent_env.training.skyrl.rows import ENV_CLASS

if TYPE_CHECKING:
    from agent_env.training.skyrl.failures import OnFailure

__all__ = ["ENV_CLASS", "generator_class", "make_generator", "register"]


def register(env_class: str = ENV_CLASS, *, native_tools: bool = False) -> None:
    """Register the environment with ``skyrl_gym``; call it where the generator runs, inside the Ray worker.

    Registering again replaces what was registered by this function before.

    Args:
        env_class: the name, as in the column ``env_class`` of the rows.
        native_tools: see `agent_env.training.skyrl.textenv.TextEnv`.
    """
    registration = third_party("skyrl_gym.envs.registration")
    entry_point = "agent_env.training.skyrl.env:BundleEnv"
    known = registration.registry.get(env_class)
    if known is not None and known.entry_point == entry_point:
        registration.deregister(env_class)
    registration.register(id=env_class, entry_point=entry_point, kwargs={"native_tools": native_tools})


def generator_class(base: type[Any] | None = None) -> type[Any]:
    """A generator class that contains a rollout's failure and masks its whole group.

    Args:
        base: SkyRL's generator, or a subclass of it that keeps its ``agent_loop``; default ``SkyRLGymGenerator``. The
            class takes its arguments, and ``on_infra_failure`` (``"mask"`` or ``"raise"``).
    """
    from agent_env.training.skyrl.generator import contain

    if base is None:
        own: type[Any] = third_party("skyrl.train.generators.skyrl_gym_generator").SkyRLGymGenerator
        return contain(own)
    return contain(base)


def make_generator(
    cfg: Any, tokenizer: Any, inference_engine_client: Any, *, on_infra_failure: OnFailure = "mask", **options: Any
) -> Any:
    """The generator for ``BasePPOExp.get_generator``, from the whole configuration of the run.

    Args:
        cfg: SkyRL's ``SkyRLTrainConfig``.
        tokenizer: as SkyRL passes it.
        inference_engine_client: as SkyRL passes it.
        on_infra_failure: ``"mask"`` or ``"raise"``.
        options: further arguments of SkyRL's generator, such as ``policy_model_name`` (default: as SkyRL names it).
    """
    if "policy_model_name" not in options:
        named = third_party("skyrl.backends.skyrl_train.inference_servers.utils").resolve_policy_model_name
        options["policy_model_name"] = named(cfg)
    return generator_class()(
        generator_cfg=cfg.generator,
        skyrl_gym_cfg=cfg.environment.skyrl_gym,
        inference_engine_client=inference_engine_client,
        tokenizer=tokenizer,
        on_infra_failure=on_infra_failure,
        **options,
    )
