"""Import a pretrained model as a subnet."""
