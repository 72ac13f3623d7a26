"""A sparsifier and a topology for sparsim, in a package of their own."""
