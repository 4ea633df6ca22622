"""The claims about Python versions agree, and a missing wheel is an error."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.package import resolve

ROOT = Path(__file__).parents[2]


def test_claimed_versions_agree_in_all_places() -> None:
    """The classifiers, requires-python, README, the page on versions and the steps of `.ci/run`."""
    claimed = resolve.claimed_versions(resolve.project()["classifiers"])
    first, last = claimed[0], claimed[-1]
    assert claimed == [f"3.{minor}" for minor in range(11, 11 + len(claimed))] and len(claimed) > 1
    assert resolve.project()["requires-python"] == f">={first}"
    for name in ("README.md", "docs/versions.md", "docs/user_guide.md"):
        assert f"Python {first} to {last}" in (ROOT / name).read_text(encoding="utf-8"), name
    with (ROOT / "pyproject.toml").open("rb") as file:
        assert tomllib.load(file)["tool"]["mypy"]["python_version"] == first
    checked = re.search(r"for version in ([\d. ]+); do", (ROOT / ".ci" / "run").read_text("utf-8"))
    assert checked is not None and checked[1].split() == claimed[1:]


def finish_with(monkeypatch: pytest.MonkeyPatch, failing_tag: str) -> None:
    """Replace pip: it finds no wheel of numba for one tag, and all wheels for others."""
    install = [{"metadata": {"name": name, "version": "1"}} for name in resolve.SHOWN]

    def run(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        if f"--platform={failing_tag}" in command:
            lines = "WARNING: slow\nERROR: No matching distribution found for numba>=0.62\n"
            return subprocess.CompletedProcess(command, 1, "", lines)
        report = Path(command[command.index("--report") + 1])
        report.write_text(resolve.json.dumps({"install": install}), encoding="utf-8")
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(resolve.subprocess, "run", run)


@pytest.mark.parametrize(("tag", "status"), [("win_amd64", 1), ("none", 0)])
def test_a_missing_wheel_is_reported(monkeypatch, capsys, tag, status):
    finish_with(monkeypatch, tag)
    assert resolve.main() == status
    lines = capsys.readouterr().out.splitlines()[1:]
    missing = [line for line in lines if "MISSING: ERROR: No matching distribution" in line]
    n_versions = len(resolve.claimed_versions(resolve.project()["classifiers"]))
    assert len(lines) == 3 * n_versions and len(missing) == status * n_versions
    assert all("Windows amd64" in line for line in missing)
