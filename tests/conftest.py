import os

import torch

# Test processes run beside each other, where more threads only get in each other's way; and sums are the same to the bit
# in the processes that tests start, however many cores there are.
torch.set_num_threads(1)
os.environ["OMP_NUM_THREADS"] = "1"
