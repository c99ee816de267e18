"""What policies are made of: a fast network for each domain, with a plain flax twin beside it."""
