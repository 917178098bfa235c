"""Merge strategies: how new rows meet those that are already in a dataset."""
