"""Dockerfiles, scripts and outputs: rules that hold for all inputs."""

from __future__ import annotations

import itertools
import os
import shlex
import subprocess
from typing import TYPE_CHECKING

import pytest
from agent_env.errors import SandboxUnsupported
from agent_env.sandboxes.e2b import context, dockerfile, scripts
from agent_env.sandboxes.e2b.execs import Output
from agent_env.sandboxes.e2b.inline import without_copies
from agent_env.sandboxes.e2b.settings import read_settings
from hypothesis import given, settings
from hypothesis import strategies as st

if TYPE_CHECKING:
    from pathlib import Path

NO_LINES = "\x7f\u2028\u2029\x85"
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=60)


@given(out=TEXT, code=st.integers(0, 255), cuts=st.lists(st.integers(0, 120), max_size=6), rest=TEXT)
def test_an_end_mark_is_found_however_the_output_is_cut(out: str, code: int, cuts: list[int], rest: str) -> None:
    taken = Output(10_000, "abcd")
    text = f"{out}\x1eabcd:{code}\x1e{rest}"
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    for start, end in itertools.pairwise(places):
        taken.take(text[start:end])
    taken.finish()
    assert (taken.text, taken.code, taken.ended.is_set(), taken.truncated) == (out, code, True, False)


@given(pieces=st.lists(TEXT, max_size=5), limit=st.integers(0, 50))
def test_an_output_keeps_what_fits(pieces: list[str], limit: int) -> None:
    taken = Output(limit, "abcd")
    for piece in pieces:
        taken.take(piece)
    taken.finish()
    whole = "".join(pieces).encode()
    assert bytes(taken.data) == whole[:limit]
    assert taken.truncated is (len(whole) > limit)


def run(script: str, **env: str) -> str:
    done = subprocess.run(["bash", "-c", script], env={"PATH": "/usr/bin:/bin", **env}, capture_output=True, check=True)
    return done.stdout.decode()


@settings(deadline=None, max_examples=40)
@given(
    value=st.text(
        st.characters(min_codepoint=32, codec="utf-8", exclude_characters="\x7f\u2028\u2029\x85"), max_size=30
    )
)
def test_a_variable_in_single_quotes_arrives_as_it_is(value: str) -> None:
    value = value.replace("'", "").replace("\\", "")
    script = dockerfile.variables(dockerfile.parse(f"FROM x\nENV NAME='{value}'\n"))
    assert run(f'{script}\nprintf %s "$NAME"') == value


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("ENV A=1 B=two", "1|two"),
        ("ENV A=\"x y\" B='$A'", "x y|$A"),
        ("ENV A=1\nENV B=$A-${A}", "1|1-1"),
        ("ENV A one two\nENV B=\\$A", "one two|$A"),
        ("ARG V=7\nENV A=v$V \\\n    B=`date`", "v7|`date`"),
        ('ENV A="a\\"b" B=x\\ y', 'a"b|x y'),
    ],
)
def test_variables_as_docker_sets_them(lines: str, expected: str) -> None:
    script = dockerfile.variables(dockerfile.parse(f"FROM x\n{lines}\n"))
    assert run(f'{script}\nprintf %s "$A|$B"') == expected


def test_what_a_spec_sets_is_stronger_and_paths_are_extended_once() -> None:
    script = dockerfile.variables(dockerfile.parse("FROM x\nENV A=1 PATH=/opt/x:$PATH\n"))
    assert run(f'{script}\nprintf %s "$A"', A="mine") == "mine"
    inner = shlex.quote(f"{script}printf %s $PATH")
    again = f"{script}bash -c {inner}"
    assert run(again).count("/opt/x") == 1


