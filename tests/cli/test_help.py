"""`--help` with examples that work, and completion in the shell."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import time

import click
import numpy as np
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner
from command_line import printed, refused, run_python
from places import ROOT
from printed import watch_console

from simulator.cli import main
from simulator.cli.arguments import keys_below, values_of

NOT_RUN = (
    "record", "sweep big", "advise quickstart --iterations", "validate", "calibrate", "trace synthesize",
    "trace import kineto", "report out/map", "reproduce skip", "reproduce gaussiank", "serve",
)  # fmt: skip
"""What needs PyTorch, takes many minutes, does not end, or reads a file of the user's; there are tests of their own."""
QUICK = ("run", "check", "collective", "compare", "list", "new", "trace check", "trace import", "report results/before")


def commands(group=main, path=()):
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        if not isinstance(command, click.Group) or command.invoke_without_command:
            yield (*path, name), command


def examples():
    """Every example of every command, as its arguments."""
    for path, command in commands():
        for line in command.examples:
            found = re.search(r"(?:sparsim|-m simulator) ([^)>]*)", line)
            assert found, line
            yield path, shlex.split(found[1].strip().rstrip('"') if line.startswith("eval") else found[1])


EXAMPLES = list(examples())


def test_help_of_every_command_has_examples_of_it():
    for path, _ in commands():
        text = printed(*path, "--help")
        mine = [arguments for other, arguments in EXAMPLES if other == path]
        assert mine, path
        assert "\nExamples:\n" in text, path
        assert all(tuple(arguments[: len(path)]) == path for arguments in mine), path


@pytest.mark.parametrize("group", ["record", "calibrate", "trace"])
def test_help_of_a_group_lists_its_commands_and_no_examples(group):
    text = printed(group, "--help")
    listed = text.partition("\nCommands:\n")[2]
    assert set(re.findall(r"^  ([a-z-]+) ", listed, flags=re.M)) == set(main.commands[group].commands)
    assert "Examples" not in text


def test_examples_are_well_formed():
    for path, arguments in EXAMPLES:
        command = main
        for name in path:
            command = command.commands[name]
        command.make_context("sparsim", arguments[len(path) :])  # raises for an option that there is not


