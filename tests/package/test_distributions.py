"""The wheel and the source distribution install and work without the checkout."""

from __future__ import annotations

import os
import subprocess
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FITS = """
import pathlib, numpy as np, gpuboost
from gpuboost.backends.cuda.runtime.source import kernel_folder
package = pathlib.Path(gpuboost.__file__).parent
assert kernel_folder().is_relative_to(package), kernel_folder()
assert (package / "py.typed").exists()
X = np.random.default_rng(0).normal(size=(200, 4))
y = X[:, 0] > 0
for device in ("numpy", "numba"):
    forest = gpuboost.RandomForestClassifier(3, device=device, random_state=0).fit(X, y)
    boosted = gpuboost.GradientBoostingClassifier(n_estimators=3, device=device, random_state=0)
    print(forest.fingerprint(), boosted.fit(X, y).fingerprint())
print(package)
"""


def run(python: Path, *arguments: str, cwd: Path) -> str:
    """Run Python in a folder outside the checkout; return its output."""
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([python, *arguments], cwd=cwd, env=clean, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Python of a new environment that finds the dependencies of this one, but not its gpuboost."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=True)
    scripts = folder / ("Scripts" if os.name == "nt" else "bin")
    found = scripts / ("python.exe" if os.name == "nt" else "python")
    run(found, "-m", "pip", "install", "--quiet", "hatchling", cwd=folder)
    show = "import sysconfig; print(sysconfig.get_path('purelib'))"
    own = Path(run(found, "-c", show, cwd=folder).strip())
    (own / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return found


@pytest.fixture(scope="module")
def built(python: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The wheel and the source distribution of the checkout."""
    folder = tmp_path_factory.mktemp("built")
    run(python, "-m", "hatchling", "build", "-d", str(folder), cwd=ROOT)
    (wheel,), (source,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, source


def names_in(wheel: Path) -> set[str]:
    return set(zipfile.ZipFile(wheel).namelist())


@pytest.mark.slow
def test_the_wheel_works_without_the_checkout(
    python: Path, built: tuple[Path, Path], tmp_path: Path
) -> None:
    names = names_in(built[0])
    assert {name.split("/")[0].split("-")[0] for name in names} == {"gpuboost"}
    in_checkout = {path.relative_to(ROOT) for path in (ROOT / "kernels").rglob("*.cu*")}
    assert {f"gpuboost/{path.as_posix()}" for path in in_checkout} <= names
    assert not any("test" in name for name in names)
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", str(built[0]), cwd=tmp_path)
    *prints, package = run(python, "-c", FITS, cwd=tmp_path).splitlines()
    assert len(prints) == 2 and prints[0] == prints[1]
    assert not Path(package).is_relative_to(ROOT)


@pytest.mark.slow
def test_the_source_distribution_builds_the_same_wheel(
    python: Path, built: tuple[Path, Path], tmp_path: Path
) -> None:
    with tarfile.open(built[1]) as archive:
        safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # since 3.11.4
        archive.extractall(tmp_path, **safe)
    (folder,) = tmp_path.iterdir()
    run(python, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path), cwd=folder)
    (wheel,) = tmp_path.glob("*.whl")
    assert names_in(wheel) == names_in(built[0])
    assert (folder / "tests").is_dir() and (folder / "docs").is_dir()
