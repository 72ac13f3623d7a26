"""Figures: each a question with its data and its picture; one file per kind, discovered like the plug-in families."""
