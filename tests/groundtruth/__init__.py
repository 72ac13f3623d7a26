"""Collectives and training over real TCP between network namespaces, measured; `python -m groundtruth.measure`."""
