"""What shells and terminals need: a script that completes commands, and look-alikes of what cannot be printed."""

from __future__ import annotations

import codecs
import io
import sys
import unicodedata

import click
from click.shell_completion import ShellComplete, get_completion_class

_VARIABLE = "_SPARSIM_COMPLETE"
_WORDS = """\
    local words=() word glued
    for word in "${COMP_WORDS[@]:0:COMP_CWORD+1}"; do
        if [[ ${#words[@]} -gt 0 && ( "$word" == [=:]* || -n "$glued" ) ]]; then
            words[-1]+="$word"
        else
            words+=("$word")
        fi
        [[ "$word" == *[=:] ]] && glued=1 || glued=
    done
    local last="${words[-1]}"
    local before="${last%"${last##*[=:]}"}"

    response="""
"""For bash, which ends a word at `=` and `:`: words are joined again before they are completed."""
_END = """\
    local i
    for i in "${!COMPREPLY[@]}"; do
        COMPREPLY[i]="${COMPREPLY[i]#"$before"}"
    done
    [[ "${COMPREPLY[0]-}" == *[=.] ]] && compopt -o nospace

    return 0"""
"""For bash: only what follows the last `=` is put in, and no space after a key, whose value or a key below follows."""


def completion_script(command: click.Command, shell: str) -> str:
    """The script for bash, zsh or fish."""
    made = (get_completion_class(shell) or ShellComplete)(command, {}, "sparsim", _VARIABLE)
    # Not made.source(), which runs a bash to see how old it is.
    script = made.source_template % made.source_vars()
    if shell == "bash":
        script = script.replace("    response=", _WORDS, 1).replace("    return 0", _END, 1)
        script = script.replace('COMP_WORDS="${COMP_WORDS[*]}"', 'COMP_WORDS="${words[*]}"', 1)
        script = script.replace("COMP_CWORD=$COMP_CWORD", "COMP_CWORD=$((${#words[@]} - 1))", 1)
    return script


NAME = "sparsim.look_alike"
LOOK_ALIKES = {
    **dict.fromkeys("–—−‐‑", "-"),
    **dict.fromkeys("█▉▊▋▌▇▆▅▄▃■●━", "#"),
    **dict.fromkeys("▍▎▏▂▁", "."),
    **dict.fromkeys("“”„", '"'),
    **dict.fromkeys("‘’", "'"),
    "…": "...",
    "×": "x",
    "·": ".",
    "•": "*",
    "→": "->",
    "±": "+-",
    "µ": "u",
    "μ": "u",
    "│": "|",
    "─": "-",
    "╸": "-",
    "≤": "<=",
    "≥": ">=",
    "≈": "~",
}


def look_alike(text: str) -> str:
    """The text in ASCII, with a question mark for each character that nothing looks like.

    >>> look_alike("1–2 µs × 10², ██ née 東")
    '1-2 us x 102, ## nee ?'
    """
    plain = (unicodedata.normalize("NFKD", each).encode("ascii", "ignore").decode() for each in text)
    return "".join(LOOK_ALIKES.get(each) or ascii_ or "?" for each, ascii_ in zip(text, plain, strict=True))


def _replace(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return look_alike(error.object[error.start : error.end]), error.end


def print_look_alikes() -> None:
    """From now on, what standard output and error cannot encode is replaced instead of being an error."""
    codecs.register_error(NAME, _replace)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=NAME)
