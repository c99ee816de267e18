"""Networks for each domain: a fast one, and a plain flax twin beside it."""
