"""docs/developers/licences.md lists every package that is installed, with a licence that asks for its notice only.

`python tests/contracts/test_licences.py` writes the page.
"""

import re
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

sys.path.insert(0, str(Path(__file__).parents[1]))  # when run as a program

from places import ROOT

PAGE = ROOT / "docs" / "developers" / "licences.md"
FREE = ("MIT", "BSD", "Apache", "PSF", "Python Software Foundation", "0BSD", "HPND", "Zlib", "ISC", "CC0")
HEAD = """# Licences

sparsim is under the Apache License 2.0. `pip install sparsim` also installs these packages, directly or as their
dependencies; none is copied into this repository. Written by `python tests/contracts/test_licences.py`.

| package | licence |
|---|---|
"""


def installed(name="sparsim", found=None):
    """Packages that one needs without any extra, and what those need, each with its licence as it states it."""
    found = {} if found is None else found
    for text in distribution(name).requires or ():
        requirement = Requirement(text)
        key = re.sub(r"[-_.]+", "-", requirement.name).lower()
        if key in found or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        try:
            about = distribution(requirement.name).metadata
        except PackageNotFoundError:
            continue
        classifiers = [
            line.rpartition("::")[2].strip() for line in about.get_all("Classifier") or () if "License" in line
        ]
        stated = about.get("License-Expression") or ", ".join(classifiers) or about.get("License") or "?"
        found[key] = stated.splitlines()[0]
        installed(requirement.name, found)
    return found


def listed():
    """Packages on the page, with the licence given there."""
    return dict(re.findall(r"^\| ([\w-]+) \| (.+?) \|$", PAGE.read_text().removeprefix(HEAD), re.M))


def test_every_package_is_listed():
    assert set(installed()) <= set(listed())


def test_every_licence_asks_for_its_notice_alone():
    for name, licence in {**listed(), **installed()}.items():
        assert any(word in licence for word in FREE), (name, licence)
        assert "GPL" not in licence, (name, licence)


if __name__ == "__main__":
    rows = "".join(f"| {name} | {licence} |\n" for name, licence in sorted(installed().items()))
    sys.exit(PAGE.write_text(HEAD + rows) and None)
