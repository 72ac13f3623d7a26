"""Variants of a scenario: with another value, without one cost, without replay; and what they are called."""
