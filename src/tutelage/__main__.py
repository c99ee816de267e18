"""`python -m tutelage` is `tutelage`."""

from tutelage.cli import main

main()
