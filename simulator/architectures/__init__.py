"""Models described by their sizes: tensors, operators, arithmetic, activations, and their times on a GPU."""
