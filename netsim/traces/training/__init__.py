"""Readers of recorded training: execution traces of Chakra and profiles of PyTorch."""
