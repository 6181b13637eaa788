"""Write a subnet in a format that other runtimes load."""
