"""A coordinator of the Open Data Fabric: verifiable data that anyone can derive and exchange."""

__version__ = "0.1.0"
