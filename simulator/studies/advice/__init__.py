"""Advice: candidates, search, ranking, break-even points, and the reasons."""
