"""Answers of functions as their JSON has them."""

from functools import wraps

from simulator.answers import to_document


def in_json(function):
    """A function whose answer is that of another one as plain mappings and lists."""

    @wraps(function)
    def answer(*arguments, **named):
        return to_document(function(*arguments, **named))

    return answer
