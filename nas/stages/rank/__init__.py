"""Whether the supernet ranks architectures as training them from scratch does, and better than their size alone."""
