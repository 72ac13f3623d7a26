"""The GPU memory of one worker: what a training keeps there, whether it fits, and what would help."""
