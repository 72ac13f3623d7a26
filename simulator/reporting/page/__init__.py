"""One self-contained HTML file from results: its parts, their interactive drawings, and the page around them."""
