"""The chat loop that every trainer adapter shares: messages and tools -> model -> calls -> episode.

Importing this package is light; httpx is imported when a chat endpoint is first asked.
"""

from agent_env.rollout.chat import ChatModel
from agent_env.rollout.loop import Rollout, Settings
from agent_env.rollout.model import ContextFull, Model, ModelFailed, Reply
from agent_env.rollout.opening import Target
from agent_env.rollout.result import Result, result_dict
from agent_env.rollout.supervise import Supervisor

__all__ = [
    "ChatModel",
    "ContextFull",
    "Model",
    "ModelFailed",
    "Reply",
    "Result",
    "Rollout",
    "Settings",
    "Supervisor",
    "Target",
    "result_dict",
]
