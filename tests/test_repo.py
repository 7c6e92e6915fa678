"""The rules of this repository. Each is a function from a tree to its problems, held against this tree and against a
sound one with a planted violation, so that no rule can be one that never finds anything."""

from __future__ import annotations

import ast
import re
import statistics
import subprocess
import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
KINDS = {"sandboxes": "sandbox", "trainers": "trainer", "rewards": "reward", "parsers": "parser"}
LEAF_FOLDERS = {"sandboxes": "sandboxes", "trainers": "training", "rewards": "rewards", "parsers": "parsers"}

Rule = Callable[[Path], Iterator[str]]


# -- what a tree holds ------------------------------------------------------------------------------------------------


def tracked(root: Path) -> list[Path]:
    """Files that are or would be committed."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode == 0 and (root / ".git").exists():
        return sorted({root / name for name in listed.stdout.split("\0") if name and (root / name).is_file()})
    return sorted(path for path in root.rglob("*") if path.is_file())


def python_files(root: Path) -> list[Path]:
    return [path for path in tracked(root) if path.suffix == ".py"]


def sources(root: Path) -> list[tuple[Path, str]]:
    """Python files under a ``src`` folder of core or a plugin, with their module names."""
    found: list[tuple[Path, str]] = []
    for path in python_files(root):
        parts = path.relative_to(root).parts
        if parts[0] in {"core", "plugins"} and "src" in parts:
            module = parts[parts.index("src") + 1 :]
            names = [*module[:-1], module[-1].removesuffix(".py")]
            found.append((path, ".".join(names).removesuffix(".__init__")))
    return found


@cache
def imports_of(path: Path, text: str) -> tuple[str, ...]:
    """Every module that a file imports, anywhere in it; ``from a import b`` counts as ``a.b``."""
    found: list[str] = []
    for node in ast.walk(ast.parse(text, str(path))):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return tuple(found)


def project(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))


def plugin_folders(root: Path) -> list[Path]:
    return sorted(path.parent for path in root.glob("plugins/*/*/pyproject.toml"))


def leaf_of(folder: Path) -> str:
    """Module of a plugin's own package."""
    return f"agent_env.{LEAF_FOLDERS[folder.parent.name]}.{folder.name}"


# -- rules: packages --------------------------------------------------------------------------------------------------


def namespaces_have_no_init(root: Path) -> Iterator[str]:
    namespaces = {"agent_env", *(f"agent_env/{kind}" for kind in {*LEAF_FOLDERS.values(), *LEAF_FOLDERS})}
    for path in python_files(root):
        parts = path.relative_to(root).parts
        inside = "/".join(parts[parts.index("src") + 1 : -1]) if "src" in parts else ""
        if path.name == "__init__.py" and inside in namespaces:
            yield f"{path.relative_to(root)}: a namespace package has no __init__.py"


def folders_of_tests_are_no_packages(root: Path) -> Iterator[str]:
    for path in python_files(root):
        parts = path.relative_to(root).parts
        if path.name == "__init__.py" and "tests" in parts and "src" not in parts:
            yield f"{path.relative_to(root)}: test folders are no packages"


def core_packages_have_an_init(root: Path) -> Iterator[str]:
    base = root / "core/src/agent_env"
    for path, _ in sources(root):
        if "templates" in path.parts:  # files that a command copies
            continue
        if path.is_relative_to(base) and path.parent != base and not (path.parent / "__init__.py").exists():
            yield f"{path.relative_to(root)}: its folder has no __init__.py"


def front_module(folder: Path) -> str:
    """The one module that a trainer's plugin may have beside its leaf, named like its distribution: some trainers load
    by a top-level name only.
    """
    return f"agentenv_trainer_{folder.name}" if folder.parent.name == "trainers" else ""


