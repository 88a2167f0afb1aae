# Takes a lock again and again, and prints each time at which it believes that it has it: the token, and the time of the
# boot clock, cut to hundredths of a second. believer.mjs does the same.
import random
import sys
import time

import fenlock

while True:
    try:
        lock = fenlock.hold("x", "--ttl=300ms", "--max-ttl=1s")
    except fenlock.Error:
        continue
    try:
        until = time.monotonic() + random.choice((0.02, 0.2, 1.5))
        while time.monotonic() < until:
            now = int(time.clock_gettime(time.CLOCK_BOOTTIME) * 100)
            lock.check()
            print(lock.token, now, flush=True)
            time.sleep(0.003)
        lock.release()
    except fenlock.Lost:
        try:
            lock.release()
        except fenlock.Lost:
            pass
