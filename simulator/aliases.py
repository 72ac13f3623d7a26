"""Names that people use for what has another name here: each resolves, or the error says which keys are meant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

Written = Mapping[str, str | int]
"""A member of a family as a scenario writes it."""


def _all(meant: Written, *names: str) -> dict[str, Written]:
    return {name: meant for name in names}


_ONE_BIT: Written = {
    "kind": "quantised_all_reduce",
    "format": "sign",
    "exchange_by": "all_to_all",
    "error_feedback": True,
}
"""Signs with error feedback: 1-bit Adam and LAMB send those of the momentum, which are as many bytes."""
_BUCKETED: Written = {"kind": "bucketed"}
_FULLY_SHARDED: Written = {"kind": "fsdp"}
KINDS: Mapping[str, Mapping[str, Written]] = {
    "sparsifier": {
        **_all({"kind": "dense"}, "none", "no_compression", "allreduce"),
        **_all({"kind": "topk"}, "top_k", "topk_sgd"),
        **_all({"kind": "randomk"}, "random_k", "rand_k"),
        "deep_gradient_compression": {"kind": "dgc"},
        **_all({"kind": "powersgd"}, "powersgd_ddp", "powersgd_hook", "power_sgd"),
        "sign_sgd": {"kind": "signsgd"},
        **_all({"kind": "efsignsgd"}, "ef_sign_sgd", "ef_signsgd"),
        **_all({"kind": "onebit"}, "1bit", "1_bit_sgd", "1bit_sgd", "onebit_sgd"),
        **_all(_ONE_BIT, "1_bit_adam", "1bit_adam", "onebit_adam", "1_bit_lamb", "1bit_lamb", "onebit_lamb"),
    },
    "scheduler": {
        **_all(_BUCKETED, "ddp", "pytorch_ddp", "distributed_data_parallel"),
        "horovod": {"kind": "bucketed", "rule": "horovod"},
        **_all(_FULLY_SHARDED, "fsdp2", "zero3", "zero_3", "fully_sharded_data_parallel"),
        **{name: {"kind": "zero", "stage": stage} for stage in (1, 2) for name in (f"zero{stage}", f"zero_{stage}")},
        "p3": {"kind": "priority"},
        "qgz": {**_FULLY_SHARDED, "reduce_wire": "qgz"},
        "qwz": {**_FULLY_SHARDED, "gather_wire": "int8"},
        "hpz": {**_FULLY_SHARDED, "keep": "node"},
        **_all({**_FULLY_SHARDED, "keep": "node", "gather_wire": "int8", "reduce_wire": "qgz"}, "zero++", "zeropp"),
    },
}
"""By family, names of other programs and papers, and what is meant here."""

FILES: Mapping[str, Mapping[str, str]] = {
    "gpus": {
        **dict.fromkeys(("a100_40gb", "a100_pcie"), "a100"),
        **dict.fromkeys(("a100_sxm_80gb", "a100_sxm4_80gb"), "a100-80gb"),
        **dict.fromkeys(("h100_sxm", "h100_sxm5", "h100_80gb"), "h100"),
        "h200_sxm": "h200",
        **dict.fromkeys(("v100_sxm2", "tesla_v100"), "v100"),
        **dict.fromkeys(("rtx_2080_ti", "2080ti"), "rtx2080ti"),
        **{name: f"rtx{model}" for model in ("3080", "3090", "4090") for name in (f"rtx_{model}", model)},
    },
    "runtimes": {"ddp": "pytorch-ddp", "fsdp": "pytorch-fsdp", "fsdp2": "pytorch-fsdp", "horovod": "horovod-0.19"},
}
"""By folder of configs, what files are called elsewhere."""

_TRAVELS = "16-bit travel is `precision: {{travels: {}}}` of the workload"
EXPLAINED: Mapping[str, str] = {
    **{
        name: _TRAVELS.format(form)
        for form in ("fp16", "bf16")
        for name in (form, f"{form}_hook", f"{form}_compress_hook", f"{form}_compression")
    },
    **dict.fromkeys(
        ("zero_one_adam", "01adam", "01_adam", "0/1_adam"),
        "it skips exchanges, which is no kind here; what comes closest is `1bit_adam`, with fewer exchanges",
    ),
    "bucket_cap_mb": "25 of it are `scheduler: {kind: bucketed, bucket_size: 25 MiB}`; `sparsim advise` finds the best",
}
"""Names that no one kind stands for, and the keys that are meant."""


class Alias(NamedTuple):
    """A name that people use: `what` it stands in for, and what it `means`."""

    name: str
    what: str
    means: str


def kind_of(family: str, name: str) -> Written | None:
    """What is meant by a name where a member of a family is wanted; None for a name that is not known.

    >>> kind_of("scheduler", "ZeRO-2")
    {'kind': 'zero', 'stage': 2}
    """
    return KINDS.get(family, {}).get(plain(name))


def file_of(folder: str, name: str) -> str:
    """The name of a config by what it is called elsewhere, with its folder or without; the name itself otherwise.

    >>> file_of("gpus", "H100-SXM"), file_of("gpus", "gpus/A100"), file_of("gpus", "mine.yaml")
    ('gpus/h100', 'gpus/a100', 'gpus/mine.yaml')
    """
    bare = name.removeprefix(f"{folder}/").lower()
    return f"{folder}/{FILES.get(folder, {}).get(plain(bare), bare)}"


def explain(name: str) -> str:
    """Which keys are meant by a name that stands in a wrong place, or that no one kind stands for; else empty.

    >>> explain("fp16_hook")
    '16-bit travel is `precision: {travels: fp16}` of the workload'
    """
    known = ((family, names.get(plain(name))) for family, names in KINDS.items())
    return EXPLAINED.get(plain(name)) or next((f"write `{family}: {_shown(it)}`" for family, it in known if it), "")


def all_aliases() -> Iterator[Alias]:
    """Every name with what it means."""
    for family, names in KINDS.items():
        yield from (Alias(name, family, f"{family}: {_shown(meant)}") for name, meant in names.items())
    for folder, files in FILES.items():
        yield from (Alias(name, folder.removesuffix("s"), f"{folder}/{meant}") for name, meant in files.items())
    yield from (Alias(name, "", meant) for name, meant in EXPLAINED.items())


def _shown(written: Written) -> str:
    return "{" + ", ".join(f"{key}: {'true' if value is True else value}" for key, value in written.items()) + "}"


def plain(name: str) -> str:
    """A word without capitals, hyphens and spaces, as words of other programs are compared."""
    return name.strip().lower().replace("-", "_").replace(" ", "_")
