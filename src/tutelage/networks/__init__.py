"""Networks for each domain: a fast version, and a plain flax version as its reference."""
