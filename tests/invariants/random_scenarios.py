"""Random valid scenarios over all kinds of all families, small enough to be predicted in milliseconds.

Everything is drawn from a seeded `Random`. Values are in SI.
"""

from functools import cache
from math import exp, log
from random import Random

import pytest
from pydantic import ValidationError

from examples import EXAMPLE
from simulator.component import discover, required_fields
from simulator.errors import InputError
from simulator.fabrics.base import Fabric
from simulator.prediction.run import run
from simulator.scenario.scenario import Scenario
from simulator.schedulers.base import Scheduler
from simulator.sparsifiers.base import Sparsifier
from simulator.topologies.base import Topology
from simulator.units import DIMENSIONS as KNOWN

RANGES = {"time": (1e-6, 1e-3), "size": (1e5, 1e8), "bandwidth": (1e8, 1e11), "fraction": (0.001, 1.0)}
DIMENSIONS = {known.example: name for name, known in KNOWN.items()}
ONE_NODE = ("nvlink_mesh", "nvswitch")
MOST_NODES, MOST_GPUS = 6, 3
KERNELS = ("elementwise", "topk", "scatter_add", "compact", "sort", "update")


def spread(draw, low, high):
    """A number between both, evenly on a log axis."""
    return exp(draw.uniform(log(low), log(high)))


def sometimes(draw, share=0.25):
    """True in this share of all draws."""
    return draw.random() < share


def some(draw, share=0.25, **makers):
    """Each of the keys in this share of all draws, with the value that its maker gives."""
    return {key: make() for key, make in makers.items() if sometimes(draw, share)}


@cache
def parameters(member):
    """The schemas of the optional parameters of a member that can be drawn, by name."""
    properties = member.model_json_schema().get("properties", {})
    required = set(required_fields(member))
    return {name: item for name, item in sorted(properties.items()) if name not in required and _kind(item)}


def _kind(schema):
    if any(text in DIMENSIONS for text in schema.get("examples", ())):
        return "quantity"
    if "anyOf" in schema:
        return "one_of" if any(_kind(item) for item in schema["anyOf"]) else ""
    if "enum" in schema or schema.get("type") in ("boolean", "integer", "number"):
        return "enum" if "enum" in schema else schema["type"]
    return ""


def value(draw, schema):
    """A value of a parameter."""
    match _kind(schema):
        case "quantity":
            return spread(draw, *RANGES[DIMENSIONS[schema["examples"][0]]])
        case "one_of":
            return value(draw, draw.choice([item for item in schema["anyOf"] if _kind(item)]))
        case "enum":
            return draw.choice(schema["enum"])
        case "boolean":
            return draw.choice([False, True])
        case "integer":
            low = schema.get("minimum", 0)
            return draw.randint(low, min(schema.get("maximum", 64), low + 64))
    low = schema.get("minimum", schema.get("exclusiveMinimum", 0.0))
    high = min(low + 3.0, schema.get("maximum", schema.get("exclusiveMaximum", low + 3.0)))
    return draw.uniform(low + 0.01 * (high - low), high - 0.01 * (high - low))


def member(draw, base, kind=None, leave_out=(), share=0.25):
    """A member of a family as a mapping: its kind, what it requires, and some of its parameters."""
    kind = kind or draw.choice(list(discover(base)))
    known = discover(base)[kind]
    made = {"kind": kind} | {name: EXAMPLE[name] for name in required_fields(known)}
    optional = {name: item for name, item in parameters(known).items() if name not in leave_out}
    made |= {name: value(draw, item) for name, item in optional.items() if sometimes(draw, share)}
    if "density" in made:
        made["density"] = spread(draw, 0.001, 1)
    return made


def sparsifier(draw):
    """What is sent."""
    return member(draw, Sparsifier, leave_out=("implementation", "skipped"), share=0.15)


def topology(draw):
    """How it travels."""
    made = member(draw, Topology, leave_out=("max_chunks", "servers", "algorithm", "protocol"), share=0.3)
    if made["kind"] == "by_site":
        made["nodes_per_site"] = draw.randint(1, 3)
        made.pop("heads", None)
    if made["kind"] == "parameter_server":
        made["servers"] = draw.randint(0, 4)
    if made["kind"] == "nccl" and sometimes(draw, 0.5):
        made["tuning"] = {"gpu": draw.choice(["volta", "ampere", "hopper"]), "intra": draw.choice(["nvlink", "pci"])}
    return made


