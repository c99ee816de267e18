"""The paper: scores, the curator (Algorithm 2), generators and the dual curriculum's one step (Algorithms 1 and 3)."""
