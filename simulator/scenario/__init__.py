"""What a person writes: the scenario, its cluster and parts, with the place of every mistake."""
