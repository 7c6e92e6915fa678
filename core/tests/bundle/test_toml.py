"""The TOML files of a bundle: keys, types, and what a wrong file takes with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from agent_env.bundle import load_bundle
from agent_env.bundle.check import check_bundle
from agent_env.errors import BundleError
from agent_env.plugin.sandbox import BuildContext, ImageRef

if TYPE_CHECKING:
    from agent_env.bundle import Bundle

FINE = [
    {"id": "agent", "type": "deploy_agent"},
    {"id": "ask", "type": "prompt_agent", "prompt": "Hi", "prompt_id": "p"},
]
JUDGE = {
    "id": "says",
    "type": "agent_prompt_response_verifier",
    "prompt_id": "p",
    "criteria": [{"type": "response_contains", "needles": ["hi"]}],
}

WRONG_ENVS = {
    'environment_nam = "echo"': "unknown key 'environment_nam'; did you mean 'environment_name'?",
    "type = 3": "'type' has to be a string",
    'type = "website"': "does not play",
    'type = "mcp-server"': "did you mean 'mcp_server'?",
    'env_provider_type = "cluster"': "'gateway' or 'server'",
    'id = "echo"': "'@local/'",
    'id = "@local/a/../b"': "'..'",
    'id = "@local/a//b"': "empty",
    'environment_name = ""': "not empty",
    'image = {dockerfile = "Dockerfile.gpu"}': "no file 'Dockerfile.gpu'",
    'image = {dockerfile = "../echo/Dockerfile"}': None,
    'image = {dockerfile = "../../README.md"}': "no file",
    'image = {ref = "python:3.11"}': "registry",
    'image = {url = "x"}': "'image' has to be",
    'image = "check"': "no docker_image",
    'image = "imige"': "did you mean 'image'?",
    "type = ": "is not TOML",
}


@pytest.mark.parametrize("text", WRONG_ENVS)
def test_a_wrong_env_leaves_out_the_tasks_that_use_it(write: Any, text: str) -> None:
    files = {
        "envs/echo/env.toml": f"\n{text}\n",
        "artifacts/image/Dockerfile": "FROM scratch\n",
        "tasks/talk.json": [*FINE, JUDGE],
    }

    folder = write(files)
    bundle = load_bundle(folder)

    words = WRONG_ENVS[text]
    if words is None:
        assert set(bundle.templates) == {"play", "talk"}
        return
    assert set(bundle.templates) == {"talk"}
    assert {problem.task for problem in bundle.left_out} == {"play"}
    own = [problem for problem in bundle.problems if str(problem.path) == "envs/echo/env.toml"]
    assert [problem.line for problem in own] == [2]
    assert words in own[0].message
    assert len(bundle.left_out) == 1
    assert list(check_bundle(folder).problems) == own


def test_what_else_an_env_says_of_its_start(write: Any) -> None:
    folder = write(
        {
            "envs/echo/agentenv.toml": "startup_timeout = 2.5\n[docker]\nread_only = true\n[acme]\nzone = 3\n",
            "envs/quick/Dockerfile": "FROM scratch\n",
        }
    )

    bundle = load_bundle(folder)

    assert bundle.problems == ()
    assert bundle.env("echo").startup_timeout == 2.5
    assert bundle.env("quick").startup_timeout is None


def test_images_of_envs(write: Any) -> None:
    folder = write(
        {
            "envs/echo/Dockerfile.gpu": "FROM scratch\n",
            "envs/echo/env.toml": 'image = {dockerfile = "Dockerfile.gpu"}',
            "envs/far/env.toml": 'image = {ref = "registry.example.org/team/env:1"}\nenv_provider_type = "server"',
            "envs/art/env.toml": 'image = "image"',
            "envs/bare/agentenv.toml": '[process]\ncommand = ["python", "x.py"]\nport = 9000\nprefork = true',
            "artifacts/image/Dockerfile": "FROM scratch\n",
        }
    )

    bundle = load_bundle(folder)

    assert bundle.env("echo").image == BuildContext(folder / "envs/echo", dockerfile="Dockerfile.gpu")
    assert bundle.env("far").image == ImageRef("registry.example.org/team/env:1")
    assert bundle.env("art").image == BuildContext(folder / "artifacts/image")
    assert bundle.env("bare").image == BuildContext(folder / "envs/bare")


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"envs/two/server.py": ""}, "has no Dockerfile"),
        ({"envs/two/dockerfile": "x"}, "did you mean 'Dockerfile'?"),
        ({"envs/two/Dockerfile": "x", "envs/two/Env.toml": ""}, "did you mean 'env.toml'?"),
        ({"envs/two/Dockerfile": "x", "envs/two/agentenv.toml": "[proces]"}, "did you mean 'process'?"),
        ({"envs/two/Dockerfile": "x", "envs/two/agentenv.toml": "[process]\npre_fork = true"}, "'prefork'?"),
        ({"envs/two/Dockerfile": "x", "envs/two/agentenv.toml": '[process]\ncommand = "python"'}, "list of strings"),
        ({"envs/two/Dockerfile": "x", "envs/two/agentenv.toml": "[process]\nport = 99999"}, "port number"),
        ({"envs/two/Dockerfile": "x", "envs/two/agentenv.toml": "[process]\nprefork = 1"}, "true or false"),
        ({"envs/two/Dockerfile": "x", "envs/two/agentenv.toml": "startup = 9"}, "did you mean 'startup_timeout'?"),
        ({"envs/two/Dockerfile": "x", "envs/two/agentenv.toml": "docker = 1"}, "tables of sandbox providers"),
        ({"envs/two/Dockerfile": "x", "envs/two/agentenv.toml": "startup_timeout = 0"}, "seconds above 0"),
        ({"envs/two/Dockerfile": "x", "envs/two/agentenv.toml": "startup_timeout = nan"}, "seconds above 0"),
        ({"envs/two/Dockerfile": "x", "envs/two/agentenv.toml": "startup_timeout = true"}, "seconds above 0"),
        ({"artifacts/two/a": "", "artifacts/two/artifact.toml": 'typ = "file"'}, "did you mean 'type'?"),
        ({"artifacts/two/a": "", "artifacts/two/artifact.toml": 'type = "files"'}, "did you mean 'file'?"),
        ({"artifacts/two/a": "", "artifacts/two/artifact.toml": "type = 1"}, "has to be a string"),
        ({"artifacts/two/a": "", "artifacts/two/b": "", "artifacts/two/artifact.toml": 'type = "file"'}, "2 files"),
        ({"artifacts/two/a": "", "artifacts/two/artifact.toml": 'file = "c"'}, "no file 'c'"),
        ({"artifacts/two/a": "", "artifacts/two/artifact.toml": 'type = "docker_image"'}, "needs a Dockerfile"),
        ({"artifacts/two/artifact.toml": 'type = "docker_image"\nref = "x:1"'}, "registry"),
        ({"artifacts/two/Artifact.toml": ""}, "did you mean 'artifact.toml'?"),
        ({"artifacts/two/artifact.toml": ""}, "holds no file"),
        ({"agents/two/notes.txt": ""}, "neither a Dockerfile nor an agent.toml"),
        ({"agents/two/agent.toml": "imag = 1"}, "did you mean 'image'?"),
        ({"agents/two/agent.toml": "metadata = 1"}, "has to be a table"),
        ({"agents/two/agent.toml": "type = 1"}, "has to be a string"),
        ({"skills/two/skill.md": "x"}, "rename 'skill.md'"),
        ({"skills/two/x.txt": "x"}, "has no SKILL.md"),
    ],
)
def test_an_unused_wrong_entity_is_a_problem_that_stops_nothing(write: Any, files: Any, words: str) -> None:
    bundle = load_bundle(write(files))

    assert any(words in problem.message for problem in bundle.problems)
    assert not bundle.left_out
    assert list(bundle.templates) == ["play"]


WRONG_FILES = {
    "aliases.toml": {
        "[env]": "did you mean 'envs'?",
        '[envs]\necoh = ["e"]': "did you mean 'echo'?",
        '[envs]\necho = "e"': "list of strings",
        '[envs]\necho = ["E"]': "a-z, 0-9 and -",
        '[envs]\necho = [""]': "a-z, 0-9 and -",
        f'[envs]\necho = ["{"a" * 65}"]': "a-z, 0-9 and -",
        "[envs]\necho = [1]": "a-z, 0-9 and -",
        '[envs]\necho = ["e", "e"]': "already a name of 'echo'",
        "envs = 1": "has to be a table",
    },
    "evals/some.toml": {
        'tasks = ["play"]\nrepeat = 2': "unknown key 'repeat'",
        'tasks = ["play"]\ntype = "evals"': '"eval"',
        'tasks = ["play"]\nid = "some"': "'@local/'",
        "tasks = []": "at least one name",
        'tasks = "play"': "list of task names",
        'type = "eval"': "list of task names",
        'tasks = ["play", "play"]': "twice",
        "tasks = [1]": "named by a string",
        'tasks = ["plai"]': "did you mean 'play'?",
        'tasks = ["pl*", "play"]': "a task stands once",
        'tasks = ["nothing*"]': "matches no task",
        'tasks = ["play/0"]': "there is no task 'play/0'",
        "tasks = [": "is not TOML",
    },
    "evals/all.toml": {'tasks = ["play"]': "cannot be named 'all'"},
}


@pytest.mark.parametrize(("path", "text"), [(path, text) for path, texts in WRONG_FILES.items() for text in texts])
def test_wrong_aliases_and_evals_stop_the_bundle(write: Any, path: str, text: str) -> None:
    with pytest.raises(BundleError) as caught:
        load_bundle(write({path: text}))

    problems = [problem for problem in caught.value.problems if str(problem.path) == path]
    assert any(WRONG_FILES[path][text] in problem.message for problem in problems)


def test_envs_and_artifacts_by_name_id_and_alias(write: Any) -> None:
    folder = write(
        {
            "aliases.toml": '[envs]\necho = ["echo", "parrot"]\n[agents]\n',
            "envs/echo/env.toml": 'id = "@local/team/echo"',
            "artifacts/check/artifact.toml": 'id = "@local/team/check"\ndescription = "x"',
        }
    )

    bundle: Bundle = load_bundle(folder)

    assert bundle.env("parrot") is bundle.env("echo") is bundle.env("@local/team/echo")
    assert bundle.artifact("@local/team/check").file == folder / "artifacts/check/verify.py"
    with pytest.raises(BundleError, match="did you mean 'echo'"):
        bundle.env("Echo")
    with pytest.raises(BundleError, match="did you mean 'check'"):
        bundle.artifact("chek")


def test_types_of_artifacts(write: Any) -> None:
    folder = write(
        {
            "artifacts/many/a.txt": "a",
            "artifacts/many/deep/b.txt": "b",
            "artifacts/image/Dockerfile": "FROM scratch",
            "artifacts/far/artifact.toml": 'type = "docker_image"\nref = "registry.example.org/x:1"',
            "artifacts/data/artifact.toml": 'type = "environment"\nenvironment_name = "echo"\nfile = "seed.json"',
            "artifacts/data/seed.json": "{}",
            "artifacts/data/readme.md": "x",
        }
    )

    artifacts = load_bundle(folder).artifacts

    assert {name: artifact.type for name, artifact in artifacts.items()} == {
        "check": "file",
        "many": "file_artifact_universe",
        "image": "docker_image",
        "far": "docker_image",
        "data": "environment",
    }
    assert artifacts["many"].files == (folder / "artifacts/many/a.txt", folder / "artifacts/many/deep/b.txt")
    assert artifacts["many"].file is None
    assert artifacts["data"].file == folder / "artifacts/data/seed.json"
    assert artifacts["far"].image == ImageRef("registry.example.org/x:1")


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ('from agent_env.env import Env\nclass E(Env, name="clock"):\n    pass\n', "clock"),
        ('@environment_card(name="clock")\nclass E:\n    pass\n', "clock"),
        ('@sdk.environment_card(name="a")\nclass E: ...\n@sdk.environment_card(name="b")\nclass F: ...\n', None),
        ("NAME = 'x'\n@environment_card(name=NAME)\nclass E: ...\n", None),
        ("@environment_card(name='x')\nclass E(:\n", None),
        ("print('a plain server')\n", None),
    ],
)
def test_the_name_on_a_card_is_read_from_the_source(write: Any, source: str, name: str | None) -> None:
    folder = write({"envs/clock/Dockerfile": "FROM scratch", "envs/clock/server.py": source})

    assert load_bundle(folder).env("clock").environment_name == name
