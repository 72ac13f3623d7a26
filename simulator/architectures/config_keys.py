"""The keys of a config.json, each checked where it is read; those that nobody read are named."""

from __future__ import annotations

import re
from typing import Any, NoReturn

from simulator.errors import InputError, Problem, format_value
from simulator.loading.documents import Document

OTHERWISE = (
    "describe any other decoder with `model: transformer`, or take the sizes from its code: sparsim list workload "
    "transformers:NAME --input tokens:512 (`sparsim list workload --help`)"
)
_HARMLESS = re.compile(
    r"_|.*(_token_id|_token_ids|_eps|_epsilon|eps|_range|_std|_factor|_scaling|_multiplier|_scale|_theta|_freq_base)$"
    r"|(architectures|auto_map|model_type|transformers_version|torch_dtype|dtype|use_cache|pretraining_tp|return_dict)$"
    r"|(initializer|init|rope|rotary|layer_norm_ep|norm_ep|logit|label|id2label|task_specific|tokenizer|output_).*"
    r"|(summary|suppress|begin_suppress|forced|num_beams|max_length|min_length|length_penalty|no_repeat|early_stop).*"
    r"|.*(_act|activation|activation_function|hidden_act|scoring_func|topk_method|_coef|_coeff|_loss|capacity|jitter"
    r"|gradient_checkpointing|position_embedding_type|normalization_function|name_or_path|problem_type|alpha|aux)$"
    r"|(finetuning|is_|add_cross|cross_attention_hidden|chunk_size_feed|use_bfloat16|pruned|prefix|classifier_dropout"
    r"|norm_topk|topk_group|n_group|routed|router|scale_|query_pre_attn|quantization_config|reset_|deterministic"
    r"|static_|attn_implementation|language|_attn|mask_|apply_spec|median_filter|use_weighted|embd_pdrop|n_ctx"
    r"|reorder|upcast|floor_scale|for_llm|attention_softmax|use_mamba|use_associative|classifier_p|sparse_p"
    r"|pooler_output|dense_act|original_max|rescale|residual_in_fp32|time_step_(limit|min|max|floor|init)|hidden_act).*"
)
"""Keys that change no number of a training: names, tokens, arithmetic that is the same work, and losses."""
_MOST_NAMED = 8


class ConfigKeys:
    """The keys of a file. `said` holds notes that readers add, by key of the workload."""

    def __init__(self, document: Document, data: dict[str, Any]) -> None:
        self.document, self.data = document, data
        self.said: dict[str, str] = {}
        self._read = set[str]()

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key, which counts as read; the default where it is left out or null."""
        self._read.add(key)
        value = self.data.get(key)
        return default if value is None else value

    def ignore(self, *names: str) -> None:
        """Count keys as read that change no size; a text may hold several, between spaces."""
        self._read.update(" ".join(names).split())

    def numbers(self, keys: dict[str, str]) -> dict[str, Any]:
        """Whole numbers by our names from the file's, of which `a|b` are two for one, the first that is there counting.

        Raises InputError with all that are missing or no numbers.
        """
        problems, made = [], {}
        for ours, names in keys.items():
            every = names.split("|")
            self._read.update(every)
            key = next((name for name in every if self.data.get(name) is not None), every[0])
            value = self.get(key)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                got = "nothing" if value is None else format_value(value)
                problems.append(Problem(f"{self.document.where((key,))}: {key}", "a whole number from 1 up", got))
            made[ours] = value
        if problems:
            raise InputError(problems)
        return made

    def optional(self, keys: dict[str, str]) -> dict[str, Any]:
        """Whole numbers by our names, without those that the file leaves out. Raises InputError for anything else."""
        return self.numbers(
            {ours: key for ours, key in keys.items() if any(self.get(name) is not None for name in key.split("|"))}
        )

    def whole(self, key: str, default: int, least: int = 1) -> int:
        """A whole number, or its default where it is left out. Raises InputError for others, and below `least`."""
        value = self.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            self.refuse(key, f"a whole number from {least} up")
        return value

    def is_set(self, key: str, default: bool = False) -> bool:
        """A switch of the file, or its default where it is left out. Raises InputError for anything else."""
        value = self.get(key, default)
        return value if isinstance(value, bool) else self.refuse(key, "true or false")

    def share(self, key: str, default: float) -> float:
        """A share from 0 to 1, or its default where it is left out. Raises InputError for anything else."""
        value = self.get(key, default)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return float(value) if is_number and 0 <= value <= 1 else self.refuse(key, "a share from 0 to 1")

    def any_above_0(self, *names: str, default: bool = False) -> bool:
        """Whether a share is above 0 among keys that several versions of a type have; the default without any."""
        found = [self.share(key, 0.0) for key in names if self.get(key) is not None]
        return any(found) if found else default

    def require(self, value: Any, *names: str) -> None:
        """Raise InputError unless each of some keys has this value, or is left out."""
        for key in names:
            if self.get(key, value) != value:
                self.refuse(key, str(value).lower() if isinstance(value, bool) else format_value(value))

    def refuse(self, key: str, what: str) -> NoReturn:
        """Raise InputError for the value of a key."""
        got = format_value(self.data.get(key))
        raise InputError(Problem(f"{self.document.where((key,))}: {key}", what, got, OTHERWISE))

    def unread(self) -> str:
        """In words, the keys that were not read and are on, beside those that change no number; "" without any."""
        found = [
            key
            for key, value in self.data.items()
            if key not in self._read and value not in (None, False, 0, "", [], {}) and not _HARMLESS.match(key)
        ]
        named = [f"{key[:60]} {format_value(self.data[key])[:60]}" for key in found[:_MOST_NAMED]]
        rest = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
        return f"keys that are not read: {', '.join(named)}{rest}" if named else ""
