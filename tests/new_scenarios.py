"""`sparsim new` with an answer to each question, of which some are changed."""

from command_line import printed

ANSWERS = {
    "model": "workloads/resnet50-v100",
    "gpu": "gpus/v100-pytorch2",
    "machines": "4",
    "gpus-per-machine": "1",
    "network": "networks/10gbe-tcp-1-per-node",
    "framework": "runtimes/pytorch-ddp",
    "method": "topk 1 %",
    "goal": "pays",
}


def options(**changes):
    answers = ANSWERS | {key.replace("_", "-"): value for key, value in changes.items()}
    return [text for key, value in answers.items() if value is not None for text in (f"--{key}", str(value))]


def write(*more, **changes):
    return printed("new", "mine.yaml", *options(**changes), *more)


def commands(output):
    """The commands of the last part of the output."""
    lines = output.partition("\nnext:\n")[2].splitlines()
    return [line.partition("  # ")[0].strip() for line in lines if line.strip().startswith("sparsim ")]
