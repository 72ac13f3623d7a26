"""Specs and plug-in families: subclasses register themselves, and a mapping in YAML becomes a component."""

from __future__ import annotations

import hashlib
import importlib
import pkgutil
from collections.abc import Collection, Iterator, Mapping
from copy import deepcopy
from functools import cache, cached_property
from importlib.util import find_spec
from typing import Any, ClassVar, Self, TypeVar, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ModelWrapValidatorHandler,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError, core_schema

from simulator.aliases import describe_not_modelled, explain, kind_of, own_word
from simulator.errors import format_value, suggest_nearest
from simulator.plugins import BrokenPlugin, load_plugins

_set = object.__setattr__
AnyComponent = TypeVar("AnyComponent", bound="Component")


class Spec(BaseModel):
    """Base of everything that a user writes, in YAML or in Python: immutable, finite numbers, no unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with some fields replaced, without values that were computed from the old fields.

        pydantic's own keeps those and takes three times as long, and models have thousands of layers.
        """
        kind, private = type(self), self.__pydantic_private__
        fields, update = kind.__pydantic_fields__, update or {}
        kept = {**self.__dict__, **update}
        if len(kept) > len(fields):
            kept = {name: kept[name] for name in fields}
        if deep:
            kept, private = deepcopy((kept, private))
        copy = kind.__new__(kind)
        _set(copy, "__dict__", kept)
        _set(copy, "__pydantic_fields_set__", {*self.__pydantic_fields_set__, *update})
        _set(copy, "__pydantic_extra__", None)
        _set(copy, "__pydantic_private__", private and {**private})
        return copy

    @model_validator(mode="after")
    def _fits(self) -> Self:
        self.refuse_unfit()
        return self

    def refuse_unfit(self) -> None:
        """Raise an expected-error where fields do not fit each other; copies with changes have to be asked again."""

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of all fields: equal specs have equal fingerprints, in any process."""
        kind = f"{type(self).__module__}.{type(self).__qualname__}"
        return hashlib.sha256(f"{kind} {self.model_dump_json()}".encode()).hexdigest()

    @model_validator(mode="wrap")
    @classmethod
    def _suggest_nearest_key(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return handler(value)
        except ValidationError as error:
            details = error.errors(include_url=False)
            if not any(item["type"] == "extra_forbidden" and len(item["loc"]) == 1 for item in details):
                raise
            raise ValidationError.from_exception_data(
                cls.__name__, [cls._hinted_error(item) for item in details]
            ) from None

    @classmethod
    def _hinted_error(cls, item: Any) -> InitErrorDetails:
        context = {"message": item["msg"], **(item.get("ctx") or {})}
        error = PydanticCustomError(item["type"], "{message}", context)
        if item["type"] == "extra_forbidden" and len(item["loc"]) == 1:
            known = [field.alias or name for name, field in cls.model_fields.items()]
            error = unknown_key_error(str(item["loc"][0]), known)
        return InitErrorDetails(type=error, loc=item["loc"], input=item.get("input"))


class Component(Spec):
    """Base of the plug-in families (sparsifier, topology, scheduler, fabric).

    `class TopK(Sparsifier, kind="topk")` registers the kind under its family; the kind is the file's name.

    `availability`: where a plug-in's kind exists, as entries of the form of `configs/availability.yaml`.
    """

    family: ClassVar[str] = ""
    kind: ClassVar[str] = ""
    availability: ClassVar[tuple[Mapping[str, Any], ...]] = ()
    registry: ClassVar[dict[str, type[Component]]] = {}
    home: ClassVar[str] = ""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__()

    @classmethod
    def __pydantic_init_subclass__(cls, *, kind: str = "", family: str = "", **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        if family:
            cls.family, cls.registry, cls.home = family, {}, cls.__module__.rpartition(".")[0]
        if kind:
            known = cls.registry.get(kind)
            other = known.__module__ if known is not None else cls._own_module(kind)
            if other and other != cls.__module__:
                raise TypeError(f"{cls.family} kind '{kind}' is defined in {other} and {cls.__module__}")
            cls.kind = kind
            cls.registry[kind] = cls

    @classmethod
    def _own_module(cls, kind: str) -> str:
        """The file of the family's folder that defines a kind, imported or not; empty if there is none."""
        if not cls.home or cls.__module__.startswith(f"{cls.home}.") or not kind.isidentifier():
            return ""
        return f"{cls.home}.{kind}" if find_spec(f"{cls.home}.{kind}") is not None else ""

    @classmethod
    def summary(cls) -> str:
        """First line of the docstring, which `sparsim list` prints."""
        return (cls.__doc__ or "").strip().splitlines()[0] if cls.__doc__ else ""

    def described(self, mode: str = "python") -> dict[str, Any]:
        """The component as a mapping from which it can be built; in mode `json` quantities have units."""
        return {"kind": self.kind, **self.model_dump(mode=mode)}


