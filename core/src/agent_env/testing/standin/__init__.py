"""A stand-in for a trainer's model server: Miles' session semantics, and a Python function as the model.

def reply(messages, tools):
return call("set_hour", hour=7) if len(messages) == 1 else say("done")

async with StandInModel(reply, session="v2") as model:
base_url = model.open_session()
...                                   # play against base_url
samples = model.samples(base_url)     # what the trainer would train on
"""

from agent_env.testing.standin.faults import Fault, Faults
from agent_env.testing.standin.matcher import strict_match
from agent_env.testing.standin.model import StandInModel
from agent_env.testing.standin.replies import call, calls, say
from agent_env.testing.standin.samples import Sample

__all__ = ["Fault", "Faults", "Sample", "StandInModel", "call", "calls", "say", "strict_match"]
