"""Runs the real SkyRL generator on GridSim and prints what came of it, as JSON: real_generator.py BUNDLE.

The bundle's env dies when it is to check a schedule that begins with 99.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_env.training.skyrl.imports import third_party

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

# pydantic refuses the one of Python 3.11 in SkyRL's classes.
third_party("typing").TypedDict = third_party("typing_extensions").TypedDict
stub = third_party("stub_engine")

BUNDLE = Path(sys.argv[1])
TASKS, SAMPLES = 3, 2


class Run:
    """One server, and what is played against it."""

    def __init__(self, url: str, app: Any) -> None:
        self.url, self.app = url, app
        self.tokenizer = stub.make_tokenizer()
        self.known: list[Any] = []

    async def rows(self) -> list[Any]:
        """The first rows of the split `eval`, as SkyRL's own data set gives them."""
        from agent_env.plugin.trainer import RowSettings
        from agent_env.training.skyrl.adapter import SkyrlAdapter

        if self.known:
            return self.known
        with tempfile.TemporaryDirectory() as folder:
            settings = RowSettings(max_turns=6, reset_timeout=60, tool_timeout=20)
            files = await SkyrlAdapter().write_rows(self.url, Path(folder), settings)
            file = next(file for file in files if file.stem == "eval")
            data = third_party("skyrl.train.dataset").PromptDataset(str(file), self.tokenizer, 4096, num_workers=1)
        self.known = data.collate_fn([data[place] for place in range(TASKS)])
        return self.known

    async def generate(
        self,
        policy: Any,
        *,
        tasks: int = TASKS,
        samples: int = SAMPLES,
        native: bool = False,
        on_infra_failure: Any = "mask",
        max_turns: int = 6,
        max_input_length: int = 16000,
        workers: int = 32,
        faults: dict[str, Any] | None = None,
        plain: bool = False,
        filtered: bool = False,
        **config: Any,
    ) -> dict[str, Any]:
        """One step's generation: SkyRL's input, the generator, SkyRL's validation and its metrics."""
        from agent_env.training.skyrl import make_generator, register

        generators = third_party("skyrl.train.generators.skyrl_gym_generator")
        utils = third_party("skyrl.train.generators.utils")
        rows = (await self.rows())[:tasks]
        register(native_tools=native)
        cfg = third_party("skyrl.train.config").SkyRLTrainConfig()
        cfg.generator.max_turns, cfg.generator.max_input_length = max_turns, max_input_length
        cfg.environment.skyrl_gym.max_env_workers = workers
        if native:
            cfg.generator.chat_template_kwargs = {"tools": json.loads(rows[0]["env_extras"]["tools"])}
        for key, value in config.items():
            setattr(cfg.generator, key, value)
        engine = stub.StubEngine(policy, self.tokenizer, **(faults or {}))
        if plain:
            own = cfg.generator, cfg.environment.skyrl_gym
            generator = generators.SkyRLGymGenerator(*own, engine, self.tokenizer)
        else:
            generator = make_generator(cfg, self.tokenizer, engine, on_infra_failure=on_infra_failure)
        batch, uids = utils.prepare_generator_input(rows, samples, None, "agentenv", "train", 1)
        report: dict[str, Any] = {"tasks": [row["env_extras"]["task_id"] for row in rows]}
        try:
            output = await generator.generate(batch, disable_tqdm=True)
        except Exception as error:  # noqa: BLE001
            report["error"] = f"{type(error).__name__}: {error}"
        else:
            step_wise = bool(cfg.generator.step_wise_trajectories)
            validate = third_party("skyrl.train.utils.trainer_utils").validate_generator_output
            validate(len(batch["prompts"]), output, step_wise=step_wise)
            if step_wise:
                uids = [item.instance_id for item in output["trajectory_ids"]]
                report["is_last_step"] = output["is_last_step"]
            metrics = dict(utils.get_metrics_from_generator_output(output, uids))
            report |= {
                "uids": uids,
                "rewards": [sum(item) for item in output["rewards"]],
                "last": [item[-1] for item in output["rewards"]],
                "trained": [sum(item) for item in output["loss_masks"]],
                "stop_reasons": output["stop_reasons"],
                "rollout_metrics": output["rollout_metrics"],
                "avg_score": metrics["avg_score"],
                "times": output["trajectory_generation_times"],
                "sampled_again": sampled_again(output, uids, samples) if filtered else None,
                "advantages": advantages(output, uids),
                "said": [self.said(output, row) for row in range(len(uids))],
            }
        report |= {"drifts": engine.drifts, "requests": engine.requests, "finished": len(engine.finished)}
        report["lengths"] = sorted(engine.lengths)
        report["roles"] = sorted({message["role"] for messages in engine.seen for message in messages})
        report["left"] = await self.left()
        return report

    def said(self, output: dict[str, Any], row: int) -> str:
        """The text of the tokens that are trained."""
        pairs = zip(output["response_ids"][row], output["loss_masks"][row], strict=True)
        text: str = self.tokenizer.decode([token for token, trained in pairs if trained])
        return text

    async def left(self) -> int:
        """Episodes that are still open a little later."""
        for _ in range(600):
            if not self.app.state.engine.open_episodes:
                break
            await asyncio.sleep(0.05)
        return int(self.app.state.engine.open_episodes)


