"""Gradient traces: their format, readers of other tools' files, synthetic gradients, fits of overlap laws."""
