"""Derivative datasets: what an update has to do, doing it, and proving it by doing it again."""
