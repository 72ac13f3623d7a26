"""Built-in tasks: each file has the functions that a task of your own has (docs/how-to/train.md)."""
