"""Zero-shot tests: episodes to their end, baselines and videos."""
