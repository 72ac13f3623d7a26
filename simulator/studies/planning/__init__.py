"""A scenario backwards: what is needed so that a target is met."""
