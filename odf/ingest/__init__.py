"""Root datasets: fetching source data, having it read and merged, and committing the result."""
