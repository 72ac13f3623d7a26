"""Work on several processes: points by their numbers, and calls with many arguments, here or elsewhere."""
