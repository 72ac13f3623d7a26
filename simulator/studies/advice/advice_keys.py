"""What the answer of `advise` says: its keys with units and meanings, of which the reference is generated."""

from __future__ import annotations

from simulator.answers import Key

ADVICE_KEYS: dict[str, Key] = {
    "scenario": Key("", "name of the scenario"),
    "digest": Key("", "SHA-256 over all that its prediction depends on"),
    "versions": Key("", "versions of sparsim, Python and the libraries"),
    "workers": Key("1", "GPUs in all"),
    "density": Key("1", "density at which sparsifiers are ranked"),
    "iterations_to_target": Key("1", "iterations to the target by method: given, or from trainings"),
    "summary": Key(
        "",
        "the answer in three lines: what to do (`do`), what it gains (`gain`), what would change it "
        "(`change`); and what only research code or another framework has (`elsewhere`)",
    ),
    "answer": Key("", "what to use and how sure that is, with the unmeasured kernels that it rests on"),
    "details": Key("", "what else there is to say about it, in sentences"),
    "recommended": Key("", "keys of the scenario to change, and their values"),
    "settings": Key("", "the same as options of the command line"),
    "command": Key("", "the command that runs what is recommended"),
    "availability": Key(
        "",
        "where what is recommended exists: `status` (`offered` by the scenario's framework, or by any released one if "
        "it names none; `other_framework`; `research_code`; `unknown`), `where`, `lines` of configuration, `notes` on "
        "what differs, `sources`, and `parts` with the frameworks and the research code of each part",
    ),
    "second": Key(
        "",
        "the best that needs research code or another framework: its row's keys, its `availability`, `speed_up` over "
        "what is recommended, `speed_up_interval`, `probability`, and the answer if all was available (`of_all`)",
    ),
    "border": Key(
        "",
        "below which bandwidth the method in question is faster than what it is compared with, each at its best here",
    ),
    "verdict": Key(
        "",
        "whether compression pays, with what is offered, or with any method where none is offered: `yes` or `no` with "
        "a probability of 95 %, `alike` (within 2 %) or `undecided`; null where nothing is compared",
    ),
    "probability": Key("1", "probability that the method in question is faster than dense"),
    "value_of_information": Key("", "what to measure, as in the comparison of a run"),
    "opponent": Key("", "what dense is, with which all methods are compared"),
    "ranking[].rank": Key("1", "place by expected time: per iteration, or to the target where that is given"),
    "ranking[].overrides": Key("", "keys of the scenario that this combination changes"),
    "ranking[].method": Key("", "method with its density"),
    "ranking[].sparsifier": Key("", "its kind"),
    "ranking[].density": Key("1", "its density; null where it has none"),
    "ranking[].schedule": Key("", "schedule in words"),
    "ranking[].topology": Key("", "topology in words"),
    "ranking[].best_of_method": Key("", "whether it is the fastest combination of its method"),
    "ranking[].iteration_time_s": Key("s", "mean time of an iteration"),
    "ranking[].iteration_time_interval_s": Key("s", "its 90 % interval"),
    "ranking[].throughput_samples_per_s": Key("samples/s", "samples that all workers train on per second"),
    "ranking[].breakdown_s": Key("s", "terms of the iteration"),
    "ranking[].sent_bytes_per_worker": Key("B", "bytes that a worker sends in an iteration"),
    "ranking[].availability": Key("", "where it exists, as `availability`"),
    "ranking[].against_offered_dense": Key(
        "1",
        "for what is offered: `speed_up` over the best dense combination that is offered, its `speed_up_interval` and "
        "the `probability` that it is faster; null for all else",
    ),
    "ranking[].iterations_to_target": Key("1", "iterations to the target: given, or from trainings"),
    "ranking[].iterations_to_target_interval": Key("1", "their 90 % interval; no width where they were given"),
    "ranking[].time_to_target_s": Key("s", "those iterations times the time of one"),
    "ranking[].speed_up_over_dense": Key(
        "1", "how many times faster than dense at its best, to the target where iterations were given"
    ),
    "ranking[].speed_up_over_dense_interval": Key("1", "its 90 % interval; errors that both share cancel"),
    "ranking[].probability": Key("1", "probability that it is faster than dense at its best"),
    "ranking[].risk": Key("1", "its time over that of dense that one case in twenty exceeds"),
    "ranking[].verdict": Key("", "`yes`, `no`, `alike` or `undecided`: whether it is faster than dense"),
    "ranking[].rests_on": Key(
        "",
        "inputs that were not measured and may make the speed-up smaller by more than 1 %, the worst first: `input`, "
        "`level`, `width`, `speed_up_at_worst`, and whether that alone `turns` a gain into a loss",
    ),
    "ranking[].speed_up_over_yours": Key("1", "how many times faster than the scenario as it is"),
    "dense": Key("", "the row of dense at its best"),
    "yours": Key("", "the row of the scenario as it is"),
    "other_densities": Key("", "the fastest sparsifier at other densities"),
    "break_even[].method": Key("", "a method"),
    "break_even[].against": Key("", "what it is compared with"),
    "break_even[].schedule": Key("", "the schedule that both have"),
    "break_even[].topology": Key("", "the topology that both have"),
    "break_even[].bandwidth_below_which_it_wins": Key("B/s", "highest bandwidth at which it is faster"),
    "break_even[].bandwidth_interval": Key(
        "B/s", "its 90 % interval, from that of the ratio of both times; null where no bandwidth tried is far enough"
    ),
    "break_even[].bandwidth_words": Key("", "where it is faster, in words"),
    "break_even[].workers_above_which_it_wins": Key("1", "workers from which on it is faster"),
    "break_even[].workers_interval": Key("1", "their 90 % interval"),
    "break_even[].workers_up_to_which_it_wins": Key("1", "workers up to which it is faster"),
    "break_even[].workers_up_to_interval": Key("1", "their 90 % interval"),
    "break_even[].workers_words": Key("", "with how many workers it is faster, in words"),
    "reasons[].kind": Key("", "why methods are slower or faster than dense: the kind of reason"),
    "reasons[].methods": Key("", "those for which it holds"),
    "reasons[].text": Key("", "the reason with its numbers"),
    "sensitivity": Key("", "how the speed-up of the best other method changes with each input"),
    "looked_at": Key("1", "combinations that were run, refused, not run and left out"),
    "notes": Key("", "limits of the answer"),
    "interrupted": Key("", "what was being computed when the study was interrupted; empty if it was not"),
}
"""By key; `[]` stands for every entry of a list."""
