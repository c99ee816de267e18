"""Many runs: the study file, what it expands to, and running it on the cores of one machine."""
