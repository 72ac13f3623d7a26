"""A first scenario of one's own: questions, what their answers mean, and the files that are written from them."""
