"""How wrong a prediction may be: its uncertain inputs, how the time responds to each, intervals and verdicts."""
