# SPDX-License-Identifier: BSD-3-Clause
# Do to the memory that a memory server lends what a hostile server could do:
#
#   hostile-donor.py PID grep TEXT      Exit with 0 if TEXT occurs there.
#   hostile-donor.py PID pages          Print the number of nonzero 4 KiB pages.
#   hostile-donor.py PID save FILE      Copy all of it to FILE.
#   hostile-donor.py PID restore FILE   Copy FILE back.
#   hostile-donor.py PID flip           Flip a bit of each page that is not
#                                       zeros, but not in the dirty log.
import os
import sys

PAGE = 4096


def slabs(pid):
    folder = f"/proc/{pid}/fd"
    for fd in sorted(os.listdir(folder), key=int):
        path = f"{folder}/{fd}"
        try:
            if "memfd:farpage-slab" in os.readlink(path):
                yield os.open(path, os.O_RDWR)
        except OSError:
            pass


def content(fd):
    return os.pread(fd, os.fstat(fd).st_size, 0)


pid, what = sys.argv[1:3]
found = pages = 0
saved = None
if what == "restore":
    with open(sys.argv[3], "rb") as f:
        saved = f.read()
kept = b""
for fd in slabs(pid):
    data = content(fd)
    if what == "grep":
        found += sys.argv[3].encode() in data
    elif what == "save":
        kept += data
    elif what == "restore":
        os.pwrite(fd, saved[:len(data)], 0)
        saved = saved[len(data):]
    else:
        # A slab may be followed by the dirty log, as its tail. The slab is the
        # part with a size that is a power of two.
        size = 1 << (len(data).bit_length() - 1)
        for at in range(0, size, PAGE):
            page = data[at:at + PAGE]
            if not any(page):
                continue
            pages += 1
            if what == "flip":
                os.pwrite(fd, bytes([page[999] ^ 1]), at + 999)
    os.close(fd)
if what == "save":
    with open(sys.argv[3], "wb") as f:
        f.write(kept)
if what == "pages":
    print(pages)
if what == "grep":
    sys.exit(0 if found else 1)
