"""A sparsifier and a topology for sparsim, from outside of it."""
