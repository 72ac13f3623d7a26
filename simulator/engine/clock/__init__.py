"""The clock: compute and communication streams of one iteration after the other, on SimPy."""
