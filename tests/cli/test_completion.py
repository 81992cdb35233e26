"""Completion, asked as a shell asks for it."""

import subprocess

import pytest

from tests.shell import damnatio

pytestmark = pytest.mark.cli


@pytest.fixture(scope="module")
def bash() -> str:
    done = damnatio("completion", "bash")
    assert done.returncode == 0, done.stderr
    return done.stdout


def completed(script: str, *words: str) -> set[str]:
    """What bash offers where the last word is being typed."""
    call = (
        'eval "$SCRIPT"; set -- "$@"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
        "name=$(complete -p damnatio | sed 's/.*-F \\([^ ]*\\).*/\\1/'); "
        '"$name" damnatio "${COMP_WORDS[COMP_CWORD]}"; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "-c", call, "bash", *words], env={"SCRIPT": script, "PATH": "/usr/bin:/bin"}, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    assert not done.stderr
    return set(done.stdout.split())


def test_bash_registers_it(bash: str) -> None:
    done = subprocess.run(
        ["bash", "-c", 'eval "$0"; complete -p damnatio', bash], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("complete ")
    assert done.stdout.strip().endswith(" damnatio")


def test_bash_completes_verbs_and_options(bash: str) -> None:
    assert completed(bash, "damnatio", "re") == {"report", "recheck"}
    assert completed(bash, "damnatio", "er") == {"erase"}
    assert completed(bash, "damnatio", "erase", "--dev") == {"--development"}
    assert {"--method", "--scale", "--embeddings"} <= completed(bash, "damnatio", "recheck", "--")
    assert completed(bash, "damnatio", "ls", "ba") == {"backbones"}


def test_bash_completes_recipes(bash: str) -> None:
    assert completed(bash, "damnatio", "run", "small-paper-table-") == {"small-paper-table-5"}
    assert "demo" in completed(bash, "damnatio", "train", "de")


def test_zsh_gets_every_verb_with_its_text() -> None:
    done = damnatio("completion", "zsh")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("#compdef damnatio\n")
    assert "erase:'erase people from a model of your own'" in done.stdout
    assert "compdef _shtab_damnatio -N damnatio" in done.stdout
    # Functions, arrays and quotes of the script have the same grammar in bash, which is on every machine.
    parsed = subprocess.run(["bash", "-n"], input=done.stdout, capture_output=True, text=True, check=False)
    assert parsed.returncode == 0, parsed.stderr
