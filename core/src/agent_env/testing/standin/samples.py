"""Training samples out of a session's turns, as the trainer assembles them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from agent_env.testing.standin.tokens import END, START

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agent_env.testing.standin.turns import Turn

_STATUS = {"stop": "completed", "tool_calls": "completed", "length": "truncated", "abort": "aborted"}
_SERVER_OWNED = frozenset({"accumulated_token_ids", "tito_session_mismatch", "leaf"})


@dataclass(slots=True)
class Sample:
    """What the trainer would train on.

    Attributes:
        tokens: prompt and response.
        response_length: how many of them are the response.
        loss_mask: for each token of the response whether it is trained on.
        status: ``completed``, ``truncated`` or ``aborted``.
        response: the response as text.
        metadata: of the session, and (v2) of the agent function.
        reward: (v2) the agent function's, else `None`.
    """

    tokens: list[int]
    response_length: int
    loss_mask: list[int]
    status: str
    response: str
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    reward: float | None = None

    @property
    def trained_tokens(self) -> int:
        return sum(self.loss_mask)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def assemble(
    trajectories: Sequence[Sequence[Turn]], *, max_seq_len: int | None, owners: dict[int, int] | None = None
) -> list[Sample]:
    """One sample for each trajectory.

    Args:
        trajectories: the turns of each.
        max_seq_len: the turn that passes it is cut there; later ones are dropped, and all when nothing is left.
        owners: (v2) a turn shared by several trajectories is trained in the one that was committed first; filled here.
    """
    owners = {} if owners is None else owners
    for path in sorted(trajectories, key=lambda path: path[-1].number):
        for turn in path:
            owners.setdefault(turn.number, path[-1].number)
    samples = [_assemble(path, max_seq_len, owners) for path in trajectories]
    return [sample for sample in samples if sample is not None]


def _assemble(path: Sequence[Turn], max_seq_len: int | None, owners: Mapping[int, int]) -> Sample | None:
    tokens: list[int] = []
    mask: list[int] = []
    start = len(path[0].prompt)
    status = "completed"
    for turn in path:
        completion = turn.completion
        cut = max_seq_len is not None and len(turn.tokens) > max_seq_len
        if cut:
            assert max_seq_len is not None
            completion = completion[: max(max_seq_len - len(turn.prompt), 0)]
            if not completion:
                break
        gap = len(turn.prompt) - start - len(mask)
        mine = 1 if owners.get(turn.number) == path[-1].number else 0
        mask += [0] * gap + [mine] * len(completion)
        tokens = turn.prompt + completion
        status = "truncated" if cut else _STATUS.get(turn.finish, "completed")
        # A turn that was cut ends the sample: what follows is not trained.
        if cut or turn.finish in {"length", "abort"}:
            break
    if not tokens:
        return None
    response = tokens[start:]
    return Sample(tokens, len(response), mask, status, _text(response))


def _text(tokens: Sequence[int]) -> str:
    text = bytearray()
    for token in tokens:
        if token < START:
            text.append(token)
        else:
            text += b"<end>" if token == END else b"<start>"
    return text.decode("utf-8", "replace")


def merge_agent_metadata(samples: Sequence[Sample], metadata: Mapping[str, Any] | None) -> None:
    """(v2) Give every sample what the agent function returned, its reward included."""
    if metadata is None:
        return
    for sample in samples:
        own = {key: value for key, value in metadata.items() if key not in _SERVER_OWNED}
        sample.metadata = {**sample.metadata, **own}
        if metadata.get("reward") is not None:
            sample.reward = metadata["reward"]
