"""What `.ci/trainers` plays, in a small repository with stand-ins for uv and the trainers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).resolve().parents[1]
BUILD = """#!/bin/sh
[ ! -e no-python-{name} ] || exit 69
[ ! -e no-venv-{name} ] || exit 1
mkdir -p "$1/bin"
echo "build {name}" >> log
"""
UV = """#!/bin/sh
again=""
for word; do
  case "$word" in
    */tests) name=${word%/tests} name=${name##*/} ;;
    --last-failed) again=" again" ;;
    cache_dir=*) cache=${word#cache_dir=}/v/cache ;;
  esac
done
echo "test $name$again" >> log
[ -z "$again" ] || [ -e "$cache/lastfailed" ] || exit 5
status=0 failed=tests/test_it.py::test_it
if [ -e "flaky-$name" ]; then status=1; rm "flaky-$name"; fi
if [ -e "unread-$name" ]; then status=1 failed=tests/test_it.py; rm "unread-$name"; fi
if [ -e "fails-$name" ]; then status=1; fi
if [ $status = 1 ]; then mkdir -p "$cache"; printf '{"%s": true}' $failed > "$cache/lastfailed"; fi
if [ -e "killed-$name" ]; then status=137; rm "killed-$name"; fi
exit $status
"""
NAMES = ("one", "two")
EVERYTHING = ["build one", "test one", "build two", "test two"]


class Project:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / ".ci").mkdir(parents=True)
        shutil.copy(ROOT / ".ci" / "trainers", folder / ".ci")
        for name in NAMES:
            self.write(f"plugins/trainers/{name}/tests/make_venv.sh", BUILD.format(name=name)).chmod(0o755)
            self.write(f"plugins/trainers/{name}/src/adapter.py", "")
        self.write("core/src/agent_env/rollout/loop.py", "")
        self.write("README.md", "")
        self.write(".gitignore", ".venvs/\nlog\nuv\n*-one\n*-two\n")
        self.write("uv", UV).chmod(0o755)
        self.git("init", "-q", "-b", "main")
        self.commit()

    def write(self, path: str, text: str) -> Path:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def git(self, *words: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
        done = subprocess.run(["git", *who, *words], cwd=self.folder, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def commit(self) -> str:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "a change")
        return self.git("rev-parse", "HEAD")

    def trainers(self, *words: str, **variables: str) -> tuple[int, str, list[str]]:
        """Exit status, output, and what was built and tested."""
        (self.folder / "log").write_text("")
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("AGENTENV_", "GIT_"))}
        done = subprocess.run(
            [sys.executable, ".ci/trainers", *words],
            cwd=self.folder,
            env={**clean, "UV": str(self.folder / "uv"), **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )
        return done.returncode, done.stdout, (self.folder / "log").read_text().splitlines()


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project")


def test_on_main_all_run_until_they_passed_with_these_very_files(project: Project) -> None:
    project.git("update-ref", "refs/remotes/origin/main", "HEAD")
    assert project.trainers("--changed")[::2] == (0, EVERYTHING)
    status, said, done = project.trainers("--changed")
    assert (status, done) == (0, [])
    assert "passed before with these very files: one, two" in said
    project.write("plugins/trainers/two/src/adapter.py", "# not committed")
    assert project.trainers("--changed")[2] == ["test two"]
    project.write("core/src/agent_env/rollout/new.py", "# shared, not even added")
    assert project.trainers("--changed")[2] == ["test one", "test two"]
    project.write("README.md", "nothing that they depend on")
    assert project.trainers("--changed")[2] == []
    assert project.trainers()[2] == ["test one", "test two"], "without --changed all run"


@pytest.mark.parametrize(
    ("path", "played"),
    [
        ("README.md", []),
        ("plugins/trainers/one/src/adapter.py", EVERYTHING[:2]),
        ("core/src/agent_env/rollout/loop.py", EVERYTHING),
    ],
)
@pytest.mark.parametrize("how", ["variable", "branch", "uncommitted"])
def test_a_change_runs_what_it_touches(project: Project, path: str, played: list[str], how: str) -> None:
    before = project.git("rev-parse", "HEAD")
    variables = {"AGENTENV_CI_BASE": before}
    if how == "branch":
        project.git("update-ref", "refs/remotes/origin/main", "HEAD")
        project.git("switch", "-q", "-c", "change")
        variables = {}
    project.write(path, "# changed\n")
    if how != "uncommitted":
        project.commit()
        project.write("CHANGELOG.md", "and one commit more")
        project.commit()
    status, said, done = project.trainers("--changed", **variables)
    assert (status, done) == (0, played), said


def test_a_base_that_is_not_there_counts_everything_as_changed(project: Project) -> None:
    status, said, done = project.trainers("--changed", AGENTENV_CI_BASE="0" * 40)
    assert (status, done) == (0, EVERYTHING)
    assert "is no commit of this clone" in said


def test_without_time_they_are_left_and_named(project: Project) -> None:
    status, said, done = project.trainers("--changed", AGENTENV_CI_DEADLINE=str(int(time.time())))
    assert (status, done) == (0, [])
    assert "LEFT TO `.ci/run --all`, for want of time: one" in said
    assert "for want of time: two" in said
    later = str(int(time.time()) + 3600)
    assert project.trainers("--changed", AGENTENV_CI_DEADLINE=later)[2] == EVERYTHING


def test_a_name_runs_whatever_the_time(project: Project) -> None:
    assert project.trainers("two", AGENTENV_CI_DEADLINE="1")[::2] == (0, EVERYTHING[2:])


def test_one_whose_python_is_missing_is_left_out_aloud_unless_it_is_named(project: Project) -> None:
    project.write("no-python-one", "")
    for words in ((), ("--changed",)):
        status, said, done = project.trainers(*words)
        assert status == 0
        assert "LEFT OUT: one, for want of what this machine lacks" in said
        assert "build one" not in done
    status, said, _ = project.trainers("one")
    assert status == 1
    assert "FAILED: one" in said


@pytest.mark.parametrize("trouble", ["fails", "no-venv"])
def test_one_that_fails_does_not_hide_the_others_and_runs_again(project: Project, trouble: str) -> None:
    project.write(f"{trouble}-one", "")
    status, said, done = project.trainers("--changed")
    assert status == 1
    assert "FAILED: one" in said
    assert "passed: two" in said
    assert done[-1] == "test two"
    (project.folder / f"{trouble}-one").unlink()
    status, _, done = project.trainers("--changed")
    assert (status, done[-1]) == (0, "test one")


def test_what_failed_beside_others_plays_once_more_by_itself(project: Project) -> None:
    project.write("flaky-one", "")
    assert project.trainers("one")[::2] == (0, ["build one", "test one", "test one again"])
    assert project.trainers("--changed")[2] == EVERYTHING[2:], "it has passed"
    project.write("fails-one", "")
    assert project.trainers("one")[::2] == (1, ["test one", "test one again"])


@pytest.mark.parametrize("trouble", ["unread", "killed"])
def test_tests_that_never_ran_have_not_passed(project: Project, trouble: str) -> None:
    project.write("fails-one", "")
    project.trainers("one")
    (project.folder / "fails-one").unlink()
    project.write(f"{trouble}-one", "")
    assert project.trainers("one")[::2] == (1, ["test one"])
    assert project.trainers("--changed")[2] == ["test one", *EVERYTHING[2:]], "all of them once more"


MAKE = """#!/bin/sh
case "$*" in *--last-failed*) word=again ;; *) word= ;; esac
case "$*" in test*) ;; *) exit 0 ;; esac
echo "test $word" >> log
[ -z "$word" ] || exit 0
mkdir -p .pytest_cache/v/cache
[ -z "$FAILED" ] || printf '{\\n  "%s": true\\n}' "$FAILED" > .pytest_cache/v/cache/lastfailed
exit 2
"""


@pytest.mark.parametrize(
    ("failed", "runs"),
    [("tests/test_it.py::test_it[x]", ["test ", "test again"]), ("tests/test_it.py", ["test "]), ("", ["test "])],
)
def test_all_passed_is_not_said_of_tests_that_never_ran(failed: str, runs: list[str], tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci")
    for path, text in {
        "bin/make": MAKE,
        "bin/bwrap": "",
        ".ci/docker-up": "#!/bin/sh\n",
        ".ci/trainers": "#!/bin/sh\n",
    }.items():
        (tmp_path / path).write_text(text)
        (tmp_path / path).chmod(0o755)
    earlier = tmp_path / ".pytest_cache" / "v" / "cache" / "lastfailed"
    earlier.parent.mkdir(parents=True)
    earlier.write_text('{\n  "tests/test_it.py::test_of_an_earlier_run": true\n}')
    environment = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "FAILED": failed}
    command = [str(tmp_path / ".ci" / "run")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (tmp_path / "log").read_text().splitlines() == runs
    assert (done.returncode == 0) is ("all passed" in done.stdout) is (len(runs) == 2), done.stderr


@pytest.mark.parametrize("changed", ["make_venv.sh", "constraints.txt"])
def test_a_changed_recipe_builds_the_venv_again(project: Project, changed: str) -> None:
    project.trainers("one")
    assert project.trainers("one")[2] == ["test one"]
    file = project.folder / "plugins" / "trainers" / "one" / "tests" / changed
    file.write_text((file.read_text() if file.exists() else "") + "# changed\n")
    assert project.trainers("one")[2] == EVERYTHING[:2]


def test_a_changed_venv_with_torch_is_built_again_where_it_is_used(project: Project) -> None:
    script = project.write(".ci/torch-venv", "")
    builder = project.folder / "plugins" / "trainers" / "one" / "tests" / "make_venv.sh"
    builder.write_text(f"{builder.read_text()}# as torch-venv does\n")
    before = project.commit()
    project.trainers()
    script.write_text("# changed\n")
    assert project.trainers("--changed", AGENTENV_CI_BASE=before)[2] == EVERYTHING[:2]
    script.write_text("# changed once more\n")
    assert project.trainers()[2] == ["test two", *EVERYTHING[:2]], "the cheaper one first"


def test_a_name_that_nobody_has(project: Project) -> None:
    status, said, _ = project.trainers("three")
    assert status == 2
    assert said == "error: no tests beside three; there are one, two\n"


COLLECT = (sys.executable, "-m", "pytest", "--setup-plan", "-q", "-rs", "-p", "no:cacheprovider")


def test_ci_leaves_the_real_trainers_out_of_the_other_tests() -> None:
    files = sorted(str(path) for path in ROOT.glob("plugins/trainers/*/tests/test_real_*.py"))
    assert len(files) >= 5
    play = _play([*COLLECT, *files], AGENTENV_TRAINERS_APART="true")
    lines = [line for line in play.splitlines() if "SETUP" in line and "venv" in line]
    assert lines == []
    assert ".ci/trainers plays these" in play


def _play(command: Sequence[str], **variables: str) -> str:
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **variables}, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode in {0, 5}, done.stdout + done.stderr
    return done.stdout
