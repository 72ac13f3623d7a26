"""What the commands answer: typed records, which the rest of reporting prints."""
