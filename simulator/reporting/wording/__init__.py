"""Values, quantities and comparisons as a person reads them: the same on the terminal, in figures and on pages."""
