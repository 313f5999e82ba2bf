"""The commands of `spu`, one file per part of the pipeline; each asks the engine and prints."""

__all__: list[str] = []
