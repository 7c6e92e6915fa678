"""Models of the real runs, each a function of the conversation."""

# ruff: noqa
# pyright: basic
# mypy: ignore-errors

import itertools

_turn = itertools.count()


def call(name, arguments="{}", content=""):
    return {"content": content, "tool_calls": [{"function": {"name": name, "arguments": arguments}}]}


def answered(messages):
    return any(message["role"] == "tool" for message in messages)


def find(messages, tools):
    assert [tool["function"]["name"] for tool in tools] == ["look", "die", "end_turn"], tools
    return {"content": "the word is xyzzy"} if answered(messages) else call("look", content="I look.")


def broken(messages, tools):
    """Mistakes of a model, then the word."""
    replies = sum(message["role"] == "assistant" for message in messages)
    if replies == 0:
        return call("look", '{"at": ')
    if replies == 1:
        return {
            "content": "",
            "tool_calls": [call("fly")["tool_calls"][0], call("look")["tool_calls"][0]],
        }
    return {"content": "<think>\\nxyz\\n</think>\\nxyzzy"}


def guess(messages, tools):
    return {"content": "plugh"}


def kill(messages, tools):
    return call("die")


def every_other(messages, tools):
    """Every second episode kills its env, the others find the word."""
    if answered(messages):
        return {"content": "xyzzy"}
    return call("look") if next(_turn) % 2 else call("die")


def ramble(messages, tools):
    return {"content": "xyzzy " * 100}


def loud(messages, tools):
    return {"content": "I looked."} if answered(messages) else call("look", content="a" * 60)


def abort(messages, tools):
    return {"abort": True}
