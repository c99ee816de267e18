"""CarRacing on Bézier tracks: Gymnasium's car, contacts and pixels as pure JAX (paper, section 6.2)."""
