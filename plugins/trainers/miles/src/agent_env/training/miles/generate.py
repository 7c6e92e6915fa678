"""One sample as Miles generates it: open a session, call the agent function, collect, ask for the reward."""

from __future__ import annotations

import time
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from agent_env.errors import Failure
from agent_env.plugin.trainer import RehearsalSample
from agent_env.rollout.http import new_client
from agent_env.training.miles import agent

if TYPE_CHECKING:
    import httpx
    from agent_env.errors import FailureKind
    from agent_env.training.miles.sample import Sample

SAMPLING: dict[str, Any] = {
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": -1,
    "skip_special_tokens": False,
    "no_stop_trim": True,
    "max_tokens": 1 << 20,
}
"""The sampling fields that Miles passes."""


@dataclass(slots=True)
class Generated:
    """What came of one sample.

    Attributes:
        element: what the filter sees of it: a sample (v1) or a list of them (v2).
        report: for the rehearsal.
    """

    element: Sample | list[Sample]
    report: RehearsalSample


def filter_args(samples: int) -> SimpleNamespace:
    """Arguments of the trainer as far as reward function and filter read them."""
    return SimpleNamespace(n_samples_per_prompt=samples, reward_key=None)


async def generate(url: str, sample: Sample, session: str, args: SimpleNamespace) -> Generated:
    """Play ``sample`` against the model server at ``url``; ``session`` is ``v1`` or ``v2``."""
    async with new_client(url) as http:
        return await _generate(http, url, sample, session, args)


async def _generate(
    http: httpx.AsyncClient, url: str, sample: Sample, session: str, args: SimpleNamespace
) -> Generated:
    started = time.perf_counter()
    session_id = (await http.post(f"{url}/sessions")).json()["session_id"]
    base_url = f"{url}/sessions/{session_id}"
    metadata = {**sample.metadata, "session_server_id": url.removeprefix("http://")}
    result = await agent.run(
        base_url=base_url,
        prompt=sample.prompt,
        request_kwargs=dict(SAMPLING),
        metadata=metadata,
    )
    records = (await http.get(base_url)).json()["records"]
    body = {"max_seq_len": None, **({"metadata": result} if session == "v2" else {})}
    collected = (await http.post(f"{base_url}/samples", json=body)).json()["samples"]
    await http.delete(base_url)
    samples = [sample.collected(fields) for fields in collected] or [sample.aborted()]
    if session == "v1" and collected:
        samples[0].metadata.update(result)
    await _reward(samples, session, args)
    report = _report(result, samples, records, len(collected), time.perf_counter() - started)
    return Generated(samples[0] if session == "v1" else samples, report)


async def _reward(samples: list[Sample], session: str, args: SimpleNamespace) -> None:
    """As Miles: only samples that were not aborted and have no reward yet."""
    waiting = [sample for sample in samples if sample.reward is None and sample.status.value != "aborted"]
    if session == "v2":
        rewards = cast("list[float]", await agent.reward(args, waiting))
        for sample, value in zip(waiting, rewards, strict=True):
            sample.reward = value
    else:
        for sample in waiting:
            sample.reward = cast("float", await agent.reward(args, sample))


def _report(
    result: dict[str, Any], samples: list[Sample], records: list[dict[str, Any]], collected: int, seconds: float
) -> RehearsalSample:
    metrics: dict[str, Any] = result["agent_metrics"]
    failure = _failure(result)
    trained = sum(sum(sample.loss_mask or ()) for sample in samples)
    written = sum(record["response"]["usage"]["completion_tokens"] for record in records)
    warnings = [str(warning) for warning in metrics.get("warnings", ())]
    if trained != written:
        warnings.append(f"{trained} of {written} tokens that the model wrote would be trained on")
    if collected > 1:
        warnings.append(f"the session grew {collected} branches instead of one line")
    last = records[-1] if records else None
    transcript = [] if last is None else [*last["request"]["messages"], last["response"]["choices"][0]["message"]]
    return RehearsalSample(
        task_id=str(samples[0].metadata.get("task_id", "")),
        reward=None if failure is not None else samples[0].reward,
        scores=result["agentenv_scores"],
        tool_calls=result["agentenv_tool_calls"],
        invalid_calls=result["agentenv_invalid_calls"],
        failure=failure,
        turns=metrics["turns"],
        trained_tokens=trained,
        seconds=seconds,
        timings=metrics["timings"],
        warnings=tuple(warnings),
        transcript=transcript,
    )


def _failure(result: dict[str, Any]) -> Failure | None:
    words = result.get("agentenv_failure")
    if words is None:
        return None
    kind, _, message = str(words).partition(": ")
    return Failure(cast("FailureKind", kind), message, retryable=bool(result["agent_metrics"].get("retryable")))
