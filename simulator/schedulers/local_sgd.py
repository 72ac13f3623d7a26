"""Local SGD: local steps, then the mean of the parameters."""

from __future__ import annotations

from typing import ClassVar

from simulator.schedulers.local_steps import LocalSteps


class LocalSGD(LocalSteps, kind="local_sgd"):
    """Local SGD (Stich, ICLR 2019; McMahan et al., FedAvg, AISTATS 2017): H steps, then the mean of the parameters.

    All workers wait for the exchange of all parameters, which are summed where they lie. A period takes
    H (input + forward + backward + update) + exchange. With H = 1 an iteration takes as long as that of `sequential`
    with the same buckets. A method that selects, or sends few bits, is given the change of the parameters since the
    last exchange, for which a copy of them is kept.
    """

    sends_differences: ClassVar[bool] = False