def scheduler(draw):
    """When it travels."""
    made = member(draw, Scheduler, leave_out=("streams", "site"))  # sites need a schedule inside of them
    if "fragments" in made:
        made["fragments"] = draw.randint(1, 2)
    if ("startup" in made) != ("per_byte" in made):  # both, or neither
        made = {name: item for name, item in made.items() if name not in ("startup", "per_byte")}
    if "delay" in made:
        made["delay"] = draw.randint(0, made["inner_steps"])
    if sometimes(draw, 0.15) and made["kind"] not in ("fsdp", "megatron", "zero"):
        made["streams"] = draw.randint(2, 3)
    if "shard" in made:
        made["shard"] = draw.choice([1, 2, 3, 4])
    return made


def layers(draw, least=1):
    """Tensors with times, some of them embeddings, some with launches by the host."""
    hosted = sometimes(draw, 0.15)
    return [
        {
            "name": f"part{draw.randint(0, 2)}.{number}",
            "numel": numel,
            "forward": draw.choice([0.0, spread(draw, 1e-5, 1e-2)]),
            "backward": spread(draw, 1e-5, 1e-2),
            **({"forward_host": spread(draw, 1e-6, 1e-3)} if hosted else {}),
            **({"rows": {"count": draw.randint(1, 50), "width": 1}} if sometimes(draw, 0.1) else {}),
        }
        for number in range(draw.randint(least, 6))
        for numel in [max(1, int(spread(draw, 1, 1e6)))]
    ]


def workload(draw, described=True):
    """A model: listed, or described by its sizes."""
    made = {
        "batch_size": 8,
        **some(
            draw,
            micro_batches=lambda: draw.choice([2, 4, 8]),
            input_time=lambda: spread(draw, 1e-5, 1e-2),
            optimiser=lambda: {
                "kind": draw.choice(["sgd", "momentum", "adam", "adamw"]),
                "implementation": draw.choice(["per_tensor", "foreach", "fused", "fused_per_tensor"]),
            },
            precision=lambda: draw.choice(
                ["bf16", "fp16", {"travels": "fp16"}, {"gradients": "fp16", "residuals": "fp16"}]
            ),
        ),
    }
    if described and sometimes(draw, 0.08):
        model = draw.choice(
            [
                {"model": "gpt2", "layers": 1, "hidden": 16, "heads": 2, "sequence": 8, "vocabulary": 50},
                {"model": "lstm", "layers": 1, "hidden": 8, "vocabulary": 50, "sequence": 4},
                {"model": "vit", "layers": 1, "hidden": 16, "heads": 2},
            ]
        )
        return made | model
    stated = some(
        draw,
        0.1,
        compute_time=lambda: spread(draw, 1e-2, 1),
        update_time=lambda: spread(draw, 1e-6, 1e-3),
        compute_slowdown=lambda: draw.uniform(0, 1),
        host_ahead=lambda: True,
    )
    return made | stated | {"layers": layers(draw)}


def gpu(draw, noisy):
    """A card with some measured kernels; the others are estimated from its data sheet."""
    curves = {}
    for kernel in KERNELS:
        if sometimes(draw, 0.4):
            noise = {"spread": draw.uniform(0.01, 0.3)} if noisy and sometimes(draw) else {}
            start = spread(draw, 1e-6, 1e-4)
            curves[kernel] = noise | draw.choice(
                [
                    {"curve": "affine", "intercept": start, "slope": spread(draw, 1e-12, 1e-9)},
                    {"curve": "n_log_n", "intercept": start, "coefficient": spread(draw, 1e-12, 1e-10)},
                    {"curve": "piecewise", "points": [[10, start], [1e4, 2 * start], [1e6, 20 * start]]},
                ]
            )
    sheet = {"memory_bandwidth": spread(draw, 1e11, 2e12), "fp32_rate": 1e13, "clock": 1.5e9, "multiprocessors": 80}
    return {"name": "card", "kernels": curves, **sheet, **some(draw, 0.1, ideal=lambda: True)}


def runtime(draw):
    """What the training software costs."""
    costs = ("kernel_launch", "host_read", "negotiation", "cycle_time", "collective_launch", "gather_overhead")
    costs += ("message_overhead", "forward_hook", "update_launch")
    made = some(draw, 0.2, **dict.fromkeys(costs, lambda: spread(draw, 1e-6, 1e-3)))
    others = some(
        draw,
        0.15,
        compute_slowdown=lambda: draw.uniform(0, 1),
        endpoint_bandwidth=lambda: spread(draw, 1e8, 1e10),
        server_bandwidth=lambda: spread(draw, 1e8, 1e10),
        host_element=lambda: spread(draw, 1e-11, 1e-9),
        exchange_element=lambda: spread(draw, 1e-11, 1e-9),
        fills_buckets=lambda: True,
        framework=lambda: draw.choice(["pytorch-ddp", "horovod"]),
    )
    return made | others