def plugins_write_only_to_their_leaf(root: Path) -> Iterator[str]:
    for folder in plugin_folders(root):
        leaf = folder / "src" / leaf_of(folder).replace(".", "/")
        for name in ("__init__.py", "py.typed", "hooks.py"):
            if not (leaf / name).exists():
                yield f"{leaf.relative_to(root)} has no {name}"
        for path in tracked(root):
            if path == folder / "src" / f"{front_module(folder)}.py":
                continue
            if path.is_relative_to(folder / "src") and not path.is_relative_to(leaf):
                yield f"{path.relative_to(root)} is outside {leaf.relative_to(root)}"


def plugin_names_agree(root: Path) -> Iterator[str]:
    """Distribution, entry point and folder say the same."""
    for folder in plugin_folders(root):
        about = project(folder)["project"]
        name = f"agentenv-{KINDS[folder.parent.name]}-{folder.name.replace('_', '-')}"
        expected = {folder.name: f"{leaf_of(folder)}.hooks"}
        if about["name"] != name:
            yield f"{folder.relative_to(root)}: the distribution is {about['name']}, expected {name}"
        given = {name.replace("-", "_"): value for name, value in about["entry-points"].get("agentenv", {}).items()}
        if given != expected:
            yield f"{folder.relative_to(root)}: the entry points are {about['entry-points']}, expected {expected}"
        if "agentenv-core>=0.1,<0.2" not in about["dependencies"]:
            yield f"{folder.relative_to(root)}: it must depend on agentenv-core>=0.1,<0.2"


def root_lists_every_member(root: Path) -> Iterator[str]:
    """Dependencies, workspace sources and mypy's paths of the root: `uv run` in a fresh clone needs them all."""
    members = {"agentenv-core": root / "core"}
    members |= {project(folder)["project"]["name"]: folder for folder in plugin_folders(root)}
    config = project(root)
    named = {re.split(r"[\[<>=~! ;]", line, maxsplit=1)[0] for line in config["project"]["dependencies"]}
    sourced = {name for name, where in config["tool"]["uv"]["sources"].items() if where == {"workspace": True}}
    typed = set(config["tool"]["mypy"]["mypy_path"])
    paths = {f"{folder.relative_to(root).as_posix()}/src" for folder in members.values()}
    for what, have, want in (
        ("dependencies", named, set(members)),
        ("tool.uv.sources", sourced, set(members)),
        ("tool.mypy.mypy_path", typed, paths),
    ):
        if have != want:
            yield f"pyproject.toml: {what}: missing {sorted(want - have)}, too many {sorted(have - want)}"


# -- rules: imports ---------------------------------------------------------------------------------------------------

_BELOW_BUNDLE = ("agent_env.errors", "agent_env.plugin", "agent_env.registry")
ALLOWED: Mapping[str, tuple[str, ...]] = {
    "agent_env.errors": (),
    "agent_env.plugin": ("agent_env.errors",),
    "agent_env.registry": ("agent_env.errors", "agent_env.plugin"),
    "agent_env.bundle": _BELOW_BUNDLE,
    "agent_env.env": (*_BELOW_BUNDLE, "agent_env.bundle"),
    "agent_env.episode": (*_BELOW_BUNDLE, "agent_env.bundle", "agent_env.env"),
    "agent_env.openenv.wire": ("agent_env.errors", "agent_env.plugin"),
    "agent_env.openenv.client": ("agent_env.errors", "agent_env.plugin", "agent_env.openenv.wire"),
    "agent_env.openenv": (*_BELOW_BUNDLE, "agent_env.bundle", "agent_env.env", "agent_env.episode"),
    "agent_env.rollout": (*_BELOW_BUNDLE, "agent_env.openenv.client"),
    "agent_env.testing": (
        *_BELOW_BUNDLE,
        "agent_env.bundle",
        "agent_env.env",
        "agent_env.episode",
        "agent_env.openenv",
        "agent_env.rollout",
    ),
    "agent_env.evaluation": (
        *_BELOW_BUNDLE,
        "agent_env.bundle",
        "agent_env.openenv",
        "agent_env.rollout",
    ),
    "agent_env.cli": ("agent_env",),
}
PLUGIN_MAY = ("agent_env.plugin", "agent_env.errors")
TRAINER_MAY = (
    *PLUGIN_MAY,
    "agent_env.rollout",
    "agent_env.openenv.client",
    "agent_env.registry.default_registry",  # a row names a parser
    "agent_env.testing.standin",  # a rehearsal plays against the stand-in model
)


