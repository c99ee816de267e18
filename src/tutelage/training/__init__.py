"""Training: configurations and presets, the loop, and the run directory with its checkpoints and logs."""
