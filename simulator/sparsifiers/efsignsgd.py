"""EF-signSGD: signs with the mean magnitude of their tensor, and error feedback."""

from __future__ import annotations

from simulator.sparsifiers.signsgd import SignSGD


class EFSignSGD(SignSGD, kind="efsignsgd"):
    """EF-signSGD: sign(u) mean |u| of every tensor; what is lost is added to the next gradient.

    u is the residual plus the gradient (Karimireddy et al., ICML 2019, algorithm 1). d `bits`/8 bytes of signs and 4
    bytes per tensor travel by all-gather: `bits: 1` as in the paper, `bits: 8` as in GRACE (ICDCS 2021), whose memory
    also multiplies gradients by the learning rate before, and divides the sum by it, which changes nothing while the
    rate is constant. It is `signsgd` with `error_feedback: true`, by the name under which results are published.
    """

    error_feedback: bool = True
