"""The fabric: flows on links, moved at the rates that an allocator gives."""
