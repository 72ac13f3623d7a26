"""What figures are drawn from: results on disk, as tidy rows."""
