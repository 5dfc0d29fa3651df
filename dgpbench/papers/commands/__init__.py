"""The commands of this package, one module each: `tables`, `figures`, `repro`."""
