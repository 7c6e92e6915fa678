"""Looking names up: unknown names, clashes, switches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from agent_env.errors import NameClash, UnknownName
from agent_env.plugin import CommandInfo, RewardInfo, SandboxInfo, hookimpl
from agent_env.registry import Registry, default_registry, forget_default_registry
from agent_env.registry.hints import hints
from agent_env.registry.install import checkout_folder
from agent_env.registry.kinds import KINDS

Install = Callable[..., Path]
RewardHooks = Callable[..., str]


def rewards(*names: str) -> SimpleNamespace:
    @hookimpl
    def agentenv_rewards() -> list[RewardInfo]:
        return [RewardInfo(name, f"Says {name}", "json:loads") for name in names]

    return SimpleNamespace(agentenv_rewards=agentenv_rewards)


def sandboxes(*names: str) -> SimpleNamespace:
    @hookimpl
    def agentenv_sandboxes() -> list[SandboxInfo]:
        return [SandboxInfo(name, f"Says {name}", "json:loads", "json:dumps") for name in names]

    return SimpleNamespace(agentenv_sandboxes=agentenv_sandboxes)


def commands(*names: str) -> SimpleNamespace:
    @hookimpl
    def agentenv_commands() -> list[CommandInfo]:
        return [CommandInfo(name, f"Says {name}", "json:loads") for name in names]

    return SimpleNamespace(agentenv_commands=agentenv_commands)


def registry(plugins: dict[str, object], **switches: tuple[str, ...]) -> Registry:
    return Registry(plugins, entry_points=False, disabled=switches.get("disabled", ()), allowed=switches.get("allowed"))


# -- names ------------------------------------------------------------------------------------------------------------


def test_names_infos_and_objects() -> None:
    import json

    found = registry({"acme:a": sandboxes("zoo", "ark"), "acme:b": rewards("r")})
    assert found.names("sandbox") == ("ark", "zoo")
    assert found.names("parser") == ()
    assert found.info("sandbox", "ark").options == "json:dumps"
    assert found.load("sandbox", "ark") is json.loads
    assert found.load_string("sandbox", "ark", "json:dumps") is json.dumps


def test_nothing_installed_gives_empty_kinds() -> None:
    assert [registry({}).names(kind) for kind in KINDS] == [()] * len(KINDS)


def test_an_unknown_name_says_what_is_there_and_what_was_meant() -> None:
    with pytest.raises(UnknownName) as caught:
        registry({"acme:a": sandboxes("docker", "kiosk")}).info("sandbox", "dokcer")
    assert str(caught.value) == "unknown sandbox 'dokcer'; installed: docker, kiosk. Did you mean 'docker'?"


@pytest.mark.parametrize(
    ("kind", "name", "package"),
    [
        ("sandbox", "modal", "agentenv-sandbox-modal"),
        ("trainer", "trl", "agentenv-trainer-trl"),
        ("parser", "gpt_oss", "agentenv-parser-gpt-oss"),
        ("reward", "weighted", "agentenv-reward-basic"),
        ("reward", "gate", "agentenv-reward-gated"),
        ("parser", "qwen3_coder", "agentenv-parser-qwen"),
    ],
)
def test_one_of_ours_that_is_not_installed_says_how_to_install_it(kind: str, name: str, package: str) -> None:
    with pytest.raises(UnknownName) as caught:
        registry({}).load(kind, name)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    folder = {"sandbox": "sandboxes", "trainer": "trainers", "reward": "rewards", "parser": "parsers"}[kind]
    leaf = package.removeprefix(f"agentenv-{kind}-").replace("-", "_")
    assert str(caught.value) == (
        f'unknown {kind} {name!r}; installed: none. It comes with another package: pip install "{package}", '
        f"or in a checkout of AgentEnv: pip install ./plugins/{folder}/{leaf}."
    )
    assert (Path(__file__).parents[3] / "plugins" / folder / leaf / "pyproject.toml").is_file()


@pytest.mark.parametrize("kind", ["sandbox", "trainer", "parser"])
def test_with_none_installed_an_unknown_name_says_what_there_is(kind: str) -> None:
    with pytest.raises(UnknownName) as caught:
        registry({}).load(kind, "xqzw")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert f"Packages that have one: agentenv-{kind}-" in str(caught.value)
    assert "in a checkout of AgentEnv: pip install ./plugins/" in str(caught.value)


def test_the_hints_know_what_our_distributions_offer() -> None:
    offered = [row for row in default_registry().report() if row.distribution.startswith("agentenv-")]
    for kind in ("sandbox", "trainer", "reward", "parser"):
        known = hints(kind)
        for row in offered:
            if row.kind == kind:
                assert known.get(row.name) == row.distribution, row.name


def test_every_package_that_a_hint_names_is_in_the_checkout() -> None:
    root = Path(__file__).parents[3]
    for kind in KINDS:
        for package in hints(kind).values():
            place = checkout_folder(package)
            assert place is not None
            assert (root / place / "pyproject.toml").is_file(), package


def test_a_misspelled_name_of_ours_says_both() -> None:
    with pytest.raises(UnknownName, match=r"""Did you mean 'modal' \(pip install "agentenv-sandbox-modal", or in a"""):
        registry({}).info("sandbox", "modl")


def test_no_install_hint_for_a_package_that_is_there_and_off() -> None:
    off = registry({"agentenv-sandbox-modal:modal": sandboxes("modal")}, disabled=("modal",))
    with pytest.raises(UnknownName) as caught:
        off.info("sandbox", "modal")
    assert "pip install" not in str(caught.value)
    assert "off: agentenv-sandbox-modal (modal): switched off by AGENTENV_DISABLE_PLUGINS=modal" in str(caught.value)


def test_an_unknown_kind() -> None:
    with pytest.raises(UnknownName, match="there is no kind 'sandboxes' of plugin; there are: sandbox, reward"):
        registry({}).names("sandboxes")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


# -- clashes ----------------------------------------------------------------------------------------------------------


def test_two_distributions_claim_one_name(install: Install, reward_hooks: RewardHooks) -> None:
    install("acme-env", "2.0", {"same": "acme_hooks"}, {"acme_hooks.py": reward_hooks("twin", "only-acme")})
    install("other-env", "0.3", {"same": "other_hooks"}, {"other_hooks.py": reward_hooks("twin", "only-other")})
    found = Registry()
    assert {"only-acme", "only-other"} <= set(found.names("reward"))
    assert "twin" not in found.names("reward")
    with pytest.raises(NameClash) as caught:
        found.load("reward", "twin")
    message = str(caught.value)
    assert "reward 'twin' is defined by" in message
    assert "acme-env 2.0" in message
    assert "other-env 0.3" in message
    rows = [row for row in found.report() if row.name == "twin"]
    assert [(row.distribution, row.status, row.reason) for row in rows] == [
        ("acme-env", "clash", message),
        ("other-env", "clash", message),
    ]
    named = message.rpartition("AGENTENV_DISABLE_PLUGINS=")[2]
    assert "twin" in Registry(disabled=[named]).names("reward")


def test_two_entry_points_of_one_distribution_claim_one_name() -> None:
    found = registry({"acme:one": rewards("twin"), "acme:two": rewards("twin")})
    with pytest.raises(NameClash, match=r"acme \(entry point 'one'\) and acme \(entry point 'two'\).*PLUGINS=two"):
        found.info("reward", "twin")


def test_one_module_behind_two_entry_points_is_a_clash_and_no_crash() -> None:
    module = rewards("twin")
    found = registry({"a:x": module, "b:x": module})
    assert {row.status for row in found.report()} == {"clash"}


def test_nobody_takes_a_command_of_the_core_away() -> None:
    core, foreign = commands("plugins list", "serve"), commands("plugins list", "serve", "plugins", "serve fast", "ok")
    found = registry({"agentenv-core:cli": core, "acme:acme": foreign})
    assert found.names("command") == ("ok", "plugins list", "serve")
    clashes = [(row.name, row.distribution) for row in found.report() if row.status == "clash"]
    assert clashes == [(name, "acme") for name in ("plugins", "plugins list", "serve", "serve fast")]


# -- switches ---------------------------------------------------------------------------------------------------------

BOTH: dict[str, object] = {"acme-env:fast": rewards("a"), "Other_Env:slow": rewards("b")}


@pytest.mark.parametrize(
    ("disabled", "allowed", "left"),
    [
        ((), None, ("a", "b")),
        (("acme-env",), None, ("b",)),
        (("ACME_env",), None, ("b",)),
        (("Fast",), None, ("b",)),
        (("other.env",), None, ("a",)),
        (("*",), None, ()),
        ((), ("slow",), ("b",)),
        ((), ("OTHER-ENV", "acme_env"), ("a", "b")),
        ((), ("*",), ("a", "b")),
        ((), (), ()),
        (("slow",), ("slow",), ()),
    ],
)
def test_plugins_are_switched_by_either_name(
    disabled: tuple[str, ...], allowed: tuple[str, ...] | None, left: tuple[str, ...]
) -> None:
    found = Registry(BOTH, entry_points=False, disabled=disabled, allowed=allowed)
    assert found.names("reward") == left
    assert len([row for row in found.report() if row.status == "disabled"]) == 2 - len(left)


def test_a_plugin_that_is_off_is_not_imported(install: Install) -> None:
    install("acme-env", "2.0", {"acme": "acme_hooks"}, {"acme_hooks.py": "raise AssertionError"})
    (row,) = [row for row in Registry(disabled=["acme"]).report() if row.distribution == "acme-env"]
    assert (row.kind, row.name, row.status, row.version) == ("plugin", "acme", "disabled", "2.0")
    assert row.reason == "switched off by AGENTENV_DISABLE_PLUGINS=acme"


@pytest.mark.parametrize("name", ["core", "cli", "agentenv-core", "AgentEnv_Core"])
def test_the_cores_own_parts_stay_on_and_it_says_so(name: str) -> None:
    plugins: dict[str, object] = {"agentenv-core:core": rewards("a"), "agentenv-core:cli": commands("c")}
    found = Registry(plugins, entry_points=False, disabled=[name], allowed=[])
    assert found.names("reward") == ("a",)
    assert found.names("command") == ("c",)
    assert found.notes == (f"AGENTENV_DISABLE_PLUGINS: {name!r} is a part of the core and cannot be switched off",)
    assert Registry(plugins, entry_points=False, disabled=["*"]).notes == ()


def test_a_switch_that_names_nothing_is_noted() -> None:
    found = Registry(BOTH, entry_points=False, disabled=["acme-evn"], allowed=["fast", "slow", "typo"])
    assert found.notes == (
        "AGENTENV_DISABLE_PLUGINS: no plugin is called 'acme-evn'; installed: acme-env, other-env",
        "AGENTENV_PLUGINS: no plugin is called 'typo'; installed: acme-env, other-env",
    )


def test_the_default_registry_follows_the_environment(
    install: Install, reward_hooks: RewardHooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("acme-env", "2.0", {"acme": "acme_hooks"}, {"acme_hooks.py": reward_hooks("acme-reward")})
    forget_default_registry()
    try:
        assert "acme-reward" in default_registry().names("reward")
        assert default_registry() is default_registry()
        monkeypatch.setenv("AGENTENV_DISABLE_PLUGINS", " other , acme-env ")
        assert "acme-reward" not in default_registry().names("reward")
        monkeypatch.setenv("AGENTENV_DISABLE_PLUGINS", "")
        monkeypatch.setenv("AGENTENV_PLUGINS", "acme")
        assert default_registry().names("reward") == ("acme-reward",)
    finally:
        forget_default_registry()
