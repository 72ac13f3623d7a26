"""The functions of `import sparsim`: scenarios in every form, and results that show themselves in a notebook."""
