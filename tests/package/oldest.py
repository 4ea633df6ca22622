"""``python -m tests.package.oldest``: the oldest versions that pyproject.toml admits, for pip.

The output is a list of constraints: ``pip install -e ".[test]" -c FILE`` then installs these
versions of the dependencies and of the libraries of data frames.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[2] / "pyproject.toml"
FRAMES = ("pandas", "polars", "pyarrow")  # the extra libraries that users pass data from


def constraints() -> list[str]:
    """Constraints such as "numpy==2.0.*", one for each library."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    extra = project["optional-dependencies"]["test"]
    wanted = [*project["dependencies"], *(one for one in extra if one.startswith(FRAMES))]
    found = []
    for requirement in wanted:
        match = re.fullmatch(r"([\w-]+)>=([\d.]+)", requirement)
        if match is None:
            raise ValueError(f"{requirement!r} in pyproject.toml has no lower bound of its own")
        name, version = match.groups()
        found.append(f"{name}=={version if '.' in version else version + '.0'}.*")
    return found


if __name__ == "__main__":
    print("\n".join(constraints()))
