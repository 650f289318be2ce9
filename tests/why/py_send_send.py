# why: head-to-head-sends ranks=0-1 victims=
import numpy as np
from why import rank, world

partner = rank ^ 1
field = np.zeros(1 << 20)
world.Send(field, partner, 1)
world.Recv(field, partner, 1)
world.Barrier()
