"""`sparsim serve`: a page on this machine's loopback address, on which a scenario is changed and answered."""