def within(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def foreign_imports(path: Path, allowed: tuple[str, ...]) -> Iterator[str]:
    for module in imports_of(path, path.read_text(encoding="utf-8")):
        if within(module, ("agent_env",)) and not within(module, allowed):
            yield module


def imports_point_downwards(root: Path) -> Iterator[str]:
    for path, module in sources(root):
        if not path.is_relative_to(root / "core"):
            continue
        if module == "_agentenv_start":
            areas = ["agent_env.cli"]
        else:
            areas = [area for area in sorted(ALLOWED, key=len, reverse=True) if within(module, (area,))]
        if not areas:
            yield f"{path.relative_to(root)}: {module} belongs to no area of the core"
            continue
        for found in foreign_imports(path, (areas[0], *ALLOWED[areas[0]])):
            yield f"{path.relative_to(root)}: {areas[0]} may not import {found}"


def plugins_import_the_contracts_alone(root: Path) -> Iterator[str]:
    for folder in plugin_folders(root):
        may = TRAINER_MAY if folder.parent.name == "trainers" else PLUGIN_MAY
        for path, module in sources(root):
            if path.is_relative_to(folder):
                allowed = ("agent_env.plugin",) if module.endswith(".hooks") else (leaf_of(folder), *may)
                for found in foreign_imports(path, allowed):
                    yield f"{path.relative_to(root)}: a plugin may not import {found}"


def nothing_names_a_plugins_module(root: Path) -> Iterator[str]:
    """Not as an import and not as an import string, but in the plugin itself."""
    leaf = re.compile(rf"agent_env\.(?:{'|'.join(sorted(set(LEAF_FOLDERS.values())))})\.(\w+)[\w.:]*")
    fronts = {front_module(folder): leaf_of(folder) for folder in plugin_folders(root)}
    for path, module in sources(root):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                names = [node.value]
            for name in names:
                found = leaf.fullmatch(name)
                own = ".".join(name.split(".")[:3])
                if found is not None and not within(module, (own,)) and fronts.get(module) != own:
                    yield f"{path.relative_to(root)}:{getattr(node, 'lineno', 0)}: names the plugin module {name}"


# -- rules: size ------------------------------------------------------------------------------------------------------


def lines_of(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def no_file_is_long(root: Path) -> Iterator[str]:
    for path in python_files(root):
        if lines_of(path) > 600:
            yield f"{path.relative_to(root)}: {lines_of(path)} lines, at most 600"


def the_median_file_is_short(root: Path) -> Iterator[str]:
    lengths = [lines_of(path) for path, _ in sources(root)]
    if lengths and statistics.median(lengths) > 120:
        yield f"the median source file has {statistics.median(lengths)} lines, at most 120"


# -- rules: texts -----------------------------------------------------------------------------------------------------

# Built from parts, so that this file does not find itself.
INDEX_PATTERNS = {
    "a package index": re.compile(rf"\b{'py' + 'pi'}\.(?:org|python\.org)|{'python' + 'hosted'}\.org", re.IGNORECASE),
    "a download address of a package": re.compile(r"https?://[^\s\"'<>]+\.(?:whl|tar\.gz)\b"),
    "an index option": re.compile(
        rf"--(?:{'extra-' + 'index'}-url|{'index' + '-url'}|{'default' + '-index'})\b"
        rf"|--{'find' + '-links'}\b[\s=\"',]*https?:"
        rf"|\b(?:PIP|UV)_(?:EXTRA_)?{'INDEX' + '_URL'}\b|\bUV_{'DEFAULT' + '_INDEX'}\b"
        rf"|^\s*(?:extra-)?{'index' + '-url'}\s*=|\[\[tool\.uv\.{'in' + 'dex'}\]\]",
        re.MULTILINE,
    ),
    "a line of a lock file": re.compile(rf"{'regis' + 'try'}\s*=\s*\"https?:"),
}
MACHINE_PATHS = re.compile(
    rf"(?<![\w.\-}}])/(?:{'wo' + 'rk'}|{'ro' + 'ot'}|{'ho' + 'me'}/\w+|{'Us' + 'ers'}/\w+)/[\w.]"
)


def texts(root: Path) -> Iterator[tuple[Path, str]]:
    for path in tracked(root):
        try:
            yield path, path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


def no_package_index_is_named(root: Path) -> Iterator[str]:
    for path, text in texts(root):
        for what, pattern in INDEX_PATTERNS.items():
            for found in pattern.finditer(text):
                line = text.count("\n", 0, found.start()) + 1
                yield f"{path.relative_to(root)}:{line}: {what}: {found[0].strip()}"


def no_lock_file_is_tracked(root: Path) -> Iterator[str]:
    for path in tracked(root):
        if path.name == "uv.lock" or re.fullmatch(r"pylock.*\.toml|\.python-version", path.name):
            yield f"{path.relative_to(root)} must not be committed"


def no_path_of_a_machine(root: Path) -> Iterator[str]:
    for path, text in texts(root):
        for found in MACHINE_PATHS.finditer(text):
            yield f"{path.relative_to(root)}:{text.count(chr(10), 0, found.start()) + 1}: {found[0]}"


# -- the rules hold, and can fail -------------------------------------------------------------------------------------

LONG = "x = 1\n"
PLANTED: Mapping[Rule, Mapping[str, str]] = {
    namespaces_have_no_init: {
        "core/src/agent_env/__init__.py": "",
        "plugins/rewards/acme/src/agent_env/rewards/__init__.py": "",
    },
    folders_of_tests_are_no_packages: {"core/tests/area/__init__.py": ""},
    core_packages_have_an_init: {"core/src/agent_env/plugin/inner/x.py": ""},
    plugins_write_only_to_their_leaf: {"plugins/rewards/acme/src/agent_env/rewards/other/x.py": ""},
    plugin_names_agree: {
        "plugins/trainers/bad/pyproject.toml": '[project]\nname = "bad"\ndependencies = []\n'
        '[project.entry-points.agentenv]\nbad = "bad.hooks"\n'
    },
    root_lists_every_member: {
        "plugins/parsers/new/pyproject.toml": '[project]\nname = "agentenv-parser-new"\n',
    },
    imports_point_downwards: {
        "core/src/agent_env/plugin/a.py": "from agent_env.registry import Registry\n",
        "core/src/agent_env/bundle/b.py": "def f():\n    import agent_env.episode.engine\n",
        "core/src/agent_env/openenv/client/c.py": "from agent_env.openenv import app\n",
        "core/src/agent_env/rollout/d.py": "from agent_env.openenv.server import x\n",
        "core/src/agent_env/unknown/e.py": "",
        "core/src/agent_env/errors.py": "from agent_env import plugin\n",
    },
    plugins_import_the_contracts_alone: {
        "plugins/rewards/acme/src/agent_env/rewards/acme/a.py": "from agent_env.rollout import x\n",
        "plugins/rewards/acme/src/agent_env/rewards/acme/hooks.py": "from agent_env.errors import RewardError\n",
        "plugins/rewards/acme/src/agent_env/rewards/acme/b.py": "from agent_env.rewards.other import x\n",
    },
    nothing_names_a_plugins_module: {
        "core/src/agent_env/cli/a.py": 'import_module("agent_env.sandboxes.process")\n',
        "core/src/agent_env/cli/b.py": "from agent_env.training.miles import agent\n",
        "core/src/agent_env/cli/c.py": "import agent_env.rewards.acme.x\n",
    },
    no_file_is_long: {"bench/long.py": LONG * 601},
    the_median_file_is_short: {f"core/src/agent_env/cli/m{n}.py": LONG * 121 for n in range(30)},
    no_package_index_is_named: {
        "README.md": f"see https://{'py' + 'pi'}.org/project/x\n",
        "a.sh": f"pip install --{'index' + '-url'} http://localhost x\n",
        "a2.sh": f"pip install --{'find' + '-links'}=https://localhost x\n",
        "b.toml": f'source = {{ {"regis" + "try"} = "https://example.com/simple" }}\n',
        "c.txt": f"https://example.com/{'python' + 'hosted'}/x-1-py3-none-any.whl\n",
        "d.toml": f"[[tool.uv.{'in' + 'dex'}]]\n",
        "e.sh": f"export UV_{'INDEX' + '_URL'}=x\n",
    },
    no_lock_file_is_tracked: {"uv.lock": "", "pylock.dev.toml": "", ".python-version": "3.11"},
    no_path_of_a_machine: {
        "a.md": f"in /{'wo' + 'rk'}/main\n",
        "b.py": f"P = '/{'ho' + 'me'}/me/x'\n",
        "c.sh": f"/{'ro' + 'ot'}/.cache\n",
    },
}


@pytest.fixture
def sound_tree(tmp_path: Path) -> Path:
    """A small tree that keeps all rules."""
    leaf = "plugins/rewards/acme/src/agent_env/rewards/acme"
    files = {
        "pyproject.toml": '[project]\ndependencies = ["agentenv-core[server]", "agentenv-reward-acme"]\n'
        "[tool.uv.sources]\nagentenv-core = { workspace = true }\nagentenv-reward-acme = { workspace = true }\n"
        '[tool.mypy]\nmypy_path = ["core/src", "plugins/rewards/acme/src"]\n',
        "core/src/agent_env/errors.py": "",
        **{f"core/src/agent_env/{area}/__init__.py": "" for area in ("plugin", "bundle", "rollout", "cli", "openenv")},
        "core/src/agent_env/openenv/client/__init__.py": "from agent_env.errors import x\n",
        "core/tests/area/test_x.py": "",
        "plugins/rewards/acme/pyproject.toml": '[project]\nname = "agentenv-reward-acme"\n'
        'dependencies = ["agentenv-core>=0.1,<0.2"]\n'
        '[project.entry-points.agentenv]\nacme = "agent_env.rewards.acme.hooks"\n',
        f"{leaf}/__init__.py": "",
        f"{leaf}/py.typed": "",
        f"{leaf}/hooks.py": 'from agent_env.plugin import RewardInfo\nX = "agent_env.rewards.acme.combine:build"\n',
        f"{leaf}/combine.py": "from agent_env.errors import RewardError\nfrom agent_env.rewards.acme import hooks\n",
    }
    for name, text in files.items():
        plant(tmp_path, name, text)
    return tmp_path


def plant(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


@pytest.mark.parametrize("rule", PLANTED, ids=lambda rule: rule.__name__)
def test_the_rule_holds(rule: Rule) -> None:
    assert list(rule(ROOT)) == []


@pytest.mark.parametrize("rule", PLANTED, ids=lambda rule: rule.__name__)
def test_the_rule_finds_every_planted_violation(rule: Rule, sound_tree: Path) -> None:
    assert list(rule(sound_tree)) == []
    for name, text in PLANTED[rule].items():
        plant(sound_tree, name, text)
    problems = list(rule(sound_tree))
    if rule in {root_lists_every_member, the_median_file_is_short}:  # these speak of the tree as a whole
        assert problems
    else:
        for name in PLANTED[rule]:
            assert any(str(Path(name).parent) in problem or name in problem for problem in problems), name


def test_the_tree_that_is_checked_is_this_one() -> None:
    assert {"core", "plugins", "tests"} <= {path.relative_to(ROOT).parts[0] for path in tracked(ROOT)}
    assert len(sources(ROOT)) > 50
    assert len(plugin_folders(ROOT)) >= 4
