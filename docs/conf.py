"""Settings of `sphinx-build -W -b html docs docs/_build`. Nothing is downloaded."""

import sys
from importlib.metadata import version as installed
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "sparsim"
author = "sparsim developers"
project_copyright = ""
version = release = installed("sparsim")

extensions = [
    "myst_parser", "sphinx.ext.autodoc", "sphinx_click", "sphinx_design", "sphinx_copybutton",
    "glossary_links", "mathml", "write_pages",
]  # fmt: skip
exclude_patterns = ["_build", "**/README.md"]
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath", "fieldlist", "substitution"]
_model_error = yaml.safe_load((Path(__file__).parents[1] / "configs" / "model_error.yaml").read_text())
_errors = _model_error["errors"]
myst_substitutions = {
    "model_width": f"{_errors['width']:.2f}",
    "model_rows": _model_error["rows"],
    "speed_ups": f"{_errors['speed_ups']:.2f}",
    **{f"stretch_{percent}": f"{stretch:.2f}" for percent, stretch in _errors["stretch"].items()},
}
myst_heading_anchors = 3
smartquotes = False
html_math_renderer = "mathml"

html_theme = "furo"
html_title = f"sparsim {version}"
html_show_copyright = False
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["style.css"]
# What is copied is the command: neither the prompt nor what it prints.
copybutton_prompt_text = "$ "
copybutton_line_continuation_character = "\\"

default_role = "literal"
autodoc_typehints = "description"
autodoc_member_order = "bysource"
# The pages are made without PyTorch, which the functions that record need.
autodoc_mock_imports = ["torch"]
nitpicky = True
# No links to types of other projects (nothing is downloaded), nor to types of this one that only a signature names.
nitpick_ignore_regex = [("py:.*", r"(?!simulator\.(load|run|sweep|explain|advise)$).*")]
