// A distributed lock for Node.js, held by the fenlock command (docs/hold.md). It needs nothing but that command, on Linux.
//
//     import { hold, guard } from './fenlock.mjs'
//
//     const lock = await hold('orders/42')
//     try {
//       await guard(query, 'orders/42', lock.token)   // in the transaction that writes
//       lock.check()                                  // throws LostError; before each other write
//     } finally {
//       await lock.release()
//     }
//
// Times are in milliseconds.

import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'

const exitHeld = 75
const patience = 10_000

/** The lock was not taken: the message says why. status is the exit status of the command. */
export class FenlockError extends Error {
  constructor (message, status) {
    super(message)
    this.name = new.target.name
    this.status = status
  }
}
/** Another client has the lock, or had it until the wait ran out. */
export class HeldError extends FenlockError {}
/** The lock is not held any more: another client may have it. */
export class LostError extends FenlockError {}
/** A later holder has written: this holder must not. */
export class StaleError extends FenlockError {}

// The clock of the deadlines, CLOCK_BOOTTIME, or later. The file cuts it to hundredths of a second. In some containers the
// file shows something else: the other clock is not ahead of CLOCK_BOOTTIME either.
const bootClock = () => Math.max(parseFloat(readFileSync('/proc/uptime', 'ascii')) * 1000 + 10, Number(globalThis.process.hrtime.bigint()) / 1e6)

/** A lock that is or was held. hold makes it. */
export class Lock {
  #process
  #exited
  #deadline = 0
  #reason
  #timer
  #lost = new AbortController()

  constructor (process, exited, told) {
    this.#process = process
    this.#exited = exited
    this.name = told.name
    this.token = told.token
    this.slot = told.slot
    for (const part of [process, process.stdin, process.stdout]) part.unref() // a program that is done ends, and so does its lock
    this.#told(told)
  }

  /** An AbortSignal: aborted when the lock is not held any more, with the reason. For fetch and others. */
  get signal () { return this.#lost.signal }

  /** How long the lock is held even if the command is killed now. 0: it is not held. */
  remaining () { return this.#reason ? 0 : Math.max(0, this.#deadline - bootClock()) || 0 }

  /** Throws LostError unless the lock is held at this moment. */
  check () {
    if (this.remaining() === 0) throw new LostError(`the lock on '${this.name}' is lost: ${this.#reason ?? 'its time is up'}`)
  }

  /** Releases the lock. It may be called again. Rejects with LostError if the lock was lost before. */
  async release () {
    this.#end('it was released')
    const status = await end(this.#process, this.#exited)
    if (status !== 0) throw new LostError(`the lock on '${this.name}' was lost before its release`, status)
  }

  #told (line) {
    if (line.event === 'lost' || line.event === 'released') return this.#end(line.reason ?? 'it was released')
    if (!(bootClock() > line.deadline_ms - line.left_ms)) return this.#end('/proc/uptime does not show the boot clock here')
    this.#deadline = line.deadline_ms
    this.#watch()
  }

  // The clock decides. After a pause of this program, lines that came meanwhile are read first.
  #watch (read = false) {
    clearTimeout(this.#timer)
    const left = this.remaining()
    if (left === 0) return read ? this.#end('its time is up') : setImmediate(() => this.#watch(true))
    this.#timer = setTimeout(() => this.#watch(), Math.min(left + 1, 2 ** 31 - 1)).unref()
  }

  #end (reason) {
    this.#reason ??= reason
    clearTimeout(this.#timer)
    this.#lost.abort(new LostError(`the lock on '${this.name}' is lost: ${this.#reason}`))
  }

  static async take (process, exited) {
    let lock
    await new Promise(resolve => {
      const lines = createInterface({ input: process.stdout })
      lines.on('line', text => {
        let line
        try { line = JSON.parse(text) } catch { return } // cut off: the command was killed
        if (lock) lock.#told(line)
        else if (line.event === 'held') resolve(lock = new Lock(process, exited, line))
      })
      lines.on('close', () => { lock?.#end('the fenlock command has ended'); resolve() })
    })
    return lock
  }
}

// end has the command release the lock. One that was stopped is killed: its lease ends by itself.
async function end (process, exited) {
  process.stdin?.destroy()
  process.ref()
  const timer = setTimeout(() => process.kill('SIGKILL'), patience)
  try { return await exited } finally { clearTimeout(timer) }
}

/**
 * Takes the lock. flags are those of fenlock hold: '--no-wait', '--ttl=30s', '--node=valkey://...'. Rejects with HeldError
 * or FenlockError. Which servers have the lock is said by flags or by FENLOCK_NODES.
 */
export async function hold (name, flags = [], program = 'fenlock') {
  // A session of its own: Ctrl-C at the terminal is for this program, which then releases the lock.
  const process = spawn(program, ['hold', ...flags, '--', name], { stdio: ['pipe', 'pipe', 'inherit'], detached: true })
  const exited = new Promise(resolve => {
    process.on('error', error => resolve(error.message))
    process.on('close', (status, signal) => resolve(status ?? signal))
  })
  process.stdin?.on('error', () => {})
  const lock = await Promise.race([process.stdout && Lock.take(process, exited), exited.then(() => undefined)])
  if (lock) return lock
  const status = await end(process, exited)
  throw new (status === exitHeld ? HeldError : FenlockError)(`the lock on '${name}' was not taken (exit status ${status}): see standard error`, status)
}

/**
 * Refuses the writes of this transaction if a later holder has written: rejects with StaleError. Call it first in each
 * transaction that writes. query runs a statement with an array of values and returns { rowCount }, as pg's does. The table
 * is that of Go's package fencesql: resource TEXT PRIMARY KEY, token BIGINT NOT NULL.
 */
export async function guard (query, resource, token, table = 'fenlock_fence') {
  const { rowCount } = await query(`INSERT INTO ${table} AS f (resource, token) VALUES ($1, $2) ON CONFLICT (resource) ` +
    'DO UPDATE SET token = excluded.token WHERE f.token OPERATOR(pg_catalog.<=) excluded.token', [resource, token])
  if (rowCount !== 1) throw new StaleError(`token ${token} of '${resource}' is stale: a later holder has written`)
}