def _runs():
    for _, arguments in EXAMPLES:
        line = " ".join(arguments)
        if not line.startswith(NOT_RUN) and line != "new":  # it asks on a terminal
            yield pytest.param(arguments, id=line, marks=() if line.startswith(QUICK) else pytest.mark.long)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where a user could be: with what the examples speak of."""
    made = tmp_path_factory.mktemp("work")
    (made / "scenarios").symlink_to(ROOT / "scenarios")
    shutil.copy(ROOT / "scenarios" / "ring_check.yaml", made / "my.yaml")
    schedule = '[fault_tolerance]\nenable = true\nsemi_sync_method = "diloco"\nsync_steps = 20\n'
    (made / "diloco_180m.toml").write_text(schedule)
    (made / "ds_config.json").write_text('{"zero_optimization": {"stage": 2}}')
    np.savez(made / "gradients.npz", weight=np.ones((2, 2, 8)), bias=np.ones((2, 2, 3)))
    for name in ("before", "after"):
        printed("run", "ring_check", "--out", made / "results" / name)
    return made


@pytest.mark.parametrize("arguments", list(_runs()))
def test_examples_run(arguments, folder, monkeypatch):
    monkeypatch.chdir(folder)
    watched = watch_console(monkeypatch)
    result = CliRunner(charset="ascii").invoke(main, arguments, catch_exceptions=False, env={"COLUMNS": "100"})
    assert result.exit_code == 0, result.output
    if "--json" not in arguments and arguments[0] != "check":
        watched.check(result.output)


def complete(*words):
    *arguments, incomplete = words
    items = ShellComplete(main, {}, "sparsim", "_SPARSIM_COMPLETE").get_completions(arguments, incomplete)
    return [item.value for item in items if item.type == "plain"]


def test_names_keys_and_values_are_completed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "quick.yaml").write_text("")
    assert complete("run", "qu") == ["quickstart", "quick.yaml"]
    assert complete("compare", "quickstart", "ring") == ["ring_check"] and "density_sweep" in complete("sweep", "d")
    assert complete("run", "quickstart", "--set", "cluster.n") == [
        "cluster.network.", "cluster.network=", "cluster.nodes=",
    ]  # fmt: skip
    assert "sparsifier.kind=topk" in complete("check", "quickstart", "--set", "sparsifier.kind=t")
    assert "cluster.gpu=gpus/v100" in complete("compare", "a", "b", "--set-b", "cluster.gpu=gpus/v")
    assert complete("--completion", "z") == ["zsh"] and complete("list", "work") == ["workload", "workloads"]
    assert complete("list", "kernels", "v100-p") == ["v100-pytorch2"] and complete("new", "m") == ["method"]
    assert complete("new", "from", "--g") == ["--gpus", "--gpu", "--gpus-per-machine"]
    assert {"cluster.", "cluster=", "seed="} <= set(keys_below("")) and keys_below("no.such.key") == []
    entry = complete("run", "quickstart", "--set", "workload.layers.0.")
    assert {"workload.layers.0.numel=", "workload.layers.0.backward="} <= set(entry)
    assert {"auto", "fold", "flows"} == set(values_of("fidelity"))


def test_completion_is_quick():
    """A key is completed without the libraries that a run needs; a shell asks each time that tab is hit."""
    code = (
        "import sys, simulator.cli.arguments as n; n.keys_below('cluster'); n.SCENARIO.shell_complete(None, None, 'q');"
    )
    code += "print([m for m in ('numpy', 'pandas', 'rich', 'simpy') if m in sys.modules])"
    assert run_python("-c", code).stdout.strip() == "[]"
    started = time.process_time()
    keys_below("cluster")
    assert time.process_time() - started < 0.2


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_call_this_command(shell):
    assert f"_SPARSIM_COMPLETE={shell}_complete" in printed("--completion", shell)


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("run quickstart --set cluster.nod", ["compopt -o nospace", "cluster.nodes="]),
        # Bash ends a word at `=`, and puts in only what follows it.
        ("run quickstart --set cluster.gpu = gpus/v100-p", ["gpus/v100-pytorch2"]),
        ("run quickstart --set cluster.nodes = 4 --set fidelity =", ["auto flows fold"]),
        ("new --gpu gpus/t", ["gpus/t4"]),
        ("list gp", ["gpus"]),
    ],
)
def test_bash_completes_with_the_script(tmp_path, words, expected):
    """A real bash: the function that the script defines, called as readline calls it."""
    script = printed("--completion", "bash")
    (tmp_path / "sparsim").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m simulator "$@"\n')
    (tmp_path / "sparsim").chmod(0o755)
    (tmp_path / "try.sh").write_text(
        f'compopt() {{ echo "compopt $1 $2"; }}\n{script}\n'
        f"COMP_WORDS=(sparsim {words}) COMP_CWORD={len(words.split())}\n"
        '_sparsim_completion sparsim\necho "${COMPREPLY[@]}"\n'
    )
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    result = subprocess.run(
        ["bash", str(tmp_path / "try.sh")], capture_output=True, text=True, env=environment, check=True
    )
    assert result.stdout.splitlines() == expected


def test_goals_are_completed_as_they_are_read():
    from simulator.cli.new import _GOALS
    from simulator.studies.start.answers import GOALS

    assert tuple(GOALS) == _GOALS


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("plot x", "Did you mean 'report'?"),
        ("list gpsu", "Did you mean 'gpus'?"),
        ("new --workload x", "Did you mean '--model'?"),
        ("run --workload x", "'.\n"),
    ],
)
def test_words_of_other_programs_lead_to_ours_and_not_to_what_is_spelt_alike(command, words):
    assert refused(*command.split()).endswith(words + "\n" * (words[-1] != "\n"))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("sparsim run quick", "quickstart"),
        ("sparsim run quickstart --set cluster.network=networks/10gbe-tcp-", "networks/10gbe-tcp-1-per-node"),
        ("sparsim run quickstart --set cluster.other_gpus.0.gpu=gpus/t", "gpus/t4"),
        ("sparsim run quickstart --set workload.trace=traces/resnet14", "traces/resnet14-digits"),
        ("sparsim check quickstart --set scheduler.kind=tic", "tictac"),
        ("sparsim new --network networks/ib", "networks/ib-4xv100"),
        ("sparsim new --gpu t", "t4"),
        ("sparsim new --method power", "powersgd"),
        ("sparsim new --goal band", "bandwidth"),
        ("sparsim list pape", "papers"),
    ],
)
def test_every_shell_is_given_names_and_values(shell, line, value, monkeypatch):
    """What the scripts read: the command run with the words of a line in its environment."""
    words = line.split()
    number = words[-1] if shell == "fish" else str(len(words) - 1)  # fish hands over the word itself
    environment = {"_SPARSIM_COMPLETE": f"{shell}_complete", "COMP_WORDS": "\n".join(words), "COMP_CWORD": number}
    for name, text in environment.items():
        monkeypatch.setenv(name, text)
    result = CliRunner().invoke(main, prog_name="sparsim")
    assert result.exit_code == 0
    found = re.split(r"[\n\t,]", result.output)
    assert any(item in (value, f"{words[-1].partition('=')[0]}={value}") for item in found), found
