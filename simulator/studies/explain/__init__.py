"""Explanations: terms, counterfactuals, the critical path, and sensitivities."""
