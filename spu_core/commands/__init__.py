"""The commands of `spu`, one file for each part of the pipeline."""

__all__: list[str] = []
