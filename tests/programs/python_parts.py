#!/usr/bin/env python3
"""Arrays of NumPy whose parts are asked for; writes them as NumPy has them, and waits."""

import sys

import numpy as np

PARTS = """
grid[:,0] grid[1:-1] grid[::-1,1:] grid[-1,::2] grid[5:,:] turned[1:,:2] turned[:,-1] line[::3]
line[-3:] line[8:2:-2] cube[1,:,2] cube[:,1][0] cells['mass'] cells['mass'][1:] cells[1]['at']
cells['at'][:,2] cells[::2]['spin']['up'] cells['swapped'] records.mass records['at'][0]
aligned['x'] rows[1,0]['mass'] rows[:,1]['at'][0]
""".split()


def main():
    grid = np.arange(12.0).reshape(4, 3)
    turned = np.asfortranarray(grid)[:, ::-1].T
    line = np.arange(10, dtype=np.int16)
    cube = np.arange(24).reshape(2, 3, 4)
    kind = [("id", "u1"), ("mass", "f8"), ("at", "f4", 3), ("swapped", ">i4"), ("name", "U3")]
    cells = np.zeros(3, dtype=[*kind, ("spin", [("up", "i2"), ("down", "i2")])])
    cells["mass"] = [1.5, 2.5, 4.0]
    cells["at"] = np.arange(9).reshape(3, 3)
    cells["swapped"] = [1, -2, 300]
    cells["spin"]["up"] = [7, 8, 9]
    records = cells.view(np.recarray)
    aligned = np.zeros(2, dtype=np.dtype([("b", "?"), ("x", "f8")], align=True))
    aligned["x"] = [3.0, 6.0]
    rows = np.stack([cells[:2], cells[1:]])
    found = locals()
    with open(sys.argv[1], "w") as file:
        for each in PARTS:
            numbers = np.asarray(eval(each, {}, found), dtype=float)
            print(each, list(numbers.shape), numbers.ravel().tolist(), sep="|", file=file)
    print("ready", flush=True)
    sys.stdin.read()


main()
