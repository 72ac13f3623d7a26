"""The work of one iteration: buckets, selections, kernels and their costs, whatever the network."""
