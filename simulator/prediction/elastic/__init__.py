"""What is left of the progress of a cluster whose machines come and go."""
