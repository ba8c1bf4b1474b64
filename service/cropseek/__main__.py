"""`python -m cropseek` is `cropseek`."""

from cropseek.cli import main

main()
