"""Many runs: the study file, its runs, and running them on one machine or on a Ray cluster."""
