"""Work on several processes: executors that evaluate numbered items, here or elsewhere."""
