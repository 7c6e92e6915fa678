"""Every way a plugin can be broken: it is named with its distribution and version, and the others keep working."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from agent_env.errors import PluginLoadError, UnknownName
from agent_env.registry import PluginRow, Registry, default_registry, forget_default_registry

Install = Callable[..., Path]
RewardHooks = Callable[..., str]

HEAD = "from agent_env.plugin import RewardInfo, SandboxInfo, hookimpl\n"
GOOD = "RewardInfo('fine', 'Is fine', 'json:loads')"

BROKEN_MODULES = [
    (
        "import",
        "from agent_env.plugin import nonsense",
        "cannot be imported: ImportError: cannot import name 'nonsense'",
    ),
    ("syntax", "def (", "cannot be imported: SyntaxError"),
    ("raises", "1/0", "cannot be imported: ZeroDivisionError: division by zero"),
    ("exits", "raise SystemExit('bye')", "cannot be imported: SystemExit: bye"),
    ("bad str", "class E(Exception):\n    def __str__(self): 1/0\nraise E", "cannot be imported: E"),
    ("dependency", "import no_such_sdk", "it needs the package 'no_such_sdk', which is not installed: pip install"),
    ("own module", "import bad_hooks.other", "there is no module 'bad_hooks.other'"),
    ("no hook", "x = 1", "implements no hook; there are: agentenv_sandboxes"),
    (
        "unmarked",
        "def agentenv_rewards():\n    return []",
        "agentenv_rewards() has no mark @agent_env.plugin.hookimpl",
    ),
    (
        "misspelled",
        f"{HEAD}@hookimpl\ndef agentenv_sandboxs():\n    return []",
        "there is no hook 'agentenv_sandboxs'; did you mean 'agentenv_sandboxes'?",
    ),
    (
        "far off",
        f"{HEAD}@hookimpl\ndef on_startup():\n    return []",
        "there is no hook 'on_startup'; there are: agentenv_sandboxes",
    ),
]

BROKEN_HOOKS = [
    ("argument", "def agentenv_rewards(config):\n    return []", "agentenv_rewards() must take no argument"),
    ("raises", "def agentenv_rewards():\n    1/0", "agentenv_rewards() raised ZeroDivisionError: division by zero"),
    ("exits", "def agentenv_rewards():\n    raise SystemExit", "agentenv_rewards() raised SystemExit"),
    ("none", "def agentenv_rewards():\n    pass", "returned a NoneType, expected a list of RewardInfo"),
    ("text", "def agentenv_rewards():\n    return 'x'", "returned a str, expected a list of RewardInfo"),
    ("yields", "def agentenv_rewards():\n    yield 1", "returned a generator, expected a list of RewardInfo"),
    ("async", "async def agentenv_rewards():\n    return []", "returned a coroutine, expected a list of RewardInfo"),
    ("single", f"def agentenv_rewards():\n    return {GOOD}", "returned a RewardInfo, expected a list of RewardInfo"),
]

BROKEN_INFOS = [
    ("SandboxInfo('x', 'y', 'json:loads')", "x", "expected a RewardInfo"),
    ("'mean'", "", "agentenv_rewards() holds 'mean', expected a RewardInfo"),
    ("RewardInfo", "", "expected a RewardInfo"),
    ("RewardInfo(None, 'y', 'json:loads')", "", "the name None is no string"),
    ("RewardInfo('', 'y', 'json:loads')", "", "'' is no name of a reward"),
    ("RewardInfo('Mean', 'y', 'json:loads')", "Mean", "lower-case letters"),
    ("RewardInfo('a b', 'y', 'json:loads')", "a b", "'a b' is no name of a reward"),
    ("RewardInfo('a:b', 'y', 'json:loads')", "a:b", "'a:b' is no name of a reward"),
    ("RewardInfo('a\\n', 'y', 'json:loads')", "a", "is no name of a reward"),
    ("RewardInfo('step', 'y', 'json:loads')", "step", "it has a meaning of its own"),
    ("RewardInfo('combiner', 'y', 'json:loads')", "combiner", "it has a meaning of its own"),
    ("RewardInfo('x', None, 'json:loads')", "x", "reward 'x': the summary None is no string"),
    ("RewardInfo('x', 'y', 'json.loads')", "x", "factory is 'json.loads', expected an import string"),
    ("RewardInfo('x', 'y', 'json:')", "x", "expected an import string"),
    ("RewardInfo('x', 'y', len)", "x", "expected an import string"),
    (GOOD, "fine", "gives 'fine' twice"),
]


def broken(registry: Registry) -> list[PluginRow]:
    return [row for row in registry.report() if row.distribution == "bad-plugin" and row.status == "failed"]


def good_still_works(registry: Registry) -> None:
    assert "sound" in registry.names("reward")
    assert registry.load("reward", "sound") is not None


@pytest.fixture
def with_good(install: Install, reward_hooks: RewardHooks) -> Callable[[str], Registry]:
    def make(text: str) -> Registry:
        install("bad-plugin", "1.2", {"bad": "bad_hooks"}, {"bad_hooks.py": text})
        install("good-plugin", "3.4", {"good": "good_hooks"}, {"good_hooks.py": reward_hooks("sound")})
        return Registry()

    return make


@pytest.mark.parametrize(("text", "reason"), [case[1:] for case in BROKEN_MODULES], ids=[c[0] for c in BROKEN_MODULES])
def test_a_broken_module(with_good: Callable[[str], Registry], text: str, reason: str) -> None:
    registry = with_good(text)
    (row,) = broken(registry)
    assert (row.kind, row.name, row.version, row.entry_point) == ("plugin", "bad", "1.2", "bad")
    assert reason in row.reason
    good_still_works(registry)


@pytest.mark.parametrize(("text", "reason"), [case[1:] for case in BROKEN_HOOKS], ids=[c[0] for c in BROKEN_HOOKS])
def test_a_broken_hook_and_the_plugins_other_hooks(
    with_good: Callable[[str], Registry], text: str, reason: str
) -> None:
    other = "@hookimpl\ndef agentenv_sandboxes():\n    return [SandboxInfo('box', 'A box', 'json:loads')]\n"
    registry = with_good(f"{HEAD}@hookimpl\n{text}\n{other}")
    (row,) = broken(registry)
    assert (row.kind, row.name, row.plugin) == ("reward", "", "bad-plugin 1.2")
    assert reason in row.reason
    assert "box" in registry.names("sandbox")
    good_still_works(registry)


@pytest.mark.parametrize(("element", "name", "reason"), BROKEN_INFOS, ids=[case[0] for case in BROKEN_INFOS])
def test_one_bad_element_of_a_list(with_good: Callable[[str], Registry], element: str, name: str, reason: str) -> None:
    registry = with_good(f"{HEAD}@hookimpl\ndef agentenv_rewards():\n    return [{GOOD}, {element}]\n")
    (row,) = broken(registry)
    assert (row.kind, row.name, row.plugin) == ("reward", name, "bad-plugin 1.2")
    assert reason in row.reason
    assert "fine" in registry.names("reward")
    good_still_works(registry)


def test_a_misspelled_hook_beside_a_good_one(with_good: Callable[[str], Registry]) -> None:
    text = (
        f"{HEAD}@hookimpl\ndef agentenv_rewards():\n    return [{GOOD}]\n@hookimpl\ndef agentenv_parser():\n    pass\n"
    )
    registry = with_good(text)
    (row,) = broken(registry)
    assert row.reason == "there is no hook 'agentenv_parser'; did you mean 'agentenv_parsers'?"
    assert "fine" in registry.names("reward")


def test_unreadable_entry_points_of_one_distribution(install: Install, reward_hooks: RewardHooks) -> None:
    install("bad-plugin", "1.2", "[agentenv]\nno equals sign here\n")
    install("other", "1", "[something.else]\nno equals sign here\n")
    install("good-plugin", "3.4", {"good": "good_hooks"}, {"good_hooks.py": reward_hooks("sound")})
    registry = Registry()
    (row,) = broken(registry)
    assert row.reason.startswith("entry points: ")
    assert not [row for row in registry.report() if row.distribution == "other"]
    good_still_works(registry)


def test_a_missing_dependency_names_the_extra_that_asks_for_it(install: Install) -> None:
    install(
        "acme-box",
        "1.0",
        {"acme": "acme_hooks"},
        {
            "acme_hooks.py": f"{HEAD}@hookimpl\ndef agentenv_sandboxes():\n"
            "    return [SandboxInfo('acme', 'Acme', 'acme_box:Box'), SandboxInfo('extra', 'E', 'acme_extra:Box')]\n",
            "acme_box.py": "import no_such_sdk\n",
            "acme_extra.py": "import no_such_gpu.driver\n",
        },
        metadata='Requires-Dist: No-Such_SDK>=1\nRequires-Dist: no-such-gpu; extra == "gpu"\n',
    )
    registry = Registry()
    assert {"acme", "extra"} <= set(registry.names("sandbox"))
    with pytest.raises(PluginLoadError) as caught:
        registry.load("sandbox", "acme")
    assert str(caught.value) == (
        "sandbox 'acme' of acme-box 1.0 cannot be imported: it needs the package 'no_such_sdk', "
        'which is not installed: pip install "acme-box"'
    )
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)
    with pytest.raises(PluginLoadError, match=r'pip install "acme-box\[gpu\]"'):
        registry.load("sandbox", "extra")


@pytest.mark.parametrize(
    ("factory", "reason"),
    [
        ("acme_box:Missing", "acme_box has no 'Missing'"),
        ("acme_box:Box.missing", "acme_box has no 'Box.missing'"),
        ("acme_none:Box", "there is no module 'acme_none'"),
        ("acme_raises:Box", "RuntimeError: no licence"),
    ],
)
def test_a_factory_that_cannot_be_imported(install: Install, factory: str, reason: str) -> None:
    files = {
        "acme_hooks.py": f"{HEAD}@hookimpl\n"
        f"def agentenv_sandboxes():\n    return [SandboxInfo('acme', 'A', {factory!r})]\n",
        "acme_box.py": "class Box: pass\n",
        "acme_raises.py": "raise RuntimeError('no licence')\n",
    }
    install("acme-box", "1.0", {"acme": "acme_hooks"}, files)
    registry = Registry()
    assert [row.status for row in registry.report() if row.name == "acme"] == ["ok"]
    with pytest.raises(PluginLoadError) as caught:
        registry.load("sandbox", "acme")
    assert "sandbox 'acme' of acme-box 1.0" in str(caught.value)
    (row,) = [row for row in registry.report(load=True) if row.name == "acme"]
    assert row.status == "failed"
    assert reason in row.reason


def test_a_plugin_that_looks_plugins_up_while_it_is_imported(install: Install, reward_hooks: RewardHooks) -> None:
    text = reward_hooks(
        "late", before="from agent_env.registry import default_registry\ndefault_registry().names('step')"
    )
    install("bad-plugin", "1.2", {"bad": "bad_hooks"}, {"bad_hooks.py": text})
    forget_default_registry()
    try:
        (row,) = broken(default_registry())
    finally:
        forget_default_registry()
    assert "asked for other plugins while its hook module was imported" in row.reason


def test_an_unknown_name_says_what_failed_to_load(with_good: Callable[[str], Registry]) -> None:
    registry = with_good("import no_such_sdk")
    with pytest.raises(UnknownName) as caught:
        registry.info("sandbox", "acme")
    assert "failed to load: bad-plugin 1.2 (bad): cannot be imported: it needs the package" in str(caught.value)


def test_texts_of_strangers_cannot_write_to_the_terminal(with_good: Callable[[str], Registry]) -> None:
    registry = with_good("raise RuntimeError('\\x1b[2Jgone\\n\\x07' + 'x' * 5000)")
    (row,) = broken(registry)
    assert row.reason.isprintable()
    assert len(row.reason) <= 500


def test_an_object_that_cannot_be_called(with_good: Callable[[str], Registry]) -> None:
    good, wrong = "RewardInfo('fine', 'y', 'json:loads')", "RewardInfo('wrong', 'y', 'json:__version__')"
    registry = with_good(f"{HEAD}@hookimpl\ndef agentenv_rewards():\n    return [{good}, {wrong}]\n")
    rows = {row.name: row for row in registry.report(load=True) if row.distribution == "bad-plugin"}
    assert rows["fine"].status == "ok"
    assert rows["wrong"].status == "failed"
    assert rows["wrong"].reason == "reward 'wrong': json:__version__ is no function or class"
