# why: healthy
from why import rank, world

value = rank
while True:
    value = world.allreduce(value) % 1000
