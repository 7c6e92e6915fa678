"""What an evaluation is asked to do; what of it makes a run the same run is checked when one is resumed."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, cast

from agent_env.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_FREE = frozenset({"k", "pass_at"})
"""Settings that a resumed run may change: more repeats are further episodes, the others only count what there is."""

_TASKS = frozenset({"tasks", "tasks_digest"})
"""Settings that a resumed run may change when it only gets further tasks behind those that it had."""

_MAY_GROW = frozenset({"tool_timeout", "reset_timeout", "model_timeout"})
"""What has a score has the same one with more time; what failed for want of time may be played again."""

_OWNED = frozenset({"messages", "tools", "model", "stream", "stream_options", "n"})
"""Request fields that the evaluation sets itself."""


@dataclass(frozen=True, slots=True)
class EvalSettings:
    """Everything that can change a score; times in seconds. It holds no secret.

    Attributes:
        bundle: name of the bundle.
        split: split that is played.
        tasks: tasks that are played, the first ones of the split.
        tasks_digest: of the tasks' names, prompts and toolsets, so that a changed bundle is noticed.
        base_url: address of the chat endpoint, without a password.
        model: name of the model, as the endpoint knows it.
        k: episodes of each task.
        sampling: further fields of every request, such as ``temperature``.
        seed: seed of the first repeat's requests; repeat ``r`` sends ``seed + r``. `None` sends none.
        task_seed: seed of tasks with a ``<seed>`` placeholder, alike for all repeats.
        parser: parser plugin that reads calls from the reply's text, `None` = the endpoint does.
        reward: what is scored, `None` = the bundle's scoring step.
        sandbox: sandbox provider, `None` for a server of its own.
        max_turns: replies of the model in an episode.
        max_episode_tokens: prompt and completion tokens that an episode may spend, all requests added up.
        tool_timeout: one tool call.
        reset_timeout: getting an episode, and each end of a turn.
        model_timeout: one reply, retries included.
        pass_at: reward from which an episode counts as solved.
    """

    bundle: str
    split: str
    tasks: int
    tasks_digest: str
    base_url: str
    model: str
    k: int = 1
    sampling: Mapping[str, Any] = field(default_factory=dict[str, Any])
    seed: int | None = None
    task_seed: int = 0
    parser: str | None = None
    reward: str | None = None
    sandbox: str | None = None
    max_turns: int = 16
    max_episode_tokens: int | None = None
    tool_timeout: float = 60.0
    reset_timeout: float = 600.0
    model_timeout: float = 600.0
    pass_at: float = 1.0

    def as_json(self) -> dict[str, Any]:
        """A JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> EvalSettings:
        """Read what `as_json` gave; keys of later versions are left out.

        Raises:
            UsageError: a key is missing.
        """
        known = {item.name: item for item in fields(cls)}
        needed = {name for name, item in known.items() if item.default is item.default_factory is MISSING}
        missing = sorted(needed - set(value))
        if missing:
            raise UsageError(f"no settings of an evaluation: {', '.join(missing)} missing")
        for name in ("tasks", "k"):
            if not isinstance(value.get(name, 1), int):
                raise UsageError(f"no settings of an evaluation: {name} is no count")
        if not isinstance(value.get("pass_at", 1.0), int | float):
            raise UsageError("no settings of an evaluation: pass_at is no number")
        return cls(**{key: item for key, item in value.items() if key in known})

    def differences(self, other: EvalSettings) -> dict[str, tuple[Any, Any]]:
        """Settings that differ, by name: here and there."""
        mine, theirs = self.as_json(), other.as_json()
        return {key: (mine[key], theirs[key]) for key in mine if mine[key] != theirs[key]}

    def continuing(
        self,
        before: EvalSettings,
        where: str,
        *,
        moved: bool = False,
        digest_of_first: Callable[[int], str] | None = None,
    ) -> EvalSettings:
        """The settings with which a run that has the settings ``before`` goes on.

        Args:
            before: of the run so far.
            where: names the run.
            moved: the endpoint may have another address.
            digest_of_first: `tasks_digest` of as many of the tasks that are played now; with it a run may get more
                tasks than it had.

        Raises:
            UsageError: names what differs and may not.
        """
        more = (
            digest_of_first is not None
            and before.tasks < self.tasks
            and digest_of_first(before.tasks) == before.tasks_digest
        )
        free = _FREE | _TASKS if more else _FREE
        changed = {
            key: pair
            for key, pair in before.differences(self).items()
            if key not in free and not (key in _MAY_GROW and pair[1] > pair[0]) and not (moved and key == "base_url")
        }
        if changed:
            lines = [f"  {key}: the run has {_show(old)}, now {_show(new)}" for key, (old, new) in changed.items()]
            mend = "give the same settings, or another --out"
            if "base_url" in changed:
                mend += "; --moved when it is the same model at another address"
            raise UsageError("\n".join([f"{where} holds a run with other settings:", *lines, mend]))
        return replace(self, k=max(before.k, self.k))

    def default_name(self) -> str:
        """A folder name that the same settings always get."""
        same = {key: value for key, value in self.as_json().items() if key not in _FREE}
        digest = hashlib.sha256(json.dumps(same, sort_keys=True).encode()).hexdigest()[:8]
        parts = [re.sub(r"[^A-Za-z0-9._-]+", "-", part).strip("-.") for part in (self.bundle, self.split, self.model)]
        return "-".join([*(part[:60] for part in parts if part), digest])


def _show(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 80 else f"{text[:77]}…"


def read_extra(pairs: tuple[str, ...], named: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Request fields from ``KEY=JSON`` pairs, beside those that options of their own gave.

    Raises:
        UsageError: a pair is none, its key is set by the evaluation itself, or it is given twice.
    """
    extra: dict[str, Any] = dict(named or {})
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key:
            raise UsageError(f"--extra {pair!r}: write KEY=JSON, such as top_k=20 or tool_choice='\"auto\"'")
        if key in _OWNED:
            raise UsageError(f"--extra {key}: the evaluation sets that field itself")
        if key in extra:
            raise UsageError(f"--extra {key}: that field is given twice")
        try:
            extra[key] = json.loads(text, parse_constant=_no_constant)
            json.dumps(extra[key], allow_nan=False)  # 1e999 is read as infinite
        except (ValueError, RecursionError) as error:
            raise UsageError(f"--extra {key}: {text!r} is not JSON ({error}); quote a string twice") from error
    return extra


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON value")


def tasks_digest(tasks: list[dict[str, Any]]) -> str:
    """Digest of what the tasks are, wherever their bundle lies."""
    digest = hashlib.sha256()
    for task in tasks:
        parts = [task.get(key) for key in ("name", "prompt", "system_prompt", "toolset")]
        digest.update(json.dumps(cast("list[object]", parts)).encode())
    return digest.hexdigest()[:16]
