"""`python -m sparsim` is `sparsim`."""

from simulator.cli import main

if __name__ == "__main__":
    main(prog_name="sparsim")
