"""The other side of the wire: engines, and the host that serves them."""
