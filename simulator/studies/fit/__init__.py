"""Constants from measured iterations, with their errors; what the rows do not determine is refused."""
