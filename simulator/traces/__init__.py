"""Layer and gradient traces: read, make, record."""
