"""requirements.lock: every package of the first environment but torch, as constraints.txt has it, with its hashes."""

import re
import runpy
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = re.compile(
    r"^([a-z0-9-]+)==(\S+)(?: ; [^\\\n]+?)? \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", re.MULTILINE
)


def test_every_package_is_locked_in_its_version_with_hashes() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    found = {name: version for name, version, _ in PACKAGE.findall(lock)}
    assert PACKAGE.sub("", lock).splitlines() == lock.splitlines()[:1], "nothing but packages and their hashes"
    program = runpy.run_path(str(ROOT / ".ci" / "lock.py"))
    pinned = program["pinned"]()
    assert found == {name: pinned[name] for name in found}, "`make lock` writes it anew"
    assert set(program["closure"]()) <= set(found), "`make lock` writes it anew"
    assert {"torch", "damnatio"}.isdisjoint(found)


def test_actions_are_named_by_commit() -> None:
    text = "".join(file.read_text() for file in sorted((ROOT / ".github" / "workflows").glob("*.yml")))
    uses = re.findall(r"uses: (\S+)", text)
    assert uses
    assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action) for action in uses)
