"""The clock: the only package that imports simpy."""
