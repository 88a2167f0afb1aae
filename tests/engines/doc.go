// Package engines has no code: its tests run one scenario on every engine, and on groups of
// several, through "fenlock run" alone.
package engines
