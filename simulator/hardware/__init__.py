"""What runs a job: GPUs and their kernels, the training framework, and the machine that a library sees."""
