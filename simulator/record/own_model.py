"""A model that a person names: a function in a Python file or a module, or a model of torchvision or transformers."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from simulator.errors import InputError, Problem, format_value, suggest_nearest

ACCEPTED = "FILE.py:FUNCTION, MODULE:FUNCTION, torchvision:NAME or transformers:NAME"
_RETURNED = "a torch.nn.Module, (model, inputs) or (model, inputs, loss function)"
_LIBRARY = re.compile(r"^<|site-packages|[/\\]importlib[/\\]")
_TOKENS = 512
"""Most tokens of a sample of a model of transformers, where nothing else is asked for."""


class OwnModel(NamedTuple):
    """A model with random weights, and what came with it.

    `inputs`: a batch or an iterator of batches; None where none came with the model. `loss`: called as
    loss(model, batch); None where none came. `input`: the shape of one sample where it is known, as `--input` takes it.
    """

    name: str
    model: Any
    inputs: Any = None
    loss: Any = None
    input: str = ""


def load_model(name: str) -> OwnModel:
    """The model that a name stands for. Under `torch.device("meta")` its parameters have shapes and no memory.

    - `FILE.py:FUNCTION` or `MODULE:FUNCTION` (modules are also looked for in the current folder): what the function
      returns, a model, (model, inputs) or (model, inputs, loss function). A class of modules is called, and a module is
      taken as it is.
    - `torchvision:resnet18`: a model of torchvision.
    - `transformers:gpt2`: a model of Hugging Face's transformers in its default configuration, or in that of a local
      `config.json`, with random weights. Nothing is downloaded.

    Raises InputError where there is no such model, a library is not installed, or the code of the function fails.
    """
    place, colon, what = name.rpartition(":")
    if not colon or not place or not what:
        raise InputError(Problem("MODEL", ACCEPTED, format_value(name)))
    if place in _LIBRARIES:
        return _LIBRARIES[place](name, what)
    module = load_module(Path(place)) if place.endswith(".py") else _import(place)
    made = getattr(module, what, None)
    if made is None:
        known = [item for item, value in vars(module).items() if not item.startswith("_") and callable(value)]
        raise InputError(Problem(name, f"a function of {place}", format_value(what), suggest_nearest(what, known)))
    return _check(name, made)


def load_module(path: Path) -> ModuleType:
    """The module in a Python file, which may import its neighbours.

    Raises InputError where there is no such file or its code fails.
    """
    if not path.is_file():
        raise InputError(Problem(str(path), "a Python file", "no such file"))
    name = f"own_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InputError(Problem(str(path), "a Python file, whose name ends with .py", path.name))
    loader = spec.loader
    module = importlib.util.module_from_spec(spec)
    _add_to_path(path.resolve().parent)
    sys.modules[name] = module  # where pickle and dataclasses look for classes of this module
    _run(str(path), lambda: loader.exec_module(module))
    return module


def _import(place: str) -> ModuleType:
    _add_to_path(Path.cwd())

    def load() -> ModuleType:
        try:
            return importlib.import_module(place)
        except ModuleNotFoundError as error:
            if not f"{place}.".startswith(f"{error.name}."):
                raise
            other = f"{place.replace('.', '/')}.py:function"
            hint = f"write it as for import: package.module:function, or as a file: {other}"
            raise InputError(Problem(place, "a module that can be imported", f"no module {place!r}", hint)) from None

    made: ModuleType = _run(place, load)
    return made


def _add_to_path(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _run(where: str, code: Callable[[], Any]) -> Any:
    """What the user's code returns. Raises InputError with its last line and message where it fails."""
    try:
        return code()
    except InputError:
        raise
    except ModuleNotFoundError as error:
        raise InputError(Problem(where, "modules that can be imported", str(error))) from None
    except Exception as error:
        place = f"{error.filename}:{error.lineno}" if isinstance(error, SyntaxError) else _last_line(error) or where
        raise InputError(Problem(place, "code that runs", f"{type(error).__name__}: {error}")) from None


