// As believer.py.
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { hold } from '../../../../../../clients/node/fenlock.mjs'

for (;;) {
  let lock
  try { lock = await hold('x', ['--ttl=300ms', '--max-ttl=1s']) } catch { continue }
  const until = performance.now() + [20, 200, 1500][Math.floor(3 * Math.random())]
  try {
    while (performance.now() < until) {
      const now = Math.round(parseFloat(readFileSync('/proc/uptime', 'ascii')) * 100)
      lock.check()
      process.stdout.write(`${lock.token} ${now}\n`)
      await sleep(3)
    }
    await lock.release()
  } catch { await lock.release().catch(() => {}) }
}
