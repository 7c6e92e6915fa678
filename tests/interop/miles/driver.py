"""Runs in the Python of a Miles checkout: its real session server and generate function, our functions in them.

It reads one JSON object from standard input and prints one: see `main`. The engine behind the session server is a
script: a policy's text, tokenised by a byte tokenizer made here, worded as SGLang words a chat completion.
"""

from __future__ import annotations

import asyncio
import copy
import importlib
import importlib.machinery
import json
import logging
import sys
import tempfile
import types
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Sequence

END, START = "<|im_end|>", "<|im_start|>"
TEMPLATE = (
    "{%- if tools %}{{ '<|im_start|>tools\\n' + (tools | tojson) + '<|im_end|>' }}{% endif %}"
    "{%- for m in messages %}{{ '<|im_start|>' + m.role + '\\n' }}"
    "{%- if m.reasoning_content and m.reasoning_content.strip() %}"
    "{{ '<think>' + m.reasoning_content + '</think>' }}{% endif %}"
    "{{- m.content or '' }}"
    "{%- for c in m.tool_calls or [] %}"
    "{%- set a = c.function.arguments %}"
    "{{ '<call>' + c.function.name + (a if a is string else a | tojson) + '</call>' }}{% endfor %}"
    "{{ '<|im_end|>' }}{% endfor %}"
    "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def load(path: str) -> Any:
    """A name of a package that only the Python of Miles has."""
    module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except AttributeError:
        return importlib.import_module(path)


def members_of(element: Any) -> list[Any]:
    """The samples of a group's element: of v1 it is one, of v2 a list."""
    return list(cast("Sequence[Any]", element)) if isinstance(element, list) else [element]


def stub_vision() -> None:
    """SGLang imports torchvision at its start for pictures, which nothing here has."""
    if load(
        "transformers.utils.is_torchvision_available"
    )():  # the answer is kept, so transformers does not look for it later
        return
    for name in ("torchvision", "torchvision.io"):
        module = types.ModuleType(name)
        module.__spec__ = importlib.machinery.ModuleSpec(name, None)
        module.__path__ = []
        module.__getattr__ = _anything  # type: ignore[method-assign]
        sys.modules[name] = module


def _anything(attribute: str) -> Any:
    if attribute.startswith("__"):
        raise AttributeError(attribute)
    return object


def make_tokenizer(folder: Path) -> Any:
    """A tokenizer with a token for each byte and the two marks."""
    pre_tokenizers, decoders = load("tokenizers.pre_tokenizers"), load("tokenizers.decoders")
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    bytes_only = load("tokenizers.models.BPE")(vocab={char: place for place, char in enumerate(alphabet)}, merges=[])
    tokenizer = load("tokenizers.Tokenizer")(bytes_only)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = load("transformers.PreTrainedTokenizerFast")(
        tokenizer_object=tokenizer, eos_token=END, additional_special_tokens=[START], clean_up_tokenization_spaces=False
    )
    fast.chat_template = TEMPLATE
    fast.save_pretrained(folder)
    return fast


class Engine:
    """Answers ``/v1/chat/completions`` with the replies of a script, by the number of assistant messages so far."""

    def __init__(self, tokenizer: Any, replies: list[Any], finishes: dict[str, str]) -> None:
        self.tokenizer, self.replies, self.finishes = tokenizer, replies, finishes
        self.written = 0
        self.chats = 0

    async def handle(self, request: Any) -> Any:
        from agent_env.testing.standin.http import Answer
        from agent_env.testing.standin.replies import engine_message

        body = json.loads(request.body)
        place = sum(message["role"] == "assistant" for message in body["messages"])
        finish = self.finishes.get(str(place))
        self.chats += 1
        if finish == "hang":
            await asyncio.sleep(8)
        if finish == "502":
            del self.finishes[str(place)]
            return Answer.json({"error": "gone"}, 502)
        if finish == "context":
            words = "The input (9 tokens) is longer than the model's context length (8 tokens)."
            return Answer.json({"object": "error", "message": words, "code": 400}, 400)
        message = engine_message(self.replies[min(place, len(self.replies) - 1)])
        if finish in {"length", "abort"}:
            message["tool_calls"] = None
        ids = self.tokenizer.encode(self.text(message), add_special_tokens=False)
        self.written += len(ids)
        finish = finish or ("tool_calls" if message["tool_calls"] else "stop")
        meta = {
            "id": "x",
            "finish_reason": {"type": "stop" if finish == "tool_calls" else finish},
            "prompt_tokens": len(body["input_ids"]),
            "completion_tokens": len(ids),
            "cached_tokens": 0,
            "weight_version": "0",
            "e2e_latency": 0.1,
            "output_token_logprobs": [[-1.0, token, None] for token in ids],
        }
        choice = {"index": 0, "message": message, "finish_reason": finish, "logprobs": None, "meta_info": meta}
        total = len(body["input_ids"]) + len(ids)
        usage = {"prompt_tokens": len(body["input_ids"]), "completion_tokens": len(ids), "total_tokens": total}
        return Answer.json({"id": f"r{self.chats}", "object": "chat.completion", "choices": [choice], "usage": usage})

    @staticmethod
    def text(message: dict[str, Any]) -> str:
        """What the template makes of the message, up to the mark at which the model stops."""
        reasoning = message.get("reasoning_content")
        text = (f"<think>{reasoning}</think>" if reasoning else "") + message["content"]
        calls: list[dict[str, Any]] = message["tool_calls"] or []
        for call in calls:
            text += f"<call>{call['function']['name']}{call['function']['arguments']}</call>"
        return f"{text}{END}"


async def play(job: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Play one group as Miles does: generate, reward, filter."""
    import uvicorn
    from agent_env.testing.standin.http import HttpServer

    make_input = load("miles.rollout.base_types.GenerateFnInput")
    call_dynamic_filter = load("miles.rollout.filter_hub.base_types.call_dynamic_filter")
    generate = load("miles.rollout.generate_hub.agentic_tool_call.generate")
    async_rm, batched_async_rm = load("miles.rollout.rm_hub.async_rm"), load("miles.rollout.rm_hub.batched_async_rm")
    load_function = load("miles.utils.misc.load_function")
    aborted = load("miles.utils.types.Sample").Status.ABORTED

    tokenizer = make_tokenizer(folder)
    engine = Engine(tokenizer, job["replies"], job.get("finishes") or {})
    args = Namespace(
        hf_checkpoint=str(folder),
        chat_template_path=None,
        tito_model="default",
        use_session_server="v2" if job["session"] == "v2" else True,
        session_server_ip="127.0.0.1",
        session_message_matcher="strict",
        session_sample_picker_path="miles.rollout.session.v2.picker_hub.drop_retries.drop_retries",
        session_sample_postprocessor_path=(
            "miles.rollout.session.v2.postprocessor_hub.default_postprocess.default_postprocess"
        ),
        custom_agent_function_path="agent_env.training.miles.agent.run",
        custom_rm_path="agent_env.training.miles.agent.reward",
        n_samples_per_prompt=job["samples"],
        max_seq_len=job.get("max_seq_len"),
        sglang_speculative_algorithm=None,
        save_debug_trajectory_data=None,
        use_rollout_routing_replay=False,
        use_rollout_indexer_replay=False,
        reward_key=None,
        sglang_server_concurrency=8,
        rollout_num_gpus=1,
        rollout_num_gpus_per_engine=1,
        eval_num_gpus=0,
        use_distributed_post=False,
        lora_rank=0,
        lora_adapter_path=None,
        multi_lora=False,
    )
    load("miles.utils.http_utils.init_http_client")(args)
    async with HttpServer(engine.handle) as backend:
        server = load("miles.rollout.session.server.SessionServer")(args, backend.url)
        config = uvicorn.Config(server.app, host="127.0.0.1", port=0, log_level="error")
        running = uvicorn.Server(config)
        serving = asyncio.create_task(running.serve())
        while not running.started:  # noqa: ASYNC110  uvicorn offers no event
            await asyncio.sleep(0.01)
        args.session_server_ports = [running.servers[0].sockets[0].getsockname()[1]]
        args.session_server_instance_ids = {}
        data = folder / "rows.jsonl"
        data.write_text(json.dumps(job["row"]) + "\n")
        keys = {"prompt_key": "messages", "tool_key": "tools", "metadata_key": "metadata"}
        (row,) = load("miles.utils.data.Dataset")(str(data), tokenizer, None, None, **keys).samples

        async def one(index: int) -> Any:
            sample = copy.deepcopy(row)
            sample.group_index, sample.index = 0, index
            sampling = {"temperature": 1.0, "top_p": 1.0, "top_k": -1, "max_new_tokens": 4096, "no_stop_trim": True}
            state = Namespace(args=args)
            output = await generate(make_input(state=state, sample=sample, sampling_params=sampling, evaluation=False))
            got = output.samples
            members = members_of(got)
            waiting = [one for one in members if one.reward is None and one.status != aborted]
            if job["session"] == "v2":
                for member, value in zip(waiting, await batched_async_rm(args, waiting), strict=True):
                    member.reward = value
            else:
                for member in waiting:
                    member.reward = await async_rm(args, member)
            return got

        playing = asyncio.gather(*(one(index) for index in range(job["samples"])))
        if "hang" in engine.finishes.values():
            while engine.chats < job["hanging_chats"]:  # noqa: ASYNC110  the engine counts
                await asyncio.sleep(0.05)
            await load("miles.utils.misc.call_agent_abort_hook")(args)
        group = await playing
        verdicts: dict[str, Any] = {
            name: vars(call_dynamic_filter(load_function(f"agent_env.training.miles.agent.{name}"), args, group))
            for name in ("keep_scored_groups", "keep_scored_groups_counted", "keep_trainable_groups")
        }
        running.should_exit = True
        await serving
    return {
        "written": engine.written,
        "chats": engine.chats,
        "verdicts": verdicts,
        "group": [
            [
                {
                    "status": sample.status.value,
                    "reward": sample.reward,
                    "trained": sum(sample.loss_mask or []),
                    "non_generation_time": sample.non_generation_time,
                    "metadata": {
                        key: value
                        for key, value in sample.metadata.items()
                        if key.startswith("agent") or key in {"reward", "tito_session_mismatch"}
                    },
                }
                for sample in members_of(got)
            ]
            for got in group
        ],
    }


def main() -> None:
    """Read ``{row, session, samples, replies, finishes?, …}``, play, print the result as the last line."""
    logging.basicConfig(level=logging.ERROR)
    stub_vision()
    job = json.loads(sys.stdin.read())
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(asyncio.run(play(job, Path(folder)))))


if __name__ == "__main__":
    main()
