"""The plan of one iteration: everything that is known before the clock starts."""