def line(draw):
    """What a way over a wide area does to messages."""
    return {
        "latency": draw.choice([0.0, spread(draw, 1e-5, 1e-2)]),
        **some(
            draw,
            jitter=lambda: spread(draw, 1e-6, 1e-3),
            loss=lambda: spread(draw, 1e-6, 1e-2),
            law=lambda: draw.choice(["mathis", "cubic", "bbr"]),
            window=lambda: spread(draw, 1e4, 1e8),
            streams=lambda: draw.randint(1, 16),
            stream_bandwidth=lambda: spread(draw, 1e6, 1e9),
        ),
    }


def wide_area(draw, nodes):
    """Up to three sites, a pair of which may have a line of its own or a relay, and a store."""
    count = draw.randint(1, 3)
    rates = ("up", "down")
    sites = [
        {
            "name": name,
            "nodes": max(1, nodes // count),
            **some(draw, 0.4, **dict.fromkeys(rates, lambda: spread(draw, 1e6, 1e9))),
        }
        for name in ("a", "b", "c")[:count]
    ]
    sites[-1]["nodes"] = nodes
    rate = {"rate": lambda: spread(draw, 1e6, 1e9), "back": lambda: spread(draw, 1e6, 1e9)}
    made = {"sites": sites, "between": line(draw) | some(draw, 0.5, **rate), "pairs": []}
    if count > 1 and sometimes(draw, 0.5):
        relayed = count > 2 and sometimes(draw, 0.5)
        made["pairs"] = [
            {"sites": ["b", "a"]} | ({"through": "c"} if relayed else line(draw) | some(draw, 0.5, **rate))
        ]
    if sometimes(draw, 0.7):
        made["store"] = line(draw) | {"bandwidth": spread(draw, 1e6, 1e9)}
    return made


def network(draw, kind, nodes, gpus):
    """A fabric that holds so many nodes."""
    leave = ("name", "source", "held_out_mape", "burst", "host", "k", "spines")
    made = member(draw, Fabric, kind, leave_out=leave, share=0.2)
    made |= {"bandwidth": spread(draw, 1e7, 1e10), "latency": draw.choice([0.0, spread(draw, 1e-6, 1e-3)])}
    if kind == "single_switch" and sometimes(draw, 0.3):
        made["burst"] = spread(draw, 1e3, 1e7)
    if kind == "leaf_spine":
        made |= {"nodes_per_leaf": draw.randint(1, 4), "spines": draw.randint(1, 3)}
    if kind == "torus":
        made["dimensions"] = draw.choice([[nodes], [1, nodes], *([[2, nodes // 2]] if nodes % 2 == 0 else [])])
    if kind == "wide_area":
        made |= wide_area(draw, nodes)
    made["nics_per_node"] = draw.choice([1, 1, 1, 2])
    if gpus > 1 and kind not in ONE_NODE:
        made["intra_node"] = {"bandwidth": spread(draw, 1e8, 1e11), "latency": draw.choice([0.0, 1e-5, 1e-4])}
    protocol = {"name": "LL", "up_to_per_worker": spread(draw, 1e3, 1e6), "efficiency": draw.uniform(0.2, 1)}
    made |= some(
        draw,
        0.12,
        protocols=lambda: [protocol],
        incast=lambda: [[1, 1.0], [2, 0.9], [6, 0.5]],
        transport=lambda: draw.choice(["tcp", "rdma", "mpi", "gloo"]),
        collective_start_up=lambda: spread(draw, 1e-6, 1e-3),
        copy_bandwidth=lambda: spread(draw, 1e9, 1e11),
    )
    return made


def other_job(draw, nodes):
    """A neighbour. Its iterations are not much shorter than those of the job."""
    slow = [{**item, "backward": spread(draw, 1e-3, 1e-2)} for item in layers(draw)[:2]]
    return {
        "nodes": draw.sample(range(nodes), draw.randint(1, nodes)),
        "workload": {"batch_size": 1, "layers": slow},
        "topology": topology(draw),
        "sparsifier": sparsifier(draw),
        "scheduler": scheduler(draw),
        "runtime": runtime(draw),
        "start": draw.choice([0.0, spread(draw, 1e-4, 1e-2)]),
    }


def differences(draw, nodes, workers, noisy):
    """How workers and links differ, as keys of a cluster."""
    stragglers = {}
    if noisy:
        shapes = ["normal", "lognormal", "uniform", "exponential"]
        stragglers |= {"jitter": draw.uniform(0.01, 0.4), "distribution": draw.choice(shapes)}
    if sometimes(draw, 0.15):
        stragglers["slow"] = [{"worker": draw.randrange(workers), "factor": draw.uniform(0.5, 4)}]
    made = {"stragglers": stragglers} if stragglers else {}
    if nodes > 1 and sometimes(draw, 0.2):
        which = draw.sample(range(nodes), draw.randint(1, nodes - 1))
        made["other_gpus"] = [{"nodes": which, "gpu": gpu(draw, noisy), "factor": draw.uniform(0.5, 3)}]
    if nodes > 1 and sometimes(draw, 0.1):
        at = {"start": spread(draw, 1e-5, 1e-2)} if sometimes(draw, 0.6) else {}
        if at and sometimes(draw, 0.7):
            at["until"] = at["start"] + spread(draw, 1e-4, 1e-1)
        factor = draw.choice([0.0, 0.5]) if "until" in at else draw.uniform(0.1, 1)
        made["links"] = [{"link": f"node {draw.randrange(nodes)}", "factor": factor, **at}]
    if nodes > 1 and sometimes(draw, 0.06):
        times = sorted({spread(draw, 1e-5, 1e-1) for _ in range(draw.randint(1, 5))})
        shares = [*(draw.choice([0.0, 0.3, 1.0]) for _ in times[1:]), draw.uniform(0.1, 1)]
        trace = {"link": f"node {draw.randrange(nodes)}", "seconds": times, "share": shares}
        made["link_trace"] = {"links": [trace], **some(draw, 0.3, start=lambda: draw.uniform(0, times[-1]))}
    if nodes > 1 and sometimes(draw, 0.08):
        ends = draw.sample(range(nodes), 2)
        made["background"] = [{"source": ends[0], "destination": ends[1], "bandwidth": spread(draw, 1e6, 1e10)}]
    if sometimes(draw, 0.1):
        made["loading"] = {"rate": spread(draw, 1e2, 1e6), "prefetched": draw.choice([False, True])}
    return made


def scenario(draw):
    """A scenario as a mapping; a few of all have parts that refuse to work together."""
    kind = draw.choice([*discover(Fabric), "single_switch", "single_switch"])
    nodes = 1 if kind in ONE_NODE else draw.randint(1, MOST_NODES)
    gpus, noisy = draw.randint(1, MOST_GPUS), sometimes(draw, 0.3)
    card = gpu(draw, noisy)
    cluster = {"nodes": nodes, "gpus_per_node": gpus, "gpu": card, "network": network(draw, kind, nodes, gpus)}
    cluster |= {"runtime": runtime(draw)} | differences(draw, nodes, nodes * gpus, noisy)
    made = {
        "workload": workload(draw),
        "cluster": cluster,
        "topology": topology(draw),
        "sparsifier": sparsifier(draw),
        "scheduler": scheduler(draw),
        "iterations": draw.randint(1, 4),
        "warmup": draw.randint(0, 2),
        "seed": draw.randrange(2**63),
        "ignore_memory": True,
        **some(draw, 0.2, overlap_concentration=lambda: spread(draw, 0.1, 100)),
    }
    if made["scheduler"]["kind"] in ("fsdp", "megatron", "zero"):
        if discover(Topology)[made["topology"]["kind"]].style != "collective":
            made["topology"] = {"kind": "ring"}
        cluster.pop("other_gpus", None)
        if made["scheduler"].get("shard") is None:
            made["sparsifier"] = {"kind": "dense"}
    if "overlap_concentration" not in made and sometimes(draw, 0.15):
        made["overlap_mixture"] = {
            "spread": draw.uniform(0.1, 4),
            "core": draw.random(),
            "silent": draw.uniform(0, 0.9),
        }
    if nodes > 1 and sometimes(draw, 0.08):
        made["other_jobs"] = [other_job(draw, nodes) for _ in range(draw.randint(1, 2))]
    return made


def crowded(draw):
    """A scenario with servers, token buckets, other jobs and jitter together."""
    made, nodes, gpus = scenario(draw), draw.randint(2, 4), draw.randint(1, 2)
    switch = network(draw, "single_switch", nodes, gpus) | {"burst": spread(draw, 1e3, 1e7)}
    servers = {"kind": "parameter_server", "servers": draw.randint(0, 3), "colocated": draw.choice([False, True])}
    stragglers = {"jitter": draw.uniform(0.01, 0.4)}
    cluster = {"nodes": nodes, "gpus_per_node": gpus, "network": switch, "stragglers": stragglers}
    cluster |= {"gpu": gpu(draw, True), "runtime": runtime(draw)}
    parts = {"topology": servers, "sparsifier": draw.choice(["dense", "signsgd", {"kind": "topk", "density": 0.05}])}
    plan = {"scheduler": draw.choice(["wfbp", "priority", "sequential"]), "iterations": 2, "warmup": 1}
    return made | parts | plan | {"cluster": cluster, "other_jobs": [other_job(draw, nodes)]}


def that_runs(number):
    """The scenario of a number; a test is skipped where its parts refuse to work together."""
    try:
        made = Scenario.model_validate(scenario(Random(number)))
        run(made, intervals=False)
    except (ValidationError, InputError) as refused:
        pytest.skip(str(refused))
    return made
