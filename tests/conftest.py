"""Two devices on the CPU, as training has them; it has to be said before anything asks JAX for its devices."""

from tutelage.learning.mesh import use_cores

use_cores(2)
