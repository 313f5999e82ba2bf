"""`python -m spu_core` is the `spu` command."""

from spu_core.cli import main

main()
