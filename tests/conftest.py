import torch

torch.set_num_threads(1)  # test processes run beside each other; more threads only get in each other's way
