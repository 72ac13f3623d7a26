"""Random scenarios and targets for plans: many schedules and methods, on clusters that communication limits."""

LOCAL = ("local_sgd", "diloco", "streaming_diloco", "overlapped_diloco")
SCHEDULERS = ("wfbp", "sequential", "bucketed", "priority", *LOCAL)
METHODS = ("dense", {"kind": "topk", "density": 0.02}, "qsgd", {"kind": "dgc", "density": 0.01}, "signsgd")
QUANTITIES = ("compute utilisation", "scaling efficiency")


def random_question(random):
    """A scenario and a target between what a very slow and a very fast network reach."""
    from simulator.scenario.scenario import Scenario

    count = random.randint(1, 6)
    layers = [
        {
            "name": f"h.{place}.w",
            "numel": round(10 ** random.uniform(3, 7)),
            "forward": 10 ** random.uniform(-4, -2),
            "backward": 10 ** random.uniform(-4, -2),
        }
        for place in range(count)
    ]
    kind = random.choice(SCHEDULERS)
    scheduler = {"kind": kind}
    if kind in LOCAL:
        scheduler["inner_steps"] = random.choice([1, 3, 20, 100])
    if kind == "streaming_diloco":
        scheduler |= {"fragments": random.randint(1, count), "delay": random.choice([0, 1])}
    scenario = Scenario.model_validate(
        {
            "name": "random",
            "workload": {"batch_size": random.randint(1, 64), "layers": layers},
            "cluster": {
                "nodes": random.randint(2, 8),
                "gpus_per_node": random.choice([1, 1, 2, 4]),
                "gpu": {"name": "ideal", "ideal": True},
                "network": {
                    "kind": "single_switch",
                    "bandwidth": 10 ** random.uniform(6, 10),
                    "latency": 10 ** random.uniform(-6, -3),
                },
                "stragglers": {"jitter": random.choice([0, 0, 0.1])},
            },
            "iterations": 5,
            "warmup": 0,
            "topology": random.choice(["ring", "tree", "hierarchical", "nccl"]),
            "sparsifier": random.choice(METHODS),
            "scheduler": scheduler,
        }
    )
    return scenario, f"{random.choice(QUANTITIES)} {random.uniform(20, 95):.1f} %"
