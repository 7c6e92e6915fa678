"""Names that our own distributions provide, for the error about a name that is not installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from agent_env.registry.kinds import Kind

_SAME: Final[dict[Kind, tuple[str, ...]]] = {
    "sandbox": ("process", "docker", "e2b", "modal", "daytona"),
    "trainer": ("miles", "trl", "verifiers", "skyrl", "verl", "nemo-gym"),
}
_MORE: Final[dict[Kind, dict[str, tuple[str, ...]]]] = {
    "sandbox": {"e2b": ("aenv",)},
    "reward": {
        "basic": ("mean", "min", "max", "product", "weighted"),
        "gated": ("gate", "penalized", "clip"),
    },
    "parser": {
        "qwen": ("hermes", "qwen25", "qwen3_coder"),
        "llama": ("llama3_json", "pythonic"),
        "mistral": ("mistral",),
        "deepseek": ("deepseek_v3", "deepseek_v31", "deepseek_v32"),
        "kimi": ("kimi_k2",),
        "glm": ("glm45",),
        "minimax": ("minimax_m2",),
        "gpt_oss": ("gpt_oss",),
        "sglang": (
            *("sglang_deepseekv3", "sglang_deepseekv31", "sglang_deepseekv32", "sglang_glm45", "sglang_gpt_oss"),
            *("sglang_hermes", "sglang_kimi_k2", "sglang_llama3", "sglang_minimax_m2", "sglang_mistral"),
            *("sglang_pythonic", "sglang_qwen25", "sglang_qwen3_coder", "sglang_step3"),
        ),
    },
}


def _distribution(kind: Kind, leaf: str) -> str:
    return f"agentenv-{kind}-{leaf.replace('_', '-')}"


def hints(kind: Kind) -> dict[str, str]:
    """Name to distribution, for what we publish of this kind."""
    known = {name: _distribution(kind, name) for name in _SAME.get(kind, ())}
    for leaf, names in _MORE.get(kind, {}).items():
        known.update({name: _distribution(kind, leaf) for name in (*names, leaf)})
    return known
