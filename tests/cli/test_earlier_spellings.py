"""What commands were called in earlier versions still reaches them, and says what they are called now."""

import click
import pytest
from click.shell_completion import ShellComplete
from command_line import invoke, printed

from simulator.cli import main
from simulator.cli.root import RENAMED

LINES = {
    "completion": ("completion fish", "--completion fish"),
    "figure --list": ("figure --list --json", "list figures --json"),
    "figure": ("figure -o x.png --where a=1 lines - out", "report - out --where a=1 --figure lines -o x.png"),
    "kernels": ("kernels a100 t4 --accuracy", "list kernels a100 t4 --accuracy"),
    "new-method": ("new-method every_other --out mine", "new method every_other --out mine"),
    "schedule": ("schedule --gpus 64 ds.json", "new from ds.json --gpus 64"),
    "schema": ("schema --out schema", "list schemas --out schema"),
    "train": ("train mlp-digits --set a=1 --out mine", "record training mlp-digits --set a=1 --out mine"),
    "workload": ("workload gpt2 --gpu a100 --set layers=2", "list workload gpt2 --gpu a100 --set layers=2"),
}


def test_every_earlier_spelling_is_tried():
    assert set(LINES) == set(RENAMED)


@pytest.mark.parametrize("old", RENAMED)
def test_it_reaches_the_same_command_with_the_same_options_and_says_its_name(old, monkeypatch):
    reached = []
    monkeypatch.setattr(click.Command, "invoke", lambda command, ctx: reached.append((command, ctx.params)))
    before, now = (invoke(*line.split()) for line in LINES[old])
    assert (before.exit_code, now.exit_code, now.stderr) == (0, 0, "")
    assert before.stderr == f"`sparsim {old}` is now `sparsim {RENAMED[old]}`.\n" and before.stdout == now.stdout
    assert reached[: len(reached) // 2] == reached[len(reached) // 2 :]
    assert reached or before.stdout  # a script of the shell is printed by no command


@pytest.mark.parametrize("old", RENAMED)
def test_its_help_is_that_of_the_command(old):
    now = [word for word in RENAMED[old].split() if not word.startswith("-")]
    result = invoke(*old.split(), "--help")
    assert result.stdout == printed(*now, "--help")
    assert result.stdout.startswith(" ".join(["Usage: main", *now])) and result.stderr.count("\n") == 1


def test_neither_help_nor_the_shell_names_it():
    text = printed("--help").partition("Commands:")[2]
    listed = {item.value for item in ShellComplete(main, {}, "sparsim", "_SPARSIM_COMPLETE").get_completions([], "")}
    assert listed == set(main.commands)
    for old in RENAMED:
        assert old.split()[0] not in listed and f"\n  {old} " not in text


def test_the_shell_completes_what_follows_it_and_prints_nothing(capsys):
    shell = ShellComplete(main, {}, "sparsim", "_SPARSIM_COMPLETE")
    assert [item.value for item in shell.get_completions(["train"], "--met")] == ["--method"]
    assert capsys.readouterr() == ("", "")
