"""The commands of docs/command_line.md run as they are shown."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import gpuboost
from gpuboost.cli.commands.train import options_of_files

TEXT = (Path(__file__).parents[2] / "docs" / "command_line.md").read_text(encoding="utf-8")


def blocks(language: str) -> str:
    found = re.findall(rf"^```{language}\n(.*?)^```", TEXT, flags=re.MULTILINE | re.DOTALL)
    return "\n".join(found)


def test_the_tour_runs(folder: Path, run: Any) -> None:
    exec(compile(blocks("python"), "command_line.md", "exec"), {})
    commands = blocks("sh").splitlines()
    assert len([line for line in commands if line]) >= 8
    for line in filter(None, commands):
        name, *words = shlex.split(line)
        status, out, err = run(*words)
        assert name == "gpuboost" and status == 0, err
        assert out or words[0] in ("predict", "convert")
    assert gpuboost.load("early.model").n_estimators_ < 500
    assert gpuboost.load("ada.model").estimator.max_depth == 2


def test_the_file_of_options_is_one() -> None:
    assert set(tomllib.loads(blocks("toml"))) <= set(options_of_files())


def test_every_command_and_model_is_in_the_table(run: Any) -> None:
    from gpuboost.cli.main import COMMANDS
    from gpuboost.cli.models.choice import ESTIMATORS

    for name in (*(str(each.name) for each in COMMANDS), *ESTIMATORS):
        assert f"`{name}`" in TEXT
