"""Variants of a scenario: with another value, without one cost; their names; predicted and searched together."""
