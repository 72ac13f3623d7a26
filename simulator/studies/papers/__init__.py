"""Published results, set up again: a document for each paper, and what its parts give."""