def _last_line(error: Exception) -> str:
    """File and line of the user's own code that an error comes from; empty where there is none."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [item for item in frames if item.filename != __file__ and not _LIBRARY.search(item.filename)]
    return f"{os.path.relpath(own[-1].filename)}:{own[-1].lineno}" if own else ""


def _check(name: str, made: Any) -> OwnModel:
    """What the user's function returns, as a model. Raises InputError for anything else."""
    import torch

    what = name
    if not isinstance(made, torch.nn.Module):
        if not callable(made):
            raise InputError(Problem(name, "a function, a class or a torch.nn.Module", type(made).__name__))
        what = f"{name}()"
        made = _run(what, made)
    parts = made if isinstance(made, tuple) else (made,)
    if not 1 <= len(parts) <= 3:
        raise InputError(Problem(what, _RETURNED, f"{len(parts)} values"))
    model, inputs, loss = (*parts, None, None)[:3]
    if not isinstance(model, torch.nn.Module):
        got = type(model).__name__
        raise InputError(Problem(what, f"{_RETURNED}; a torch.nn.Module first" if len(parts) > 1 else _RETURNED, got))
    if len(parts) == 3 and not callable(loss):
        raise InputError(Problem(what, "a function loss(model, batch) third", type(loss).__name__))
    return OwnModel(name, model, inputs, loss)


def _import_library(library: str, module: str, name: str) -> Any:
    hint = f"pip install {library}"
    if importlib.util.find_spec(library) is None:
        raise InputError(Problem(name, library, "not installed", hint))
    try:
        return importlib.import_module(module)
    except Exception as error:  # a build for another PyTorch raises errors of many kinds
        got = f"{type(error).__name__}: {error}"
        hint = f"{hint}, in the version that belongs to your PyTorch"
        raise InputError(Problem(name, f"{library} that can be imported", got, hint)) from None


def _of_torchvision(name: str, what: str) -> OwnModel:
    models = _import_library("torchvision", "torchvision.models", name)
    known = models.list_models()
    if what not in known:
        raise InputError(Problem(name, "a model of torchvision", format_value(what), suggest_nearest(what, known)))
    model = models.get_model(what, weights=None)
    size = 299 if what == "inception_v3" else 224
    return OwnModel(name, model, input=f"3x{size}x{size}")


def _of_transformers(name: str, what: str) -> OwnModel:
    transformers = _import_library("transformers", "transformers", name)
    if what.endswith(".json") or Path(what).is_dir():
        if not Path(what).exists():
            raise InputError(Problem(name, "a file config.json", "no such file"))
        config = _run(name, lambda: transformers.AutoConfig.from_pretrained(what, local_files_only=True))
    else:
        known = list(transformers.CONFIG_MAPPING.keys())
        if what not in known:
            hint = suggest_nearest(what, known) if len(what) > 2 else ""
            hint = hint if hint.startswith("did") else "a kind of model such as gpt2, bert, llama or vit"
            raise InputError(Problem(name, "a kind of model of transformers", format_value(what), hint))
        config = transformers.AutoConfig.for_model(what)
    return OwnModel(name, _run(name, lambda: transformers.AutoModel.from_config(config)), input=_input_of(config))


def _input_of(config: Any) -> str:
    """The shape of a sample of a model of transformers: a picture, or tokens; empty for other kinds."""
    size, channels = getattr(config, "image_size", None), getattr(config, "num_channels", 3)
    if isinstance(size, int):
        return f"{channels}x{size}x{size}"
    longest = getattr(config, "max_position_embeddings", None) or getattr(config, "n_positions", None)
    if getattr(config, "vocab_size", None):
        return f"tokens:{min(_TOKENS, longest) if isinstance(longest, int) else _TOKENS}"
    return ""


_LIBRARIES: dict[str, Callable[[str, str], OwnModel]] = {
    "torchvision": _of_torchvision,
    "transformers": _of_transformers,
}
"""Libraries whose models have names, if they are installed."""
