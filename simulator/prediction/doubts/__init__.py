"""How wrong a prediction may be: its doubts, stated by each part; intervals, warnings and verdicts."""
