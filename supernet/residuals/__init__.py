"""One file per way to add a sub-layer to the stream of hidden states; found by its declaration, see README.md."""
