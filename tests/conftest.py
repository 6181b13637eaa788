import os

import torch
import typer.rich_utils  # noqa: F401 - reads FORCE_COLOR once, when it is imported; a test sets that variable

# Test processes run beside each other, where more threads only get in each other's way. The processes that tests start
# have as many: sums are then the same to the bit, however many cores there are.
torch.set_num_threads(1)
os.environ["OMP_NUM_THREADS"] = "1"