@pytest.mark.parametrize(
    ("lines", "command"),
    [
        ('CMD ["python", "a.py"]', ("python", "a.py")),
        ("CMD python a.py", ("/bin/sh", "-c", "python a.py")),
        ('ENTRYPOINT ["python"]\nCMD ["a.py", "x"]', ("python", "a.py", "x")),
        ('ENTRYPOINT python a.py\nCMD ["x"]', ("/bin/sh", "-c", "python a.py")),
        ('CMD ["a"]\nCMD [ "b", \\\n  "c" ]', ("b", "c")),
        ("RUN <<EOF\nCMD no\nEOF", None),
        ("# CMD no", None),
    ],
)
def test_the_command_of_a_dockerfile(lines: str, command: tuple[str, ...] | None) -> None:
    assert dockerfile.parse(f"FROM x\n{lines}\n").command == command


def test_nothing_is_started_in_a_template() -> None:
    found = dockerfile.parse('FROM x\nRUN a && \\\n  b\nENTRYPOINT ["e"]\nCMD ["c"]\nUSER me\n')
    text = dockerfile.for_template(found, core=True, wheel=None)
    assert "CMD" not in text
    assert "ENTRYPOINT" not in text
    assert "RUN a && \\\n  b\n" in text
    assert text.rstrip().endswith("COPY .agentenv/core /opt/agentenv/core")


def test_a_digest_follows_the_content(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text('FROM x\nCOPY a ./\nCMD ["a"]\n')
    (tmp_path / "a").write_text("1")
    first = context.read(tmp_path, "Dockerfile", "e2b")
    assert context.read(tmp_path, "Dockerfile", "e2b").name == first.name
    (tmp_path / "a").write_text("2")
    second = context.read(tmp_path, "Dockerfile", "e2b")
    (tmp_path / "a").chmod(0o755)
    assert len({first.name, second.name, context.read(tmp_path, "Dockerfile", "e2b").name}) == 3


def test_what_is_left_out_of_a_template_does_not_change_it(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text('FROM x\nCOPY a ./\nCMD ["a"]\n')
    (tmp_path / "a").write_text("1")
    (tmp_path / ".dockerignore").write_text("data\n")
    first = context.read(tmp_path, "Dockerfile", "e2b")
    for path in ("data/large.bin", ".git/HEAD", "__pycache__/a.pyc"):
        (tmp_path / path).parent.mkdir()
        (tmp_path / path).write_text("1")
    os.mkfifo(tmp_path / "pipe")
    second = context.read(tmp_path, "Dockerfile", "e2b")
    assert second.name == first.name
    target = tmp_path / "data" / "target"
    target.mkdir()
    second.stage(target)
    assert {path.name for path in target.iterdir()} == {"Dockerfile", "a", ".dockerignore", ".agentenv"}


def test_several_stages_are_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text('FROM x AS one\nFROM y\nCMD ["a"]\n')
    with pytest.raises(SandboxUnsupported, match="2 stages"):
        context.read(tmp_path, "Dockerfile", "e2b")


@pytest.mark.parametrize("line", ["COPY --from=build /a /b", "ADD --checksum=x a b", "COPY <<EOF /x\nhi\nEOF"])
def test_what_cannot_travel_in_commands_is_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / ".dockerignore").write_text("")
    with pytest.raises(SandboxUnsupported, match="takes no uploads"):
        without_copies(f"FROM x\n{line}\n", tmp_path, "env 'a'", "aenv")


@pytest.mark.parametrize(
    ("toml", "word"),
    [
        ("[process]\ncommand = 'x'", "list of words"),
        ("[process]\nport = 0", "1 to 65535"),
        ("process = 1", "a table"),
        ("[", "read"),
    ],
)
def test_wrong_settings_are_refused_in_words(tmp_path: Path, toml: str, word: str) -> None:
    (tmp_path / "agentenv.toml").write_text(toml)
    with pytest.raises(SandboxUnsupported, match=word):
        read_settings(tmp_path, "e2b")


def test_a_kill_takes_what_fled_into_a_session_of_its_own() -> None:
    with subprocess.Popen(
        ["bash", "-c", "setsid sleep 300 & echo $!; wait"],
        env={"PATH": "/usr/bin:/bin", scripts.MARK: "feed"},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        subprocess.run(["bash", "-c", scripts.kill("feed")], env={"PATH": "/usr/bin:/bin"}, check=True)
        assert process.wait(20) == -9
        assert process.stdout.read() == "", "the child holds the output open"
