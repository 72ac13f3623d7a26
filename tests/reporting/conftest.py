"""Puts this folder on the path, so that the tests of figures and of pages can import `figure_results`."""
