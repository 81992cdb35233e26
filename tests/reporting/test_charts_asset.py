"""The charting library that the report's page carries: what it is, its licences, and that it stays off the network."""

import json
import re
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "assets/echarts"
FOLDER = ROOT / "src/damnatio/reporting/page"
NAMESPACES = {f"http://www.w3.org/{name}" for name in ("1999/xlink", "2000/svg", "2000/xmlns/", "XML/1998/namespace")}
"""names of XML, which no browser fetches"""
REACHES_OUT = r"\bfetch\(|\bimport\(|\bimportScripts\b|XMLHttpRequest|WebSocket|EventSource|sendBeacon|\beval\("


@pytest.fixture(scope="module")
def script() -> str:
    return (FOLDER / "echarts.js").read_text(encoding="ascii")


@pytest.fixture(scope="module")
def versions() -> dict[str, str]:
    """Every package of the lock file, with its version."""
    packages = json.loads((SOURCE / "package-lock.json").read_text())["packages"]
    return {path.removeprefix("node_modules/"): package["version"] for path, package in packages.items() if path}


def test_first_line_names_the_pinned_version_the_licences_and_the_command(
    script: str, versions: dict[str, str]
) -> None:
    package = json.loads((SOURCE / "package.json").read_text())
    pinned = package["dependencies"] | package["devDependencies"]
    title, _, rest = script.partition("\n")
    assert title.startswith(f"/*! Apache echarts {pinned['echarts']} (Apache-2.0)")
    for name in ("echarts", "zrender", "tslib", "esbuild"):
        assert f"{name} {versions[name]}" in title
    assert pinned == {name: versions[name] for name in pinned}, "exact versions, the locked ones"
    assert "made by: make charts-asset" in title
    assert title.endswith("*/")
    assert rest.startswith("var echarts=")
    assert rest.count(f'"{pinned["echarts"]}"') == 1, "the version that the code itself holds"


def test_licences_of_all_that_is_in_it_lie_beside_it(versions: dict[str, str]) -> None:
    licences = (FOLDER / "echarts.LICENSE").read_text()
    for name in ("echarts", "zrender", "tslib"):
        assert f"{name} {versions[name]}: LICENSE" in licences
    for sentence in (
        "Apache License\n                           Version 2.0, January 2004",
        "This product includes software developed at\nThe Apache Software Foundation",
        "Copyright (c) 2017, Baidu Inc.",
        "Copyright (c) Microsoft Corporation.",
        "Mike Bostock",  # d3's numbers are in ECharts
    ):
        assert sentence in licences


def test_it_reaches_no_network_and_can_stand_inside_a_page(script: str) -> None:
    assert set(re.findall(r"""(?:https?:|wss?:)?//www\.[^"'`\s]*|https?:[^"'`\s]*""", script)) == NAMESPACES
    assert not re.search(REACHES_OUT, script)
    assert not re.search(r"</script|<!--", script, flags=re.IGNORECASE), "would end the script of a page"


@pytest.mark.cli
@pytest.mark.skipif(not find_spec("hatchling"), reason="hatchling builds the wheel: pip install -e '.[dev]'")
def test_wheel_holds_the_library_its_licences_and_every_other_file_of_the_package(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    inside = set(zipfile.ZipFile(wheel).namelist())
    assert {f"damnatio/reporting/page/{name}" for name in ("echarts.js", "echarts.LICENSE")} <= inside
    files = (file.relative_to(ROOT / "src") for file in (ROOT / "src/damnatio").rglob("*") if file.is_file())
    assert {file.as_posix() for file in files if file.suffix != ".pyc"} <= inside
