"""How a policy improves: rollouts, returns and PPO."""
