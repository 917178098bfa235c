"""What every engine shares: the gRPC server, the finishing of slices and the mapping of errors."""
