"""Finding plugins: what is imported when, threads, and what the report says of sound ones."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path

from agent_env.registry import Registry

Install = Callable[..., Path]
RewardHooks = Callable[..., str]

BOX_HOOKS = """
    from agent_env.plugin import SandboxInfo, hookimpl

    @hookimpl
    def agentenv_sandboxes():
        return [SandboxInfo("box", "A box", "acme_box:Box", options="acme_options:Options")]
"""


def test_only_what_is_asked_for_is_imported(install: Install) -> None:
    files = {
        "acme_hooks.py": BOX_HOOKS,
        "acme_box.py": "class Box: pass\n",
        "acme_options.py": "class Options: pass\n",
    }
    install("acme-box", "1.0", {"acme": "acme_hooks"}, files)
    registry = Registry()
    assert "acme_hooks" not in sys.modules
    info = registry.info("sandbox", "box")
    registry.report()
    assert "acme_hooks" in sys.modules
    assert not {"acme_box", "acme_options"} & set(sys.modules)
    assert registry.load("sandbox", "box").__name__ == "Box"
    assert "acme_options" not in sys.modules
    assert info.options is not None
    assert registry.load_string("sandbox", "box", info.options).__name__ == "Options"


def test_many_threads_find_plugins_once(install: Install) -> None:
    text = "import threading, time\nCALLS = []\ntime.sleep(0.05)\n" + "\n".join(
        line[4:] for line in BOX_HOOKS.splitlines()
    ).replace("    return", "    CALLS.append(threading.get_ident())\n    return")
    install("acme-box", "1.0", {"acme": "acme_hooks"}, {"acme_hooks.py": text})
    registry = Registry()
    barrier = threading.Barrier(8)
    seen: list[object] = []

    def look() -> None:
        barrier.wait()
        seen.append(registry.info("sandbox", "box"))

    threads = [threading.Thread(target=look) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 8
    assert len({id(info) for info in seen}) == 1
    assert len(sys.modules["acme_hooks"].CALLS) == 1


def test_the_same_entry_point_name_in_two_distributions(install: Install, reward_hooks: RewardHooks) -> None:
    install("acme-env", "2.0", {"same": "acme_hooks"}, {"acme_hooks.py": reward_hooks("one")})
    install("other-env", "0.3", {"same": "other_hooks"}, {"other_hooks.py": reward_hooks("two")})
    assert {"one", "two"} <= set(Registry().names("reward"))


def test_a_distribution_found_twice_counts_once(
    install: Install, reward_hooks: RewardHooks, tmp_path: Path, monkeypatch: object
) -> None:
    folder = install("acme-env", "2.0", {"acme": "acme_hooks"}, {"acme_hooks.py": reward_hooks("one")})
    copy = tmp_path / "copy"
    (copy / "Acme_Env-1.0.dist-info").mkdir(parents=True)
    (copy / "Acme_Env-1.0.dist-info" / "METADATA").write_text("Name: Acme_Env\nVersion: 1.0\n")
    (copy / "Acme_Env-1.0.dist-info" / "entry_points.txt").write_text("[agentenv]\nacme = acme_hooks\n")
    place = sys.path.index(str(folder)) + 1
    sys.path.insert(place, str(copy))
    try:
        rows = [row for row in Registry().report() if row.name == "one"]
    finally:
        sys.path.remove(str(copy))
    assert [(row.version, row.status) for row in rows] == [("2.0", "ok")]


def test_a_sound_row(install: Install, reward_hooks: RewardHooks) -> None:
    install(
        "Acme.Env",
        "2.0",
        {"acme": "acme_hooks"},
        {"acme_hooks.py": reward_hooks("one")},
        metadata="Project-URL: Changelog, https://example.com/c\nProject-URL: Homepage, https://example.com/h\n",
    )
    (row,) = [row for row in Registry().report(load=True) if row.name == "one"]
    assert (row.kind, row.summary, row.plugin, row.entry_point) == ("reward", "Says one", "Acme.Env 2.0", "acme")
    assert (row.status, row.reason, row.home_page) == ("ok", "", "https://example.com/h")


def test_an_object_of_a_module_can_be_the_plugin(install: Install) -> None:
    text = """
        from agent_env.plugin import RewardInfo, hookimpl

        class Hooks:
            @hookimpl
            def agentenv_rewards(self):
                return [RewardInfo("one", "One", "json:loads")]

        hooks = Hooks()
    """
    install("acme-env", "2.0", {"acme": "acme_hooks:hooks"}, {"acme_hooks.py": text})
    assert "one" in Registry().names("reward")


def test_a_plugin_that_offers_nothing_here_is_shown(install: Install, reward_hooks: RewardHooks) -> None:
    install("acme-env", "2.0", {"acme": "acme_hooks"}, {"acme_hooks.py": reward_hooks()})
    (row,) = [row for row in Registry().report() if row.distribution == "acme-env"]
    assert (row.kind, row.name, row.status, row.summary) == ("plugin", "acme", "ok", "offers nothing here")


def test_a_hook_wrapper_of_one_plugin_does_not_touch_another(install: Install, reward_hooks: RewardHooks) -> None:
    wrapper = """
        import pluggy

        @pluggy.HookimplMarker("agentenv")(wrapper=True)
        def agentenv_rewards():
            yield
            return []
    """
    install("bad-plugin", "1.0", {"bad": "bad_hooks"}, {"bad_hooks.py": wrapper})
    install("acme-env", "2.0", {"acme": "acme_hooks"}, {"acme_hooks.py": reward_hooks("one")})
    registry = Registry()
    assert "one" in registry.names("reward")
    (row,) = [row for row in registry.report() if row.distribution == "bad-plugin"]
    assert row.status == "failed"


def test_a_distribution_that_a_newer_one_hides_does_not_count(
    install: Install, reward_hooks: RewardHooks, tmp_path: Path
) -> None:
    folder = install("acme-env", "2.0", "[other.group]\nx = y\n")
    older = tmp_path / "older"
    (older / "acme_env-1.0.dist-info").mkdir(parents=True)
    (older / "acme_env-1.0.dist-info" / "METADATA").write_text("Name: acme-env\nVersion: 1.0\n")
    (older / "acme_env-1.0.dist-info" / "entry_points.txt").write_text("[agentenv]\nacme = acme_hooks\n")
    (older / "acme_hooks.py").write_text(reward_hooks("old"))
    sys.path.insert(sys.path.index(str(folder)) + 1, str(older))
    try:
        assert "old" not in Registry().names("reward")
    finally:
        sys.path.remove(str(older))


def test_a_distribution_without_a_name_is_shown(install: Install) -> None:
    folder = install("acme-env", "2.0", {"acme": "acme_hooks"})
    (folder / "acme_env-2.0.dist-info" / "METADATA").unlink()
    (row,) = [row for row in Registry().report() if row.distribution == "unknown"]
    assert row.status == "failed"
    assert row.reason == f"a distribution in {folder} has no name"
