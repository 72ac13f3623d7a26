"""How figures look: colours, axes, files."""
