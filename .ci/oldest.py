"""Print the dependencies of pyproject.toml, each at its lower bound."""

import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
for dependency in project["dependencies"]:
    name, _, lowest = dependency.partition(">=")
    print(f"{name}=={lowest}")