def discover(base: type[Component]) -> dict[str, type[Component]]:
    """All members of a family by kind, sorted; imports the modules of its folder and installed plug-ins first."""
    _import_members(base.home)
    return dict(sorted(base.registry.items()))


@cache
def _import_members(package_name: str) -> None:
    package = importlib.import_module(package_name)
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package_name}.{module.name}")
    broken_plugins()


@cache
def broken_plugins() -> tuple[BrokenPlugin, ...]:
    """The installed plug-ins that could not be loaded; loads all of them the first time."""
    return load_plugins(lambda: [family.registry for family in Component.__subclasses__()])


def find_member(base: type[Component], kind: str) -> type[Component] | None:
    """The member of this kind, None if there is none; imports no other, since a kind is the name of its file."""
    if kind not in base.registry and kind.isidentifier():
        name = f"{base.home}.{kind}"
        if find_spec(name) is not None:
            importlib.import_module(name)
    return base.registry.get(kind) or discover(base).get(kind)


def build(base: type[AnyComponent], value: Any, context: Any = None) -> AnyComponent:
    """Make a member of `base` from a kind name or a mapping with `kind`.

    Raises PydanticCustomError for an unknown kind, with the nearest one as a hint, and ValidationError for invalid
    parameters.
    """
    if isinstance(value, base):
        return value
    if isinstance(value, str):
        kind, rest = value, {}
    elif isinstance(value, dict) and isinstance(value.get("kind"), str):
        kind, rest = value["kind"], {key: item for key, item in value.items() if key != "kind"}
    else:
        raise expected(f"a {base.family}: a kind or a mapping with `kind`", value, suggest_nearest("", discover(base)))
    member = find_member(base, kind)
    if member is None:
        meant = kind_of(base.family, kind)
        if meant is not None:
            return build(base, {**meant, **rest}, context)
        refused = describe_not_modelled(kind)
        if refused is not None:
            raise expected("", *refused)
        raise expected(f"a kind of {base.family}", kind, explain_unknown_kind(base, kind))
    return cast(AnyComponent, member.model_validate(rest, context=context))


def explain_unknown_kind(base: type[Component], kind: str) -> str:
    """What to write for a kind that a family does not have: the keys that are meant, or the nearest kind."""
    keyed = [each for each in Component.__subclasses__() if each.family in ("scheduler", "sparsifier", "topology")]
    elsewhere = (each.family for each in keyed if find_member(each, kind))
    if keys := explain(kind) or next((f"write `{name}: {kind}`" for name in elsewhere), ""):
        return keys
    return "; ".join([*map(str, broken_plugins()), suggest_nearest(kind, discover(base))])


def expected(what: str, got: Any, hint: str = "") -> PydanticCustomError:
    """A validation error in the form of all messages: expected, got, hint; without `what`, `got` says what is wrong."""
    context = {"what": what, "got": got if isinstance(got, str) else format_value(got), "hint": hint}
    return PydanticCustomError("expected", "expected {what}, got {got}: {hint}" if what else "{got}: {hint}", context)


def unknown_key_error(key: str, known: Collection[str]) -> PydanticCustomError:
    """The error for a key that is not `known`: the nearest one, or what comes closest to what it asks for."""
    if (other := own_word(key)) in known:
        return expected("a known key", f"'{key}'", f"the key is `{other}`")
    if refused := describe_not_modelled(key):
        return expected("", *refused)
    return expected("a known key", f"'{key}'", explain(key) or suggest_nearest(key, known))


class MemberOf:
    """Annotation of a field that holds a member of a family: `Annotated[Sparsifier, MemberOf(Sparsifier)]`."""

    def __init__(self, base: type[Component]) -> None:
        self.base = base

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        def validate(value: Any, info: ValidationInfo) -> Component:
            return build(self.base, value, info.context)

        return core_schema.with_info_plain_validator_function(
            validate,
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda member, info: member.described(info.mode), info_arg=True
            ),
        )

    def __get_pydantic_json_schema__(self, schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        members = discover(self.base)
        plain = [kind for kind, member in members.items() if not list(required_fields(member))]
        choices: list[dict[str, Any]] = [{"enum": plain}]
        for kind, member in members.items():
            entry = handler.resolve_ref_schema(handler(member.__pydantic_core_schema__))
            properties = {"kind": {"const": kind}} | entry.get("properties", {})
            required = ["kind", *entry.get("required", [])]
            choices.append(entry | {"properties": properties, "required": required, "title": kind})
        return {"anyOf": choices}


def required_fields(member: type[Spec]) -> Iterator[str]:
    """Names of the fields without a default."""
    return (name for name, field in member.model_fields.items() if field.is_required())
