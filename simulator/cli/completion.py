"""`sparsim completion`: the script with which a shell completes this command."""

from __future__ import annotations

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

from simulator.cli.root import main

_VARIABLE = "_SPARSIM_COMPLETE"
_SHELLS: dict[str, type[ShellComplete]] = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}
_NO_SPACE = '    [[ "${COMPREPLY[0]-}" == *[=.] ]] && compopt -o nospace\n\n    return 0'
"""For bash: no space after a key, because its value or a key below it follows."""


@main.command(
    examples="""
    eval "$(sparsim completion bash)"
    sparsim completion zsh > ~/.zfunc/_sparsim
    sparsim completion fish > ~/.config/fish/completions/sparsim.fish
"""
)
@click.argument("shell", type=click.Choice(list(_SHELLS)))
def completion(shell: str) -> None:
    """Print a script for completion in the shell.

    With it, the shell completes commands, options, names of scenarios, and the keys of --set.

    \b
    bash  put the first line below into ~/.bashrc
    zsh   needs ~/.zfunc in fpath, and compinit after it, in ~/.zshrc; or put eval "$(sparsim completion zsh)" there
    fish  finds the file below by itself
    """
    made = _SHELLS[shell](main, {}, "sparsim", _VARIABLE)
    # Not made.source(), which runs a bash to see how old it is.
    script = made.source_template % made.source_vars()
    click.echo(script.replace("    return 0", _NO_SPACE, 1) if shell == "bash" else script)
