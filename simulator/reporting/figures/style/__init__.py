"""How figures look: colours, axes and legends, and the picture itself."""