def sampled_again(output: dict[str, Any], uids: list[str], samples: int) -> list[str]:
    """The groups that SkyRL's dynamic sampling would drop."""
    utils = third_party("skyrl.train.utils.trainer_utils")
    config = {"train_batch_size": len(set(uids)), "n_samples_per_prompt": samples, "max_sample_batches": 5}
    state: dict[str, Any] = {"sample_batch_count": 1}
    utils.handle_filter_sampling(copy.deepcopy(output), uids, config, state)
    return sorted(set(uids) - set(state["collected_uids"]))


def advantages(output: dict[str, Any], uids: list[str]) -> list[float]:
    """The GRPO advantage of each row's last token, as SkyRL computes it; before the loss mask is laid over."""
    torch, numpy = third_party("torch"), third_party("numpy")
    compute = third_party("skyrl.backends.skyrl_train.utils.ppo_utils").compute_grpo_outcome_advantage
    rewards = torch.tensor([[sum(item)] for item in output["rewards"]])
    found: list[float] = compute(rewards, torch.ones_like(rewards), numpy.array(uids))[0][:, -1].tolist()
    return found


@contextlib.asynccontextmanager
async def serve(**options: Any) -> AsyncGenerator[Run]:
    from agent_env.openenv import build_app
    from agent_env.openenv.run import running_server

    app = build_app(BUNDLE, **options)
    async with running_server(app) as url:
        await app.state.engine.prepared()
        yield Run(url, app)


async def rehearsed(name: str, trainer: str) -> dict[str, list[float | None]]:
    from agent_env.plugin.trainer import RowSettings
    from agent_env.testing.policies import load_policy
    from agent_env.testing.rehearsal import rehearse

    played = await rehearse(
        BUNDLE,
        load_policy(BUNDLE, name),
        trainer=trainer,
        split="eval",
        groups=TASKS,
        samples=SAMPLES,
        rows=RowSettings(max_turns=6),
    )
    return {group.task_id: [sample.reward for sample in group.samples] for group in played.groups}


async def main() -> None:
    from agent_env.testing.policies import load_policy
    from agent_env.testing.standin import call

    greedy, optimal, clumsy = (load_policy(BUNDLE, name) for name in ("greedy", "optimal", "clumsy"))
    report: dict[str, Any] = {}

    def dying(most: int) -> Any:
        """Greedy, but the first ``most`` rollouts kill their env with their second reply."""
        dead = 0  # each run's own: rollouts of a run that was given up may go on beside the next one

        def policy(messages: Any, tools: Any) -> Any:
            nonlocal dead
            replies = sum(message["role"] == "assistant" for message in messages)
            if replies == 1 and dead < most:
                dead += 1
                return call("check_schedule", plan=[99] * 24)
            return greedy(messages, tools)

        return policy

    seen: dict[str, int] = {}

    def mixed(messages: Any, tools: Any) -> Any:
        """The best schedule or none by turns within each group, so that its rewards differ; the first env dies."""
        if sum(message["role"] == "assistant" for message in messages) != 1:
            return optimal(messages, tools)
        first = not seen
        day = str(messages[-1]["content"])  # the prices, by which a group is known
        seen[day] = seen.get(day, 0) + 1
        if first:
            return call("check_schedule", plan=[99] * 24)
        return optimal(messages, tools) if seen[day] % 2 else call("submit_schedule", plan=[0] * 24)

    async with serve(max_concurrent_envs=16) as run:
        for name, policy in (("greedy", greedy), ("optimal", optimal), ("clumsy", clumsy)):
            report[name] = await run.generate(policy)
        report["native"] = await run.generate(greedy, native=True)
        report["plain"] = await run.generate(greedy, plain=True)
        report["step_wise"] = await run.generate(greedy, step_wise_trajectories=True)
        report["died"] = await run.generate(dying(1))
        report["died_plain"] = await run.generate(dying(1), plain=True)
        report["died_raise"] = await run.generate(dying(1), on_infra_failure="raise")
        report["died_step_wise"] = await run.generate(dying(1), step_wise_trajectories=True)
        report["all_died"] = await run.generate(dying(99))
        report["one_group_died"] = await run.generate(dying(99), tasks=1)
        report["mixed"] = await run.generate(mixed, samples=4, filtered=True)
        own, run.tokenizer = run.tokenizer, stub.make_tokenizer("<tool_call>", "</tool_call>")
        report["special"] = await run.generate(greedy)
        run.tokenizer = own
        report["engine"] = await run.generate(greedy, faults={"broken": [7]})
        report["cut"] = await run.generate(greedy, faults={"cut": 1})
        # The fourth prompt does not fit any more: the schedule is submitted, the turn is not ended.
        lengths = (await run.generate(greedy, tasks=1, samples=1))["lengths"]
        report["context"] = await run.generate(greedy, tasks=1, max_input_length=lengths[-1] - 1)
        # With step-wise trajectories SkyRL looks at the length of the prompt before.
        report["context_step_wise"] = await run.generate(
            greedy, tasks=1, max_input_length=lengths[-2] - 1, step_wise_trajectories=True
        )
        report["no_room"] = await run.generate(greedy, max_input_length=100)
        report["one_turn"] = await run.generate(optimal, max_turns=1)
    async with serve(max_concurrent_envs=2) as run:
        report["crowded"] = await run.generate(greedy, samples=4, workers=1)
    for trainer in ("miles", "skyrl"):
        report[trainer] = {name: await rehearsed(name, trainer) for name in ("greedy", "optimal", "clumsy")}
    print(json.dumps(report))


if __name__ == "__main__":
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    asyncio.run(main())
