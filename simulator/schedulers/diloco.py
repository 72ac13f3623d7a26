"""DiLoCo: local steps, then an outer step with the mean of what they changed."""

from __future__ import annotations

from simulator.schedulers.local_steps import OuterStep


class DiLoCo(OuterStep, kind="diloco"):
    """DiLoCo (Douillard et al., 2311.08105, 2023): H inner steps, then an outer step for which everybody waits.

    The pseudo-gradient, the outer parameters less those after H inner steps, is averaged over all workers and given to
    the outer optimiser. A period takes

        H (input + forward + backward + update) + pseudo-gradient + exchange + outer step.

    The pseudo-gradient goes through the scenario's sparsifier and travels in the format that the workload's precision
    states.
    """
